"""Masked arrays: what is behind a mask is not taken for data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from sodalite import GreedyGPRegressor, select
from sodalite.cluster.collections import checked
from sodalite.core.validation import check_rows

X, Y = np.random.default_rng(0).normal(size=(2, 20, 1))
Y = Y[:, 0]
GP = GreedyGPRegressor(hyperparameters="fixed", random_state=0)


def masked(values, *rows):
    mask = np.zeros(values.shape, dtype=bool)
    mask[list(rows)] = True
    return np.ma.masked_array(values, mask)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("X", lambda: GP.fit(masked(X, 7), Y)),
        ("X", lambda: check_rows(masked(X, 7), Y)),
        ("X", lambda: select(masked(X, 7), Y, RBF(1.0), n_active=3)),
        ("X", lambda: GP.fit(X, Y).predict(masked(X, 7))),
        ("X", lambda: GP.fit(X, Y).partial_fit(masked(X, 7), Y)),
        ("y", lambda: GP.fit(X, masked(Y, 7))),
        ("y", lambda: select(X, masked(Y, 7), RBF(1.0), n_active=3)),
        ("y", lambda: checked(X, masked(Y, 7), None, 0, 0, 20, 1, X.dtype)),  # a partition on a cluster
        ("alpha", lambda: GP.fit(X, Y, alpha=masked(np.ones(20), 7))),
        ("sample_weight", lambda: GP.fit(X, Y, sample_weight=masked(np.ones(20), 7))),
    ],
)
def test_masked_entries_are_refused(name, call):
    with pytest.raises(ValueError, match=rf"{name} has masked entries, in row 7 for one.*numpy\.ma\.filled"):
        call()


def test_masks_without_masked_entries_change_nothing():
    plain, other = GP.fit(X, Y).predict(X), GP.fit(masked(X), masked(Y)).predict(masked(X))
    np.testing.assert_array_equal(plain, other)
