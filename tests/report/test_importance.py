"""What matters: effects that are known exactly, their errors, and inputs that make no difference."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.report.importance import importance
from sodalite.report.inputs import Input


def inputs(d):
    return [Input(f"x{j}", "number", (j,)) for j in range(d)]


def ishigami(X):
    """A function whose effects are known: x0 and x2 act together, x2 does nothing alone, x3 nothing at all."""
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


FIRST = {"x0": 0.3139, "x1": 0.4424, "x2": 0.0, "x3": 0.0}
TOTAL = {"x0": 0.5576, "x1": 0.4424, "x2": 0.2437, "x3": 0.0}


def test_effects_that_are_known_are_found_within_their_errors():
    generator = np.random.default_rng(1)
    X = generator.uniform(-np.pi, np.pi, (5000, 4))
    found = [importance(ishigami, X, inputs(4), np.random.default_rng(seed)) for seed in range(40)]
    for name in TOTAL:
        effects = [next(effect for effect in one.effects if effect.name == name) for one in found]
        for truth, value, error in ((TOTAL[name], "total", "total_error"), (FIRST[name], "first", "first_error")):
            values = np.array([getattr(effect, value) for effect in effects])
            errors = np.array([getattr(effect, error) for effect in effects])
            assert abs(values.mean() - truth) < 0.02  # `first` never exceeds `total`, which lowers it by chance
            if value == "total" and truth:
                assert 0.5 < values.std() / errors.mean() < 2
    together = [one.pairs[0] for one in found]
    assert {pair.names for pair in together} == {("x0", "x2")}
    assert np.mean([pair.share for pair in together]) == pytest.approx(0.2437, abs=0.02)


def test_wiggles_are_no_importance():
    """A fast but small wave has the shorter length-scale, and matters less."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 1, (500, 3))
    y = 3 * X[:, 0] + 0.3 * np.sin(30 * X[:, 1])
    kernel = ConstantKernel(1.0) * RBF([1.0, 0.05, 1e4]) + WhiteKernel(1e-4)
    gp = GreedyGPRegressor(kernel, hyperparameters="fixed", random_state=0).fit(X, y)
    effects = {effect.name: effect for effect in gp.importance().effects}
    assert list(effects) == ["input 1", "input 2", "input 3"]
    assert effects["input 1"].total == pytest.approx(0.75 / (0.75 + 0.045), abs=0.05)
    assert effects["input 3"].total < 1e-3
    assert gp.importance(X[:, :]).as_dict() == gp.importance().as_dict()


def test_constant_predictions_and_one_row_have_no_effects():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for rows in (X, X[:1]):
        found = importance(lambda part: np.full(len(part), 3.0), rows, inputs(2), np.random.default_rng(0))
        assert [effect.total for effect in found.effects] == [0.0, 0.0]
        assert not found.pairs


def test_columns_of_one_input_move_together():
    generator = np.random.default_rng(0)
    X = np.eye(3)[generator.integers(3, size=400)]
    found = importance(lambda rows: rows @ [1.0, 2.0, 3.0], X, [Input("level", "levels", (0, 1, 2))], generator)
    assert found.effects[0].total == pytest.approx(1.0, abs=0.1)
    assert found.effects[0].first == pytest.approx(1.0, abs=0.1)


def test_several_targets_and_bad_input():
    X = np.random.default_rng(0).normal(size=(60, 2))
    gp = GreedyGPRegressor(RBF(1.0) + WhiteKernel(0.01), hyperparameters="fixed").fit(X, X[:, ::-1])
    assert gp.importance(target=0).effects[0].name == "input 2"
    assert gp.importance(target=1).effects[0].name == "input 1"
    with pytest.raises(ValueError, match="target must be from 0 to 1; got 2"):
        gp.importance(target=2)
    with pytest.raises(ValueError, match="features"):
        gp.importance(X[:, :1])
    assert str(gp.importance()).startswith("input  ")


def test_many_inputs_have_smaller_samples():
    X = np.random.default_rng(0).uniform(size=(30, 2000))
    asked = []
    found = importance(lambda rows: asked.append(len(rows)) or rows[:, 7], X, inputs(2000), np.random.default_rng(0))
    assert sum(asked) < 101_000
    assert found.effects[0].name == "x7"
    assert found.effects[1].total == 0
