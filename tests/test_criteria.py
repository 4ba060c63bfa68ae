"""Scores for noisy data: `Sampled`, which draws rows, and `Lookahead`, which judges rows by the others' density."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from helpers import CHANCES, DTYPES, EXECUTORS, campaign, threads
from sodalite import GreedyGPRegressor, select
from sodalite.criteria import (
    CRITERIA,
    Delta,
    Lookahead,
    Product,
    Sampled,
    resolve_criterion,
    sampling_weights,
    seed_from,
)
from sodalite.kernels.jitter import JITTER
from sodalite.selection import loop, plan
from sodalite.selection.lookahead import draw_sample
from sodalite.stopping import Decrease, TargetRMSE

KERNEL = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.1)
NOISE_BY_ROW = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.05) * DotProduct(0.6)


def draw(n, d=2, q=1, seed=0, noise=0.1):
    """Rows of smooth functions, with noise; y has shape (n,) or (n, q)."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, d))
    Y = np.column_stack([np.sin((2 + target) * X).sum(axis=1) for target in range(q)])
    Y += np.sqrt(noise) * generator.normal(size=Y.shape)
    return X, Y[:, 0] if q == 1 else Y


def seed_of(random_state):
    return seed_from(np.random.default_rng(random_state))


def parts(kernel, X):
    """The latent covariance of all rows, and the noise variance of each."""
    K = kernel(X, X)
    noise = np.diag(kernel(X)) - np.diag(K)
    return K, np.maximum(noise, JITTER[np.dtype(float)] * np.diag(K).max())


def posterior(K, noise, Y, active):
    """Mean and latent variance of all rows given some, from the textbook."""
    A = K[np.ix_(active, active)] + np.diag(noise[active])
    weights = np.linalg.solve(A, K[active])
    return weights.T @ Y[active], np.diag(K) - np.einsum("ij,ij->j", K[active], weights)


# --- sampled ---


def test_a_weight_is_one_over_an_exponential_number():
    assert stats.kstest(1 / sampling_weights(0, 0, 0, 20000), "expon").pvalue > 0.01
    logs = np.log(
        [sampling_weights(0, stage, 0, 5000) for stage in range(3)]
    )  # of the powers, only this has a finite variance
    assert np.abs(np.corrcoef(logs) - np.eye(3)).max() < 0.05


def one_by_one(X, y, kernel, n_active, first, criterion, random_state):
    """Rows that maximise log(criterion) + a Gumbel number, one at a time; and their scores."""
    Y = y.reshape(len(y), -1)
    K, noise = parts(kernel, X)
    gumbel = np.log(sampling_weights(seed_of(random_state), 0, 0, len(X)))
    active, scores = [first], [np.nan]
    while len(active) < n_active:
        mean, s2 = posterior(K, noise, Y, active)
        abs_r = np.sqrt(np.mean((Y - mean) ** 2, axis=1))
        value = criterion(np.sqrt(np.maximum(s2, 0)), abs_r, noise)
        with np.errstate(divide="ignore"):
            chance = np.log(value) + gumbel
        chance[active] = -np.inf
        active.append(int(chance.argmax()))
        scores.append(value[active[-1]])
    return active, scores


def test_rows_are_drawn_in_proportion_to_their_scores():
    X, y = draw(7, d=1)
    K, noise = parts(KERNEL, X)
    mean, s2 = posterior(K, noise, y[:, None], [2])
    chances = np.sqrt(s2) * np.abs(y - mean[:, 0])
    chances[2] = 0
    count = np.zeros(7)
    for seed in range(250):
        count[select(X, y, KERNEL, n_active=2, first=2, criterion="sampled", random_state=seed).indices[1]] += 1
    others = np.arange(7) != 2
    expected = 250 * chances[others] / chances[others].sum()
    assert count[2] == 0
    assert expected.max() > 4 * expected.min()  # or the test says little
    assert stats.chisquare(count[others], expected).pvalue > 0.01


