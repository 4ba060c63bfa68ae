"""Callbacks that follow a fit: the user's own, and scikit-learn's."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite import GreedyGPRegressor, select


def rows(n=80):
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 5, (n, 1))
    return X, np.sin(X[:, 0]) + 0.1 * generator.normal(size=n)


def test_a_callback_sees_the_steps_and_every_row():
    stages = []
    GreedyGPRegressor(n_active=12, posterior="sod", random_state=0).fit(*rows(), callback=stages.append)
    steps = [step for step, _ in groupby(stage.step for stage in stages)]
    race, *steps = steps
    assert race == "Comparing means and scales"
    assert steps == ["Finding the kernel's parameters", "Choosing rows", "Conditioning on the rows"]
    assert len({stage.detail for stage in stages if stage.step == steps[0]}) > 2  # the parts of the search
    assert [stage.t for stage in stages if stage.t] == list(range(1, 13))
    assert all(0 <= stage.left < 600 for stage in stages)  # seconds, by the work done so far
    more = []
    model = GreedyGPRegressor(n_active=5, posterior="sod", random_state=0).fit(*rows())
    model.set_params(n_active=8).partial_fit(*rows(10), callback=more.append)
    assert [stage.t for stage in more][-1] == 8


def test_a_callback_that_fails_ends_the_fit_and_changes_nothing():
    def fail(stage):
        raise OSError("enough")

    model = GreedyGPRegressor(n_active=5, random_state=0)
    with pytest.raises(OSError, match="enough"):
        model.fit(*rows(), callback=fail)
    assert not hasattr(model, "fitted_")


def stop_at(last):
    def callback(stage):
        if stage.t in (0, last):  # a step without rows cannot be ended
            raise StopIteration

    return callback


@pytest.mark.parametrize("last", [1, 7, 29, 30])
def test_a_callback_can_end_the_choice_of_rows(last):
    X, y = rows()
    options = {"kernel": RBF() + WhiteKernel(0.01), "hyperparameters": "fixed", "n_active": 30, "random_state": 0}
    whole = GreedyGPRegressor(**options).fit(X, y)
    model = GreedyGPRegressor(**options).fit(X, y, callback=stop_at(last))
    assert model.active_indices_.tolist() == whole.active_indices_[:last].tolist()
    assert model.selection_.rmse.tolist() == whole.selection_.rmse[:last].tolist()
    assert model.selection_.stop_reason == ("callback" if last < 30 else "n_active")
    fewer = GreedyGPRegressor(**{**options, "n_active": last}).fit(X, y)
    np.testing.assert_allclose(model.predict(X), fewer.predict(X), rtol=1e-9)


def test_rows_that_are_given_are_all_taken_whatever_a_callback_wishes(tmp_path):
    X, y = rows()
    kernel = RBF() + WhiteKernel(0.01)
    options = {"first": list(range(5)), "checkpoint": tmp_path / "c"}

    def at_once(stage):
        raise StopIteration

    assert len(select(X, y, kernel, n_active=20, callback=at_once, **options)) == 5
    assert len(select(X, y, kernel, n_active=20, **options)) == 20  # goes on, since nothing else ended it


class Recorder:
    """A callback of scikit-learn's kind."""

    def __init__(self, last=None):
        self.events, self.rmse, self.last = [], [], last

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.events.append(f"end {context.task_name}")
        self.rmse += [] if metadata is None else [metadata["rmse"]]
        return len(self.rmse) == self.last

    def teardown(self, estimator, context):
        self.events.append("teardown")


@pytest.mark.parametrize("fails", [False, True])
def test_scikit_learns_callbacks(fails):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    kernel = RBF() + WhiteKernel(0.01)
    model = GreedyGPRegressor(kernel, n_active=6, hyperparameters="fixed", random_state=0).set_callbacks(recorder)
    X, y = rows()
    if fails:
        X[3] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X, y)
        assert recorder.events == ["setup", "begin fit", "teardown"]
        return
    model.fit(X, y)
    middle = ["begin active row", "end active row"] * 6
    assert recorder.events == ["setup", "begin fit", *middle, "end fit", "teardown"]
    assert recorder.rmse == pytest.approx(model.selection_.rmse)


def test_a_callback_of_scikit_learns_ends_the_choice_of_rows():
    pytest.importorskip("sklearn.callback")
    model = GreedyGPRegressor(RBF() + WhiteKernel(0.01), n_active=6, hyperparameters="fixed", random_state=0)
    whole = model.fit(*rows()).active_indices_
    recorder = Recorder(last=4)
    stopped = clone(model).set_callbacks(recorder).fit(*rows())
    assert stopped.active_indices_.tolist() == whole[:4].tolist()
    assert stopped.selection_.stop_reason == "callback"
    assert recorder.events[-4:] == ["begin active row", "end active row", "end fit", "teardown"]
