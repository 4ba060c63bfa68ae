"""The commands that work on files: fit, predict, select and inspect."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

import sodalite
from commands import QUICK, SODALITE, assert_mistake, done, houses, run, told
from sodalite.cli import _progress, fit, inspect, predict, select
from sodalite.cli.app import app
from sodalite.cli.options import Fit, Predict, Select
from sodalite.core import files
from sodalite.metrics import coverage, interval_coverage, nlpd, rmse
from sodalite.posteriors.calibration import COVERAGES
from sodalite.posteriors.line import fit_line
from sodalite.posteriors.predictive import Standard
from sodalite.report import make_report
from sodalite.report.words import TargetSummary, distribution_words, kernel_shape
from sodalite.stopping import Stage
from sodalite.tables import learn, read_table
from sodalite.tables.preprocessing import Encoded


def table(n=160, seed=0):
    """The houses, with an id and a column of truth values."""
    return houses(n, seed).assign(id=[f"{i:03}" for i in range(n)], new=np.arange(n) % 2 == seed % 2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with houses.csv and new.csv in it."""
    monkeypatch.chdir(tmp_path)
    table().drop(columns="id").to_csv("houses.csv", index=False)
    table(50, seed=1).drop(columns=["price", "id"]).to_csv("new.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file."""
    path = tmp_path_factory.mktemp("model")
    table().to_csv(path / "houses.csv", index=False)
    options = ["--target", "price", "--exclude", "id", "--output", str(path / "houses.sodalite")]
    done("fit", path / "houses.csv", *options, *QUICK)
    return str(path / "houses.sodalite")


# Fit


def test_fit_says_how_good_the_model_is_and_writes_it(folder):
    result = done("fit", "houses.csv", "--target", "price", *QUICK)
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 80
    model = sodalite.load("model.sodalite")
    mapping = model.preprocessing_
    assert mapping.target == "price"
    built = ["built", "built season cos", "built season sin"]
    assert mapping.names == ["area", "town=Basel", "town=Bern", "town=Chur", *built, "new"]
    parts = [re.split(r"  +", line.strip()) for line in result.stdout.splitlines()]
    cells = {name: values for name, *values in parts}
    judged = {part.model: part for part in (model.about_.judgement.scores, *model.about_.simple)}
    names = {"sodalite": "this model", "linear": "a straight line", "constant": "the mean of all rows"}
    for name, words in names.items():
        part = judged[name]
        shares = [f"{100 * share:.1f} %" for share in part.coverages.values()]
        assert cells[words] == [f"{part.rmse:.4g}", f"{part.nlpd:.3f}", *shares]
    (heading,) = [line for line in result.stdout.splitlines() if "rows held out" in line]
    assert re.findall(r"in \d+ %", heading) == ["in 50 %", "in 80 %", "in 95 %", "in 99 %"]
    assert judged["linear"].rmse < 2 < judged["sodalite"].rmse < judged["constant"].rmse
    assert cells["model"] == ["model.sodalite"]
    assert cells["target"] == ["price"]
    assert cells["rows kept"][0].startswith("30 rows of 160 ")
    assert "matters most" in result.stdout
    assert sorted(os.listdir()) == ["houses.csv", "model.sodalite", "new.csv"]


@pytest.mark.filterwarnings("default::sodalite.exceptions.NoBetterWarning")
def test_advice_is_printed_once(folder):
    random = np.random.default_rng(0)
    pd.DataFrame(random.normal(size=(90, 2)), columns=["x", "y"]).to_csv("noise.csv", index=False)
    told = run("fit", "noise.csv", "-t", "y", *QUICK)
    assert told.stderr == ""
    words = " ".join(told.stdout.split())
    assert words.count("no smaller than that of the best simple way, a straight line. The inputs say little") == 1
    assert "better than a constant" not in words
    for option in ("--json", "-q"):
        told = run("fit", "noise.csv", "-t", "y", *QUICK, option)
        assert told.stderr.count("better than a constant") == 1
        assert "better than" not in told.stdout or option == "--json"


def test_what_each_of_very_many_inputs_brings_is_not_measured(folder, monkeypatch):
    monkeypatch.setattr("sodalite.cli.fit.MOST_MEASURED", 2)
    assert "inputs" not in done("fit", "houses.csv", "--target", "price", *QUICK, "-o", "m").stdout
    done("report", "m", "-o", "r.html")


def test_the_figures_are_those_of_the_rows_held_out(folder):
    summary, _ = fit.run(
        Fit(
            data="houses.csv",
            target="price",
            output="m",
            hold_out_only=True,
            test_fraction=0.25,
            seed=3,
            parameters={"n_active": 30, "posterior": "sod", "hyperparameters": "fixed"},
        )
    )
    training = learn(read_table("houses.csv"), "price")
    test = np.sort(np.random.default_rng(3).permutation(160)[:40])
    rest = np.setdiff1d(np.arange(160), test)
    X, y = training.X, training.y
    loaded = sodalite.load("m")
    mean = loaded.predict(X[test])
    assert summary.n_held_out == 40
    assert summary.scores[0].rmse == pytest.approx(rmse(y[test], mean), rel=1e-9)
    assert summary.scores[0].nlpd == pytest.approx(-loaded.log_density(X[test], y[test]).mean(), rel=1e-9)
    intervals = [loaded.predict_interval(X[test], level) for level in COVERAGES]
    shares = [interval_coverage(y[test], *ends) for ends in intervals]
    assert summary.scores[0].coverages == dict(zip(["0.5", "0.8", "0.95", "0.99"], shares, strict=True))
    line, leverage = fit_line(X[rest], y[rest, None])
    guess = line(X[test])[:, 0]
    assert summary.scores[2].rmse == pytest.approx(rmse(y[test], guess), rel=1e-6)
    left = (y[rest] - line(X[rest])[:, 0]) / (1 - leverage)
    expected = nlpd(y[test], guess, np.full(40, np.sqrt(np.mean(left**2))))
    assert summary.scores[2].nlpd == pytest.approx(expected, rel=1e-6)
    constant = np.full(40, y[rest].mean())
    assert summary.scores[3].rmse == pytest.approx(rmse(y[test], constant), rel=1e-9)
    width = np.full(40, y[rest].std())
    assert summary.scores[3].nlpd == pytest.approx(nlpd(y[test], constant, width), rel=1e-9)
    shares = [coverage(y[test], constant, width, level) for level in COVERAGES]
    assert list(summary.scores[3].coverages.values()) == shares


def test_without_data_the_embedded_set_is_used(folder):
    result = done("fit", "--json", "--seed", "1", *QUICK)
    content = json.loads(result.stdout)
    assert (content["inputs"], content["n_rows"], content["n_held_out"]) == (["year"], 2225, 222)
    assert content["scores"][0]["model"] == "sodalite"
    (target,) = content["targets"]
    assert target["name"] == "co2"
    assert dict(target["importance"])["year"] > 0.5
    assert set(content["seconds"]) == {"read", "fit", "test", "fit all", "write"}
    assert result.stderr == ""


def test_the_estimator_gets_what_was_asked_for(folder):
    options = ["--criterion", "uncertainty", "--posterior", "dtc", "--set", "hyperparameters=fixed", "--n-active", "12"]
    result = run("fit", "houses.csv", "-t", "price", *options, "--time-limit", "1.5m", "--seed", "7", "-q")
    assert (result.exit_code, result.output) == (0, "")
    model = sodalite.load("model.sodalite")
    expected = {"criterion": "uncertainty", "posterior": "dtc", "n_active": 12, "time_limit": 90.0, "random_state": 7}
    assert {name: model.get_params()[name] for name in expected} == expected


def test_features_exclude_and_no_rows_held_out(folder):
    result = run("fit", "houses.csv", "-t", "price", "--features", "town,area", "--exclude", "town", *QUICK, "--json")
    assert json.loads(result.stdout)["inputs"] == ["area"]
    result = done("fit", "houses.csv", "-t", "price", *QUICK, "--test-fraction", "0")
    assert "held out" not in result.stdout
    assert sodalite.load("model.sodalite").about_.n_rows == 160


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "parquet", "feather", "-"])
def test_every_format_gives_the_same_model(suffix, folder):
    frame = table()[["area", "price"]]
    data = f"data.{suffix}" if suffix != "-" else "-"
    text = frame.to_csv(index=False)
    {
        "csv": lambda: Path(data).write_text(text),
        "tsv.gz": lambda: frame.to_csv(data, sep="\t", index=False),
        "parquet": lambda: frame.to_parquet(data),
        "feather": lambda: frame.to_feather(data),
        "-": lambda: None,
    }[suffix]()
    done("fit", data, "-t", "price", *QUICK, "--json", input=text if suffix == "-" else None)
    Path("plain.csv").write_text(text)
    done("fit", "plain.csv", "-t", "price", *QUICK, "-o", "plain")
    X = np.linspace(20, 200, 9)[:, None]
    np.testing.assert_allclose(sodalite.load("model.sodalite").predict(X), sodalite.load("plain").predict(X), rtol=1e-9)


