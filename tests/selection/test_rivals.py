"""The search for rivals finds the rows that a plain look at every criterion finds."""

import numpy as np
import pytest

from sodalite.criteria import TIE, Delta, Product, evaluate
from sodalite.selection.ranking import magnitude
from sodalite.selection.rivals import NEAR, RivalSearch

DOUBLE = np.dtype(np.float64)
CRITERIA = {"delta": Delta(), "product": Product(), "not monotone": lambda s, abs_r, noise: abs_r / (s + noise + 0.1)}


def shard(seed, b=40, n_rows=300, q=2):
    """Coordinates in b picks, the residual path, variances, and who is active: places 0 to 9 before the block."""
    generator = np.random.default_rng(seed)
    N = 0.1 * generator.normal(size=(b, n_rows))
    s2 = (N**2).sum(axis=0) + generator.uniform(0, 1, n_rows)
    path = np.cumsum(0.1 * generator.normal(size=(q, b + 1, n_rows)), axis=1)
    active, remains = np.arange(10), np.arange(n_rows) >= 10
    path[:, :, active] = 0
    return N, path, s2, active, remains


def plainly(criterion, N, path, s2, noise, remains, picked):
    """Scores of all rows at every turn; NaN for rows that are active then."""
    variance = s2 - np.concatenate([np.zeros((1, len(s2))), np.cumsum(N**2, axis=0)[:-1]])
    value = evaluate(criterion, np.sqrt(variance), magnitude(path[:, :-1]), noise)
    value[:, ~remains] = np.nan
    for turn, place in picked:
        value[turn + 1 :, place] = np.nan
    return value


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
@pytest.mark.parametrize("seed", range(3))
def test_all_rivals_are_found_up_to_the_first_pick_that_is_beaten(criterion, seed):
    N, path, s2, active, remains = shard(seed)
    criterion, noise, b = CRITERIA[criterion], np.full(1, 0.1), len(N)
    picked = [(3, 20), (17, 30)]
    value = plainly(criterion, N, path, s2, noise, remains, picked)
    top = np.nanmax(value, axis=1)
    for beaten in (b, 21):
        expected = top.copy()
        expected[beaten:] *= 0.5
        search = RivalSearch(criterion, DOUBLE, noise, np.ones(1), active, remains, picked, expected)
        rivals, n_searched, last = search.run(N, path, s2)
        assert n_searched == b if beaten == b else beaten < n_searched < b
        np.testing.assert_allclose(last, s2 - (N**2).sum(axis=0))
        for turn in range(n_searched):
            low = expected[turn] - NEAR * TIE[DOUBLE] * abs(expected[turn])
            wanted = np.flatnonzero(value[turn] >= max(low, top[turn] - TIE[DOUBLE] * abs(top[turn])))
            assert rivals.index[rivals.turn == turn].tolist() == wanted.tolist()


def test_a_row_that_comes_near_no_pick_is_not_reported():
    N, path, s2, active, remains = shard(0)
    value = plainly(Delta(), N, path, s2, np.full(1, 0.1), remains, [])
    expected = 1.001 * np.nanmax(value, axis=1)
    search = RivalSearch(Delta(), DOUBLE, np.full(1, 0.1), np.ones(1), active, remains, [], expected)
    rivals, n_searched, _ = search.run(N, path, s2)
    assert len(rivals.index) == 0
    assert n_searched == len(N)
