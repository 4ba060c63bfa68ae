"""Metrics of predictions, beside those of the package scoringrules, SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scoringrules
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sodalite import GreedyGPRegressor, metrics

SCORERS = {"nlpd": metrics.neg_nlpd, "crps": metrics.neg_crps, "interval": metrics.neg_interval_score}


@pytest.fixture(params=[(200,), (100, 2)], ids=["one target", "two targets"])
def predictions(request):
    """Targets, means and standard deviations."""
    generator = np.random.default_rng(0)
    shape = request.param
    return generator.normal(size=shape), generator.normal(size=shape), generator.uniform(0.2, 3, size=shape)


# Metrics


def test_rmse_nlpd_crps_and_pit(predictions):
    y, mean, std = predictions
    assert metrics.rmse(y, mean) == pytest.approx(root_mean_squared_error(y.ravel(), mean.ravel()), rel=1e-12)
    assert metrics.nlpd(y, mean, std) == pytest.approx(np.mean(scoringrules.logs_normal(y, mean, std)), rel=1e-12)
    assert metrics.crps(y, mean, std) == pytest.approx(np.mean(scoringrules.crps_normal(y, mean, std)), rel=1e-10)
    assert metrics.crps(y, mean, np.full(y.shape, 1e-12)) == pytest.approx(np.mean(np.abs(y - mean)))
    assert_allclose(metrics.pit(y, mean, std), stats.norm.cdf(y, mean, std), rtol=1e-12)


@pytest.mark.parametrize("levels", [[0.5], [0.05, 0.5, 0.95], [0.9, 0.1]], ids=str)
def test_quantile_crps(levels, predictions):
    y, mean, std = predictions
    quantiles = stats.norm.ppf(levels, mean[..., None], std[..., None])
    expected = np.mean(scoringrules.crps_quantile(y, quantiles, np.array(levels)))
    assert metrics.quantile_crps(y, quantiles, levels) == pytest.approx(expected, rel=1e-12)
    pinball = [np.mean(scoringrules.quantile_score(y, quantiles[..., i], level)) for i, level in enumerate(levels)]
    assert expected == pytest.approx(2 * np.mean(pinball), rel=1e-12)


@pytest.mark.parametrize("coverage", [0.5, 0.95, 0.99])
def test_intervals(coverage, predictions):
    y, mean, std = predictions
    lower, upper = stats.norm.interval(coverage, mean, std)
    expected = np.mean(scoringrules.interval_score(y, lower, upper, 1 - coverage))
    assert metrics.interval_score(y, lower, upper, coverage) == pytest.approx(expected, rel=1e-12)
    inside = np.mean((y > lower) & (y < upper))
    assert metrics.interval_coverage(y, lower, upper) == inside
    assert metrics.coverage(y, mean, std, coverage) == inside
    assert 0 < inside < 1


def test_the_ends_of_an_interval_belong_to_it():
    y = np.array([1.0, 2.0, 3.0])
    assert metrics.interval_coverage(y, np.array([1.0, 0.0, 0.0]), np.array([2.0, 2.0, 2.0])) == 2 / 3


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, np.nan, "wide", "0.5", None, True, [0.5, 1.5]])
def test_bad_levels_are_refused_by_name(level):
    y = np.zeros(4)
    for name, call in {
        "level": lambda: metrics.coverage(y, y, y + 1, level),
        "coverage": lambda: metrics.interval_score(y, y - 1, y + 1, level),
        "levels": lambda: metrics.quantile_crps(y, y[:, None], level),
    }.items():
        with pytest.raises((TypeError, ValueError), match=rf"^{name} must "):
            call()


def test_shapes_that_do_not_go_together_are_refused_by_name():
    y = np.zeros(4)
    with pytest.raises(ValueError, match=r"lower must have the shape \(4,\), to go with y; its shape is \(4, 1\)"):
        metrics.interval_score(y, y[:, None], y)
    with pytest.raises(ValueError, match="upper must have"):
        metrics.interval_coverage(y, y, y[:3])
    with pytest.raises(ValueError, match=r"quantiles must have the shape \(4, 2\)"):
        metrics.quantile_crps(y, np.zeros((4, 3)), [0.1, 0.9])


# Scorers


class KnownT:
    """A model of known error bars: Student's t with 4 degrees of freedom around the first input."""

    def predict_quantiles(self, X, quantiles):
        return X[:, :1] + 0.3 * stats.t(4).ppf(quantiles)

    def predict_interval(self, X, coverage=0.95):
        return tuple(self.predict_quantiles(X, [0.5 - coverage / 2, 0.5 + coverage / 2]).T)

    def log_density(self, X, y):
        return stats.t(4, X[:, 0], 0.3).logpdf(y)