def test_an_output_that_cannot_be_written_is_found_before_the_fit(folder, monkeypatch):
    monkeypatch.setattr(fit, "read_training", lambda *_: pytest.fail("the work began"))
    assert_mistake(run("fit", "houses.csv", "-t", "price", "-o", "."), "cannot be written: it is a folder")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.Path, "mkdir", refuse)
    assert_mistake(run("fit", "houses.csv", "-t", "price"), "model.sodalite cannot be written: permission denied")


def test_debug_shows_the_trace(folder):
    result = run("--debug", "fit", "nothing.csv", "-t", "price")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: nothing.csv")


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), KeyError("x"), AttributeError("no y"), AssertionError()]
)
def test_errors_that_nobody_foresaw_are_one_line(error, folder, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("sodalite.cli.fit.run", fail)
    result = run("fit", "houses.csv", "-t", "price")
    assert result.exit_code == 2
    assert re.fullmatch(rf"Error: .*{type(error).__name__}.* sodalite --debug says where\.\n", result.stderr)


@pytest.mark.parametrize("missing", ["drop", "median", "indicator"])
def test_missing_values_are_handled_as_asked(missing, folder):
    frame = table().drop(columns="id")
    frame.loc[5:9, "area"] = np.nan
    frame.loc[7:20, "town"] = None
    frame.to_csv("gaps.csv", index=False)
    result = done("fit", "gaps.csv", "-t", "price", "--set", f"missing={missing}", *QUICK, "--json")
    content = json.loads(result.stdout)
    assert content["missing"] == {"area": 5, "town": 14}
    assert content["n_rows"] == (144 if missing == "drop" else 160)
    data = frame.loc[4:8]
    data.to_csv("some.csv", index=False)
    result = done("predict", "model.sodalite", "some.csv", "-o", "out.csv")
    gaps = pd.read_csv("out.csv")["mean"].isna().tolist()
    assert gaps == ([False, True, True, True, True] if missing == "drop" else [False] * 5)
    assert "missing values: 'area' (4), 'town' (2)" in result.stderr


# The display


def test_what_is_shown_of_a_stage():
    text = _progress.Display.words(Stage([4.0, 2.0], seconds=0.5, n_rows=100, n_active=10))
    assert text == "Choosing rows: 2 of at most 10, RMSE 2, 4 rows/s, at most 12.0 s left"
    text = _progress.Display.words(Stage([4.0, 2.0], seconds=0.5, n_rows=100, n_active=10, left=3.0))
    assert text == "Choosing rows: 2 of at most 10, RMSE 2"


def test_the_display_is_one_line_of_a_usual_terminal():

    shown, console = _progress.Display(), Console(width=80, file=io.StringIO())
    shown(Stage((), 0.0, step="Finding the kernel's parameters", detail="round 6 of at most 6", left=95.0))
    assert shown.line() == "0 s, about 1 min 35 s left: Finding the kernel's parameters: round 6 of at most 6 ..."
    console.print(shown)
    shown(Stage(np.geomspace(9, 1, 10000).tolist(), 9.0, 10**6, 10000, left=11.0))
    assert shown.line().startswith("0 s, about 10 s left: Choosing rows: 10000 of at most 10000, RMSE 1")
    console.print(shown)
    assert [len(line) <= 80 for line in console.file.getvalue().splitlines()] == [True, True]


def test_an_estimate_that_has_passed_is_not_shown(monkeypatch):
    now = 0.0
    monkeypatch.setattr(_progress, "perf_counter", lambda: now)
    shown = _progress.Display()
    now = 10.0
    shown(Stage((), 10.0, step="Conditioning", left=35.0))
    assert shown.line() == "10 s, about 35 s left: Conditioning ..."
    now = 20.0
    assert shown.line() == "20 s, about 25 s left: Conditioning ..."
    now = 50.0
    assert shown.line() == "50 s: Conditioning ..."


# The kernel in words


@pytest.mark.parametrize(
    ("kernel", "shares", "unit", "inputs", "noise"),
    [
        (
            RBF([1.0, 1.0, 1e4]) + WhiteKernel(0.04),
            [("b", 0.91), ("a", 0.12), ("c", 0.004)],
            5.0,
            "b (91 %) matters most, then a (12 %); c hardly matters.",
            "Standard deviation 1 by the kernel, as it is without calibration: 100.0 % of the variance of y.",
        ),
        (RBF(1.0), [], 1.0, "", "The targets are taken to be free of noise."),
        (DotProduct(), [("a", 0.0)], 1.0, "No input makes a difference to predictions.", "The targets are taken"),
    ],
)
def test_a_target_in_words(kernel, shares, unit, inputs, noise):
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1, 10, 1]
    target = TargetSummary.of(kernel, X, "y", shares, unit=unit)
    assert target.inputs == inputs
    assert target.noise.startswith(noise)
    assert kernel_shape(RBF(1.0) + WhiteKernel(0.1), X) == "squared-exponential, very smooth"


