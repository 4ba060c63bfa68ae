"""The report: its numbers are those of the model, its page needs nothing else, its command says what is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

import sodalite
from commands import assert_mistake, done, houses, run, told
from helpers import POSTERIORS, PROJECTED, campaign
from sodalite import GreedyGPRegressor, metrics
from sodalite.cli import report as command
from sodalite.cli._fits import hold_out
from sodalite.cli.options import Report
from sodalite.core import optional
from sodalite.core.json import plain
from sodalite.core.state import Converter
from sodalite.criteria import CRITERIA
from sodalite.hyperparameters import Round
from sodalite.persistence import read_header
from sodalite.posteriors import Evidence, Neighbors
from sodalite.report import make_report, to_html, words
from sodalite.report.figures import FEWEST_BARS, figures_of
from sodalite.report.inputs import Input
from sodalite.report.judgement import (
    LEVEL,
    LEVELS,
    Judgement,
    Shares,
    by_probability,
    by_region,
    predict,
)
from sodalite.report.page import slider_labels
from sodalite.report.pictures import effects
from sodalite.report.rows import gather
from sodalite.report.stages import Stages, learning_curve, some_stages
from sodalite.report.summary import Summary, summarize
from sodalite.selection.rows import ArrayRows
from sodalite.stopping import Size
from sodalite.tables import OneHot

KERNEL = ConstantKernel(1.3) * RBF([1.0, 2.0, 4.0]) + WhiteKernel(0.05)


def data(n=120, d=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-3, 3, (n, d))
    return X, 40 + 5 * np.sin(X[:, 0]) + X[:, -1] + random.normal(scale=0.5, size=n)


def fitted(X, y, kernel=KERNEL, **options):
    options = {"n_active": 40, "hyperparameters": "fixed", "random_state": 0, **options}
    return GreedyGPRegressor(kernel, **options).fit(X, y)


@pytest.fixture(scope="module")
def rows():
    return data()


@pytest.fixture(scope="module")
def models(rows):
    return {name: fitted(*rows, posterior=name) for name in ("local", "sod", "sor", "dtc", "fitc", "vfe")}


@pytest.fixture(scope="module")
def model(models):
    return models["local"]


@pytest.fixture(scope="module")
def made(model):
    return make_report(model)


# Stages


def gpr(model, X, y):
    """Scikit-learn's exact Gaussian process, given some rows."""
    return GaussianProcessRegressor(model.kernel_, optimizer=None).fit(X, (y - model.y_mean_[0]) / model.y_std_[0])


@pytest.mark.parametrize("stage", [1, 7, 40])
def test_a_stage_is_the_exact_process_given_its_rows(model, rows, stage):
    material = gather(model)
    active = model.active_indices_[:stage]
    mean, s2 = Stages.of_model(material).predict(rows[0][:50], np.array([stage]))
    expected, std = gpr(model, rows[0][active], rows[1][active]).predict(rows[0][:50], return_std=True)
    np.testing.assert_allclose(mean[0], expected, atol=1e-8)
    np.testing.assert_allclose(s2[0] + 0.05, std**2, atol=1e-8)


def test_an_active_row_is_predicted_from_the_others(model, rows):
    material = gather(model)
    error = Stages.of_model(material).errors(material.active, np.array([5, 12]))
    for place in (0, 11, 30):
        active = model.active_indices_[:12]
        others = active[active != model.active_indices_[place]]
        exact = gpr(model, rows[0][others], rows[1][others])
        mean = exact.predict(material.active.X[[place]])
        assert error[1, place] == pytest.approx(material.active.y[place] - mean[0], abs=1e-8)


def test_stages_are_the_first_few_the_last_and_fewer_between():
    for m in (1, 2, 39, 40, 41, 500, 10_000):
        stages = some_stages(m)
        assert stages[0] == 1
        assert stages[-1] == m
        assert len(stages) <= 40
        assert (np.diff(stages) > 0).all()
    assert some_stages(40).tolist() == list(range(1, 41))


# The learning curve


def test_the_curve_is_the_error_of_any_row(model, rows):
    """A row that is active at a stage is predicted without it."""
    X, y = rows
    material = gather(model)
    curve = learning_curve(material, Stages.of_model(material), np.random.default_rng(0))

    def errors(given, wanted):
        return y[wanted] - model.y_mean_ - model.y_std_ * gpr(model, X[given], y[given]).predict(X[wanted])

    for stage in (3, 20):
        active = model.active_indices_[:stage]
        off = [errors(active, np.setdiff1d(np.arange(120), active))]
        off += [errors(active[active != row], [row]) for row in active]
        assert curve.rmse[curve.stages == stage] == pytest.approx(np.sqrt(np.mean(np.square(np.concatenate(off)))))


def test_the_curve_is_in_units_of_the_target_and_ends_as_random_rows_do_with_all_rows(rows):
    X, y = rows
    one, ten = (make_report(fitted(X, scale * y, n_active=120, stop=Size(120))).curve for scale in (1, 10))
    for name in ("rmse", "random_rmse", "remainder", "noise"):
        np.testing.assert_allclose(getattr(ten, name), 10 * getattr(one, name), rtol=1e-6)
    np.testing.assert_allclose(one.random_rmse[:, -1], one.rmse[-1], rtol=1e-6)
    assert one.equal is not None
    assert one.equal[0] <= 120


# Judgement


@pytest.mark.parametrize("name", PROJECTED)
def test_a_projected_row_is_predicted_as_if_it_had_not_been_there(models, rows, name):
    X, _y = rows
    model = models[name]
    material = gather(model)
    plain = replace(material.fitted, posterior=replace(material.posterior, scale=None))  # as the process has it
    found = predict(replace(material, fitted=plain), material.pool)
    rest = np.setdiff1d(np.arange(120), model.active_indices_)
    for row in rest[:4]:
        others = np.setdiff1d(np.arange(120), [row])
        indices = np.searchsorted(others, model.active_indices_)
        Y = material.pool.Y[others]
        chosen = replace(model.selection_, indices=indices)
        without = POSTERIORS[name].condition(Evidence(model.posterior_.kernel, ArrayRows(X[others], Y), chosen))
        mean, expected = without.mean_and_variance(X[[row]], noisy=True)
        assert found.mean[row, 0] == pytest.approx(mean[0, 0], abs=1e-7)
        assert found.std[row, 0] ** 2 == pytest.approx(expected[0], rel=1e-6)


