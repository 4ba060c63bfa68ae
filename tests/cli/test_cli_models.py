"""Every command that takes a model, and what Python does with a loaded one, on models of every kind."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import sodalite
from commands import done, run
from sodalite import GreedyGPRegressor
from sodalite.exports import to_sklearn
from sodalite.report import make_report, to_html

INPUTS = ["a", "b"]
KINDS = {
    "in memory": {},
    "mapped": {},
    "mapped, with a mean function": {"mean": "linear"},
    "mapped, noise by row": {"alpha": True},
    "mapped, single precision": {"dtype": np.float32},
    "mapped, two targets": {"targets": ["y", "z"]},
    "mapped, rows joined": {"joined": True},
    "mapped, of a table": {"command": True},
    "the active rows alone": {"posterior": "sod"},
}
COMMANDS = {
    "predict": ["predict", "m.sodalite", "new.csv"],
    "predict, everything": [
        *("predict", "m.sodalite", "new.csv", "--std", "--novelty", "--set", "samples=2"),
        *("--interval", ".9", "--quantiles", ".1,.9"),
    ],
    "inspect": ["inspect", "m.sodalite"],
    "inspect, the whole file": ["inspect", "m.sodalite", "--check"],
    "report": ["report", "m.sodalite", "-o", "r.html"],
    "report, numbers": ["report", "m.sodalite", "--json"],
    "report, rows of the fit": ["report", "m.sodalite", "t.csv", "-t", "y", "-o", "r.html"],
    "report, new rows": ["report", "m.sodalite", "new.csv", "-t", "y", "-o", "r.html"],
}


def table(n, seed):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"a": rng.uniform(-2, 2, n), "b": rng.normal(size=n)})
    return found.assign(y=np.sin(2 * found["a"]) + found["b"] + 0.1 * rng.normal(size=n), z=found["a"] ** 2)


def save_model(path, data, *, targets="y", alpha=None, dtype=float, joined=False, command=False, **options):
    """Fit a model to a table and save it, with the command or without."""
    if command:
        wanted = ["-t", "y", "--exclude", "z", "-n", "15", "--set", "hyperparameters=fixed", "-o", str(path)]
        done("fit", str(path.parent / "t.csv"), *wanted)
        return
    model = GreedyGPRegressor(RBF([1.0, 1.0]) + WhiteKernel(0.1), n_active=15, hyperparameters="fixed", **options)
    noise = np.linspace(0.0, 0.1, len(data)) if alpha else None
    sodalite.save(model.fit(data[INPUTS].astype(dtype), data[targets], alpha=noise), path)
    if joined:
        more = table(40, 2)
        sodalite.save(sodalite.load(path).partial_fit(more[INPUTS], more["y"]), path)


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """The name of a kind, and a folder with such a model, the rows that it was fitted to, and new ones."""
    folder = tmp_path_factory.mktemp("model")
    data, new = table(400, 0), table(60, 1)
    data.to_csv(folder / "t.csv", index=False)
    new.to_csv(folder / "new.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        if request.param.startswith("mapped"):
            patch.setattr("sodalite.persistence.model.LEAST_ROWS", 1)
        save_model(folder / "m.sodalite", data, **KINDS[request.param])
    return request.param, folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_every_kind_of_model(kind, command, monkeypatch):
    name, folder = kind
    monkeypatch.chdir(folder)
    result = run(*COMMANDS[command])
    if name == "mapped, two targets" and "-t" in COMMANDS[command]:
        assert "only make_report in Python can judge it by other rows" in result.output
        assert result.exit_code == 2
        return
    assert result.exit_code == 0, result.output[-500:]
    if "--json" in COMMANDS[command]:
        assert json.loads(result.stdout)


def test_python_takes_every_kind_of_model(kind):
    name, folder = kind
    model, data, new = sodalite.load(folder / "m.sodalite"), table(400, 0), table(60, 1)
    assert (getattr(model.posterior_, "store", None) is not None) == name.startswith("mapped")
    targets = KINDS[name].get("targets", "y")
    X, y = new[INPUTS], new[targets]
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == y.shape == std.shape
    assert model.predict(X, return_cov=True)[1].shape[:2] == (60, 60)
    low, high = model.predict_interval(X)
    assert ((low < high) & np.isfinite(high - low)).all(axis=None)
    assert model.sample_y(X[:5]).shape[0] == 5
    assert model.predict_quantiles(X, [0.1, 0.9]).shape[:2] == (60, 2)
    for found in (model.novelty(X), model.log_density(X, y), model.pit(X, y), model.score(X, y)):
        assert np.isfinite(found).all()
    assert len(model.importance().effects) == 2
    if name == "mapped, two targets":  # the command cannot judge one by other rows
        assert to_html(make_report(model, X, y, target=1))
    if "mean" not in name and not KINDS[name].get("command"):  # it takes inputs as they are, not columns of a table
        base = getattr(model.posterior_, "base", model.posterior_)
        expected = model.fitted_.scaling.undone(base.mean(X.to_numpy())).reshape(y.shape)
        np.testing.assert_allclose(to_sklearn(model).predict(X), expected, rtol=1e-8, atol=1e-8)
    if "alone" not in name:
        assert np.isfinite(model.partial_fit(X, y).predict(data[INPUTS])).all()