# Predict


def test_predictions_are_the_models(model, folder):
    result = done("predict", model, "new.csv", "--std", "--interval", "0.9", "--set", "samples=2")
    assert re.fullmatch(r"(Warning: \d of 50 rows? lies? outside the data.*\n)?", result.stderr)
    Path("out.csv").write_bytes(result.stdout_bytes)
    found = pd.read_csv("out.csv")
    assert list(found) == ["mean", "std", "lower", "upper", "sample_1", "sample_2"]
    loaded = sodalite.load(model)
    X = loaded.preprocessing_.encode(read_table("new.csv")).X
    mean, std = loaded.predict(X, return_std=True)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"], std, rtol=1e-12)
    np.testing.assert_allclose(found[["lower", "upper"]].T, loaded.predict_interval(X, 0.9), rtol=1e-9)
    drawn = loaded.sample_y(X, 2, random_state=np.random.default_rng(0))
    np.testing.assert_allclose(found[["sample_1", "sample_2"]], drawn, rtol=1e-9)


ASKED = ["--std", "--interval", ".8", "--quantiles", ".95, 0.05,.5"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "feather", "arrow"])
def test_columns_in_any_order_and_every_output(suffix, model, folder):
    name = f"out.{suffix}"
    frame = pd.read_csv("new.csv")
    frame.assign(extra="?")[["new", "extra", "built", "town", "area"]].to_csv("mixed.csv", index=False)
    result = done("predict", model, "mixed.csv", *ASKED, "-o", name)
    assert result.stdout == ""
    assert re.search(rf"50 rows predicted in .* written to {name}", result.stderr)
    reference = told("predict", model, "new.csv", *ASKED)
    names = ["mean", "std", "lower", "upper", "quantile_0.95", "quantile_0.05", "quantile_0.5"]
    assert list(reference["predictions"]) == reference["columns"] == names
    assert told("predict", model, "new.csv", *ASKED, "-o", name)["columns"] == names
    found = read_table(name)
    assert found.names == names
    for key in names:
        np.testing.assert_allclose(found.data[key].to_numpy().astype(float), reference["predictions"][key], rtol=1e-12)
    loaded = sodalite.load(model)
    expected = loaded.predict_quantiles(frame, [0.1, 0.9, 0.95, 0.05, 0.5])
    np.testing.assert_allclose([reference["predictions"][key] for key in names[2:]], expected.T, rtol=1e-9)