def test_a_local_row_is_predicted_from_all_others(rows):
    X, y = rows
    model = fitted(X, y, posterior=Neighbors(80), calibrate=False)
    material = gather(model)
    found = predict(material, material.pool)
    for row in (int(model.active_indices_[3]), int(np.setdiff1d(np.arange(120), model.active_indices_)[5])):
        others = np.setdiff1d(np.arange(120), [row])
        mean, std = gpr(model, X[others], y[others]).predict(X[[row]], return_std=True)
        assert found.mean[row, 0] == pytest.approx(mean[0], abs=1e-7)
        assert found.std[row, 0] == pytest.approx(std[0], rel=1e-6)


def test_new_rows_are_judged_as_the_model_predicts_them(model):
    X, y = data(60, seed=5)
    found = make_report(model, X, y).judgement
    assert found.how == "unseen"
    assert found.rmse == pytest.approx(metrics.rmse(y, model.predict(X)))
    assert found.nlpd == pytest.approx(-model.log_density(X, y).mean())
    assert found.coverage == metrics.interval_coverage(y, *model.predict_interval(X))
    np.testing.assert_allclose(found.pit, model.pit(X, y), atol=1e-9)
    for level, share in found.coverages.items():
        assert share == metrics.interval_coverage(y, *model.predict_interval(X, float(level)))
    assert list(found.coverages) == ["0.5", "0.8", "0.95", "0.99"]
    shares = dict(zip(found.levels.honest.round(9).tolist(), found.levels.shares.tolist(), strict=True))
    assert {level: shares[float(level)] for level in found.coverages} == found.coverages
    assert (np.diff(found.levels.shares) >= 0).all()


def test_rows_of_the_fit_are_found_among_others(model, rows):
    X, y = data(60, seed=5)
    both = make_report(model, np.concatenate([rows[0], X]), np.concatenate([rows[1], y]))
    assert (both.judgement.how, both.judgement.n_judges) == ("unseen", 60)
    assert both.sources == ("180 rows of yours are shown.", "120 were in the fit; the other 60 judge the model.")
    assert both.judgement.rmse == pytest.approx(make_report(model, X, y).judgement.rmse)
    seen = make_report(model, *rows)
    assert seen.judgement.how == "left out"
    assert seen.judgement.rmse == pytest.approx(make_report(model).judgement.rmse)
    other = make_report(model, rows[0], rows[1] + 1.0)  # the same places, but other targets
    assert other.judgement.how == "unseen"
    few = make_report(model, np.concatenate([rows[0][:40], X[:8]]), np.concatenate([rows[1][:40], y[:8]]))
    assert few.sources[1].startswith("Only 8 of them have not been in the fit: too few to judge the model by.")
    assert seen.sources[1].startswith("The fit has seen them, so each row that judges")


