"""The fast selection is Algorithm 1's, to the last index: against the paper's form, and against one row at a time."""

import signal
import threading
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import cholesky
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from helpers import EXECUTORS, KERNELS, POINTWISE, campaign, threads
from helpers import paper_select as select
from sodalite import reference, stopping
from sodalite.criteria import CriterionTraits, Random
from sodalite.exceptions import JitterWarning, SelectionInterrupted
from sodalite.kernels.jitter import JITTER
from sodalite.selection import loop, plan
from sodalite.selection.shard import Shard


def draw(n, d, noise, seed, duplicates=0.0):
    """Rows of a smooth function; some of them copies of others, with other noise in half of these."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, d))
    copies = generator.random(n) < duplicates
    X[copies] = X[generator.integers(n, size=copies.sum())]
    y = np.sin(2 * X).sum(axis=1) + np.sqrt(noise) * generator.normal(size=n)
    same = generator.random(n) < 0.5
    for i in np.flatnonzero(copies & same):
        y[i] = y[np.flatnonzero((X[i] == X).all(axis=1))[0]]
    return X, y


def assert_same(fast, slow, rtol=1e-7):
    assert fast.indices.tolist() == slow.indices.tolist()
    assert fast.stop_reason == slow.stop_reason
    np.testing.assert_allclose(fast.rmse, slow.rmse, rtol=rtol, atol=1e-10)


def assert_begins(path, chosen):
    """The rows that were chosen are the first of a path of one row at a time, as are their RMSE and factor."""
    indices, rmse, factor = path
    m = len(chosen)
    assert chosen.indices.tolist() == indices[:m].tolist()
    np.testing.assert_allclose(chosen.rmse, rmse[:m], rtol=1e-9)
    np.testing.assert_allclose(chosen.factor, factor[:m, :m], atol=1e-9)


# --- against the paper's own form ---


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    n=st.integers(2, 60),
    d=st.integers(1, 4),
    share=st.floats(0.05, 1.0),
    noise=st.sampled_from([1e-3, 1e-2, 0.3, 2.0]),
    criterion=st.sampled_from(sorted(POINTWISE)),
    smooth=st.booleans(),
    duplicates=st.sampled_from([0.0, 0.5, 0.9]),
    tol=st.sampled_from([None, 0.0, 1e-3, 1e-2]),
    seed=st.integers(0, 10**6),
)
def test_picks_are_the_reference_s(n, d, share, noise, criterion, smooth, duplicates, tol, seed):
    X, y = draw(n, d, noise, seed, duplicates)
    kernel = ConstantKernel(2.0) * (RBF(1.0) if smooth else Matern(1.5, nu=1.5)) + WhiteKernel(noise)
    common = {"n_active": max(1, int(share * n)), "first": seed % n, "tol": tol, "criterion": POINTWISE[criterion]}
    assert_same(select(X, y, kernel, **common), reference.select(X, y, kernel, **common))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_every_kernel(name):
    X, y = draw(80, 1, 0.1, seed=1)
    kernel = KERNELS[name](1)
    if not np.any(kernel.diag(X) - np.diag(kernel(X, X)) > 1e-6):
        kernel = kernel + WhiteKernel(0.1)
    common = {"n_active": 25, "first": 3}
    assert_same(select(X, y, kernel, **common), reference.select(X, y, kernel, **common))


def test_without_noise():
    X = np.linspace(0, 10, 60)[:, None]
    y = X[:, 0] * np.sin(X[:, 0])
    common = {"n_active": 12, "first": 0}
    fast, slow = select(X, y, RBF(1.0), **common), reference.select(X, y, RBF(1.0), **common)
    assert_same(fast, slow, rtol=1e-5)
    assert fast.noise_floor == JITTER[np.dtype(float)]


def test_block_inverse_and_cholesky_agree_from_the_first_row_that_is_drawn():
    X, y = draw(120, 3, 0.05, seed=2)
    kernel = 1.5 * RBF(1.0) + WhiteKernel(0.05)
    common = {"n_active": 60, "random_state": 11}
    fast, slow = select(X, y, kernel, **common), reference.select(X, y, kernel, **common)
    assert_same(fast, slow)
    inverse = np.linalg.inv(fast.factor @ fast.factor.T)
    np.testing.assert_allclose(inverse, slow.inverse, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(slow.mean, kernel(X[slow.remainder], X[slow.indices]) @ inverse @ y[slow.indices])
    assert np.linalg.eigvalsh(slow.covariance).min() > -1e-10


# --- any layout gives the same picks ---


@pytest.fixture(scope="module", params=[0.01, 0.5], ids=["low noise", "high noise"])
def problem(request):
    X, y = make_friedman1(6000, n_features=6, noise=0.0, random_state=0)
    y = (y - y.mean()) / y.std() + np.sqrt(request.param) * np.random.default_rng(0).normal(size=len(y))
    kernel = ConstantKernel(1.0) * RBF([0.5, 0.5, 0.5, 2.0, 2.0, 9.0]) + WhiteKernel(request.param)
    return X, y, kernel, reference.one_at_a_time(X, y, kernel, n_active=250, first=5)


@pytest.mark.usefixtures("keep")
@pytest.mark.parametrize("rows", [300, campaign(1000), 8192])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_layouts(problem, executor, rows, monkeypatch):
    X, y, kernel, path = problem
    monkeypatch.setattr(plan, "SHARD_ROWS", rows)
    with threads(EXECUTORS[executor]):
        chosen = select(X, y, kernel, n_active=250, first=5)
    assert len(chosen) == 250
    assert_begins(path, chosen)
    assert len(chosen) <= chosen.n_proposed < 3 * len(chosen)


@pytest.mark.parametrize("largest", [1, 3, 17])
@pytest.mark.usefixtures("keep")
def test_block_sizes(problem, largest, monkeypatch):
    X, y, kernel, path = problem
    monkeypatch.setattr(loop, "LARGEST_BLOCK", {True: largest, False: largest})
    assert_begins(path, select(X, y, kernel, n_active=60, first=5))


@pytest.mark.parametrize("criterion", sorted(POINTWISE))
def test_every_criterion_on_many_rows(problem, criterion):
    X, y, kernel, _ = problem
    options = {"n_active": 80, "first": 5, "criterion": POINTWISE[criterion]}
    assert_begins(reference.one_at_a_time(X, y, kernel, **options), select(X, y, kernel, **options))


@pytest.fixture
def verified(monkeypatch):
    """Of each block that was verified: its length, the reports of the shards, and whether a guess was wrong."""
    monkeypatch.setattr(loop, "most_candidates", lambda n: 40)  # so that guesses are poor
    verify, blocks = loop._verify, []

    def listening(block, reports, dtype):
        kept, winner = verify(block, reports, dtype)
        blocks.append((len(block), reports, winner is not None))
        return kept, winner

    monkeypatch.setattr(loop, "_verify", listening)
    return blocks


@pytest.mark.parametrize("criterion", ["delta", *(campaign(name) for name in sorted(POINTWISE) if name != "delta")])
@pytest.mark.usefixtures("keep")
def test_where_guesses_are_poor_shards_say_little(problem, criterion, verified, monkeypatch):
    X, y, kernel, _ = problem
    monkeypatch.setattr(plan, "SHARD_ROWS", 500)
    options = {"n_active": 60, "first": 5, "criterion": POINTWISE[criterion]}
    chosen = select(X, y, kernel, **options)
    assert sum(wrong for *_, wrong in verified) > 1
    rows_for_each_pick = [len(report.rivals.index) / length for length, reports, _ in verified for report in reports]
    assert max(rows_for_each_pick) <= 2
    assert_begins(reference.one_at_a_time(X, y, kernel, **options), chosen)


@pytest.mark.parametrize("criterion", sorted(POINTWISE))
@pytest.mark.parametrize("keep", ["not kept"], indirect=True)
def test_covariances_that_are_not_kept_are_evaluated_once_a_block(problem, criterion, keep, verified, monkeypatch):
    X, y, kernel, _ = problem
    monkeypatch.setattr(plan, "SHARD_ROWS", 1500)
    covariances, shards = Shard._covariances, []

    def counted(shard, block, X=None):
        if X is None:
            shards.append(shard)
        return covariances(shard, block, X)

    monkeypatch.setattr(Shard, "_covariances", counted)
    select(X, y, kernel, n_active=60, first=5, criterion=POINTWISE[criterion])
    assert sum(wrong for *_, wrong in verified) > 1
    assert len(set(shards)) >= 4
    assert len(shards) == len(set(shards)) * len(verified)


@pytest.mark.usefixtures("keep")
@pytest.mark.parametrize("least", [0.35, 0.6, 0.8])
def test_a_row_that_is_not_to_be_taken_may_be_again_when_picks_are_taken_back(least):
    def criterion(s, abs_r, noise):
        return np.where(s > least, s + abs_r, -np.inf)

    X, y = draw(300, 2, 0.1, seed=6)
    kernel = RBF(0.7) + WhiteKernel(0.1)
    chosen = select(X, y, kernel, n_active=150, first=0, criterion=criterion)
    assert len(chosen) > 5
    assert chosen.stop_reason == "criterion"
    slow = reference.select(X, y, kernel, n_active=len(chosen), first=0, criterion=criterion)
    assert chosen.indices.tolist() == slow.indices.tolist()
    np.testing.assert_allclose(chosen.rmse, slow.rmse)
    assert np.sqrt(np.diag(slow.covariance).max()) <= least


@pytest.mark.usefixtures("keep")
def test_targets_in_float32_are_not_copied(problem, monkeypatch):
    X, y, kernel, _ = problem
    y, start, held = y.astype(np.float32), Shard.start, []

    def noted(shard, noise_floor):
        held.append(np.shares_memory(shard.y, y))
        start(shard, noise_floor)

    monkeypatch.setattr(Shard, "start", noted)
    once = select(X, y, kernel, n_active=60, first=5)
    assert held
    assert all(held)
    again = select(X, y.astype(np.float64), kernel, n_active=60, first=5)
    assert once.indices.tolist() == again.indices.tolist()
    assert once.rmse.tolist() == again.rmse.tolist()


@pytest.mark.usefixtures("keep")
def test_duplicated_rows_go_to_the_lowest_index(monkeypatch):
    monkeypatch.setattr(plan, "SHARD_ROWS", 700)
    X, y = draw(4000, 3, 0.1, seed=4, duplicates=0.7)
    kernel = RBF(1.0) + WhiteKernel(0.1)
    indices, _, _ = reference.one_at_a_time(X, y, kernel, n_active=150, first=0)
    chosen = select(X, y, kernel, n_active=150, first=0)
    assert chosen.indices.tolist() == indices.tolist()
    for i, row in enumerate(chosen.indices):
        twins = np.flatnonzero((X[row] == X).all(axis=1) & (y == y[row]))
        assert set(twins[twins < row]) <= set(chosen.indices[:i])


def test_several_targets(problem):
    X, y, kernel, _ = problem
    Y = np.column_stack([y, np.cos(3 * X[:, 0]), X[:, 3]])
    path = reference.one_at_a_time(X, Y, kernel, n_active=100, first=5)
    assert_begins(path, select(X, Y, kernel, n_active=100, first=5))


def test_permuting_the_rows_permutes_the_picks(problem):
    X, y, kernel, (indices, _, _) = problem
    order = np.random.default_rng(0).permutation(len(X))
    chosen = select(X[order], y[order], kernel, n_active=100, first=int(np.flatnonzero(order == 5)[0]))
    assert order[chosen.indices].tolist() == indices[:100].tolist()


def test_fewer_rows_are_a_prefix_of_more(problem):
    X, y, kernel, _ = problem
    for criterion in ("delta", "random"):
        paths = [select(X, y, kernel, n_active=m, criterion=criterion, random_state=1) for m in (1, 20, 21, 90)]
        for short, long in pairwise(paths):
            assert short.indices.tolist() == long.indices[: len(short)].tolist()
            np.testing.assert_allclose(short.rmse, long.rmse[: len(short)], rtol=1e-12)


def test_going_on_from_given_rows(problem):
    X, y, kernel, path = problem
    chosen = select(X, y, kernel, n_active=150, first=path[0][:100])
    assert_begins(path, chosen)
    assert np.isnan(chosen.scores[:100]).all()
    assert np.isfinite(chosen.scores[100:]).all()


def test_random_rows_are_distinct_and_uniform():
    counts = np.zeros(20)
    for seed in range(300):
        rows = CriterionTraits.of(Random()).order(20, 5, np.random.default_rng(seed), [])
        assert len(set(rows)) == 5
        counts[rows] += 1
    assert counts.min() > 40
    assert counts.max() < 115
    assert CriterionTraits.of(Random()).order(20, 20, np.random.default_rng(0), [3, 4])[:2] == [3, 4]


# --- what is returned ---


def test_the_factor_is_that_of_the_returned_rows(problem):
    X, y, kernel, _ = problem
    chosen = select(X, y, kernel, n_active=120, stop=stopping.Decrease(0.002, 2), first=5)
    assert chosen.stop_reason == "tol"
    assert len(chosen.indices) == len(chosen.rmse) == len(chosen.scores) == len(chosen.factor) < 120
    K = kernel(X[chosen.indices])
    np.testing.assert_allclose(chosen.factor, cholesky(K, lower=True), atol=1e-9)


def test_selection_is_frozen_and_readable(problem):
    X, y, kernel, _ = problem
    chosen = select(X, y, kernel, n_active=4, first=5)
    with pytest.raises(FrozenInstanceError):
        chosen.stop_reason = "other"
    assert repr(chosen) == f"Selection(4 rows, rmse={chosen.rmse[-1]:.4g}, stop_reason='n_active')"


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows(n):
    X, y = draw(n, 2, 0.1, seed=0)
    chosen = select(X, y, RBF() + WhiteKernel(0.1), n_active=10, first=n - 1)
    assert sorted(chosen.indices) == list(range(n))
    assert chosen.stop_reason == "all_rows"
    assert np.isnan(chosen.rmse[-1])
    assert np.isfinite(chosen.rmse[:-1]).all()


def test_all_rows_the_same():
    X, y = np.ones((50, 2)), np.arange(50.0)
    chosen = select(X, y, RBF() + WhiteKernel(1.0), n_active=50, first=0)
    slow = reference.select(X, y, RBF() + WhiteKernel(1.0), n_active=50, first=0)
    assert chosen.indices.tolist() == slow.indices.tolist()


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_and_offsets(problem, scale):
    X, y, kernel, (indices, rmse, _) = problem
    scaled = kernel.clone_with_theta(kernel.theta)
    scaled.set_params(k1__k2__length_scale=np.asarray(kernel.k1.k2.length_scale) * scale)
    louder = ConstantKernel(scale**2) * kernel
    chosen = [
        select(rows, targets, units, n_active=50, first=5)
        for rows, targets, units in ((X * scale, y, scaled), (X + 1e5, y, kernel), (X, y * scale, louder))
    ]
    for one in chosen:
        assert one.indices.tolist() == indices[:50].tolist()
    np.testing.assert_allclose(chosen[-1].rmse, rmse[:50] * scale, rtol=1e-8)


def test_float32(problem):
    X, y, kernel, (indices, rmse, _) = problem
    chosen = select(X.astype(np.float32), y, kernel, n_active=150, first=5, dtype="float32")
    assert np.mean(chosen.indices == indices[:150]) > 0.9
    np.testing.assert_allclose(chosen.rmse, rmse[:150], rtol=1e-3)
    np.testing.assert_allclose(
        chosen.factor, cholesky(kernel(X.astype(np.float32)[chosen.indices].astype(float)), lower=True), atol=1e-6
    )


# --- any array that can be sliced ---


class Sliced:
    """An array-like that only gives slices of rows, and remembers how large they were."""

    def __init__(self, X):
        self._X, self.shape, self.dtype, self.largest = X, X.shape, X.dtype, 0

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        part = self._X[rows]
        self.largest = max(self.largest, len(part))
        return part


def test_array_likes_are_read_by_slices(problem, monkeypatch, tmp_path):
    X, y, kernel, path = problem
    monkeypatch.setattr(plan, "SHARD_ROWS", 1000)
    sliced = Sliced(X)
    np.save(tmp_path / "X.npy", X)
    for rows in (sliced, np.load(tmp_path / "X.npy", mmap_mode="r")):
        assert_begins(path, select(rows, y, kernel, n_active=60, first=5))
    assert sliced.largest <= 4096 < len(X)


# --- progress, interruption, jitter ---


def test_callback_sees_every_stage(problem):
    X, y, kernel, (_, rmse, _) = problem
    stages = []
    select(X, y, kernel, n_active=40, first=5, callback=lambda stage: stages.append((stage.t, stage.rmse[-1])))
    assert [t for t, _ in stages] == list(range(1, 41))
    np.testing.assert_allclose([value for _, value in stages], rmse[:40], rtol=1e-9)


@pytest.mark.parametrize("where", ["in a callback", "outside"])
def test_an_interrupt_leaves_a_valid_selection(problem, where):
    if where == "outside" and threading.current_thread() is not threading.main_thread():
        pytest.skip("signals need the main thread")
    X, y, kernel, path = problem

    def press_ctrl_c(stage):
        if stage.t == 30 and where == "in a callback":
            raise KeyboardInterrupt
        if stage.t == 30:  # rows are being chosen, and will be for much longer than that
            signal.setitimer(signal.ITIMER_REAL, 0.02)

    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(SelectionInterrupted) as caught:
            select(X, y, kernel, n_active=1500, first=5, callback=press_ctrl_c)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    chosen = caught.value.selection
    assert chosen.stop_reason == "interrupted"
    m = len(chosen)
    assert 30 <= m < 1500
    assert len(chosen.rmse) == len(chosen.factor) == m
    if m <= 250:
        assert_begins(path, chosen)
    assert chosen.indices[:250].tolist() == path[0][:m].tolist()


class Indefinite(RBF):
    """Not a covariance: distant rows are strongly negatively correlated."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y) * 1.05 - 0.05


