"""Callbacks that follow a fit: the user's own, and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite import GreedyGPRegressor


def rows(n=80):
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 5, (n, 1))
    return X, np.sin(X[:, 0]) + 0.1 * generator.normal(size=n)


def test_a_callback_sees_the_steps_and_every_row():
    stages = []
    GreedyGPRegressor(n_active=12, posterior="sod", random_state=0).fit(*rows(), callback=stages.append)
    steps = list(dict.fromkeys(stage.step for stage in stages))
    assert steps == ["Finding the kernel's parameters", "Choosing rows", "Conditioning on the rows"]
    details = [stage.detail for stage in stages if stage.step == steps[0]]
    assert details[:2] == ["", "all scales"]
    assert details[-1] == "the best shape"
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


class Recorder:
    """A callback of scikit-learn's kind."""

    def __init__(self):
        self.events, self.rmse = [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.events.append(f"end {context.task_name}")
        self.rmse += [] if metadata is None else [metadata["rmse"]]

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