def test_many_rows_in_chunks_are_all_there(model, folder, monkeypatch):
    from sodalite.tables import text

    monkeypatch.setattr(text, "BLOCK", 500)
    monkeypatch.setattr(predict, "BLOCK", 7)
    outcome = predict.run(Predict(model=model, data="new.csv", samples=1, as_json=True))
    assert outcome.n_rows == len(outcome.predictions["mean"]) == len(outcome.predictions["sample_1"]) == 50
    monkeypatch.undo()
    os.chdir(folder)
    whole = predict.run(Predict(model=model, data="new.csv", as_json=True))
    np.testing.assert_allclose(outcome.predictions["mean"], whole.predictions["mean"], rtol=1e-12)


def test_unknown_levels_are_counted(model, folder):
    frame = pd.read_csv("new.csv")
    frame.loc[:4, "town"] = "Genf"
    frame.to_csv("strange.csv", index=False)
    result = done("predict", model, "strange.csv", "-o", "out.csv")
    words = "Warning: 5 values of column 'town' are new to the model: 'Genf' (5). They are predicted as"
    assert words in result.stderr
    content = told("predict", model, "strange.csv", "-o", "out.csv")
    assert (content["unknown"], content["unknown_levels"]) == ({"town": 5}, {"town": {"Genf": 5}})
    assert content["output"] == "out.csv"
    assert content["predictions"] is None


@pytest.mark.parametrize("names", [True, False])
def test_models_that_were_saved_in_python(names, folder):
    X = np.random.default_rng(0).normal(size=(60, 2))
    inputs = pd.DataFrame(X, columns=["a", "b"]) if names else X
    Y = np.stack([X[:, 0], X.sum(axis=1)], axis=1)
    one = sodalite.GreedyGPRegressor(n_active=20, posterior="sod", hyperparameters="fixed").fit(inputs, Y)
    sodalite.save(one, "m")
    pd.DataFrame(X, columns=["a", "b"])[["b", "a"] if names else ["a", "b"]].to_csv("x.csv", index=False)
    result = done("predict", "m", "x.csv", "-o", "out.csv", "--std")
    assert "Warning" not in result.stderr
    found = pd.read_csv("out.csv")
    assert list(found) == ["mean_y0", "std_y0", "mean_y1", "std_y1"]
    np.testing.assert_allclose(found[["mean_y0", "mean_y1"]], one.predict(inputs), rtol=1e-9)
    if not names:
        Path("y.csv").write_text("a\n1\n")
        assert_mistake(run("predict", "m", "y.csv"), "2 inputs without names, so y.csv must have just these 2 columns")


