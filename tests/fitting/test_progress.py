"""What is said of a fit while it goes on."""

import io

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import sodalite
from helpers import campaign, threads
from helpers import paper_select as select
from sodalite import GreedyGPRegressor, stopping
from sodalite.fitting.progress import ProgressLine, pace_words
from sodalite.hyperparameters import HYPERPARAMETERS, Task
from sodalite.kernels import default_kernels
from sodalite.posteriors import resolve_posterior
from sodalite.stopping import Stage, seconds_of


def test_seconds_of_a_rule():
    rule = stopping.resolve_rule(5, tol=0.1, time_limit=60, stop=stopping.TimeLimit(90) & stopping.Size(3))
    assert seconds_of(rule) == 60
    assert seconds_of(stopping.Size(3)) == float("inf")


def test_words():
    times = np.arange(1.0, 101.0).tolist()
    assert pace_words(Stage([1.0] * 100, 100.0, 9, 500, times, 2)) == "1 rows/s, 2 workers, at most 6 min 40 s left"
    assert pace_words(Stage([1.0], 0.01, 9, 1, [0.01], 1)) == "100 rows/s, 1 worker"
    assert pace_words(Stage([1.0], 0.0, 9, 5)) == "0 rows/s"


X = np.linspace(0, 9, 300)[:, None]
Y = np.sin(X[:, 0])
KERNEL = RBF(1.0) + WhiteKernel(0.01)


def test_a_selection_says_what_is_needed():
    seen = []
    with threads(2):
        select(X, Y, KERNEL, n_active=50, first=0, time_limit=1000, callback=seen.append)
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
    monkeypatch.setattr(sodalite.fitting.progress.sys, "stderr", stream)
    np.save(tmp_path / "X.npy", X)
    model = GreedyGPRegressor(n_active=5, hyperparameters="subset", posterior="sod", verbose=True, random_state=0)
    model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
    lines = stream.getvalue().splitlines()
    assert [line.partition(" ...")[0] for line in lines[:3]] == [
        "Looking at all rows",
        "Comparing means and scales",
        "Finding the kernel's parameters",
    ]
    assert lines[-2].startswith("active rows 5 of at most 5, RMSE ")
    assert lines[-1].startswith("Conditioning on the rows ... about ")


def test_on_a_terminal_the_line_is_written_over_itself():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    line = ProgressLine(terminal)
    line(Stage((), 0.0, step="Reading"))
    assert terminal.getvalue() == "\r\x1b[2KReading ..."
    line(Stage((1.0, 0.25), seconds=2.0, n_rows=9, n_active=2))
    assert terminal.getvalue().endswith("\r\x1b[2Kactive rows 2 of at most 2, RMSE 0.25, 1 rows/s")
    line.close()
    assert terminal.getvalue().endswith("rows/s\n")


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
        posterior=resolve_posterior(posterior)[0],
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
