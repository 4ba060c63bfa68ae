"""What shards and loop send each other is joined and shortened without losing a row that may be picked."""

import numpy as np
import pytest

from sodalite.selection.messages import BlockReport, Candidates, Rivals

DOUBLE = np.dtype(np.float64)


def candidates(index, score, potential):
    index = np.array(index)
    one = np.ones(len(index))
    return Candidates(index, one[:, None], one, one[:, None], one, one, np.array(score, float), np.array(potential))


def test_a_shortlist_has_the_highest_potentials_all_ties_for_the_best_score_and_the_rows_wanted():
    rows = candidates([2, 3, 5, 7, 11, 13], [1.0, 4.0, 4.0 - 1e-12, 0.5, 3.9, 0.1], [6.0, 0.1, 0.2, 5.0, 0.3, 0.4])
    assert rows.shortlist(2, np.array([13, 99]), DOUBLE).index.tolist() == [2, 3, 5, 7, 13]
    assert rows.shortlist(1, np.empty(0, dtype=int), DOUBLE).index.tolist() == [2, 3, 5]


@pytest.mark.parametrize("count", [0, 3, 4])
def test_a_shortlist_that_is_not_short_has_all_rows(count):
    """Rows without a score too: those that are given."""
    rows = candidates([1, 2, 3], [np.nan] * 3, [np.nan] * 3)
    assert rows.shortlist(count, np.empty(0, dtype=int), DOUBLE) is rows


def test_candidates_are_joined_in_the_order_of_their_indices_each_once():
    joined = Candidates.join([candidates([4, 8], [1, 2], [1.0, 2.0]), candidates([8, 1], [2, 3], [2.0, 3.0])])
    assert joined.index.tolist() == [1, 4, 8]
    assert joined.score.tolist() == [3, 1, 2]


def test_a_joined_report_was_searched_as_far_as_the_least_of_its_parts():
    parts = [
        BlockReport(np.array([3.0, 2.0]), Rivals(np.array([0]), np.array([7]), np.array([1.5])), 2),
        BlockReport(np.array([1.0, 1.0]), Rivals.empty(), 1),
    ]
    joined = BlockReport.join(parts)
    assert joined.sse.tolist() == [4.0, 3.0]
    rivals = joined.rivals
    assert (rivals.turn.tolist(), rivals.index.tolist(), rivals.score.tolist()) == ([0], [7], [1.5])
    assert joined.n_searched == 1