def test_equal_scores_give_every_order_the_same_chance():
    X = np.arange(3.0)[:, None] * 100
    same = Sampled(lambda s, abs_r, noise: np.ones(len(s)))
    orders = [
        tuple(select(X, np.ones(3), KERNEL, n_active=3, first=0, criterion=same, random_state=seed).indices)
        for seed in range(100)
    ]
    assert 30 < orders.count((0, 1, 2)) < 70
    assert orders.count((0, 1, 2)) + orders.count((0, 2, 1)) == 100


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("name", sorted(CHANCES))
def test_sampled_picks_are_those_of_one_at_a_time(name, q):
    X, y = draw(400, q=q)
    criterion = CHANCES[name]
    chosen = select(X, y, NOISE_BY_ROW, n_active=60, first=4, criterion=Sampled(criterion), random_state=2)
    indices, scores = one_by_one(X, y, NOISE_BY_ROW, 60, 4, criterion, random_state=2)
    assert chosen.indices.tolist() == indices
    np.testing.assert_allclose(chosen.scores, scores, rtol=1e-7)


@pytest.fixture(scope="module")
def sampled():
    return one_by_one(*draw(2000), KERNEL, 50, 4, Product(), random_state=1)[0]


@pytest.fixture(params=[(rows, largest) for rows in (300, 8192) for largest in (5, 64)], ids=str)
def layout(request, keep, monkeypatch):
    """Shards of some size, blocks of some length, with the v's kept or not."""
    rows, largest = request.param
    monkeypatch.setattr(plan, "SHARD_ROWS", rows)
    monkeypatch.setattr(plan, "LEAST_ROWS", 100)
    monkeypatch.setattr(loop, "LARGEST_BLOCK", {True: largest, False: largest})


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("executor", EXECUTORS)
def test_sampled_picks_do_not_depend_on_the_layout(sampled, executor):
    X, y = draw(2000)
    with threads(EXECUTORS[executor]):
        chosen = select(X, y, KERNEL, n_active=50, first=4, criterion="sampled", random_state=1)
    assert chosen.indices.tolist() == sampled
    assert chosen.n_proposed < 3 * len(chosen)


def test_sampled_picks_do_not_depend_on_units_and_hardly_on_the_type(sampled):
    X, y = draw(2000)
    options = {"n_active": 50, "first": 4, "criterion": "sampled", "random_state": 1}
    for scale in (1e-8, 1e8):
        assert select(X, scale * y, ConstantKernel(scale**2) * KERNEL, **options).indices.tolist() == sampled
    assert np.mean(select(X, y, KERNEL, dtype="float32", **options).indices == sampled) > 0.9


def test_a_score_of_zero_is_never_drawn():
    X, y = draw(100)
    some = Sampled(lambda s, abs_r, noise: np.where(noise > 0.06, s, 0))
    allowed = np.flatnonzero(parts(NOISE_BY_ROW, X)[1] > 0.06)
    assert 10 < len(allowed) < 90
    chosen = select(X, y, NOISE_BY_ROW, n_active=100, first=int(allowed[0]), criterion=some, random_state=0)
    assert sorted(chosen.indices) == allowed.tolist()
    assert chosen.stop_reason == "criterion"
    minus = Sampled(lambda s, abs_r, noise: np.where(noise > 0.06, s, -np.inf))
    again = select(X, y, NOISE_BY_ROW, n_active=100, first=int(allowed[0]), criterion=minus, random_state=0)
    assert again.indices.tolist() == chosen.indices.tolist()


# --- lookahead ---


