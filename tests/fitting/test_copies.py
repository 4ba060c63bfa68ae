"""Rows that stand there more than once are one observation."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from sodalite import GreedyGPRegressor
from sodalite.fitting.gross import without_copies
from sodalite.selection.rows import ArrayRows


def places(n, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(0, 10, (n, 1))
    return X, np.sin(X[:, 0]) + 0.5 * generator.normal(size=n)


def test_copies_say_no_more_than_one_of_them():
    X, y = places(60)
    T = np.linspace(0, 10, 9)[:, None]
    once = GreedyGPRegressor(random_state=0).fit(X, y)
    often = GreedyGPRegressor(random_state=0).fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    for found, expected in zip(often.predict(T, return_std=True), once.predict(T, return_std=True), strict=True):
        assert_allclose(found, expected, atol=0.1 * y.std())


def test_intervals_of_a_fit_to_copies_hold_new_rows():
    inside = []
    for seed in range(6):
        X, y = places(160, seed)
        model = GreedyGPRegressor(random_state=0).fit(np.repeat(X[:60], 5, axis=0), np.repeat(y[:60], 5))
        low, high = model.predict_interval(X[60:], 0.9)
        inside.append(np.mean((low <= y[60:]) & (y[60:] <= high)))
    assert np.mean(inside) > 0.8


def test_repeated_observations_and_few_copies_count_as_they_are():
    X, y = places(60)
    repeated = ArrayRows(np.repeat(X, 2, axis=0), np.concatenate([y, y + 0.1])[:, None])
    few = ArrayRows(np.concatenate([X, X[:2]]), np.concatenate([y, y[:2]])[:, None])
    one_differs = np.repeat(y, 2)
    one_differs[7] += 1e-9
    for rows in (repeated, few, ArrayRows(np.repeat(X, 2, axis=0), one_differs[:, None])):
        assert without_copies(rows) is rows
    with_noise = ArrayRows(np.repeat(X, 2, axis=0), np.repeat(y, 2)[:, None], np.full(120, 0.1))
    assert without_copies(with_noise) is with_noise
