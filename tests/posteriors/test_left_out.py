"""Scales and widths at rows of the fit: those that the other rows alone would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite.kernels import compile_kernel
from sodalite.kernels.neighbours import Neighbours
from sodalite.posteriors.calibration import Scale
from sodalite.posteriors.far import Far
from sodalite.posteriors.shape import LeftOut

KERNEL = RBF(1.0) + WhiteKernel(0.1)


@pytest.fixture(scope="module")
def learnt():
    """A local scale with widths by place; 200 of the 500 rows repeat another's inputs."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (500, 1))
    X[300:] = X[:200]
    error = np.where(X > 5, 1.0, 0.1) * generator.standard_t(2.5, (500, 1))
    kernel = compile_kernel(KERNEL, X)
    noise = np.full(500, 0.1)
    found = Scale.fit_each(kernel, X, error[None], np.full((1, 500), 0.3), noise)[0]
    return kernel, found.of_model(kernel, calibrate=True), found.rows, found.places.place


def without(kernel, scale, rows, place, row):
    """The scale as if a row had not been there."""
    own = np.arange(len(scale.X)) == place
    variance = rows.variance[row] + scale.extra
    counts = scale.counts - own
    squares = scale.squares - own * np.mean(rows.error[row] ** 2) / variance
    sums = scale.shape.sums - own[:, None] * np.abs(rows.error[row]) / np.sqrt(variance)
    kept = counts > 0
    return replace(
        scale,
        X=scale.X[kept],
        counts=counts[kept],
        squares=squares[kept],
        near=Neighbours(kernel, scale.X[kept], by_period=False),
        shape=replace(scale.shape, sums=sums[kept]),
    )


def test_a_row_is_left_out_of_its_own_scale_and_width(learnt):
    kernel, scale, rows, place = learnt
    assert scale.k > 0
    assert scale.shape.sums is not None
    std, widths = scale.left_out(rows, place)
    prior = rows.prior + rows.variance + scale.extra - rows.latent
    for row in (0, 7, 210, 260, 299, 300, 450):
        one = slice(row, row + 1)
        other = without(kernel, scale, rows, place[row], row)
        expected = other.error_bars(rows.X[one], rows.variance[one] + scale.extra, rows.novelty[one], prior[one])
        assert std[row] == pytest.approx(expected[0][0], rel=1e-9)
        assert widths[row] == pytest.approx(expected[1][0], rel=1e-9)


def test_rows_that_it_was_not_learnt_from_are_as_any_others(learnt):
    _, scale, rows, _ = learnt
    prior = rows.prior + rows.variance + scale.extra - rows.latent
    std, widths = scale.left_out(rows, np.full(500, -1))
    expected = scale.error_bars(rows.X, rows.variance + scale.extra, rows.novelty, prior)
    np.testing.assert_allclose(std, expected[0])
    np.testing.assert_allclose(widths, expected[1])


def test_beyond_the_edge_variances_go_over_to_those_of_the_targets():
    """Of rows that are left out as of queries, also where each row has noise of its own."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (400, 1))
    kernel = compile_kernel(KERNEL, X)
    latent, noise = np.full(400, 0.1), generator.uniform(0.05, 0.2, 400)
    latent[:2], latent[2:4] = 1.0, 0.6  # as far as can be, and half way
    error = np.sqrt(latent + noise)[:, None] * generator.normal(size=(400, 1))
    found = Scale.fit_each(kernel, X, error[None], (latent + noise)[None], noise)[0]
    scale = found.of_model(kernel, calibrate=True, far=Far(5.0, X.min(axis=0), X.max(axis=0)))
    variance = scale.left_out(found.rows, found.places.place)[0] ** 2
    np.testing.assert_allclose(variance[:2], 5.0)
    assert np.all((variance[2:4] > 1.0) & (variance[2:4] < 5.0))
    assert np.all(variance[4:] < 1.0)


def test_one_scale_for_all_leaves_nothing_to_leave_out():
    X = np.linspace(0, 1, 30)[:, None]
    kernel = compile_kernel(KERNEL, X)
    error = np.random.default_rng(0).normal(size=(30, 2))
    scale = Scale.fit_each(kernel, X, error[None], np.ones((1, 30)))[0].scale
    rows = LeftOut(X, error, np.ones(30), np.zeros(30), np.ones(30), np.zeros(30))
    std, widths = scale.left_out(rows, np.arange(30))
    np.testing.assert_allclose(std**2, scale.mean)
    assert not widths.any()
    assert widths.shape == (30, 2)