def brute_force(X, y, kernel, n_active, first, criterion, random_state):
    """The picks of a lookahead and their gains; every candidate's posterior is worked out anew at every pick."""
    Y, n = y.reshape(len(y), -1), len(X)
    K, noise = parts(kernel, X)

    def log_density(active):
        mean, s2 = posterior(K, noise, Y, active)
        variance = (s2 + noise)[:, None]
        return -0.5 * (np.log(2 * np.pi * variance) + (Y - mean) ** 2 / variance)

    active, gains = [first], [np.nan]
    while len(active) < n_active:
        t = len(active)
        if (t - 1) % criterion.block == 0:
            mean, s2 = posterior(K, noise, Y, active)
            seed = seed_of(random_state)
            chance = np.sqrt(s2) * np.sqrt(np.mean((Y - mean) ** 2, axis=1)) * sampling_weights(seed, t, 0, n)
            chance[active] = 0
            candidates = np.argsort(-chance)[: min(criterion.n_candidates, n - t)]
            sample = draw_sample(np.array(active), n, criterion.n_sample, np.random.default_rng([seed, t]))
        before = log_density(active)
        gain = np.full(n, -np.inf)
        for j in set(candidates) - set(active):
            rows = [i for i in sample if i != j and i not in active]
            gain[j] = np.mean((log_density([*active, j]) - before)[rows])
        active.append(int(gain.argmax()))
        gains.append(gain.max())
    return active, gains


@pytest.mark.parametrize("criterion", [Lookahead(60, 60, 1), Lookahead(60, 60, 8), Lookahead(20, 25, 8)], ids=str)
@pytest.mark.parametrize("q", [campaign(1), 2])
@pytest.mark.parametrize("kernel", [KERNEL, NOISE_BY_ROW], ids=["one noise", "noise by row"])
def test_lookahead_is_what_brute_force_finds(criterion, q, kernel):
    X, y = draw(60, q=q, seed=3)
    y[::7] += 3.0
    chosen = select(X, y, kernel, n_active=26, first=4, criterion=criterion, random_state=1)
    indices, gains = brute_force(X, y, kernel, 26, 4, criterion, random_state=1)
    assert chosen.indices.tolist() == indices
    np.testing.assert_allclose(chosen.scores, gains, rtol=1e-7, atol=1e-12)


SMALL = Lookahead(n_candidates=64, n_sample=200, block=16)


def looked_ahead(n_active=70, first=4, random_state=1, criterion=SMALL, data=None, **others):
    X, y = data or draw(2000)
    return select(
        X, y, KERNEL, n_active=n_active, first=first, criterion=criterion, random_state=random_state, **others
    )


