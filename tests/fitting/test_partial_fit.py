"""New rows join a fitted model: what comes out is what the same picks give on the joined data."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from helpers import POSTERIORS, campaign
from helpers import paper_select as select
from sodalite import GreedyGPRegressor
from sodalite.criteria import CRITERIA
from sodalite.fitting.exchange import exchanged, least_missed
from sodalite.hyperparameters import Subset, Weave
from sodalite.hyperparameters.joint import Joint
from sodalite.kernels import compile_kernel
from sodalite.metrics import rmse
from sodalite.posteriors import Evidence
from sodalite.selection.grow import grow
from sodalite.selection.rows import ArrayRows
from sodalite.stopping import Rule, Size, TargetRMSE

KERNEL = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)
posteriors = pytest.mark.parametrize("posterior", POSTERIORS)
FEW = ("local", "sod", "vfe")
some_posteriors = pytest.mark.parametrize("posterior", [name if name in FEW else campaign(name) for name in POSTERIORS])


def data(n=160, q=None, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, (n, 2))
    Y = np.column_stack([5 * np.sin(X[:, 0]) + X[:, 1] + 30, np.cos(X[:, 1]) * X[:, 0]])
    Y = Y + 0.1 * generator.normal(size=(n, 2))
    return X, Y[:, 0] if q is None else Y[:, :q]


def new_rows(n=20):
    return np.random.default_rng(9).uniform(-3, 3, (n, 2))


def model(**options):
    plain = {"kernel": KERNEL, "hyperparameters": "fixed", "n_active": 25, "random_state": 0}
    return GreedyGPRegressor(**{**plain, "posterior": "sod", "criterion": "delta", **options})


def begun(**options):
    """All rows, and a model of the first hundred of them."""
    X, y = data()
    return X, y, model(**options).fit(X[:100], y[:100])


def joined(fitted, X, y, alpha=None):
    """A fresh model of all rows, with the kernel, the scaling and the first picks of one that was fitted to some."""
    mean, std = fitted.y_mean_, fitted.y_std_
    scaled = ((y.reshape(len(y), -1) - mean) / std).reshape(y.shape)
    fresh = clone(fitted).set_params(
        kernel=fitted.kernel_,
        hyperparameters="fixed",
        target=None,
    )
    first = fitted.active_indices_[: fitted.n_active]
    return fresh.fit(X, scaled, alpha=None if alpha is None else alpha / std[0] ** 2, first=first)


def compare(found, fresh, T):
    """The same picks, and the same predictions but for the units."""
    mean, std = found.y_mean_, found.y_std_
    unit = std[0] if len(std) == 1 else std
    assert_array_equal(found.active_indices_, fresh.active_indices_)
    expected, spread = fresh.predict(T, return_std=True)
    got, got_std = found.predict(T, return_std=True)
    assert_allclose(got, expected * unit + (mean[0] if len(mean) == 1 else mean), rtol=1e-9)
    assert_allclose(got_std, spread * unit, rtol=1e-9)
    _, cov = found.predict(T, return_cov=True)
    assert_allclose(cov, fresh.predict(T, return_cov=True)[1] * unit**2, atol=1e-9 * np.abs(cov).max())
    assert found.log_marginal_likelihood_value_ == pytest.approx(fresh.log_marginal_likelihood_value_, rel=1e-9)
    assert_allclose(found.X_train_, fresh.X_train_)
    assert_allclose(found.y_train_, fresh.y_train_)
    assert found.y_train_.shape == fresh.y_train_.shape


# The same as a fit of all rows


@posteriors
@pytest.mark.parametrize("q", [2, campaign(None), campaign(1)])
def test_it_is_a_fresh_model_of_all_rows_with_the_same_picks(posterior, q):
    X, y = data(q=q)
    fitted = model(posterior=posterior).fit(X[:100], y[:100])
    before = fitted.active_indices_
    fitted.set_params(n_active=40)
    fresh = joined(fitted, X, y)
    assert fitted.partial_fit(X[100:], y[100:]) is fitted
    compare(fitted, fresh, new_rows())
    assert_array_equal(fitted.active_indices_[:25], before)
    assert len(fitted.active_indices_) == 40
    assert fitted.active_indices_.max() >= 100


@some_posteriors
def test_rows_that_arrive_one_after_the_other(posterior):
    X, y = data(n=120)
    fitted = model(posterior=posterior, n_active=10).fit(X[:60], y[:60])
    for begin in range(60, 120, 20):
        fitted.set_params(n_active=fitted.n_active + 5)
        fresh = joined(fitted, X[: begin + 20], y[: begin + 20])
        fitted.partial_fit(X[begin : begin + 20], y[begin : begin + 20])
        compare(fitted, fresh, new_rows())


@pytest.mark.parametrize("posterior", ["sod", "local", "vfe"])
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_noise_of_the_rows_own_joins(posterior, before, after):
    X, y = data()
    alpha = np.random.default_rng(1).uniform(0, 2, len(y))
    alpha[:100] *= before
    alpha[100:] *= after
    fitted = model(posterior=posterior).fit(X[:100], y[:100], alpha=alpha[:100] if before else None)
    fitted.set_params(n_active=40)
    fresh = joined(fitted, X, y, alpha)
    fitted.partial_fit(X[100:], y[100:], alpha=alpha[100:] if after else None)
    compare(fitted, fresh, new_rows())


def test_a_full_active_set_stays_and_the_others_still_count():
    X, y = data()
    T = new_rows()
    for kind in ("sod", "local"):
        fitted = model(posterior=kind).fit(X[:100], y[:100])
        indices, mean = fitted.active_indices_, fitted.predict(T)
        fitted.partial_fit(X[100:], y[100:])
        assert_array_equal(fitted.active_indices_, indices)
        assert np.allclose(fitted.predict(T), mean, rtol=1e-9) == (kind == "sod")
        fitted.set_params(n_active=10).partial_fit(X[100:], y[100:])
        assert_array_equal(fitted.active_indices_, indices[:10])


def test_the_first_call_is_a_fit():
    X, y = data()
    quick = Weave(n_start=50, n_rounds=1, n_judged=40)
    options = {"hyperparameters": quick, "posterior": "local", "kernel": None}
    one, two = model(**options), model(**options)
    one.partial_fit(X, y, alpha=0.1)
    two.fit(X, y, alpha=0.1)
    assert one.kernel_ == two.kernel_
    assert_array_equal(one.active_indices_, two.active_indices_)
    assert_array_equal(one.predict(new_rows()), two.predict(new_rows()))


def test_kernel_and_scaling_stay():
    X, y, fitted = begun(kernel=None, hyperparameters=Subset(n_rows=60, n_starts=2))
    kernel, mean, std, rounds = fitted.kernel_, fitted.y_mean_, fitted.y_std_, fitted.rounds_
    fitted.partial_fit(X[100:] + 1, 10 * y[100:] + 500)
    assert fitted.kernel_ == kernel
    assert_array_equal(fitted.y_mean_, mean)
    assert_array_equal(fitted.y_std_, std)
    assert fitted.rounds_ == rounds


def test_rows_where_there_were_none_are_learnt_from():
    X, y = data(n=400)
    left = X[:, 0] < 0
    fitted = model(posterior="local").fit(X[left], y[left])
    T, truth = X[~left][::5], y[~left][::5]
    before = rmse(truth, fitted.predict(T))
    some = ~left & (np.arange(400) % 2 > 0)
    fitted.set_params(n_active=50).partial_fit(X[some], y[some])
    assert rmse(truth, fitted.predict(T)) < 0.2 * before


def test_a_fit_forgets_what_has_joined():
    X, y = data()
    fitted = model().fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    fitted.fit(X[:100], y[:100])
    fitted.set_params(n_active=40).partial_fit(X[100:130], y[100:130])
    assert fitted.active_indices_.max() < 130
    fresh = model().fit(X[:100], y[:100]).set_params(n_active=40).partial_fit(X[100:130], y[100:130])
    assert_array_equal(fitted.predict(new_rows()), fresh.predict(new_rows()))


def test_a_copy_goes_on_where_the_original_stands():
    X, y, fitted = begun(posterior="local")
    copied = pickle.loads(pickle.dumps(fitted))
    for one in (fitted, copied):
        one.set_params(n_active=40).partial_fit(X[100:], y[100:])
    assert_array_equal(copied.active_indices_, fitted.active_indices_)
    assert_allclose(copied.predict(new_rows()), fitted.predict(new_rows()), rtol=1e-10)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_goes_on(criterion):
    X, y, fitted = begun(criterion=criterion)
    before = fitted.active_indices_
    fitted.set_params(n_active=60).partial_fit(X[100:], y[100:])
    assert_array_equal(fitted.active_indices_[:25], before)
    assert len(np.unique(fitted.active_indices_)) == 60


def test_types_of_numbers_may_differ():
    X, y = data()
    fitted = model().fit(X[:100].astype(np.float32), y[:100]).set_params(n_active=40)
    fitted.partial_fit(X[100:].tolist(), y[100:].tolist())
    rounded = np.vstack([X[:100].astype(np.float32), X[100:]])
    expected = model().fit(rounded[:100], y[:100]).set_params(n_active=40).partial_fit(rounded[100:], y[100:])
    assert_array_equal(fitted.active_indices_, expected.active_indices_)
    assert_allclose(fitted.predict(new_rows()), expected.predict(new_rows()), rtol=1e-9)


def test_stopping_rules_go_on():
    X, y, fitted = begun(stop=TargetRMSE(0.5), n_active=100)
    first = len(fitted.active_indices_)
    assert fitted.selection_.stop_reason == "target_rmse"
    fitted.set_params(stop=TargetRMSE(0.25)).partial_fit(X[100:], y[100:])
    assert fitted.selection_.stop_reason == "target_rmse"
    assert first < len(fitted.active_indices_) < 100
    assert fitted.selection_.rmse[-1] <= 0.25 < fitted.selection_.rmse[-2]


# What is refused


class Failing(Rule):
    """Fails in the middle of a selection."""

    def check(self, stage):
        raise KeyboardInterrupt


def bad_calls():
    """The options, the rows and their noise, the error and its message."""
    X, y = data()
    more, nan = {"X": X[100:], "y": y[100:]}, X[100:].copy()
    nan[3, 1] = np.nan
    return {
        "wider": ({}, {"X": np.ones((9, 3)), "y": np.ones(9)}, ValueError, "X has 3 features, but .* is expecting 2"),
        "narrower": ({}, {"X": np.ones((9, 1)), "y": np.ones(9)}, ValueError, "X has 1 features, but .* expecting 2"),
        "targets": (
            {},
            {**more, "y": np.ones((60, 2))},
            ValueError,
            r"y has targets of shape \(2,\), but .* with \(\)",
        ),
        "column": ({}, {**more, "y": y[100:, None]}, ValueError, r"y has targets of shape \(1,\), but .* with \(\)"),
        "lengths": ({}, {**more, "y": y[101:]}, ValueError, r"\[60, 59\]|same number of rows"),
        "nan": ({}, {**more, "X": nan}, ValueError, "X contains NaN"),
        "no rows": ({}, {"X": X[:0], "y": y[:0]}, ValueError, "0 sample"),
        "alpha": ({}, {**more, "alpha": -1}, ValueError, "alpha is a variance"),
        "alpha's length": ({}, {**more, "alpha": np.ones(160)}, ValueError, r"alpha must be .* shape \(60,\)"),
        "n_active": ({"n_active": 0}, more, ValueError, "n_active must be at least 1"),
        "posterior": ({"posterior": "sodd"}, more, ValueError, "posterior must be one of"),
        "criterion": ({"criterion": "dleta"}, more, ValueError, "criterion must be one of"),
        "interrupt": ({"stop": Failing(), "n_active": 50}, more, KeyboardInterrupt, None),
    }


@pytest.mark.parametrize("kind", bad_calls())
def test_what_is_refused_is_so_before_any_work_and_leaves_the_model_as_it_was(kind, monkeypatch):
    options, arrays, error, message = bad_calls()[kind]
    X, y, fitted = begun()
    expected = fitted.predict(new_rows())
    before = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    rows = fitted.fitted_.rows
    fitted.set_params(**options)
    if kind != "interrupt":
        monkeypatch.setattr("sodalite.selection.grow.run", lambda *args: pytest.fail("the long work began"))
    with pytest.raises(error, match=message):
        fitted.partial_fit(**arrays)
    monkeypatch.undo()
    assert {name: value for name, value in vars(fitted).items() if name.endswith("_")} == before
    assert fitted.fitted_.rows is rows
    assert_array_equal(fitted.predict(new_rows()), expected)
    fitted.set_params(**{name: model().get_params()[name] for name in options})
    fitted.partial_fit(X[100:], y[100:])


def test_names_of_columns_are_checked():
    X, y = data()
    fitted = model().fit(pd.DataFrame(X[:100], columns=["a", "b"]), y[:100])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.partial_fit(pd.DataFrame(X[100:], columns=["b", "a"]), y[100:])
    fitted.partial_fit(pd.DataFrame(X[100:], columns=["a", "b"]), y[100:])
    assert fitted.feature_names_in_.tolist() == ["a", "b"]


def test_a_first_call_that_fails_leaves_the_model_unfitted():
    fitted = model()
    with pytest.raises(ValueError, match="NaN"):
        fitted.partial_fit(np.full((9, 2), np.nan), np.ones(9))
    assert not hasattr(fitted, "n_features_in_")
    assert not hasattr(fitted, "posterior_")


# Rows that are given up for others


def two_places(n=300, n_new=150, seed=0):
    """Rows of one place, then some of another that is far from it."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, (n, 2))
    X[-n_new:, 0] += 8
    y = np.sin(2 * X[:, 0]) + np.cos(X[:, 1]) + 0.1 * generator.normal(size=n)
    return X, y


