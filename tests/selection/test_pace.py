"""How long a selection may still take: by the arithmetic of the stages so far, with a clock that is made up."""

import io
import random

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor, select, stopping
from sodalite.hyperparameters import HYPERPARAMETERS, Task
from sodalite.kernels import default_kernels
from sodalite.posteriors import resolve_posterior
from sodalite.selection.forecast import Forecast
from sodalite.selection.pace import Pace
from sodalite.selection.progress import ProgressLine, pace_words
from sodalite.stopping import Stage, seconds_of

M = 500


def clock(a, b, jitter=0.0, block=1, seed=0):
    """When each of M stages ends, where stage t takes a + b t seconds; stages of a block all end with it."""
    chance = random.Random(seed)
    ends = np.cumsum([(a + b * t) * chance.uniform(1 - jitter, 1 + jitter) for t in range(1, M + 1)])
    last = np.minimum(-(-np.arange(1, M + 1) // block) * block, M) - 1
    return ends[last].tolist()


def pace(times, t, **options):
    return Pace.of(Stage([1.0] * t, times[t - 1], 10**6, M, times[:t], **options))


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.0, 0.01), (0.2, 0.003)], ids=["even", "growing", "both"])
@pytest.mark.parametrize("block", [1, 16])
def test_with_a_steady_clock_the_estimate_is_exact(a, b, block):
    times = clock(a, b, block=block)
    for t in range(3 * block, M, block):
        left = times[-1] - times[t - 1]
        assert pace(times, t).left == pytest.approx(left, rel=0.02 if block == 1 else 0.1)


@pytest.mark.parametrize("seed", range(5))
def test_with_an_unsteady_clock_it_converges(seed):
    times = clock(0.05, 0.002, jitter=0.5, seed=seed)
    wrong = [abs(pace(times, t).left - (times[-1] - times[t - 1])) / times[-1] for t in (100, 250, 450, 499)]
    assert wrong[0] < 0.3
    assert wrong[1] < 0.15
    assert wrong[2] < 0.03
    assert wrong[3] < 0.005


def test_it_does_not_promise_what_a_steady_rate_would():
    """Half of the stages are a quarter of the work."""
    times = clock(0.0, 0.01)
    steady = times[249]
    assert pace(times, 250).left > 2.5 * steady


def test_the_time_limit_bounds_it():
    times = clock(1.0, 0.01)
    assert pace(times, 100, time_limit=times[99] + 3.0).left == pytest.approx(3.0)
    assert pace(times, 100, time_limit=1.0).left == 0.0


def test_where_little_is_known():
    assert Pace.of(Stage([1.0], 0.0, 10, 5)).left == float("inf")
    assert Pace.of(Stage([1.0], 2.0, 10, 1)).left == 0
    assert Pace.of(Stage([1.0, 1.0], 2.0, 10, 4)) == Pace(rate=1.0, left=6.0)  # as if it went by the square
    for t in range(1, 40):  # a whole block at once, and the next
        assert 0 <= Pace.of(Stage([1.0] * t, 1.0 + (t > 20), 100, 50, [1.0] * 20 + [2.0] * 20)).left < 1e4


def test_seconds_of_a_rule():
    rule = stopping.resolve_rule(5, tol=0.1, time_limit=60, stop=stopping.TimeLimit(90) & stopping.Size(3))
    assert seconds_of(rule) == 60
    assert seconds_of(stopping.Size(3)) == float("inf")


def test_words():
    times = clock(1.0, 0.0)
    assert pace_words(Stage([1.0] * 100, 100.0, 9, M, times[:100], 2)) == "1 rows/s, 2 workers, at most 6 min 40 s left"
    assert pace_words(Stage([1.0], 0.01, 9, 1, [0.01], 1)) == "100 rows/s, 1 worker"
    assert pace_words(Stage([1.0], 0.0, 9, 5)) == "0 rows/s"


X = np.linspace(0, 9, 300)[:, None]
Y = np.sin(X[:, 0])
KERNEL = RBF(1.0) + WhiteKernel(0.01)


def test_a_selection_says_what_is_needed():
    seen = []
    select(X, Y, KERNEL, n_active=50, first=0, n_jobs=2, time_limit=1000, callback=seen.append)
    for stage in seen:
        assert len(stage.times) == stage.t
        assert stage.times[-1] == stage.seconds
        assert list(stage.times) == sorted(stage.times)
        assert stage.workers == 2
        assert stage.time_limit == 1000