@pytest.fixture(scope="module")
def heavy():
    """Rows whose errors are skewed, with heavy tails, and ten times as large in one half; training and test."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (1600, 1))
    noise = np.where(X[:, 0] > 5, 0.5, 0.05) * generator.exponential(1.0, 1600) ** 1.5
    y = np.sin(X[:, 0]) + noise
    return X[:800], y[:800], X[800:], y[800:]


@pytest.fixture(scope="module")
def skewed(heavy):
    return {name: fitted(*heavy[:2], RBF(1.5) + WhiteKernel(0.1), posterior=name) for name in ("local", "sod", "fitc")}


@pytest.mark.parametrize("name", ["local", "sod", "fitc"])
def test_rows_of_the_fit_are_judged_as_new_rows_would_be(skewed, heavy, name):
    left_out, new = make_report(skewed[name]).judgement, make_report(skewed[name], *heavy[2:]).judgement
    assert (left_out.how, new.how) == ("left out", "unseen")
    for found in (left_out, new):
        for level, share in found.coverages.items():
            assert share == pytest.approx(float(level), abs=0.06 if level < "0.95" else 0.03)
        assert found.nlpd < metrics.nlpd(found.y, found.mean, np.full(len(found.y), found.rmse)) - 0.3
    assert left_out.nlpd == pytest.approx(new.nlpd, abs=0.1)


def test_a_rows_own_error_is_no_part_of_its_width(skewed):
    material = gather(skewed["sod"])
    posterior = material.posterior
    near = posterior.scale.nearby
    place = int(np.flatnonzero(near.counts == 1)[0])
    sums = near.sums.copy()
    sums[place] *= 1000
    scale = replace(posterior.scale, nearby=replace(near, sums=sums))
    changed = replace(material, fitted=replace(material.fitted, posterior=replace(posterior, scale=scale)))
    before, after = (predict(part, material.pool).width[:, 0] for part in (material, changed))
    (own,) = np.flatnonzero((near.X[place] == material.pool.X).all(axis=1))
    assert after[own] == before[own]
    assert (after > 1.5 * before).sum() >= 4  # of the rows near by


def test_the_pictures_have_the_learnt_interval(skewed):
    made = make_report(skewed["local"])
    up, down = made.view.upper[-1] - made.view.mean[-1], made.view.mean[-1] - made.view.lower[-1]
    assert np.median(up / down) > 2  # errors are skewed
    drawn = figures_of(made)
    np.testing.assert_allclose(drawn["view"].frames[-1][1]["y"], made.view.upper[-1], atol=1e-3)
    (effect,) = effects(gather(skewed["local"]), ["input 1"], np.random.default_rng(0))
    assert np.all(effect.upper - effect.mean > 1.5 * (effect.mean - effect.lower))
    crosses = drawn["truth"].data[2]["x"]
    assert len(crosses) == round((1 - made.judgement.coverage) * 800)


def test_chance_allows_what_the_binomial_distribution_does():
    counts = np.array([20, 57, 300])
    found = Shares.of("part", "abc", counts, counts, np.full(3, LEVEL))
    expected = stats.binom(counts, LEVEL)
    np.testing.assert_allclose(found.low * counts, expected.ppf(0.025))
    np.testing.assert_allclose(found.high * counts, expected.ppf(0.975))


def test_equal_shares_for_honest_pit_values():
    uniform = (np.arange(2000) + 0.5) / 2000
    np.testing.assert_allclose(by_probability(uniform).shares, LEVELS, atol=1e-3)
    pit = stats.norm.cdf(2 * stats.norm.ppf(uniform))  # error bars half as wide as they should be
    intervals = by_probability(pit)
    assert (intervals.shares < intervals.low).all()


def test_a_region_where_the_bars_are_too_narrow_is_found():
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 6, (1200, 2))
    inside = generator.random(1200) < np.where(X[:, 1] > 5, 0.6, 0.95)
    found = by_region(X, X[:, 0], inside, Input("b", "number", (1,)))
    assert (found.by, len(found.labels), found.counts.sum()) == ("b", 6, 1200)
    assert found.is_allowed.tolist() == [True] * 5 + [False]
    assert found.labels[-1] == "5 to 6"
    by_mean = by_region(X, X[:, 0], inside, None)
    assert by_mean.by == "prediction"
    np.testing.assert_allclose(by_mean.shares @ by_mean.counts / 1200, inside.mean())
    assert by_region(X[:39], X[:39, 0], inside[:39], None) is None


def test_levels_and_few_values_are_groups_of_their_own():
    level = np.repeat(np.arange(9), 9 * (np.arange(9) + 1))
    X, inside = np.eye(9)[level], np.ones(len(level), dtype=bool)
    part = Input("town", "levels", tuple(range(9)), OneHot("town", tuple("ABCDEFGHI")))
    found = by_region(X, X[:, 0], inside, part)
    assert found.labels == ("E", "F", "G", "H", "I", "others")
    assert found.counts.tolist() == [45, 54, 63, 72, 81, 90]
    binary = by_region(X, X[:, 0], inside, Input("b", "number", (8,)))
    assert (binary.labels, binary.counts.tolist()) == (("0", "1"), [324, 81])
    days = by_region(np.repeat([[0.0], [365.0]], 30, axis=0), X[:60, 0], inside[:60], Input("d", "date", (0,)))
    assert days.labels == ("1970-01-01", "1971-01-01")


def test_a_file_of_active_rows_says_so(models, rows, tmp_path):
    sodalite.save(models["sod"], tmp_path / "m")
    model = sodalite.load(tmp_path / "m")
    alone = make_report(model)
    assert (alone.judgement.how, alone.judgement.n_judges) == ("active", 40)
    assert alone.curve.rmse is None
    assert "the 40 rows that the model keeps, of 120 in the fit" in alone.sources[0]
    given = make_report(model, *rows)
    assert given.judgement.how == "unsure"
    assert given.curve.rmse is not None
    assert "40 of them are among the 40 rows" in given.sources[1]
    assert make_report(model, *data(50, seed=3)).judgement.how == "unseen"
    np.testing.assert_allclose(given.judgement.rmse, make_report(models["sod"]).judgement.rmse)
    to_html(alone)


def test_the_page_of_active_rows_leads_with_those_held_out(tmp_path):
    table = tmp_path / "t.csv"
    houses().to_csv(table, index=False)
    options = ["-t", "price", "--posterior", "sod", "--set", "hyperparameters=fixed", "-n", "20"]
    options += ["-o", f"{tmp_path}/m"]
    done("fit", str(table), *options)
    made = make_report(sodalite.load(tmp_path / "m"))
    html = to_html(made)
    assert f"<dd>{words.readable(made.summary.scores[0].rmse, 4)}</dd>" in html
    assert made.judgement.rmse == made.summary.scores[0].rmse
    assert "on 16 rows held out" in html
    assert f"<td>{100 * made.summary.scores[0].coverages['0.5']:.1f} %</td>" in html
    assert "Made from the 20 rows that the model keeps, of 160 in the fit." in html
    assert "20 rows that the model keeps, each predicted" not in html
    given = to_html(make_report(sodalite.load(tmp_path / "m"), *_rows_of(tmp_path / "m", table)))
    assert "160 rows of yours are shown." in given
    assert f"<dd>{words.readable(made.summary.scores[0].rmse, 4)}</dd>" in given


@pytest.mark.parametrize(
    ("posterior", "mean"), [("local", "auto"), campaign("local", None), campaign("sod", "auto"), ("sod", None)]
)
def test_the_figures_are_of_the_rows_held_out(posterior, mean, tmp_path, monkeypatch):
    """Numbers, dots and groups are those of the predictions that `fit` made of the rows held out, computed again."""
    monkeypatch.chdir(tmp_path)
    frame = houses(600)
    frame.to_csv("t.csv", index=False)
    options = ["-t", "price", "--posterior", posterior, "--set", "hyperparameters=fixed", "-n", "40"]
    options += ["--mean", mean] if mean else []
    printed = told("fit", "t.csv", *options, "-o", "m")
    done("fit", "t.csv", *options, "-o", "before", "--set", "hold_out_only=true")
    model, before = sodalite.load("m"), sodalite.load("before")
    test = hold_out(600, None, 0).test
    held, y = frame.iloc[test], frame["price"].to_numpy()[test]
    made = make_report(model)
    found = made.judgement
    assert (found.how, found.n_judges, found.n_given) == ("held out", 60, 60)
    for name in ("rmse", "nlpd", "coverages"):
        assert getattr(found, name) == printed["scores"][0][name], name
    np.testing.assert_allclose(found.y, y, rtol=1e-5)
    np.testing.assert_allclose(found.mean, before.predict(held), rtol=1e-5)
    np.testing.assert_allclose(found.pit, before.pit(held, y), atol=1e-5)
    assert found.coverage == pytest.approx(found.inside.mean())
    assert found.regions.counts.sum() == 60
    assert found.regions.by == made.importance.effects[0].name
    assert made.curve.finished != found.rmse or posterior == "sod"
    page = to_html(made)
    assert page.count("Judged by 60 rows held out of the fit, predicted before the model had seen them.") == 5
    assert f"<dd>{words.readable(found.rmse, 4)}</dd>" in page
    again = told("report", "m")
    assert (again["rmse"], again["nlpd"], again["coverages"]) == (found.rmse, found.nlpd, found.coverages)
    # Whoever wrote a file before this was kept, or adds rows, sees each row predicted from the others.
    model.about_ = replace(model.about_, judgement=None)
    old = make_report(model)
    assert old.judgement.how == ("left out" if posterior == "local" else "active")
    assert f"<dd>{words.readable(old.judgement.rmse, 4)}</dd>" in to_html(old)


def test_without_rows_held_out_the_numbers_are_those_that_fit_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    houses(90).to_csv("t.csv", index=False)
    printed = told("fit", "t.csv", "-t", "price", "--set", "hyperparameters=fixed", "-n", "40", "-o", "m")["scores"][0]
    found = make_report(sodalite.load("m")).judgement
    assert found.how == "left out"
    for name in ("rmse", "nlpd", "coverages"):
        assert getattr(found, name) == pytest.approx(printed[name], rel=1e-6)


def test_what_is_kept_of_rows_held_out_is_small_and_comes_back(model):
    X, y = data(5000, seed=5)
    predictive = model.fitted_.predictive(X)
    found = Judgement.of_rows("held out", X, y, predictive, model.fitted_, np.random.default_rng(0))
    tree, arrays = Converter().dump(found, Judgement)
    text = json.dumps(tree)
    assert len(text) + sum(array.nbytes for array in arrays.values()) < 150_000
    back = Converter().load(json.loads(text), Judgement, arrays)
    assert (back.n_judges, len(back.y)) == (5000, 2000)
    assert plain(back) == plain(found)


def _rows_of(path, table):
    rows = command.read_rows(sodalite.load(path), Report(model=str(path), data=str(table)))
    assert rows.missing == {}
    return rows.X, rows.y


def test_many_rows_are_thinned_and_make_a_small_page():
    X, y = data(6000, seed=1)
    model = fitted(X, y, posterior="sod", n_active=200)
    made = make_report(model)
    assert made.judgement.n_judges == 2000
    assert "2,000 rows of the fit" in made.judgement.words
    assert "6,000" in made.judgement.words
    assert len(made.view.X) == 1000
    content = json.loads(json.dumps(made.as_dict(), allow_nan=False))
    assert content == json.loads(json.dumps(make_report(model).as_dict()))
    assert content["judgement"]["rmse"] == pytest.approx(made.judgement.rmse, rel=1e-5)
    assert len(to_html(made)) - len(get_plotlyjs()) < 1.5e6


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 2)), np.zeros(3), "X must have 3 columns"),
        (np.zeros((3, 3)), None, "y must be given with X"),
        (np.zeros((3, 3)), np.zeros(2), "same number of rows"),
        (np.full((3, 3), np.nan), np.zeros(3), "missing or infinite"),
        (np.zeros((3, 3)), np.zeros((3, 2)), "y must have 1 target"),
    ],
)
def test_rows_that_cannot_judge_are_refused(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        make_report(model, X, y)


def test_one_of_several_targets(rows):
    X, y = rows
    both = np.column_stack([y, -3 * y])
    model = fitted(X, both)
    first, second = (make_report(model, target=target) for target in (0, 1))
    assert second.judgement.rmse == pytest.approx(3 * first.judgement.rmse)
    assert (first.target.name, second.target.name) == ("target 1", "target 2")
    with pytest.raises(ValueError, match="target must be from 0 to 1"):
        make_report(model, target=2)


# Pictures


def test_the_last_stage_and_the_finished_model_are_predictions():
    X, y = data(d=1)
    model = fitted(X, y, RBF(1.0) + WhiteKernel(0.05), posterior="sod")
    view = make_report(model).view
    mean = model.predict(view.axes[0][:, None])
    np.testing.assert_allclose(view.mean[-1], mean)
    np.testing.assert_allclose(view.mean[-2], mean, rtol=1e-6)
    # The stages are Gaussian, and those of the process; the finished model has its own error bars.
    plain = replace(model.posterior_, scale=None).mean_and_variance(view.axes[0][:, None], noisy=True)[1]
    width = 1.959964 * model.y_std_[0] * np.sqrt(plain)
    np.testing.assert_allclose(view.upper[-2] - mean, width, rtol=1e-5)
    np.testing.assert_allclose(mean - view.lower[-2], width, rtol=1e-5)
    interval = model.predict_interval(view.axes[0][:, None])
    np.testing.assert_allclose(np.stack([view.lower[-1], view.upper[-1]]), interval)
    assert view.axes[0][0] < X.min() < X.max() < view.axes[0][-1]
    shown = view.X[:, 0]
    assert np.isin(shown, X).all()
    new = make_report(model, X + 10, y).view
    assert np.isin(new.X, X + 10).all()
    assert new.axes[0][0] < X.min() < (X + 10).max() < new.axes[0][-1]


def test_a_map_goes_row_by_row():
    X, y = data(d=2)
    model = fitted(X, y, RBF([1.0, 2.0]) + WhiteKernel(0.05))
    view = make_report(model).view
    grid = view.mean[-1].reshape(len(view.axes[1]), len(view.axes[0]))
    assert grid[3, 7] == pytest.approx(model.predict([[view.axes[0][7], view.axes[1][3]]])[0])


def test_the_effect_of_an_input_is_an_average(model, rows):
    found = {part.input.name: part for part in make_report(model).effects}
    assert list(found) == ["input 1", "input 3", "input 2"]  # by what each brings to the predictions' variance
    steps = np.diff(found["input 3"].mean) / np.diff(found["input 3"].values)
    assert np.median(steps) == pytest.approx(1.0, abs=0.4)  # the function has a slope of 1 there
    assert np.ptp(found["input 2"].mean) < 0.3 * np.ptp(found["input 1"].mean)
    material = gather(model)
    (wide,) = effects(material, ["input 1"], np.random.default_rng(0))
    chosen = np.random.default_rng(0).permutation(120)[:30]
    places = rows[0][np.sort(chosen)].copy()
    places[:, 0] = wide.values[4]
    _mean, cov = model.posterior_.mean_and_covariance(places)
    assert wide.mean[4] == pytest.approx(model.predict(places).mean())
    exact = 1.959964 * np.sqrt(cov.mean()) * model.y_std_[0]
    assert exact <= (wide.upper[4] - wide.mean[4]) * (1 + 1e-6)
    assert exact <= (wide.mean[4] - wide.lower[4]) * (1 + 1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a model of one of them."""
    path = tmp_path_factory.mktemp("report")
    houses().to_csv(path / "houses.csv", index=False)
    houses(80, seed=1).to_csv(path / "new.csv", index=False)
    options = ["--target", "price", "--set", "hyperparameters=subset", "--n-active", "30"]
    done("fit", path / "houses.csv", *options, "-o", path / "m.sodalite")
    return path