def joint(fitted, X, y):
    """J of the model's active rows and all others, per row."""
    scaled = (y.reshape(len(y), -1) - fitted.y_mean_) / fitted.y_std_
    return Joint(fitted.kernel_, X, scaled, fitted.active_indices_, np.arange(len(X)))(fitted.kernel_.theta)[0]


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("alpha", [False, True])
def test_the_rows_that_are_given_up_are_those_that_are_missed_least(q, alpha):
    """Against all ways to give up a row, one after the other, each with a posterior of its own."""
    X, Y = data(n=60, q=q)
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    own = np.random.default_rng(1).uniform(0, 0.2, len(X)) if alpha else None
    kernel, generator = compile_kernel(KERNEL, X), np.random.default_rng(0)
    rule, criterion = Size(12), CRITERIA["delta"]
    chosen = grow(
        ArrayRows(X, Y, own), kernel, n_active=12, criterion=criterion, rule=rule, first=0, generator=generator
    )
    sample = np.setdiff1d(np.arange(60), chosen.indices)[::2]

    def density(active):
        rows, others = kernel.prepare(X[active]), kernel.prepare(X[sample])
        noise = [kernel.noise(rows), kernel.noise(others)]
        noise = [part + own[places] for part, places in zip(noise, (active, sample), strict=True)] if alpha else noise
        W = np.linalg.solve(kernel.block(rows, rows) + np.diag(noise[0]), kernel.block(rows, others))
        variance = kernel.diag(others) - np.sum(W * kernel.block(rows, others), axis=0) + noise[1]
        return norm.logpdf(Y[sample], W.T @ Y[active], np.sqrt(variance)[:, None]).sum()

    left, expected = list(range(12)), []
    for _ in range(5):
        best = max(left, key=lambda i: density(chosen.indices[[j for j in left if j != i]]))
        expected.append(best)
        left.remove(best)
    assert least_missed(Evidence(kernel, ArrayRows(X, Y, own), chosen), sample, 5) == expected