def test_rows_outside_the_data_are_counted_and_novelty_is_written(folder, tmp_path):
    random = np.random.default_rng(0)
    X = random.uniform(0, 10, (200, 1))
    y = np.sin(X[:, 0]) + 0.1 * random.normal(size=200)
    one = sodalite.GreedyGPRegressor(RBF(1.0) + WhiteKernel(0.02), n_active=50, hyperparameters="fixed", random_state=0)
    sodalite.save(one.fit(X, y), "m")
    pd.DataFrame({"x": [1.0, 5.0, 9.0]}).to_csv("inside.csv", index=False)
    pd.DataFrame({"x": [1.0, 5.0, -50.0, 100.0]}).to_csv("some.csv", index=False)
    result = run("predict", "m", "inside.csv", "-o", "out.csv")
    assert "3 rows predicted" in result.stderr
    assert "none outside the data" in result.stderr
    assert "Warning" not in result.stderr
    result = run("predict", "m", "some.csv", "--std", "--novelty", "-o", "out.csv")
    assert "Warning: 2 of 4 rows lie outside the data, with a novelty above 0.1" in result.stderr
    found = pd.read_csv("out.csv")
    assert found.columns.tolist() == ["mean", "std", "novelty"]
    np.testing.assert_allclose(found["novelty"], one.novelty([[1.0], [5.0], [-50.0], [100.0]]), atol=1e-9)
    content = told("predict", "m", "some.csv", "--novelty")
    assert (content["n_outside"], content["outside"]) == (2, pytest.approx(0.1))
    assert content["predictions"]["novelty"][-1] == 1
    Y = np.stack([y, -y], axis=1)
    sodalite.save(one.fit(X, Y), "m")
    run("predict", "m", "inside.csv", "--novelty", "-o", "out.csv")
    assert pd.read_csv("out.csv").columns.tolist() == ["mean_y0", "mean_y1", "novelty"]


@pytest.mark.parametrize(
    ("days", "area", "warning"),
    [
        ([1, 56], [50, 60], "2 of 2 rows lie after the last 'day' of the fit, 2024-07-18, by up to 56 days."),
        ([-3, 0], [50, 60], ""),
        ([0.25, 0], [50, 60], "1 of 2 rows lies after the last 'day' of the fit, 2024-07-18, by up to 6 hours."),
        ([-299, -301], [50, 60], "2 of 2 rows lie before the first 'day' of the fit, 2024-01-01, by up to 102 days."),
        ([-9, -9], [60, 250], "1 of 2 rows lies above the largest 'area' of the fit, 100, by up to 150."),
        ([-9, -9], [60, 101], ""),  # hardly beyond
    ],
)
def test_predict_says_when_rows_lie_beyond_the_ends_of_the_fit_and_how_far(days, area, warning, folder):
    random = np.random.default_rng(0)
    day, last = pd.date_range("2024-01-01", periods=200), pd.Timestamp("2024-07-18")
    frame = pd.DataFrame(
        {"day": day, "area": np.append(random.uniform(0, 100, 198), [0, 100]), "y": random.normal(size=200)}
    )
    frame.to_csv("t.csv", index=False)
    done("fit", "t.csv", "-t", "y", *QUICK, "-q", "-o", "m")
    new = pd.DataFrame({"day": [last + pd.Timedelta(days=part) for part in days], "area": area})
    new.to_csv("beyond.csv", index=False)
    lines = [line for line in done("predict", "m", "beyond.csv", "-o", "out.csv").stderr.splitlines() if "'" in line]
    assert lines == ([f"Warning: {warning}"] if warning else [])
    beyond = told("predict", "m", "beyond.csv")["beyond"]
    assert [part["n_rows"] for part in beyond] == ([int(warning[0])] if warning else [])


def test_samples_have_the_distribution_of_the_quantiles(model, folder):
    found = json.loads(
        run("predict", model, "new.csv", "--quantiles", "0.1,0.9", "--set", "samples=2000", "--json").stdout
    )["predictions"]
    samples = np.array([found[f"sample_{place + 1}"] for place in range(2000)])
    np.testing.assert_allclose(np.mean(samples < found["quantile_0.1"], axis=0), 0.1, atol=0.035)
    np.testing.assert_allclose(np.mean(samples < found["quantile_0.9"], axis=0), 0.9, atol=0.035)
    assert sodalite.load(model).posterior_.scale.widths