def effect_of(made, name):
    """The line or the points of the figure that shows what an input does."""
    place = [part.input.name for part in made.effects].index(name)
    return figures_of(made)[f"effect{place}"].data[-1]


def test_texts_and_dates_are_shown_as_such(folder):
    made = make_report(sodalite.load(folder / "m.sodalite"))
    assert effect_of(made, "town")["x"] == ["Basel", "Bern", "Chur"]
    assert effect_of(made, "built")["x"][0].startswith("19")
    levels = next(part for part in made.effects if part.input.name == "town")
    assert levels.mean[1] - levels.mean[0] == pytest.approx(100, abs=40)
    assert [part.name for part in made.view.inputs] in (["area", "built"], ["built", "area"])
    assert made.summary.scores[0].model == "sodalite"
    assert made.summary.n_held_out == 16


def test_no_share_of_the_variance_is_drawn_below_zero(made):
    for bars in figures_of(made)["importance"].data:
        assert np.all(np.array(bars["x"]) >= 0)
        assert np.all(np.array(bars["error_x"]["arrayminus"]) <= np.array(bars["x"]) + 1e-3)


def test_of_many_levels_those_with_most_rows_are_shown(folder):
    """Two hundred countries would be a wall of names."""
    random = np.random.default_rng(0)
    level, time = np.repeat(np.arange(40), 12), np.tile(np.linspace(0, 1, 12), 40)
    height, slope = random.normal(size=(2, 40))
    frame = pd.DataFrame({"who": [f"w{place}" for place in level], "time": time, "y": height[level]})
    frame["y"] += 3 * slope[level] * time
    kept = frame[(level < 20) | (np.arange(480) % 12 < 8)]  # the first twenty have most rows
    kept.to_csv(folder / "who.csv", index=False)
    options = ["--target", "y", "-o", str(folder / "who.sodalite")]
    result = done("fit", folder / "who.csv", *options)
    assert "who (" in result.stdout  # one importance for the three inputs of the column
    model = sodalite.load(folder / "who.sodalite")
    made = make_report(model, kept[["who", "time"]], kept["y"])
    shown = effect_of(made, "who")["x"]
    assert len(shown) == 13
    assert set(shown) <= {f"w{place}" for place in range(20)}
    model.plot("dependence")
    assert "who (levels, each for itself): w0, w1, w10" in done("inspect", folder / "who.sodalite").stdout
    with pytest.warns(UserWarning, match="'Nobody'"):
        low, high = model.predict_interval(pd.DataFrame({"who": ["Nobody"], "time": [0.5]}), 0.9)
    assert high - low > 2 * kept["y"].std()  # nothing is known about a level that was not seen


