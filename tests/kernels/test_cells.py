"""Cells against distances to all centres; their sizes, and rows that coincide."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sodalite.kernels.cells import Cells


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("levels", [0, 1, 4])
def test_a_point_belongs_to_the_nearest_centre(d, levels):
    Z = rows(2000, d)
    cells = Cells.of(Z, levels)
    assert len(cells) == 2**levels
    far = np.square(Z[:, None] - cells.centres).sum(axis=2)
    assert_array_equal(cells.locate(Z), far.argmin(axis=1))


@pytest.mark.parametrize("d", [1, 3, 8])
def test_cells_hold_nearly_equally_many_rows(d):
    Z = rows(6400, d)
    counts = np.bincount(Cells.of(Z, 5).locate(Z), minlength=32)
    assert counts.min() > 200 / 3
    assert counts.max() < 200 * 3


def test_rows_that_coincide_are_not_cut():
    Z = np.repeat([[0.0, 1.0], [3.0, 1.0], [7.0, 1.0]], [50, 3, 3], axis=0)
    cells = Cells.of(Z, 6)
    assert len(cells) == 3
    assert len(set(cells.locate(Z[[0, 50, 53]]))) == 3
    assert len(Cells.of(np.ones((20, 2)), 3)) == 1


def test_an_outlier_does_not_decide_where_rows_are_cut():
    Z = np.column_stack([rows(1000, 1)[:, 0], 0.1 * rows(1000, 1, seed=1)[:, 0]])
    Z[17, 1] = 1e6
    first, _ = Cells.of(Z, 1).centres
    assert abs(first[0]) > 0.5


def test_the_order_of_rows_changes_no_cells():
    Z = rows(900, 3)
    mixed = Z[np.random.default_rng(1).permutation(900)]
    ours, theirs = (np.sort(Cells.of(part, 3).centres, axis=0) for part in (Z, mixed))
    assert_allclose(ours, theirs, atol=1e-12)