def test_a_factor_that_fails_is_tried_with_more_noise():
    X = np.linspace(0, 50, 40)[:, None]
    with pytest.warns(JitterWarning, match="WhiteKernel"), pytest.raises(np.linalg.LinAlgError, match="WhiteKernel"):
        select(X, np.sin(X[:, 0]), Indefinite(0.5), n_active=40, first=0)


# --- stopping ---


def test_stops_at_the_stage_that_the_rule_names(problem):
    X, y, kernel, (_, rmse, _) = problem
    falls = -np.diff(rmse)
    for patience in (1, 2, 4):
        chosen = select(X, y, kernel, n_active=250, first=5, stop=stopping.Decrease(1e-3, patience))
        stage = next(t for t in range(patience + 1, 250) if (falls[t - 1 - patience : t - 1] < 1e-3).all())
        assert (len(chosen), chosen.stop_reason) == (stage, "tol")


class Every(stopping.Rule):
    """Stops at multiples of a number of rows."""

    def __init__(self, number):
        self.number = number

    def check(self, stage):
        return None if stage.t % self.number else f"every {self.number}"


def test_other_rules_and_rules_that_are_combined(problem):
    X, y, kernel, (_, rmse, _) = problem
    best, two, three = int(rmse[:70].argmin()), Every(2), Every(3)
    for options, length, reason in (
        ({"stop": stopping.TargetRMSE(rmse[best] * (1 + 1e-9))}, best + 1, "target_rmse"),
        ({"time_limit": 0}, 1, "time_limit"),
        ({"stop": two & three}, 6, "every 2 and every 3"),
        ({"stop": three | two}, 2, "every 2"),
        ({"stop": two, "first": [5, 6, 7, 8, 9]}, 6, "every 2"),
    ):
        chosen = select(X, y, kernel, **{"n_active": 250, "first": 5, **options})
        assert (len(chosen), chosen.stop_reason) == (length, reason)