NORMAL = np.random.default_rng(0).normal(size=(40, 3))
ODD = {
    "one row": (NORMAL[:1], NORMAL[:1, 0], None),
    "three rows": (NORMAL[:3], NORMAL[:3, 0], None),
    "equal targets": (NORMAL, np.ones(40), None),
    "equal inputs": (np.ones((40, 3)), NORMAL[:, 0], None),
    "all active": (NORMAL[:15], NORMAL[:15, 0], None),
    "no noise": (np.repeat(NORMAL[:10], 4, axis=0), np.repeat(NORMAL[:10, 0], 4), RBF(1.0)),
    "nothing but noise": (NORMAL, NORMAL[:, 0], WhiteKernel(1.0)),
    "no length-scales": (NORMAL, NORMAL[:, 0], DotProduct() + WhiteKernel(0.1)),
    "large": (NORMAL[:, :1], 1e9 + NORMAL[:, 0], None),
    "small": (NORMAL[:, :2], 1e-12 * NORMAL[:, 0], None),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_data_have_a_page_too(name):
    X, y, kernel = ODD[name]
    model = fitted(X, y, kernel, n_active=15)
    html = to_html(make_report(model))
    assert "NaN" not in json.dumps(content_of(html))
    assert not re.search(r"\bnan\b", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert "<b>rows kept:</b>" in model._repr_html_()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_where_none_had_to_be_chosen_there_are_neither_stages_nor_a_learning_curve(d):
    X, y = data(40, d=d)
    model = fitted(X, y, RBF(2.0) + WhiteKernel(0.05))
    made = make_report(model)
    assert made.curve is None
    assert made.view is None or not len(made.view.stages)
    html = to_html(made)
    for text in ("Stage</label>", "How many rows it needs", "learning curve", "each chosen as", "slider"):
        assert text not in re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL)
    content = content_of(html)
    assert all(len(figure["frames"]) in (0, 1) for figure in content["figures"].values())
    with pytest.raises(ValueError, match="none had to be chosen, so there is no learning curve"):
        model.plot("learning")


# The page


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, html):
        super().__init__()
        self.tags = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def content_of(html):
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(text)


def with_history(model):
    """The model, as if its kernel had been found in rounds."""
    rounds = [Round("start", model.kernel_, -1.0, True, 0.1), Round("round", model.kernel_, -0.5, True, 0.2)]
    model.rounds_ = (*rounds, Round("half a round", model.kernel_, -0.7, False, 0.1))
    return model


@pytest.fixture(scope="module")
def html(rows):
    return to_html(make_report(with_history(fitted(*rows))))