@some_posteriors
def test_an_exchange_serves_a_place_that_was_not_there_before(posterior):
    X, y = two_places()
    kept, swapped = (
        model(posterior=posterior).fit(X[:150], y[:150]).partial_fit(X[150:], y[150:], exchange=exchange)
        for exchange in (False, True)
    )
    assert kept.active_indices_.max() < 150
    assert len(swapped.active_indices_) == len(np.unique(swapped.active_indices_)) == 25
    assert 5 <= np.sum(swapped.active_indices_ >= 150) <= 20
    assert joint(swapped, X, y) > joint(kept, X, y)
    if posterior == "sod":
        T, t = two_places(seed=1)
        assert rmse(t, swapped.predict(T)) < 0.7 * rmse(t, kept.predict(T))
    compare(swapped, joined(swapped, X, y), new_rows())


@pytest.mark.parametrize("criterion", ["delta", "lookahead", "random"])
@pytest.mark.parametrize("seed", [0, *map(campaign, range(1, 4))])
def test_no_exchange_lowers_j(criterion, seed):
    X, y = data(n=200, seed=seed)
    kept, swapped = (
        model(criterion=criterion, random_state=seed)
        .fit(X[:100], y[:100])
        .partial_fit(X[100:], y[100:], exchange=exchange)
        for exchange in (False, True)
    )
    assert joint(swapped, X, y) >= joint(kept, X, y)