@pytest.fixture(scope="module")
def plain():
    return looked_ahead()


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("executor", EXECUTORS)
def test_lookahead_does_not_depend_on_the_layout(plain, executor):
    with threads(EXECUTORS[executor]):
        chosen = looked_ahead()
    assert chosen.indices.tolist() == plain.indices.tolist()
    np.testing.assert_allclose(chosen.scores, plain.scores, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(chosen.rmse, plain.rmse, rtol=1e-9)
    np.testing.assert_allclose(chosen.factor, plain.factor, atol=1e-9)


def test_what_a_lookahead_returns(plain):
    X, y = draw(2000)
    K, noise = parts(KERNEL, X)
    assert len(set(plain.indices)) == 70 == plain.n_proposed
    assert np.isnan(plain.scores[0])
    assert np.isfinite(plain.scores[1:]).all()
    for t in (1, 17, 33, 70):
        mean, _ = posterior(K, noise, y[:, None], plain.indices[:t])
        left = np.setdiff1d(np.arange(2000), plain.indices[:t])
        assert plain.rmse[t - 1] == pytest.approx(np.sqrt(np.mean((y - mean[:, 0])[left] ** 2)), rel=1e-9)


@pytest.mark.parametrize("criterion", [SMALL, "sampled", "lookahead"], ids=str)
def test_fewer_rows_are_a_prefix_of_more(criterion):
    paths = [looked_ahead(m, None, criterion=criterion) for m in (1, 2, 17, 18, 40)]
    for short, long in pairwise(paths):
        assert short.indices.tolist() == long.indices[: len(short)].tolist()
        np.testing.assert_allclose(short.scores, long.scores[: len(short)], rtol=1e-9)


@pytest.mark.parametrize("given", [1, 17, 33])  # with a lookahead, where blocks begin
@pytest.mark.parametrize("criterion", [SMALL, "sampled"], ids=str)
def test_going_on_from_given_rows(criterion, given):
    whole = looked_ahead(50, None, criterion=criterion)
    chosen = looked_ahead(50, whole.indices[:given], criterion=criterion)
    assert chosen.indices.tolist() == whole.indices.tolist()
    assert np.isnan(chosen.scores[:given]).all()
    np.testing.assert_allclose(chosen.scores[given:], whole.scores[given:], rtol=1e-6)


@pytest.mark.parametrize("criterion", ["sampled", "lookahead"])
def test_the_random_state_is_what_the_draw_depends_on(criterion):
    one, two, three = (looked_ahead(30, criterion=criterion, random_state=state) for state in (1, 1, 2))
    assert one.indices.tolist() == two.indices.tolist()
    assert len(set(one.indices) & set(three.indices)) < 15


def test_lookahead_passes_outliers_by_and_predicts_new_rows_better_for_it():
    X, y = draw(3000, seed=6)
    X, X_new, y, y_new = X[:1500], X[1500:], y[:1500], y[1500:]
    wrong = np.random.default_rng(0).random(1500) < 0.05
    y[wrong] += 6 * np.random.default_rng(1).choice([-1, 1], wrong.sum())
    count, error = {}, {}
    for criterion in ("delta", "sampled", "lookahead", "random"):
        indices = select(X, y, KERNEL, n_active=100, criterion=criterion, random_state=0).indices
        count[criterion] = wrong[indices[1:60]].sum()  # more rows only follow
        mean = KERNEL(X_new, X[indices]) @ np.linalg.solve(KERNEL(X[indices]), y[indices])
        error[criterion] = np.sqrt(np.mean((y_new - mean) ** 2))
    assert count["delta"] > 50
    assert count["sampled"] < 30
    assert count["lookahead"] < 4
    assert error["lookahead"] < 0.8 * error["random"] < 0.8 * error["delta"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_twins_come_in_the_order_of_their_indices(dtype):
    X, y = draw(150)
    order = np.random.default_rng(0).permutation(300)
    X, y = np.tile(X, (2, 1))[order], np.tile(y, 2)[order]
    chosen = select(X, y, KERNEL, n_active=60, criterion=Lookahead(300, 300), first=0, random_state=0, dtype=dtype)
    for t, row in enumerate(chosen.indices):
        twin = int(np.flatnonzero((X[row] == X).all(axis=1) & (np.arange(300) != row))[0])
        assert twin > row or twin in chosen.indices[:t]


def test_lookahead_in_float32(plain):
    chosen = looked_ahead(dtype="float32")
    assert np.mean(chosen.indices == plain.indices) > 0.9
    np.testing.assert_allclose(chosen.rmse[:5], plain.rmse[:5], rtol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
@pytest.mark.parametrize("criterion", ["sampled", "lookahead", Lookahead(3, 2, 2)], ids=str)
def test_all_rows_become_active(n, criterion):
    X, y = draw(n)
    chosen = select(X, y, KERNEL, n_active=100, criterion=criterion, random_state=0)
    assert sorted(chosen.indices) == list(range(n))
    assert chosen.stop_reason == "all_rows"
    assert np.isfinite(chosen.scores[1:]).all()


def test_without_noise():
    X = np.linspace(0, 10, 300)[:, None]
    for criterion in ("sampled", "lookahead"):
        chosen = select(X, np.sin(X[:, 0]), RBF(1.0), n_active=25, criterion=criterion, random_state=0)
        assert len(set(chosen.indices)) == 25
        assert chosen.rmse[-1] < 1e-2


@pytest.mark.parametrize("criterion", ["sampled", "lookahead"])
def test_rows_without_a_residual_are_no_candidates(criterion):
    X = np.arange(30.0)[:, None] * 1e4  # so far apart that no row tells of another
    for y in (np.where(np.arange(30) % 3 == 0, 1.0, 0.0), np.zeros(30)):
        chosen = select(X, y, KERNEL, n_active=30, first=0, criterion=criterion, random_state=0)
        assert sorted(chosen.indices) == (np.flatnonzero(y).tolist() or [0])
        assert len(chosen) == len(chosen.rmse) == len(chosen.factor) == len(chosen.scores)
        assert chosen.stop_reason == "criterion"


def test_rules_and_callbacks_see_every_stage_of_a_lookahead(plain):
    stages = []
    looked_ahead(40, callback=lambda stage: stages.append((stage.t, stage.rmse[-1])))
    assert [t for t, _ in stages] == list(range(1, 41))
    np.testing.assert_allclose([rmse for _, rmse in stages], plain.rmse[:40], rtol=1e-9)
    for patience in (1, 2):
        small = -np.diff(plain.rmse) < 1e-3
        stage = next(t for t in range(patience + 1, 70) if small[t - 1 - patience : t - 1].all())
        chosen = looked_ahead(stop=Decrease(1e-3, patience))
        assert (len(chosen), chosen.stop_reason) == (stage, "tol")
        assert chosen.indices.tolist() == plain.indices[:stage].tolist()
    chosen = looked_ahead(stop=TargetRMSE(float(plain.rmse[20])))
    assert chosen.stop_reason == "target_rmse"
    assert len(chosen) <= 21
    assert (len(looked_ahead(time_limit=0)), looked_ahead(time_limit=0).stop_reason) == (1, "time_limit")


def test_the_sample_is_of_rows_that_are_not_active():
    count = np.zeros(20)
    active = np.array([7, 0, 19, 8])
    for seed in range(400):
        rows = draw_sample(active, 20, 5, np.random.default_rng(seed))
        assert len(set(rows)) == 5
        count[rows] += 1
    assert (count[active] == 0).all()
    assert stats.chisquare(np.delete(count, active)).pvalue > 0.01
    assert draw_sample(active, 20, 16, np.random.default_rng(0)).tolist() == [*range(1, 7), *range(9, 19)]


# --- names, arguments and errors ---


@pytest.mark.parametrize("criterion", ["sampled", "lookahead", Sampled(Delta()), Lookahead(n_sample=50)], ids=str)
def test_the_estimator_takes_them(criterion):
    X, y = draw(300)
    model = GreedyGPRegressor(kernel=KERNEL, hyperparameters="fixed", n_active=40, criterion=criterion, random_state=0)
    for twin in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.get_params()["criterion"] == criterion
    assert model.fit(X, y).score(X, y) > 0.8
    assert len(model.active_indices_) == 40
    assert resolve_criterion("sampled") == Sampled(Product()) == CRITERIA["sampled"]
    assert resolve_criterion("lookahead") == Lookahead(256, 1000, 32) == CRITERIA["lookahead"]


def test_a_negative_score_cannot_be_sampled():
    X, y = draw(50)
    for criterion in (lambda s, abs_r, noise: s - 10, Delta(underfit=-100.0)):
        with pytest.raises(
            ValueError, match=r"criterion must not be negative where it is sampled.* of 50 are, the least -"
        ):
            select(X, y, KERNEL, n_active=5, criterion=Sampled(criterion), random_state=0)
    with pytest.raises(ValueError, match="criterion must return one value per row"):
        select(X, y, KERNEL, n_active=5, criterion=Sampled(lambda s, abs_r, noise: s[1:]), random_state=0)
    with pytest.raises(ValueError, match="criterion must return numbers"):
        select(X, y, KERNEL, n_active=5, criterion=Sampled(lambda s, abs_r, noise: s * np.nan), random_state=0)


@pytest.mark.parametrize("criterion", ["delta", None, Sampled(Delta()), Lookahead()], ids=str)
def test_what_cannot_be_sampled(criterion):
    with pytest.raises(TypeError, match=r"criterion must be a callable .* such as Delta\(\) or Product\(\).*; got "):
        Sampled(criterion)


@pytest.mark.parametrize("name", ["n_candidates", "n_sample", "block"])
def test_counts_of_a_lookahead(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0."):
        Lookahead(**{name: 0})
    for value in (2.5, "8", True, None):
        with pytest.raises(TypeError, match=f"{name} must be a whole number; got {value!r}"):
            Lookahead(**{name: value})
    with pytest.raises(ValueError, match=r"block must be at most n_candidates.* got block=32 and n_candidates=10"):
        Lookahead(n_candidates=10)