def test_the_page_is_one_file_that_asks_for_nothing(html):
    tags = Page(html).tags
    assert not [tag for tag, attributes in tags if tag in ("link", "img", "iframe") or "src" in attributes]
    assert not [attributes for _, attributes in tags if attributes.get("href", "").startswith("http")]
    assert len(html) < 7e6
    assert html.count(get_plotlyjs()) == 1
    (policy,) = [a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_every_figure_has_words_for_those_who_do_not_see_it(html):
    tags = Page(html).tags
    plots = {
        attributes["id"]: attributes for tag, attributes in tags if "plot" in (attributes.get("class") or "").split()
    }
    assert set(plots) == set(content_of(html)["figures"])
    expected = {"truth", "cloud", "calibration", "regions"}
    expected |= {"rmse", "importance", "mean", "half"}
    assert expected | {"effect0", "effect1", "effect2"} == set(plots)
    for attributes in plots.values():
        assert attributes["role"] == "img"
        assert re.search(r"\d", attributes["aria-label"])
    assert len({attributes["aria-label"] for attributes in plots.values()}) == len(plots)


def test_names_cannot_break_the_page():
    X, y = data(60, d=3)
    frame = pd.DataFrame(X, columns=["</script><b>bold", "a & b", "x"])
    html = to_html(make_report(fitted(frame, y, n_active=10)))
    assert "</script><b>bold" not in html
    titles = [figure["layout"]["xaxis"]["title"]["text"] for figure in content_of(html)["figures"].values()]
    assert "&lt;/script&gt;&lt;b&gt;bold" in titles  # plotly, too, would take it for a tag
    assert "a &amp; b" in titles
    assert len(re.findall(r"<script[ >]", html)) == 3


def test_the_slider_has_a_position_for_every_frame():
    X, y = data(d=1)
    made = make_report(fitted(X, y, RBF(1.0) + WhiteKernel(0.05)))
    figure, labels = figures_of(made)["view"], slider_labels(made)
    assert len(labels) == len(figure.frames) == len(made.view.stages) + 1
    assert labels[0] == "1 of 40 rows kept"
    assert "finished" in labels[-1]
    bands = [np.array(frame[1]["y"]) - np.array(frame[0]["y"]) for frame in figure.frames]
    assert np.mean(bands[0]) > np.mean(bands[-2])


# The command


def test_the_command_writes_the_page_beside_the_model(folder):
    result = done("report", folder / "m.sodalite")
    assert result.stdout == ""
    assert re.fullmatch(r".*m\.html: \d\.\d MB, in \d+\.\d s\n", result.stderr)
    assert "price, predicted from area, town and built" in (folder / "m.html").read_text(encoding="utf-8")
    (folder / "m.html").unlink()


def test_the_command_judges_by_new_rows(folder):
    content = told("report", folder / "m.sodalite", folder / "new.csv", "-o", folder / "new.html")
    made = make_report(sodalite.load(folder / "m.sodalite"), *_rows_of(folder / "m.sodalite", folder / "new.csv"))
    assert {name: content[name] for name in ("rmse", "nlpd", "coverages", "coverage")} == {
        name: getattr(made.judgement, name) for name in ("rmse", "nlpd", "coverages", "coverage")
    }
    assert "80 rows that the fit has not seen" in content["judged_by"]
    assert (folder / "new.html").stat().st_size == content["n_bytes"]


def test_the_page_on_standard_output(folder):
    result = done("report", folder / "m.sodalite", "--output", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.rstrip().endswith("</html>")
    assert result.stderr == ""


GAPS = "'area' (5), 'price' (3); medians and levels for missing values took their place; 3 rows were left out."


@pytest.mark.parametrize(
    ("data", "how", "n", "warning"),
    [
        ("houses.csv", "held out", 16, ""),  # the model that is written has seen these too, but later
        ("-", "unseen", 80, ""),
        ("gaps.csv", "unseen", 77, f"Warning: missing values: {GAPS}\n"),
    ],
)
def test_which_rows_judge_the_model(data, how, n, warning, folder):
    frame = houses(80, seed=1)
    frame.loc[:4, "area"] = np.nan
    frame.loc[3:5, "price"] = np.nan
    frame.to_csv(folder / "gaps.csv", index=False)
    source = "-" if data == "-" else folder / data
    text = (folder / "new.csv").read_bytes() if data == "-" else None
    result = done("report", folder / "m.sodalite", source, "--json", "-o", "-", input=text)
    content = json.loads(result.stdout)
    judgement = content["judgement"]
    assert (judgement["how"], judgement["n_judges"]) == (how, n)
    assert result.stderr == warning
    same = content["summary"]["scores"][0]["rmse"] == pytest.approx(judgement["rmse"])
    assert same == (how == "held out")


def test_what_cannot_be_written_is_found_before_the_long_work(folder, monkeypatch):
    model = folder / "m.sodalite"
    houses(40).drop(columns="price").rename(columns={"area": "Price"}).to_csv(folder / "no.csv", index=False)
    assert_mistake(run("report", model, folder / "no.csv"), r"no column 'price', the target.* Did you mean 'Price'\?")
    monkeypatch.setattr("sodalite.persistence.load", lambda path: pytest.fail("the long work began"))
    assert_mistake(run("report", model, "-o", folder / "no" / "x.html"), "cannot be written: there is no folder")
    assert not (folder / "m.html").exists()


def test_a_failed_page_leaves_nothing_behind(folder, monkeypatch):
    (folder / "kept.html").write_text("before")
    monkeypatch.setattr("sodalite.core.files._sync", lambda path: (_ for _ in ()).throw(OSError(28, "No space left")))
    result = run("report", folder / "m.sodalite", "-o", folder / "kept.html")
    assert_mistake(result, "could not be written: No space left")
    assert (folder / "kept.html").read_text() == "before"
    assert [path.name for path in folder.iterdir() if "kept" in path.name] == ["kept.html"]


def test_a_model_without_column_names(rows, tmp_path):
    sodalite.save(fitted(*rows), tmp_path / "m")
    X, y = data(50, seed=9)
    pd.DataFrame(np.column_stack([y, X]), columns=["z", "a", "b", "c"]).to_csv(tmp_path / "t.csv", index=False)
    report = ["report", tmp_path / "m", tmp_path / "t.csv"]
    assert_mistake(run(*report), "--target is needed: which column")
    assert told(*report, "--target", "z", "-o", "-")["judgement"]["n_judges"] == 50
    assert_mistake(run(*report, "--target", "y"), "no column 'y'|must have just these")


def test_without_plotly_the_command_says_how_to_install_it(folder, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

    monkeypatch.setattr(optional, "import_module", missing)
    assert_mistake(run("report", folder / "m.sodalite"), r"This needs plotly.*pip install 'sodalite\[report\]'")


def test_every_posterior_and_criterion_has_words():
    assert set(words.POSTERIORS) == set(POSTERIORS)
    assert set(words.CRITERIA) == set(CRITERIA)


def test_how_many_of_the_judging_rows_lie_outside_the_data():
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (300, 1))
    y = np.sin(X[:, 0]) + 0.1 * generator.normal(size=300)
    model = GreedyGPRegressor(RBF(1.0) + WhiteKernel(0.02), n_active=40, hyperparameters="fixed", random_state=0)
    model.fit(X, y)
    inside = make_report(model)
    assert inside.judgement.n_outside <= 2
    T = np.vstack([generator.uniform(0, 10, (50, 1)), [[-20.0], [40.0], [100.0]]])
    report = make_report(model, T, np.sin(T[:, 0]))
    assert report.judgement.n_outside == 3
    assert report.judgement.outside == pytest.approx(0.1)
    poor = to_html(make_report(model, T[:50], generator.normal(size=50)))
    assert "none of the variance explained: the mean of these rows would be closer" in poor
    assert not re.search(r"-\d[\d.]* % of the variance", poor)
    page = to_html(report)
    assert "3 of the 53 rows that judge the model lie where other rows say little" in page
    assert f"± {report.target.std:.3g}" in page


# The view of more than two inputs


def test_the_view_of_many_inputs_is_an_average_by_the_two_that_matter_most(model):
    made = make_report(model)
    view = made.view
    assert [part.name for part in view.inputs] == [effect.name for effect in made.importance.effects][:2]
    assert view.n_averaged == 10
    material = gather(model)
    others = material.pool.some(10, np.random.default_rng(0))  # any ten rows: the model is additive but for noise
    rows = others.X.copy()
    first, second = (part.places[0] for part in view.inputs)
    near = model.predict(material.pool.X).mean()
    for place in (0, len(view.axes[0]) - 1):
        rows[:, first], rows[:, second] = view.axes[0][place], view.axes[1][0]
        assert view.mean[-1][place] == pytest.approx(model.predict(rows).mean(), abs=0.6 * np.ptp(view.mean[-1]))
    assert view.mean[-1].min() < near < view.mean[-1].max()
    assert np.corrcoef(view.mean[-2], view.mean[-1])[0, 1] > 0.9  # with all active rows, nearly the finished model
    assert (view.lower <= view.upper).all()


def test_without_two_numbers_there_is_no_view(tmp_path):
    frame = houses()[["town", "area", "price"]]
    frame["kind"] = np.where(frame["area"] > 100, "large", "small")
    frame.drop(columns="area").to_csv(tmp_path / "t.csv", index=False)
    given = ["-t", "price", "--set", "hyperparameters=fixed", "-n", "5", "-o", f"{tmp_path}/m"]
    done("fit", f"{tmp_path}/t.csv", *given)
    made = make_report(sodalite.load(tmp_path / "m"))
    assert made.view is None
    assert "Stage</label>" not in to_html(made)


def test_three_hundred_inputs_are_no_wall_of_text():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 300))
    frame = pd.DataFrame(X, columns=[f"sensor {place}" for place in range(300)])
    kernel = RBF([1.0, *np.full(299, 1e3)]) + WhiteKernel(0.05)
    made = make_report(fitted(frame, X[:, 0], kernel, n_active=10))
    html = to_html(made)
    words = re.sub(r"<(script|style|details).*?</\1>", "", html, flags=re.DOTALL)
    assert len(re.sub(r"<[^>]*>", "", words)) < 10_000
    assert "and 294 more]" in html
    assert len(made.effects) == 3
    assert len(figures_of(made)["importance"].data[0]["y"]) == FEWEST_BARS
    assert "295 more hardly matter." in html


