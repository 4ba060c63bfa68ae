"""How a time limit is shared out and the time left estimated, by arithmetic with a clock that is made up."""

import random

import numpy as np
import pytest

from sodalite.cli._fits import MEASURING, excess_words, has_time_to_condition, limit_of_first, limit_of_second
from sodalite.fitting.clock import CHOICE, CONDITION, Budget, Clock, Costs, Pace, pace
from sodalite.stopping import Stage

COSTS = Costs(mean=0.0, search=6.0, choice=2.0, condition=4.0)


class Time:
    """The time, set by hand."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time(monkeypatch):
    monkeypatch.setattr("sodalite.fitting.clock.perf_counter", time := Time())
    return time


def budget_of(limit, time):
    return Budget(limit, COSTS, began=time())


@pytest.mark.parametrize("limit", [6.0, 12.0, 30.0, 600.0])
@pytest.mark.parametrize("slowness", [0.5, 1.0, 1.5])
def test_search_selection_and_conditioning_end_in_time(limit, slowness, time):
    shared = budget_of(limit, time)
    time.now += min(shared.for_search(), slowness * COSTS.search)
    time.now += min(shared.for_choice(0.0, slowness), slowness * COSTS.choice)
    time.now += slowness * COSTS.condition
    assert time.now - 100 <= max(1.2 * limit, 1.6 * slowness * COSTS.condition)


def test_a_long_limit_cuts_nothing_short(time):
    shared = budget_of(600.0, time)
    assert shared.for_search() > 10 * COSTS.search
    time.now += 6
    assert shared.for_choice(6.0, 1.0) > 10 * COSTS.choice
    assert Budget(None, COSTS).for_choice(6.0, 1.0) is None
    assert Budget(None, COSTS).for_search() == float("inf")


def test_costs_grow_with_rows_and_vanish_with_the_step():
    given = {"predicts_locally": True, "searches": True, "has_mean": True}
    few, many = (Costs.of(n, 5, 500, **given) for n in (500, 50_000))
    assert all(getattr(few, name) < getattr(many, name) for name in ("mean", "search", "choice", "condition"))
    assert Costs.of(500, 5, 500, predicts_locally=True, searches=False, has_mean=False).search == 0
    assert len(list(few.steps(competes=True))) == len(list(few.steps())) + 1 == 5


@pytest.mark.parametrize("limit", [4.0, 10.0, 15.0, 20.0, 30.0, 100.0])
def test_the_whole_command_ends_in_time(limit, time):
    """Two fits, judging and writing within the limit, or one fit if there is no time for the second."""
    clock = Clock(limit=limit)
    time.now += 0.5  # reading
    shared = budget_of(limit_of_first(clock, COSTS, True), time)
    time.now += min(shared.for_search(), COSTS.search)
    clock.say(CHOICE)
    time.now += min(shared.for_choice(0.0, 1.0), COSTS.choice)
    clock.say(CONDITION)
    time.now += COSTS.condition
    clock.say("Testing")
    assert clock.took[CONDITION] == pytest.approx(COSTS.condition)
    time.now += 0.5
    again = has_time_to_condition(clock, 1.1)
    if again:
        second = budget_of(limit_of_second(clock), time)
        time.now += min(second.for_choice(0.0, 1.0), COSTS.choice) + COSTS.condition
    time.now += min(0.5, 0.5 * clock.remaining)  # importance
    assert again == (limit >= 20)
    assert time.now - 100 <= max(1.2 * limit, 1.5 * COSTS.condition + 1)
    assert bool(excess_words(clock)) == (time.now - 100 > 1.2 * limit)


def test_a_limit_that_was_too_short_is_said(time):
    clock = Clock(limit=2.0)
    clock.say(CONDITION)
    time.now += 7
    clock.say(MEASURING)
    assert excess_words(clock) == "exceeded: 7.0 s instead of 2.0 s: conditioning on the rows alone took 7.0 s"
    assert not has_time_to_condition(clock, 1.1)


# The time left


def planned(*parts, **options):
    clock = Clock(**options)
    clock.expect(parts)
    return clock


def test_a_clock_learns_how_slow_the_machine_is(time):
    clock = planned(("search", 10.0), ("choice", 2.0), ("end", 4.0))
    assert clock.left == pytest.approx(16.0)
    for share in (0.25, 0.5, 0.75):  # three times as slow as expected
        time.now = 100 + 30 * share
        clock.at("search", share)
    assert clock.slowness == pytest.approx(3, rel=0.1)
    assert clock.left == pytest.approx(3 * 8.5, rel=0.1)
    time.now = 130.0
    clock.at("end")  # no row was chosen
    assert clock.left == pytest.approx(4 * clock.slowness)
    assert clock.after == 0
    clock.at("something else", 0.9)
    assert clock.left == pytest.approx(4 * clock.slowness)


def test_a_clock_that_has_a_step_twice(time):
    clock = planned(("search", 10.0), ("end", 1.0), ("search", 10.0), ("end", 1.0))
    clock.at("search")
    clock.at("search", 0.5)
    assert clock.after == pytest.approx(12 * clock.slowness)
    clock.at("end")
    clock.at("search", 0.0)
    assert clock.after == pytest.approx(clock.slowness)


def test_no_estimate_is_absurd(time):
    """With a search that goes on evenly, every estimate is within a factor of two of the truth."""
    clock, total = planned(("search", 4.0), ("end", 1.0)), 50.0  # ten times as slow as expected
    for tenth in range(2, 10):
        time.now = 100 + total * 0.8 * tenth / 10
        clock.at("search", tenth / 10)
        assert 0.5 < clock.left / (100 + total - time.now) < 2


def test_the_clock_of_a_command_follows_those_of_its_fits(time):
    """The estimates of a fit become those of the whole command, which its time limit bounds."""
    shown = []
    command = Clock(shown.append, limit=60.0)
    command.expect([(CHOICE, 4.0), (CONDITION, 4.0), ("Writing", 2.0)])
    fit = Clock(command)
    fit.expect([(CHOICE, 4.0), (CONDITION, 4.0)])
    time.now += 4.0
    fit.say(CONDITION)
    assert (shown[-1].step, shown[-1].left) == (CONDITION, pytest.approx(6.0))
    time.now += 40.0
    fit.say(CONDITION, done=0.5)
    assert pytest.approx(shown[-1].left) == 16  # not the 28 that it would take
    assert command.took == pytest.approx({"": 4.0})
    command.say("Writing")
    assert command.took[CONDITION] == pytest.approx(40.0)


def test_one_callback_that_asks_to_stop_keeps_no_other_from_being_called(time):
    seen = []

    def stop(stage):
        raise StopIteration

    clock = Clock(stop, None, seen.append)
    clock.say("A step")  # cannot be ended
    with pytest.raises(StopIteration):
        clock(Stage([1.0], 0.0))
    assert len(seen) == 2


# The pace of a selection

M = 500


def ends(a, b, jitter=0.0, block=1, seed=0):
    """When each of M stages ends, where stage t takes a + b t seconds; stages of a block all end with it."""
    chance = random.Random(seed)
    each = np.cumsum([(a + b * t) * chance.uniform(1 - jitter, 1 + jitter) for t in range(1, M + 1)])
    last = np.minimum(-(-np.arange(1, M + 1) // block) * block, M) - 1
    return each[last].tolist()


def pace_at(times, t, **options):
    return pace(Stage([1.0] * t, times[t - 1], 10**6, M, times[:t], **options))


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.0, 0.01), (0.2, 0.003)], ids=["even", "growing", "both"])
@pytest.mark.parametrize("block", [1, 16])
def test_with_a_steady_clock_the_estimate_is_exact(a, b, block):
    times = ends(a, b, block=block)
    for t in range(3 * block, M, block):
        left = times[-1] - times[t - 1]
        assert pace_at(times, t).left == pytest.approx(left, rel=0.02 if block == 1 else 0.1)


@pytest.mark.parametrize("seed", range(5))
def test_with_an_unsteady_clock_it_converges(seed):
    times = ends(0.05, 0.002, jitter=0.5, seed=seed)
    wrong = [abs(pace_at(times, t).left - (times[-1] - times[t - 1])) / times[-1] for t in (100, 250, 450, 499)]
    assert wrong[0] < 0.3
    assert wrong[1] < 0.15
    assert wrong[2] < 0.03
    assert wrong[3] < 0.005


def test_the_work_of_later_stages_a_time_limit_and_a_short_past_count():
    times = ends(0.0, 0.01)
    assert pace_at(times, 250).left > 2.5 * times[249]  # half of the stages are a quarter of the work
    times = ends(1.0, 0.01)
    assert pace_at(times, 100, time_limit=times[99] + 3.0).left == pytest.approx(3.0)
    assert pace_at(times, 100, time_limit=1.0).left == 0.0
    assert pace(Stage([1.0], 0.0, 10, 5)).left == float("inf")
    assert pace(Stage([1.0], 2.0, 10, 1)).left == 0
    assert pace(Stage([1.0, 1.0], 2.0, 10, 4)) == Pace(rate=1.0, left=6.0)  # as if it went by the square
    for t in range(1, 40):  # a whole block at once, and the next
        assert 0 <= pace(Stage([1.0] * t, 1.0 + (t > 20), 100, 50, [1.0] * 20 + [2.0] * 20)).left < 1e4