def test_an_exchange_that_lowers_j_is_not_kept():
    """Rows chosen by their uncertainty alone are given up for others of that kind, whatever the targets say."""
    X, y = data(n=200)
    fitted = model(criterion="lookahead", n_active=40).fit(X[:190], y[:190]).set_params(criterion="uncertainty")
    before = fitted.active_indices_
    assert_array_equal(fitted.partial_fit(X[190:], y[190:], exchange=True).active_indices_, before)


@pytest.mark.parametrize(
    ("n_old", "sizes"),
    [(30, [12, 18, 21]), (45, [18, 21, 23]), (57, [22, 23]), (59, [23]), (60, [])],
)
def test_as_many_are_given_up_as_there_are_new_rows_in_proportion_and_fewer_if_that_is_no_good(n_old, sizes):
    X, y = data(n=60, q=1)
    chosen = select(X[:n_old], y[:n_old], KERNEL, n_active=24, first=0)
    tried = []

    def no_good(rows):
        tried.append(len(rows))
        assert_array_equal(rows, chosen.indices[np.isin(chosen.indices, rows)])  # in the order in which they were
        return chosen

    evidence = Evidence(compile_kernel(KERNEL, X), ArrayRows(X, y), chosen)
    assert exchanged(evidence, no_good, n_old, np.random.default_rng(0)) is chosen
    assert tried == sizes