def test_levels_by_their_mean_targets_have_their_names_on_axes(tmp_path):
    random = np.random.default_rng(0)
    level = np.repeat(np.arange(40), 4)
    y = random.normal(size=40)[level] + 0.1 * random.normal(size=160)
    frame = pd.DataFrame({"state": [f"s{place}" for place in level], "x": random.uniform(size=160), "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["-t", "y", "--set", "hyperparameters=fixed", "-n", "20", "-o", f"{tmp_path}/m"]
    done("fit", f"{tmp_path}/t.csv", *options)
    model = sodalite.load(tmp_path / "m")
    assert len(model.preprocessing_.names) == 2  # one input for all states
    made = make_report(model)
    assert set(effect_of(made, "state")["x"]) <= set(frame["state"])
    assert made.view is None  # a mean target is no axis to draw a map along
    html = to_html(made)
    assert "state" in made.summary.columns[0].name
    assert made.summary.columns[0].read_as in html.replace("&#39;", "'")


def test_the_page_is_in_a_readers_order_without_jargon_before_the_fold(folder):
    made = make_report(sodalite.load(folder / "m.sodalite"))
    html = to_html(made)
    headings = re.findall("<h2>(.*?)</h2>", html)
    assert headings == [
        "How good it is",
        "What was read, and what was left out",
        "What it has learnt",
        "What matters",
        "Where it knows little",
        "More",
    ]
    before = html.partition("<h2>More</h2>")[0].partition("</style>")[2]
    for jargon in ("active row", "prior variance", "Matérn", "Matern", "RBF"):
        assert jargon not in before
    assert made.target.error_bar in before
    gain = made.summary.gain
    assert f"<dd>{100 * abs(gain):.0f} % {'smaller' if gain > 0 else 'larger'}</dd>" in html
    assert html.count(made.target.error_bar) == 1  # the tile
    for part in made.summary.columns:
        assert f"<td>{part.name}</td>" in html
        assert f"<td>{part.read_as}</td>" in html


def test_one_summary_is_in_the_file_the_page_and_the_notebook(folder):
    model = sodalite.load(folder / "m.sodalite")
    made = summarize(model)
    assert Summary.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert Summary.from_json(read_header(folder / "m.sodalite").content["summary"]) == made
    assert dict(made.lines())["error bars"] in model._repr_html_()
    assert made.targets[0].error_bars == make_report(model).target.error_bars
    best = min(part.rmse for part in made.scores[1:])
    assert made.gain == pytest.approx(1 - made.scores[0].rmse / best)
    with pytest.raises(ValueError, match="summary"):
        Summary.from_json({"class": "Summary"})


def test_coordinates_keep_their_names(tmp_path):
    """The model has east, north and up in kilometres; people have latitudes and longitudes."""
    random = np.random.default_rng(0)
    place = np.column_stack([random.uniform(-60, 70, 150), random.uniform(-170, 170, 150)])
    frame = pd.DataFrame(place, columns=["Latitude", "Longitude"]).assign(temp=30 * np.cos(np.radians(place[:, 0])))
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["-t", "temp", "--set", "hyperparameters=fixed", "-n", "30", "-o", f"{tmp_path}/m"]
    done("fit", str(tmp_path / "t.csv"), *options)
    model = sodalite.load(tmp_path / "m")
    made = make_report(model)
    assert made.summary.inputs == ("Latitude", "Longitude")
    assert [effect.name for effect in made.importance.effects] == ["Latitude", "Longitude"]
    assert made.importance.effects[1].total < 0.2
    assert [part.name for part in made.view.inputs] == ["Longitude", "Latitude"]
    np.testing.assert_allclose(made.view.X, place[:, ::-1], atol=1e-9)
    longitude, latitude = (axis[7] for axis in made.view.axes)
    expected = model.predict(pd.DataFrame({"Latitude": [latitude], "Longitude": [longitude]}))
    assert made.view.mean[-1].reshape(28, 28)[7, 7] == pytest.approx(expected[0])
    assert made.judgement.regions is None or made.judgement.regions.by in ("Latitude", "prediction")
    axes = [figure["layout"]["xaxis"]["title"]["text"] for figure in content_of(to_html(made))["figures"].values()]
    assert not [title for title in axes if re.search("north|east|up$", title)]


def test_inspect_and_the_notebook_have_every_target_by_its_name(rows, tmp_path):
    X, y = rows
    model = fitted(X, pd.DataFrame({"price": y, "rent": -3 * y}))
    sodalite.save(model, tmp_path / "m")
    shown = done("inspect", tmp_path / "m").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert ["target", "price"] in lines
    assert ["target", "rent"] in lines
    first, second = (part.std for part in summarize(model).targets)
    assert second == pytest.approx(3 * first)
    for number in (first, second):
        assert f"± {words.readable(number)}" in shown
    errors = y - model.predict(X)[:, 0]
    one, other = summarize(model).targets
    assert one.rmse == pytest.approx(other.rmse / 3)
    assert one.rmse > np.sqrt(np.mean(np.square(errors)))  # each row is left out
    for target in (one, other):
        assert target.typical_error in " ".join(shown.split())
    assert "<b>target:</b> price" in model._repr_html_()
    assert "<b>target:</b> rent" in sodalite.load(tmp_path / "m")._repr_html_()
    assert "<b>target:</b> height" in fitted(X, pd.Series(y, name="height"))._repr_html_()
    assert "<b>target:</b> y" in fitted(X, y)._repr_html_()


@pytest.mark.parametrize("mean", [None, "linear"])
def test_a_model_of_logarithms_is_reported_in_units_of_the_target(mean):
    random = np.random.default_rng(0)
    X = random.uniform(0, 5, (210, 1))
    y = np.exp(X[:, 0] + 0.4 * random.normal(size=210))
    gp = GreedyGPRegressor(target="log", mean=mean, n_active=40, random_state=0).fit(X[:150], y[:150])
    made, material = make_report(gp), gather(gp, X[150:], y[150:])
    assert made.summary.mean.startswith("The logarithm of the target")
    assert made.judgement.rmse == pytest.approx(gp.posterior_.scale.bars.rmse)
    np.testing.assert_allclose(np.sort(made.view.y), np.sort(y[:150]))
    assert made.view.lower.min() > 0
    np.testing.assert_allclose(material.in_units(material.judges.y, material.judges.own_offset), y[150:])
    with pytest.raises(ValueError, match="The model learns the logarithm of targets, which is for targets above 0"):
        gather(gp, X[:2], [1.0, -1.0])


def test_errors_by_distance_are_in_units_of_the_target_and_the_same_everywhere(tmp_path, monkeypatch):
    """Near other rows, in holes and beyond the ends: on the terminal, in the file, on the page, in Python."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 300)
    frame = pd.DataFrame({"x": x, "y": 100 * np.exp(0.2 * x + 0.1 * np.sin(x) + 0.05 * random.normal(size=300))})
    frame.to_csv("t.csv", index=False)
    for scale in ("log", "none"):
        printed = done(
            "fit", "t.csv", "-t", "y", "--set", f"scale={scale}", "--set", "hyperparameters=subset", "-o", "m"
        )
        model = sodalite.load("m")
        found = summarize(model)
        assert [part.where for part in found.distances] == ["near", "holes", "ends"]
        near, holes, ends = found.distances
        assert (near.rmse, near.share) == (found.scores[0].rmse, found.scores[0].coverages["0.95"])
        assert (holes.n_rows, holes.share) == (model.judged_[0].n_rows, model.judged_[0].share)
        if scale == "log":  # an error of a tenth of the logarithm is a tenth of the target
            relative = np.sqrt(np.mean(np.square(frame["y"]))) * model.judged_[0].rmse
            assert holes.rmse == pytest.approx(relative, rel=0.1)
        else:
            assert (holes.rmse, ends.rmse) == tuple(part.rmse for part in model.judged_)
        html, shown = to_html(make_report(model)), done("inspect", "m").stdout
        for part in found.distances:
            for cell in part.cells:
                assert cell in printed.stdout
                assert cell in shown
                assert f"<td>{cell}</td>" in html


def series(n=200, seed=0):
    random = np.random.default_rng(seed)
    day = pd.date_range("2024-01-01", periods=n)
    y = 50 + 0.1 * np.arange(n) + 8 * np.sin(2 * np.pi * np.arange(n) / 7) + random.normal(size=n)
    return pd.DataFrame({"day": day, "y": y})


def test_the_last_stretches_of_time_are_predicted_from_what_came_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = series()
    frame.to_csv("t.csv", index=False)
    done("fit", "t.csv", "-t", "y", "--set", "hyperparameters=subset", "-o", "m")
    model = sodalite.load("m")
    found = make_report(model).ahead
    assert found.input.name == "day"
    assert [(part.share, len(part.y)) for part in found.stretches] == [(0.3, 60), (0.2, 40), (0.1, 20), (0.05, 10)]
    longest = found.stretches[0]
    assert longest.begin == str(frame["day"][140].date())
    np.testing.assert_allclose(longest.y, frame["y"][140:], rtol=1e-6)
    assert longest.simple["the last value"] == pytest.approx(metrics.rmse(longest.y, frame["y"][139]), rel=1e-6)
    week = frame["y"].to_numpy()[133:140]
    assert longest.simple["the last week"] == pytest.approx(metrics.rmse(longest.y, np.resize(week, 60)), rel=1e-4)
    assert longest.rmse == metrics.rmse(longest.y, longest.mean)
    assert longest.coverage == np.mean((longest.y >= longest.lower) & (longest.y <= longest.upper))
    html = to_html(make_report(model))
    assert "The last stretches of day, predicted from what came before" in html
    assert {f"ahead{place}" for place in range(4)} <= set(content_of(html)["figures"])
    assert f"<td>{words.readable(longest.rmse, 4)}</td>" in html


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.arange(60.0)[:, None], True),  # rows in the order of their only input
        (np.random.default_rng(0).uniform(size=(60, 1)), False),
        (np.arange(120.0).reshape(60, 2), False),
        (np.arange(20.0)[:, None], False),  # too few
    ],
)
def test_which_models_have_a_course_of_time(X, expected):
    made = make_report(fitted(X, np.sin(X[:, 0] / 5), RBF(np.ones(X.shape[1])) + WhiteKernel(0.1), n_active=60))
    assert (made.ahead is not None) == expected
    assert ("predicted from what came before" in to_html(made)) == expected