def test_quantiles_of_several_targets(folder):
    X = np.random.default_rng(0).normal(size=(60, 2))
    Y = np.stack([X[:, 0], X.sum(axis=1)], axis=1)
    one = sodalite.GreedyGPRegressor(n_active=20, posterior="sod", hyperparameters="fixed").fit(X, Y)
    sodalite.save(one, "m")
    pd.DataFrame(X, columns=["a", "b"]).to_csv("x.csv", index=False)
    done("predict", "m", "x.csv", "-o", "out.csv", "--quantiles", "0.1,0.9")
    found = pd.read_csv("out.csv")
    names = ["quantile_0.1_y0", "quantile_0.9_y0", "quantile_0.1_y1", "quantile_0.9_y1"]
    assert list(found) == ["mean_y0", *names[:2], "mean_y1", *names[2:]]
    expected = one.predict_quantiles(X, [0.1, 0.9])
    np.testing.assert_allclose(found[names], expected.reshape(60, 4), rtol=1e-9, atol=1e-12)
    X[3, 1] = np.nan  # a row with a missing value has no prediction, and changes no other
    asked = Predict(model="m", quantiles=(0.1, 0.9), samples=1)
    found = predict.predict_rows(one, Encoded(X, {}), asked, np.random.default_rng(0))
    expected[3] = np.nan
    np.testing.assert_allclose(np.stack([found[name] for name in names]).T, expected.reshape(60, 4), rtol=1e-9)
    assert np.flatnonzero(np.isnan(found["sample_1_y1"])).tolist() == [3]


def test_the_distribution_of_errors_in_fit_and_inspect(folder, capsys, monkeypatch):
    """Words about the shape, and the same shares in the summary, in JSON and in the file."""
    monkeypatch.setenv("COLUMNS", "80")
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 800)
    pd.DataFrame({"x": x, "y": np.sin(x) + random.exponential(0.5, 800)}).to_csv("skewed.csv", index=False)
    parameters = {"posterior": "sod", "hyperparameters": "fixed", "n_active": 40}
    summary, details = fit.run(Fit(data="skewed.csv", target="y", output="m", test_fraction=0, parameters=parameters))
    content = json.loads(json.dumps(fit.as_json(summary, details)))
    (target,), left_out = content["targets"], content["scores"][0]
    assert "large ones are more often above the prediction than below it" in target["errors"]
    np.testing.assert_allclose(list(left_out["coverages"].values()), COVERAGES, atol=0.04)
    fit.show(summary, details)
    for text in (capsys.readouterr().out, run("inspect", "m").stdout):
        assert max(map(len, text.splitlines())) <= 80
        words = " ".join(text.split())
        for part in (target["errors"], f"within ± {target['std']:.3g}", f"deviation {target['noise_std']:.3g}"):
            assert part in words
        (cells,) = (re.split(r"  +", line.strip()) for line in text.splitlines() if line.startswith("this model"))
        assert cells[2:] == [
            f"{left_out['nlpd']:.3f}",
            *(f"{100 * held:.1f} %" for held in left_out["coverages"].values()),
        ]
    assert make_report(sodalite.load("m")).target.errors == target["errors"]


@pytest.mark.parametrize(
    ("standard", "words"),
    [
        (None, "Errors are Gaussian."),
        (Standard(2.4), "heavier tails than Gaussian ones: those of Student's t with 2.4 degrees of freedom."),
        (Standard(1000.0), "Errors are nearly Gaussian."),
        (Standard(1000.0, np.array([0.0, 0.25, 0.15, 0.1, 0.1, 0.15, 0.25, 0.0])), "lighter tails"),
        (Standard(1000.0, np.array([0.5, 0.4, 0.1])), "more often below the prediction than above"),
        (Standard(1000.0, np.array([0.1, 0.4, 0.5])), "more often above the prediction than below"),
    ],
)
def test_distributions_in_words(standard, words):
    assert words in distribution_words(standard)
    assert ("skewed" in distribution_words(standard)) == ("more often" in words)
    assert distribution_words(standard, by_place=True).endswith("near by.") == (standard is not None)


# Select