def test_new_rows_that_were_chosen_already_count():
    X, y = (part[::-1] for part in data(n=60, q=1))
    chosen = select(X, y, KERNEL, n_active=24, first=59)
    n_new, tried = int(np.sum(chosen.indices >= 30)), []
    assert 0 < n_new < 12
    evidence = Evidence(compile_kernel(KERNEL, X), ArrayRows(X, y), chosen)
    exchanged(evidence, lambda rows: tried.append(len(rows)) or chosen, 30, np.random.default_rng(0))
    assert tried[0] == 24 - (12 - n_new)


def test_with_room_for_the_new_rows_nothing_is_given_up():
    X, y = two_places()
    fitted = model().fit(X[:150], y[:150]).set_params(n_active=60)
    before = fitted.active_indices_
    fitted.partial_fit(X[150:], y[150:], exchange=True)
    assert_array_equal(fitted.active_indices_[:25], before)


@pytest.mark.parametrize(("n_active", "n"), [(1, 40), (2, 40), (40, 40), (60, 40)])
def test_an_exchange_of_one_row_or_all(n_active, n):
    X, y = data(n=n)
    fitted = model(n_active=n_active).fit(X[:20], y[:20]).partial_fit(X[20:], y[20:], exchange=True)
    assert len(fitted.active_indices_) == min(n_active, n)
