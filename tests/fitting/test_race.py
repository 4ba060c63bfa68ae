"""The race of mean functions and scales: what wins, what is not asked, and what a fit with the winner is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor
from sodalite.fitting.race import Judged, Race

WINNERS = {
    "wave": ("constant", "standardize", False),
    "line and wave": ("linear", "standardize", False),
    "product": ("linear", "log", True),
    "steps": ("trees", "standardize", False),
}


def table(kind, n=600, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, 3))
    noise = generator.normal(0, 1, n)
    y = {
        "wave": np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.05 * noise,
        "line and wave": X @ [30.0, -20.0, 5.0] + np.sin(6 * X[:, 0]) + 0.1 * noise,
        "product": 10 * np.exp(X @ [0.7, -0.5, 0.1] + 0.3 * noise),
        "steps": np.sign(X[:, 0] * X[:, 1]) + (np.floor(2 * X[:, 2]) % 2) * (X[:, 0] > 0.5) + 0.02 * noise,
    }[kind]
    return X, y


def race(X, y):
    """The winner of a fit that does not search for long."""
    return GreedyGPRegressor(n_active=50, random_state=0).fit(X, y)


@pytest.mark.parametrize("kind", WINNERS)
def test_what_predicts_best_is_kept(kind):
    X, y = table(kind)
    gp = race(X, y)
    assert (gp.mean_.name, gp.target_.name, gp.mean_.alone) == WINNERS[kind]
    densities = [trial.nlpd for trial in gp.mean_.trials]
    assert densities == sorted(densities)
    assert len({trial.name for trial in gp.mean_.trials}) == len(densities) > 1


def test_nothing_competes_with_what_is_given():
    X, y = table("product", 80)
    fixed = GreedyGPRegressor(hyperparameters="fixed", random_state=0).fit(X, y)
    plain = GreedyGPRegressor(hyperparameters="fixed", mean=None, target="standardize", random_state=0).fit(X, y)
    assert (fixed.mean_.name, fixed.target_.name, fixed.mean_.trials) == ("constant", "standardize", ())
    assert_array_equal(fixed.predict(X), plain.predict(X))
    by_kernel = GreedyGPRegressor(plain.kernel_, random_state=0).fit(X, y)
    assert (by_kernel.mean_.name, by_kernel.target_.name, by_kernel.mean_.trials) == ("constant", "standardize", ())
    scaled = GreedyGPRegressor(target="standardize", random_state=0).fit(X, y)
    assert not any("log" in trial.name for trial in scaled.mean_.trials)
    assert GreedyGPRegressor(random_state=0).fit(X, np.column_stack([y, -y])).mean_.trials == ()


def test_the_units_of_the_targets_and_the_order_of_the_names_decide_nothing():
    X, y = table("product", 150)
    one, other = race(X, y), race(X, 1e6 * y)
    assert (one.mean_.name, one.target_.name) == (other.mean_.name, other.target_.name)
    gains = [[trial.nlpd - gp.mean_.trials[0].nlpd for trial in gp.mean_.trials] for gp in (one, other)]
    assert_allclose(*gains, atol=1e-4)


@pytest.mark.parametrize(
    ("density", "squares", "beats"),
    [
        (1.0, 1.0, True),  # a larger density
        (1.0, 4.0, False),  # with a larger error
        (0.005, 1.0, False),  # hardly larger
        (0.0, 0.5, True),  # a smaller error
        (-1.0, 0.5, False),  # with a smaller density
        (0.0, 1.0, False),
    ],
)
def test_who_beats_whom(density, squares, beats):
    noise = np.random.default_rng(0).normal(0, 1e-3, 100)
    other = Judged(None, np.zeros(100), np.ones(100))
    assert Judged(None, density + noise, squares * (1 + noise)).beats(other) is beats


def test_a_time_limit_leaves_candidates_out():
    X, y = table("product", 200)
    pool = sodalite.selection.rows.ArrayRows(X, y[:, None])
    race = Race(pool, np.arange(200), settings_of(GreedyGPRegressor()), 200, -1.0, (1.0, 2.0))
    winner = race.winner(sodalite.fitting.race.Candidate(None, "standardize"))
    assert (winner.mean, winner.target, len(race.judged)) == (None, "standardize", 1)


def test_rows_without_weight_do_not_judge():
    X, y = table("product", 100)
    weights = np.where(np.arange(100) < 60, 1.0, 0.0)
    wrong = np.where(weights > 0, y, -1e3)
    gp = GreedyGPRegressor(random_state=0, n_active=40, time_limit=20).fit(X, wrong, weights)
    assert len(gp.mean_.trials) > 1
    assert max(trial.rmse for trial in gp.mean_.trials) < 2 * y.std()


def test_a_scale_suits_all_rows_and_not_only_those_that_race(monkeypatch):
    monkeypatch.setattr(sodalite.fitting.race, "POOL", 100)
    X, y = table("product", 400)
    last = np.setdiff1d(np.arange(400), sodalite.fitting.race._some(np.arange(400), 100))[0]
    y[last] = 0.0
    assert GreedyGPRegressor(random_state=0, n_active=30).fit(X, y, alpha=0).target_.name != "log"


def test_one_bound_is_enough():
    X, y = table("product", 60)
    gp = GreedyGPRegressor(random_state=0, n_active=30, bounds=(None, 1e4)).fit(X, y / 1e3)
    assert gp.predict_interval(X)[1].max() <= 1e4


def settings_of(model):
    return sodalite.fitting.pipeline.Settings.of(model.get_params())


def test_a_fit_goes_on_from_its_checkpoint_with_what_has_won(tmp_path):
    X, y = table("product", 100)
    gp = GreedyGPRegressor(random_state=0, n_active=40)
    first = gp.fit(X, y, checkpoint=tmp_path / "c").predict(X)
    assert_allclose(gp.fit(X, y, checkpoint=tmp_path / "c").predict(X), first, rtol=1e-10)
    assert gp.target_.name == "log"


def test_trees_leave_the_checkpoint_of_the_first_model_as_it_is(tmp_path):
    X, y = table("steps")
    gp = GreedyGPRegressor(random_state=0, n_active=50)
    first = gp.fit(X, y, checkpoint=tmp_path / "c").predict(X)
    assert gp.mean_.name == "trees"
    assert_allclose(gp.fit(X, y, checkpoint=tmp_path / "c").predict(X), first, rtol=1e-8)


# --- a line is never behind ridge ---

LINES = ["few", "scales", "collinear", "copies", "wide", "levels", "outlying row", "far row", "quiet"]


def line(kind, n, seed):
    """Rows of a target that is linear in its inputs plus noise, and new rows."""
    generator = np.random.default_rng(seed)
    total = n + 500
    d = {"wide": 2 * n, "levels": 20}.get(kind, 5)
    X = generator.normal(size=(total, d))
    if kind == "scales":
        X = X * 10.0 ** np.arange(-6, 4, 2) + 1e3
    if kind == "collinear":
        X = np.column_stack([X, X @ generator.normal(size=(5, 3))])
    if kind == "copies":
        X = np.column_stack([X, X + 1e-4 * generator.normal(size=X.shape)])
    if kind == "levels":
        X = np.eye(20)[generator.integers(20, size=total)]
    if kind == "far row":
        X[0] *= 30
    f = X @ (generator.normal(size=X.shape[1]) / X.std(axis=0) / np.sqrt(X.shape[1]))
    f = f + (1e-3 if kind == "quiet" else 1.0) * generator.normal(size=total)
    y = f.copy()
    if kind == "outlying row":
        y[0] += 30
    return X[:n], y[:n], X[n:], f[n:]


@pytest.mark.filterwarnings("ignore:A target is far off:sodalite.exceptions.OutlierWarning")
@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("n", [30, 100, campaign(400)])
def test_a_line_is_not_behind_ridge(kind, n):
    ratios = []
    for seed in range(4):
        X, y, new, f = line(kind, n, seed)
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 25))).fit(X, y)
        gp = GreedyGPRegressor(mean="linear", target="standardize", random_state=0).fit(X, y)
        ratios.append(np.sqrt(np.mean((gp.predict(new) - f) ** 2) / np.mean((ridge.predict(new) - f) ** 2)))
    assert np.mean(ratios) < 1.02, ratios


def fastfood(n=387, seed=0):
    """A target that follows a line but for few rows, in many columns: two hundred rows and a process do not see it."""
    generator = np.random.default_rng(seed)
    X = np.exp(generator.normal(size=(n + 200, 14)))
    y = X @ generator.uniform(1, 9, 14) + generator.standard_t(2, n + 200)
    return X[:n], y[:n], X[n:], y[n:]


def test_a_line_that_is_ahead_of_the_whole_fit_is_what_is_predicted():
    X, y, new, truth = fastfood()
    with pytest.warns(sodalite.exceptions.NoBetterWarning, match="A straight line is all of the model"):
        gp = GreedyGPRegressor(random_state=0).fit(X, y, alpha=0)
    assert (gp.mean_.name, gp.mean_.alone) == ("linear", True)
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 25))).fit(X, y)
    errors = [np.sqrt(np.mean(np.square(model.predict(new) - truth))) for model in (gp, ridge)]
    assert errors[0] < 1.02 * errors[1]
    lower, upper = gp.predict_interval(new, 0.9)
    assert 0.85 < np.mean((lower <= truth) & (truth <= upper)) < 0.95


def test_a_line_alone_works_as_any_model_does(tmp_path):
    X, y, new, _ = fastfood(120)
    gp = GreedyGPRegressor(mean="linear", target="standardize", random_state=0).fit(X, y, alpha=0)
    assert gp.mean_.alone
    sodalite.save(gp, tmp_path / "m.sodalite")
    again = sodalite.load(tmp_path / "m.sodalite")
    assert again.mean_.alone
    assert_array_equal(again.predict_quantiles(new, [0.1, 0.9]), gp.predict_quantiles(new, [0.1, 0.9]))
    assert gp.sample_y(new, 3).shape == (200, 3)
    assert gp.importance(X).effects[0].total > 0
    more = gp.partial_fit(new[:5], gp.predict(new[:5]))
    assert_allclose(more.predict(new), again.predict(new), rtol=1e-4)