def test_the_chosen_rows_are_written_as_they_were(folder):
    frame = table()
    frame.to_csv("all.csv", index=False)
    options = ["-t", "price", "--exclude", "id", "-n", "8", "--set", "seed=2"]
    result = done("select", "all.csv", *options)
    lines = result.stdout.splitlines()
    given = Path("all.csv").read_text().splitlines()
    assert lines[0] == "row," + given[0]
    assert len(lines) == 9
    for line in lines[1:]:
        row, _, rest = line.partition(",")
        assert rest == given[1 + int(row)]
    content = json.loads(
        run("select", "all.csv", "-t", "price", "--exclude", "id", "-n", "8", "--set", "seed=2", "--json").stdout
    )
    assert content["rows"] == [int(line.partition(",")[0]) for line in lines[1:]]
    assert len(content["rmse"]) == 8
    assert content["rmse"][-1] < frame["price"].std()
    piped = run(
        "select", "-", "-t", "price", "--exclude", "id", "-n", "8", "--set", "seed=2", input=Path("all.csv").read_text()
    )
    assert piped.stdout == result.stdout


def test_the_rows_are_those_of_the_library(folder):
    outcome = select.run(Select(data="houses.csv", target="price", seed=1, as_json=True, parameters={"n_active": 6}))
    training = learn(read_table("houses.csv"), "price")
    y = (training.y - training.y.mean()) / training.y.std()
    _, kernel, unit = select.choose(training, {"n_active": 6}, 1)
    assert outcome.kernel == str(kernel)
    expected = sodalite.select(training.X, y, kernel, n_active=6, random_state=1)
    assert outcome.rows == tuple(expected.indices.tolist())
    np.testing.assert_allclose(outcome.rmse, expected.rmse * training.y.std(), rtol=1e-9)
    assert unit == pytest.approx(training.y.std())


def test_rows_are_counted_in_the_table_although_some_were_dropped(folder):
    frame = table().drop(columns="id")
    frame.loc[::2, "area"] = np.nan
    frame.to_parquet("gaps.parquet")
    result = done("select", "gaps.parquet", "-t", "price", "-n", "5", "--set", "missing=drop", "-o", "some.parquet")
    assert "5 of 160 rows chosen" in result.stderr
    some = pd.read_parquet("some.parquet")
    assert list(some) == ["row", *frame]
    assert (some["row"] % 2 == 1).all()
    pd.testing.assert_frame_equal(some.drop(columns="row"), frame.iloc[some["row"]].reset_index(drop=True))


# Inspect


def test_inspect_says_what_is_in_a_file(model, folder):
    result = done("inspect", model)
    assert max(map(len, result.stdout.splitlines())) <= 80
    for text in (
        "price",
        "town (text): Basel, Bern, Chur",
        "built (date: season)",
        "30 rows of 160",
        "(sod)",
        "a straight line",
    ):
        assert text in " ".join(result.stdout.split()), text
    content = told("inspect", model)
    assert content["arrays"]["fitted.selection.factor"] == {"dtype": "float64", "shape": [30, 30]}
    assert content["format_version"] == 1
    assert content["fitted"]["kernel"]["class"] == "Sum"
    assert content["bytes"] == os.path.getsize(model)


def test_inspect_reads_no_arrays(model, folder):
    data = Path(model).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    Path("hollow").write_bytes(data[:start] + bytes(len(data) - start))
    assert inspect.run("hollow")["fitted"]["n_rows"] == 160
    assert_mistake(run("predict", "hollow", "new.csv"), "hollow is damaged: array")


@pytest.mark.filterwarnings("default")
def test_inspect_says_what_was_not_kept(folder):
    X = np.random.default_rng(0).normal(size=(30, 1))
    own = sodalite.GreedyGPRegressor(
        n_active=5, posterior="sod", hyperparameters="fixed", criterion=lambda s, r, noise: s
    )
    sodalite.save(own.fit(X, X[:, 0]), "m")
    result = run("inspect", "m")
    assert "not kept" in result.stdout
    assert "1, without names" in result.stdout
    Path("x.csv").write_text("a\n1\n")
    result = done("predict", "m", "x.csv")
    assert result.stderr.count("Warning: m: the parameter criterion was") == 1


# The commands themselves


def test_the_examples_in_the_help_texts_work_one_after_the_other(folder, monkeypatch):
    monkeypatch.setitem(sodalite.hyperparameters.HYPERPARAMETERS, "weave", sodalite.hyperparameters.Fixed())
    for name in ("fit", "predict", "select", "inspect"):
        text = " ".join(run(name, "--help").stdout.split())
        example = re.search(rf"Example: sodalite ({name} .*?) Options:", text)[1]
        result = done(*shlex.split(example))
        assert result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_an_interrupt_ends_cleanly(folder):
    # A fit that takes long: it says on standard error that rows are being chosen.
    code = (
        "import sys; from sodalite.cli import main, _progress\n"
        "def slow(self, stage):\n"
        "    if stage.t:\n"
        "        import time; print('begun', flush=True); time.sleep(60)\n"
        "_progress.Display.__call__ = slow; main()"
    )
    command = [sys.executable, "-c", code, "fit", "houses.csv", "-t", "price", *QUICK]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130
    assert errors.strip() == "Interrupted: model.sodalite was not written."
    assert sorted(os.listdir()) == ["houses.csv", "new.csv"]


