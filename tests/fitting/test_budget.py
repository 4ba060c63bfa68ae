"""How a time limit is shared out, by the arithmetic of expected costs."""

import pytest

from sodalite.cli._limit import Timetable
from sodalite.fitting import budget
from sodalite.fitting.budget import CHOICE, CONDITION, Budget, Costs
from sodalite.stopping import Stage

COSTS = Costs(mean=0.0, search=6.0, choice=2.0, condition=4.0)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(budget, "perf_counter", found)
    monkeypatch.setattr("sodalite.cli._limit.perf_counter", found)
    return found


def budget_of(limit, clock):
    return Budget(limit, COSTS, began=clock())


@pytest.mark.parametrize("limit", [6.0, 12.0, 30.0, 600.0])
@pytest.mark.parametrize("slowness", [0.5, 1.0, 1.5])
def test_search_selection_and_conditioning_end_in_time(limit, slowness, clock):
    shared = budget_of(limit, clock)
    clock.now += min(shared.for_search(), slowness * COSTS.search)
    clock.now += min(shared.for_choice(0.0, slowness), slowness * COSTS.choice)
    clock.now += slowness * COSTS.condition
    assert clock.now - 100 <= max(1.2 * limit, 1.6 * slowness * COSTS.condition)


def test_a_long_limit_cuts_nothing_short(clock):
    shared = budget_of(600.0, clock)
    assert shared.for_search() > 10 * COSTS.search
    clock.now += 6
    assert shared.for_choice(6.0, 1.0) > 10 * COSTS.choice
    assert Budget(None, COSTS).for_choice(6.0, 1.0) is None
    assert Budget(None, COSTS).for_search() == float("inf")


def test_costs_grow_with_rows_and_vanish_with_the_step():
    given = {"predicts_locally": True, "searches": True, "has_mean": True}
    few, many = (Costs.of(n, 5, 500, **given) for n in (500, 50_000))
    assert all(getattr(few, name) < getattr(many, name) for name in ("mean", "search", "choice", "condition"))
    assert Costs.of(500, 5, 500, predicts_locally=True, searches=False, has_mean=False).search == 0
    assert len(list(few.steps(chooses_mean=True))) == 9


def timetable(limit, clock):
    return Timetable(limit, began=clock())


@pytest.mark.parametrize("limit", [4.0, 10.0, 15.0, 20.0, 30.0, 100.0])
def test_the_whole_command_ends_in_time(limit, clock):
    """Two fits, judging and writing within the limit, or one fit if there is no time for the second."""
    time = timetable(limit, clock)
    clock.now += 0.5  # reading
    shared = budget_of(time.of_fit(COSTS, True), clock)
    clock.now += min(shared.for_search(), COSTS.search)
    time.follow(Stage((), 0.0, step=CHOICE))
    clock.now += min(shared.for_choice(0.0, 1.0), COSTS.choice)
    time.follow(Stage((), 0.0, step=CONDITION))
    clock.now += COSTS.condition
    time.end_step()
    assert time.steps[CONDITION] == pytest.approx(COSTS.condition)
    clock.now += 0.5  # testing
    again = time.has_time_to_condition(1.1)
    if again:
        second = budget_of(time.of_second_fit(), clock)
        clock.now += min(second.for_choice(0.0, 1.0), COSTS.choice) + COSTS.condition
    clock.now += min(0.5, 0.5 * time.left)  # importance
    assert again == (limit >= 20)
    assert clock.now - 100 <= max(1.2 * limit, 1.5 * COSTS.condition + 1)
    assert bool(time.words()) == (clock.now - 100 > 1.2 * limit)


def test_a_limit_that_was_too_short_is_said(clock):
    time = timetable(2.0, clock)
    time.follow(Stage((), 0.0, step=CONDITION))
    clock.now += 7
    time.end_step()
    assert time.words() == "exceeded: 7.0 s instead of 2.0 s: conditioning on the rows alone took 7.0 s"
    assert not time.has_time_to_condition(1.1)
