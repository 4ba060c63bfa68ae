"""Errors near by, without what they know of the row itself: predictions that leave a pair of rows out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.criteria import CRITERIA
from sodalite.kernels import compile_kernel
from sodalite.posteriors import Evidence, Local, SubsetOfData
from sodalite.posteriors.shape import Places
from sodalite.report.build import make_report
from sodalite.selection.grow import grow
from sodalite.selection.rows import ArrayRows
from sodalite.stopping import Size

KERNEL = ConstantKernel(1.5) * RBF([0.6, 0.9]) + WhiteKernel(0.02)


def rows(n=40, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, 2))
    return X, np.sin(3 * X[:, :1]) + X[:, 1:] + 0.2 * generator.standard_normal((n, 1))


def evidence(X, y, m, k=None):
    kernel = compile_kernel(KERNEL, X)
    generator = np.random.default_rng(0)
    chosen = grow(ArrayRows(X, y), kernel, n_active=m, criterion=CRITERIA["delta"], rule=Size(m), generator=generator)
    return Evidence(kernel, ArrayRows(X, y), chosen, n_neighbors=k)


def without(X, y, i, j):
    """The standardised error of row j, predicted by the exact process from neither i nor j."""
    kept = np.setdiff1d(np.arange(len(X)), [i, j])
    K = KERNEL(X[kept])
    c = KERNEL.k1(X[kept], X[[j]])[:, 0]
    mean, variance = c @ np.linalg.solve(K, y[kept, 0]), 1.5 + 0.02 - c @ np.linalg.solve(K, c)
    return (y[j, 0] - mean) / np.sqrt(variance)


def pairs_of(X, y, m, posterior):
    """Places of all rows with the correlations of their errors, and the standardised leave-one-out errors."""
    given = evidence(X, y, m, k=len(X) - m)
    places, rows = Places.of(given.kernel, X, len(X) - 1), given.take(np.arange(len(X)))
    if posterior is SubsetOfData:
        made = SubsetOfData.condition(given)
        found = made.left_out(rows)
        error, variance = y - found.mean, found.variance + rows.noise
    else:
        made = Local.prepare(given)
        made = replace(made, k=len(made.X))
        (error,), (variance,) = made.own_errors(rows, (made.k,))
    rho = made.correlations(rows, variance, rows, variance, places.partners)
    return replace(places, rho=rho), error / np.sqrt(variance)[:, None]


@pytest.mark.parametrize(("posterior", "m"), [(SubsetOfData, 40), (Local, 12), (Local, 39)])
def test_errors_near_by_are_those_without_the_pair(posterior, m):
    X, y = rows()
    places, z = pairs_of(X, y, m, posterior)
    change = places.correction(z, z[places.first])
    some = [(i, column) for i in (0, 15, 38) for column in (0, 1, 2, 20) if places.partners[i, column] >= 0]
    some += [(3, column) for column in range(40) if places.partners[3, column] >= 0]  # all others are partners
    assert len(some) > 45
    for i, column in some:
        j = places.partners[i, column]
        assert abs(z[j, 0]) + change[i, column, 0] == pytest.approx(abs(without(X, y, i, j)), abs=1e-8)


@pytest.mark.parametrize("m", [12, 40])
def test_what_is_known_near_a_row_does_not_depend_on_its_target(m):
    X, y = rows()
    other = y.copy()
    other[7] += 3.0

    def known(y):
        places, z = pairs_of(X, y, m, SubsetOfData if m == 40 else Local)
        correction = places.correction(z, z[places.first])
        return places.others(np.abs(z), places.sums(np.abs(z)), 8, correction)[0]

    def leaking(y):
        places, z = pairs_of(X, y, m, SubsetOfData if m == 40 else Local)
        return places.others(np.abs(z), places.sums(np.abs(z)), 8)[0]

    assert known(other)[7] == pytest.approx(known(y)[7], rel=1e-6)
    assert leaking(other)[7] > 1.5 * leaking(y)[7]


def test_rows_that_repeat_have_no_partners():
    X = np.repeat(np.arange(4.0), [1, 3, 1, 1])[:, None]
    places = Places.of(compile_kernel(RBF() + WhiteKernel(), X), X, 3)
    assert np.array_equal(places.partners[0], [-1, -1, 4, 5])
    assert set(places.partners[1]) == {-1, 0, 4, 5}


def growth(n, seed):
    """Smooth curves without noise, whose leave-one-out errors are strongly correlated."""
    generator = np.random.default_rng(seed)
    X = np.column_stack([np.repeat(np.arange(n // 12), 12), np.tile(np.arange(12.0), n // 12)])
    rate = generator.uniform(0.5, 1.5, n // 12)[:, None]
    shape = np.arange(12.0) ** 1.5 * rate + np.cumsum(0.6 * generator.standard_normal((n // 12, 12)), axis=1)
    return X, shape.ravel()


def test_intervals_of_smooth_curves_hold_what_they_promise():
    X, y = growth(480, 0)
    test = np.random.default_rng(1).random(len(X)) < 0.2
    kernel = ConstantKernel(2.0) * RBF([0.3, 3.0]) + WhiteKernel(1e-3)
    model = GreedyGPRegressor(kernel, hyperparameters="fixed", random_state=0).fit(X[~test], y[~test])
    lower, upper = model.predict_interval(X[test])
    inside = np.mean((y[test] >= lower) & (y[test] <= upper))
    assert inside > 0.9
    assert model.fitted_.posterior.scale.bars.shares[2] == pytest.approx(inside, abs=0.07)


@pytest.mark.parametrize("posterior", ["local", "sod"])
def test_a_report_leaves_pairs_out_as_the_fit_does(posterior):
    X, y = rows(300)
    model = GreedyGPRegressor(KERNEL, hyperparameters="fixed", posterior=posterior, n_active=300, random_state=0)
    model.fit(X, y[:, 0] * (1 + X[:, 0] ** 2))
    scale = model.fitted_.posterior.scale
    assert scale.nearby.errors is not None
    shares = tuple(make_report(model).judgement.coverages.values())
    assert shares == pytest.approx(scale.bars.shares, abs=0.01)