def test_the_scorers_are_the_scores_of_a_known_distribution():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 1))
    y = X[:, 0] + 0.3 * generator.standard_t(4, 300)
    one = KnownT()
    assert metrics.neg_nlpd(one, X, y) == pytest.approx(-np.mean(scoringrules.logs_t(y, 4, X[:, 0], 0.3)), rel=1e-10)
    assert metrics.neg_crps(one, X, y) == pytest.approx(-np.mean(scoringrules.crps_t(y, 4, X[:, 0], 0.3)), rel=2e-3)
    expected = scoringrules.interval_score(y, *one.predict_interval(X), 0.05)
    assert metrics.neg_interval_score(one, X, y) == pytest.approx(-np.mean(expected), rel=1e-10)


def table(n=90, q=1):
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (n, 1))
    noise = 0.2 * generator.standard_t(3, (n, q))
    return X, (np.sin(X) + noise)[:, 0] if q == 1 else np.sin(X) * np.arange(1, q + 1) + noise


def quick(**options):
    return GreedyGPRegressor(
        RBF(1.0) + WhiteKernel(0.1), hyperparameters="fixed", n_active=30, random_state=0, **options
    )


def test_the_scorers_are_the_means_of_what_the_model_says():
    X, y = table()
    model = quick().fit(X[:60], y[:60])
    T, t = X[60:], y[60:]
    levels = (np.arange(2000) + 0.5) / 2000
    assert metrics.neg_nlpd(model, T, t) == pytest.approx(model.log_density(T, t).mean(), rel=1e-12)
    expected = np.mean(scoringrules.crps_quantile(t, model.predict_quantiles(T, levels), levels))
    assert metrics.neg_crps(model, T, t) == pytest.approx(-expected, rel=2e-3)
    expected = np.mean(scoringrules.interval_score(t, *model.predict_interval(T), 0.05))
    assert metrics.neg_interval_score(model, T, t) == pytest.approx(-expected, rel=1e-9)
    for scorer in SCORERS.values():  # a column of targets, a series, a list
        for form in (t[:, None], pd.Series(t, index=t), t.tolist()):
            assert scorer(model, T, form) == pytest.approx(scorer(model, T, t), rel=1e-12)


def test_the_scorers_in_cross_validation_and_pipelines():
    X, y = table()
    cv = KFold(3)
    plain = cross_validate(quick(), X, y, scoring=SCORERS, cv=cv)
    alone = cross_validate(make_pipeline(quick()), X, y, scoring=SCORERS, cv=cv)
    scaled = cross_validate(make_pipeline(StandardScaler(), quick()), pd.DataFrame(X), y, scoring=SCORERS, cv=cv)
    for name, scorer in SCORERS.items():
        assert np.all(np.isfinite(scaled[f"test_{name}"]))
        assert_allclose(alone[f"test_{name}"], plain[f"test_{name}"], rtol=1e-10)
        for part, (rest, test) in enumerate(cv.split(X)):
            centre, scale = X[rest].mean(axis=0), X[rest].std(axis=0)
            model = quick().fit((X[rest] - centre) / scale, y[rest])
            expected = scorer(model, (X[test] - centre) / scale, y[test])
            assert scaled[f"test_{name}"][part] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", SCORERS)
def test_the_scorers_in_a_grid_search(name):
    X, y = table()
    kernels = [RBF(1.0) + WhiteKernel(0.1), RBF(0.01) + WhiteKernel(1e-6)]  # one that fits, and one that does not
    search = GridSearchCV(quick(), {"kernel": kernels}, scoring=SCORERS[name], cv=3).fit(X[:60], y[:60])
    assert search.best_params_["kernel"] == kernels[0]
    assert search.cv_results_["mean_test_score"][0] > search.cv_results_["mean_test_score"][1]
    expected = SCORERS[name](search.best_estimator_, X[60:], y[60:])
    assert search.score(X[60:], y[60:]) == SCORERS[name](search, X[60:], y[60:]) == expected


def test_the_scorers_of_several_targets():
    X, Y = table(q=2)
    model = quick().fit(X[:60], Y[:60])
    T, t = X[60:], Y[60:]
    assert metrics.neg_nlpd(model, T, t) == pytest.approx(model.log_density(T, t).mean())
    lower, upper = model.predict_interval(T)
    each = [metrics.interval_score(t[:, j], lower[:, j], upper[:, j]) for j in range(2)]
    assert metrics.neg_interval_score(model, T, t) == pytest.approx(-np.mean(each))
    quantiles, levels = model.predict_quantiles(T, np.linspace(0.01, 0.99, 99)), np.linspace(0.01, 0.99, 99)
    each = [metrics.quantile_crps(t[:, j], quantiles[:, j], levels) for j in range(2)]
    assert metrics.neg_crps(model, T, t) == pytest.approx(-np.mean(each), rel=0.02)


@pytest.mark.parametrize("scorer", SCORERS.values())
def test_a_model_without_error_bars_is_refused(scorer):
    X, y = table(30)
    model = TransformedTargetRegressor(quick(), func=np.arcsinh, inverse_func=np.sinh).fit(X, y)
    with pytest.raises(TypeError, match=r"TransformedTargetRegressor has no method .*score a GreedyGPRegressor"):
        scorer(make_pipeline(StandardScaler(), model).fit(X, y), X, y)