def test_a_pipe_whose_other_end_has_seen_enough(model, folder):
    pd.concat([pd.read_csv("new.csv")] * 2000).to_csv("many.csv", index=False)
    with (
        open("many.csv", "rb") as data,
        subprocess.Popen(
            [*SODALITE, "predict", model, "-", "--std"], stdin=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child,
    ):
        assert child.stdout.readline() == b"mean,std\n"
        first = [float(cell) for cell in child.stdout.readline().split(b",")]
        child.stdout.close()
        assert child.wait(timeout=60) == 1
        assert b"Traceback" not in child.stderr.read()
    expected = predict.run(Predict(model=model, data="new.csv", std=True, as_json=True)).predictions
    np.testing.assert_allclose(first, [expected["mean"][0], expected["std"][0]], rtol=1e-9)


def test_help_needs_no_heavy_import():
    code = "import sys; sys.argv = ['sodalite', {}]; from sodalite.cli import main\ntry: main()\nexcept SystemExit: "
    code += "print(*sys.modules)"
    heavy = {"sklearn", "scipy", "numpy", "pyarrow", "pandas", "matplotlib"}
    for arguments in ("'--help'", "'fit', '--help'"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)], capture_output=True, text=True, check=True
        )
        loaded = set(done.stdout.splitlines()[-1].split())
        assert "sodalite.cli.app" in loaded
        assert not loaded & (heavy | {f"sodalite.cli.{name}" for name in app.commands})


COMPLETED = {
    "sodalite pre": "plain,predict",
    "sodalite fit --post": "plain,--posterior",
    "sodalite fit hou": "file,hou",
    "sodalite predict model.so": "file,model.so",
    "sodalite predict m.sodalite new.c": "file,new.c",
    "sodalite select houses.csv --output s": "file,s",
    "sodalite inspect mod": "file,mod",
}


@pytest.mark.parametrize("words", COMPLETED)
def test_completion_by_the_shell(words):
    place = str(len(words.split()) - 1)
    environment = {**os.environ, "_SODALITE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": place}
    code = "import sys; sys.argv = ['sodalite']; from sodalite.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == COMPLETED[words] + "\n"


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_the_line_that_the_help_names_defines_a_completion():
    (line,) = [line.strip() for line in run("--help").stdout.splitlines() if "bash_source" in line]
    script = f"sodalite() {{ {shlex.join(SODALITE[:2])} 'import sys; sys.argv = [\"sodalite\"]; {SODALITE[2]}'; }}\n"
    done = subprocess.run(
        ["bash", "-c", f"{script}{line}\ncomplete -p sodalite"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "_sodalite_completion" in done.stdout


def test_the_default_of_fit_is_the_estimators(folder):
    default = sodalite.GreedyGPRegressor().n_active
    help_text = " ".join(run("fit", "--help").stdout.split())
    assert f"Rows that the model keeps: more are more accurate, and slower. [default: ({default}); x>=1]" in help_text
    done("fit", "houses.csv", "-t", "price", "--posterior", "sod", "--set", "hyperparameters=fixed", "-q")
    assert sodalite.load("model.sodalite").n_active == default


def test_scale_bounds_and_mean_are_settings_of_a_fit(folder):
    fit_it = ["fit", "houses.csv", "-t", "price", *QUICK, "-o", "m", "--set"]
    result = run(*fit_it, "scale=log", "--set", "bounds=0,1000", "--mean", "none", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["mean"] == "The logarithm of the target. Predictions are between 0 and 1,000."
    model = sodalite.load("m")
    assert (model.target_.name, model.target_.low, model.target_.high) == ("log", 0, 1000)
    assert (model.mean, model.target) == (None, "log")
    predicted = run("predict", "m", "new.csv", "--interval", "0.99", "-o", "out.csv")
    assert predicted.exit_code == 0, predicted.output
    assert pd.read_csv("out.csv")["lower"].min() > 0
    for setting, words in (("scale=logs", "scale: 'logs' is not one of auto"), ("bounds=0", "bounds: '0' is not of")):
        refused = run(*fit_it, setting)
        assert refused.exit_code == 2
        assert words in refused.output
