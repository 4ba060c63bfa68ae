"""The decision when a selection ends, which the loop and a checkpoint share."""

from sodalite.selection.loop import first_stop
from sodalite.stopping import Decrease, Rule, Size


class Never(Rule):
    def check(self, stage):
        return None


def test_the_first_stage_that_a_rule_ends():
    path, seconds = [1.0, 0.5, 0.4, 0.39, 0.385], [1.0, 2.0, 3.0, 4.0, 5.0]
    assert first_stop(Decrease(0.05), path, seconds, n=9, m=9, begin=1) == (4, "tol")
    assert first_stop(Decrease(0.05), path, seconds, n=9, m=9, begin=5) == (5, "tol")
    assert first_stop(Size(3), path, seconds, n=9, m=3, begin=1) == (3, "n_active")
    assert first_stop(Never(), path, seconds, n=9, m=9, begin=1) is None


def test_with_all_rows_it_ends_in_any_case():
    path, seconds = [1.0, 0.5, float("nan")], [1.0, 2.0, 3.0]
    assert first_stop(Never(), path, seconds, n=3, m=9, begin=1) == (3, "all_rows")
    assert first_stop(Never(), path, seconds, n=3, m=9, begin=7) == (3, "all_rows")  # before the rules are asked