def test_a_selection_that_goes_on_goes_by_the_times_that_were(tmp_path):
    """What is replayed is no new work, and the night between was no work at all."""
    seen = []

    def stop(stage):
        seen.append(stage)
        if stage.t == 20:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        select(X, Y, KERNEL, n_active=60, first=0, callback=stop, checkpoint=tmp_path / "c")
    again = []
    select(X, Y, KERNEL, n_active=60, first=0, callback=again.append, checkpoint=tmp_path / "c")
    assert list(again[-1].times[:20]) == list(seen[-1].times)
    assert list(again[-1].times) == sorted(again[-1].times)


def test_a_fit_says_what_it_is_doing(monkeypatch, tmp_path):
    stream = io.StringIO()
    monkeypatch.setattr(sodalite.selection.progress.sys, "stderr", stream)
    np.save(tmp_path / "X.npy", X)
    model = GreedyGPRegressor(n_active=5, hyperparameters="subset", posterior="sod", verbose=True, random_state=0)
    model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
    lines = stream.getvalue().splitlines()
    assert [line.partition(" ...")[0] for line in lines[:2]] == [
        "Looking at all rows",
        "Finding the kernel's parameters",
    ]
    assert lines[-2].startswith("active rows 5 of at most 5, RMSE ")
    assert lines[-1].startswith("Conditioning on the rows ... about ")


def test_a_step_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    line = ProgressLine(Terminal())
    line(Stage((), 0.0, step="Reading"))
    assert line.stream.getvalue() == "\r\x1b[2KReading ..."


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        return self.now


def test_a_plan_learns_how_slow_the_machine_is():
    clock = Clock()
    plan = Forecast([("search", 10.0), ("choice", 2.0), ("end", 4.0)], clock)
    assert plan.left == pytest.approx(16.0)
    for share in (0.25, 0.5, 0.75):  # three times as slow as expected
        clock.now = 30 * share
        plan.at("search", share)
    assert plan.slowness == pytest.approx(3, rel=0.1)
    assert plan.left == pytest.approx(3 * 8.5, rel=0.1)
    clock.now = 30.0
    plan.at("end")  # no row was chosen
    assert plan.left == pytest.approx(4 * plan.slowness)
    assert plan.after == 0
    plan.at("something else", 0.9)
    assert plan.left == pytest.approx(4 * plan.slowness)


def test_a_plan_that_has_a_step_twice():
    plan = Forecast([("search", 10.0), ("end", 1.0), ("search", 10.0), ("end", 1.0)], Clock())
    plan.at("search")
    plan.at("search", 0.5)
    assert plan.after == pytest.approx(12 * plan.slowness)
    plan.at("end")
    plan.at("search", 0.0)
    assert plan.after == pytest.approx(plan.slowness)


def test_no_estimate_is_absurd():
    """With a search that goes on evenly, every estimate is within a factor of two of the truth."""
    clock = Clock()
    plan, total = Forecast([("search", 4.0), ("end", 1.0)], clock), 50.0  # ten times as slow as expected
    for tenth in range(2, 10):
        clock.now = total * 0.8 * tenth / 10
        plan.at("search", tenth / 10)
        assert 0.5 < plan.left / (total - clock.now) < 2


@pytest.mark.parametrize(
    ("given", "posterior"), [("weave", "local"), ("weave", "dtc"), ("subset", "sod")], ids=["weave", "joint", "subset"]
)
@pytest.mark.parametrize("n", [campaign(200), 1200])
def test_the_search_reports_within_it(given, posterior, n):
    """Each search says which part of it begins, and how much is done never falls."""
    rows = np.linspace(0, 9, n)[:, None]
    seen = []
    task = Task(
        rows,
        np.sin(3 * rows) + 0.1 * np.cos(40 * rows),
        posterior=resolve_posterior(posterior),
        n_active=20,
        forms=True,
        seconds=0.3,
        report=lambda part, done: seen.append((part, done)),
    )
    HYPERPARAMETERS[given].find(task, default_kernels(task.X, task.y), np.random.default_rng(0))
    shares = [done for _, done in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] <= 1
    assert len(seen) >= 2
