"""A selection that is broken off, by whatever, and started again ends as if nothing had happened."""

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import sodalite
from helpers import CRITERIA, campaign
from helpers import paper_select as select
from sodalite import GreedyGPRegressor, stopping
from sodalite.core.container import read
from sodalite.core.fingerprint import of_block
from sodalite.criteria import Lookahead
from sodalite.exceptions import CheckpointError, CheckpointWarning, JitterWarning, SelectionInterrupted
from sodalite.hyperparameters import Found, Subset
from sodalite.posteriors import Neighbors
from sodalite.selection import checkpoint, grow
from sodalite.selection.executors import ThreadExecutor
from sodalite.selection.rows import ArrayRows, fingerprints

KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.5]) + WhiteKernel(0.05)
N, M = 600, 150


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=n)


X, Y = rows()


class Break(Exception):
    """What may go wrong."""


def breaking(t, error=Break):
    """A callback that breaks off at a stage."""

    def callback(stage):
        if stage.t == t:
            raise error

    return callback


@pytest.fixture
def often(monkeypatch):
    """Every block is written."""
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e9)


def run(path=None, y=Y, **options):
    options = {"n_active": M, "random_state": 3, **options}
    return select(X, y, KERNEL, checkpoint=path, **options)


def broken(path, t, **options):
    """Break off at a stage; whether it was."""
    try:
        run(path, callback=breaking(t), **options)
    except Break:
        return True
    return False


def assert_same(found, expected, rtol=1e-9):
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.stop_reason == expected.stop_reason
    assert found.noise_floor == expected.noise_floor
    for name, factor in (("rmse", 1), ("scores", 1e3), ("factor", 1)):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol * factor, rtol, err_msg=name)


# --- going on ---


@pytest.mark.parametrize(
    ("criterion", "keep"),
    [
        (criterion, keep) if criterion in ("delta", "lookahead", "random") else campaign(criterion, keep)
        for criterion in CRITERIA
        for keep in ("kept", "not kept")
    ],
    indirect=["keep"],
)
def test_a_selection_that_is_broken_off_again_and_again_ends_the_same(criterion, keep, tmp_path):
    options = {"criterion": CRITERIA[criterion]}
    path = tmp_path / "c"
    assert [broken(path, t, **options) for t in (1, 30, 34, 75, 149)][:3] == [True] * 3  # a block may get to the end
    assert_same(run(path, **options), run(**options))


def test_every_stage_can_be_the_last(tmp_path, often):
    """Of a look-ahead, whose blocks begin at stages that must not change."""
    options = {"n_active": 20, "criterion": Lookahead(block=5, n_candidates=50, n_sample=100)}
    expected = run(**options)
    for t in range(1, 21):
        path = tmp_path / str(t)
        assert broken(path, t, **options)
        assert run(path, **options).indices.tolist() == expected.indices.tolist()


@pytest.mark.parametrize(
    ("rtol", "options"),
    [
        (1e-4, {"dtype": "float32"}),
        (1e-9, {"y": np.stack([Y, -Y + X[:, 0]], axis=1), "n_active": 60, "first": [5, 400, 7], "random_state": 0}),
    ],
    ids=["float32", "rows that are given, and several targets"],
)
def test_other_selections_go_on_too(rtol, options, tmp_path):
    assert broken(tmp_path / "c", 20, **options)
    assert_same(run(tmp_path / "c", **options), run(**options), rtol)


def test_the_rows_of_a_first_run_are_not_chosen_again(tmp_path, monkeypatch):
    assert broken(tmp_path / "c", 100)
    seen = []
    resumed = checkpoint.Checkpoint.resumed
    monkeypatch.setattr(checkpoint.Checkpoint, "resumed", lambda *given: seen.append(resumed(*given)) or seen[-1])
    run(tmp_path / "c")
    assert len(seen[0].order) >= 100


def test_ctrl_c(tmp_path):
    with pytest.raises(SelectionInterrupted) as caught:
        run(tmp_path / "c", callback=breaking(50, KeyboardInterrupt))
    assert len(caught.value.selection) >= 50
    assert_same(run(tmp_path / "c"), run())


def test_an_executor_that_fails_leaves_the_file(tmp_path, monkeypatch):
    """As a cluster does that has lost its last worker."""
    call, left = ThreadExecutor.call, [8]

    def failing(self, method, *arguments):
        left[0] -= method == "extend"
        if not left[0]:
            raise RuntimeError("No worker of the cluster is left")
        return call(self, method, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ThreadExecutor, "call", failing)
        with pytest.raises(RuntimeError, match="No worker"):
            run(tmp_path / "c")
    assert len(checkpoint.check_checkpoint(tmp_path / "c").selection.indices) >= 7
    assert_same(run(tmp_path / "c"), run())


@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_on_a_cluster_and_back(tmp_path):
    distributed, da = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    there = {"executor": None, "checkpoint": tmp_path / "c", "n_active": M, "random_state": 3, "criterion": "lookahead"}
    parts = da.from_array(X, chunks=(130, 1)), da.from_array(Y, chunks=77)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        there["executor"] = client
        with pytest.raises(Break):
            select(*parts, KERNEL, **there, callback=breaking(20))
        assert broken(tmp_path / "c", 50, criterion="lookahead")
        found = select(*parts, KERNEL, **there)
    expected = run(criterion="lookahead")
    assert found.indices.tolist() == expected.indices.tolist()
    np.testing.assert_allclose(found.rmse, expected.rmse, rtol=1e-9)


@pytest.mark.parametrize("criterion", [name if name in ("delta", "lookahead") else campaign(name) for name in CRITERIA])
@pytest.mark.parametrize(
    "runs",
    [
        [{"n_active": 10}, {"n_active": 100}, {}, {"n_active": 40}],
        [{}, {"stop": stopping.Decrease(0.002, 4)}, {}],  # nothing is lost by the second
    ],
    ids=["sizes", "rules"],
)
def test_a_run_that_has_ended_is_taken_further_or_less_far(runs, criterion, tmp_path):
    for options in runs:
        options = {"criterion": CRITERIA[criterion], **options}
        assert_same(run(tmp_path / "c", **options), run(**options))


@pytest.mark.parametrize("criterion", ["delta", "lookahead"])
@pytest.mark.parametrize(
    "rules",
    [
        {"stop": stopping.Decrease(0.002, 4)},
        {"stop": stopping.TargetRMSE(0.3)},
        {"stop": stopping.Decrease(0.01, 3) & stopping.Size(20)},
    ],
    ids=str,
)
def test_it_stops_where_it_would_have(criterion, rules, tmp_path):
    expected = run(criterion=criterion, **rules)
    assert expected.stop_reason not in ("criterion", "all_rows")
    t = len(expected)
    assert 4 < t < M
    assert broken(tmp_path / "c", 1, criterion=criterion, **rules)
    broken(tmp_path / "c", t // 2, criterion=criterion, **rules)
    assert_same(run(tmp_path / "c", criterion=criterion, **rules), expected)


@pytest.mark.parametrize("criterion", ["delta", "lookahead", "random"])
def test_once_it_has_ended_it_ends_at_once(criterion, tmp_path, monkeypatch):
    first = run(tmp_path / "c", criterion=criterion)
    before = (tmp_path / "c").read_bytes()
    monkeypatch.setattr(ArrayRows, "shards", lambda *given: pytest.fail("the rows were looked at again"))
    assert_same(run(tmp_path / "c", criterion=criterion), first)
    assert (tmp_path / "c").read_bytes() == before


def test_all_rows_and_no_row_worth_it(tmp_path):
    few, targets = X[:30], Y[:30]
    for name, options in {
        "all": {"n_active": 40},
        "criterion": {"n_active": 20, "criterion": lambda s, abs_r, noise: np.where(s > 0.6, s, -np.inf)},
    }.items():
        expected = select(few, targets, KERNEL, first=0, **options)
        for _ in range(2):
            assert_same(select(few, targets, KERNEL, first=0, checkpoint=tmp_path / name, **options), expected)
    assert expected.stop_reason == "criterion"


def test_without_a_seed_the_luck_is_the_first_run_s(tmp_path):
    assert broken(tmp_path / "c", 20, criterion="sampled", random_state=None)
    shutil.copy(tmp_path / "c", tmp_path / "d")
    one, other = (run(tmp_path / name, criterion="sampled", random_state=None) for name in "cd")
    assert one.indices.tolist() == other.indices.tolist()


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng, lambda seed: MT19937(seed)])
def test_generators_as_random_state(make, tmp_path):
    assert broken(tmp_path / "c", 20, criterion="sampled", random_state=make(5))
    expected = run(criterion="sampled", random_state=make(5))
    assert_same(run(tmp_path / "c", criterion="sampled", random_state=make(5)), expected)
    with pytest.raises(CheckpointError, match="random_state was"):
        run(tmp_path / "c", criterion="sampled", random_state=make(6))


def MT19937(seed):
    return np.random.Generator(np.random.MT19937(seed))


def test_time_is_that_of_all_runs_together(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(sodalite.selection.loop, "perf_counter", lambda: clock[0])

    def tick(stage):
        clock[0] += 1.0
        if stage.t == 60:
            raise Break

    with pytest.raises(Break):
        run(tmp_path / "c", callback=tick, time_limit=1000)
    clock[0] += 1e6  # a night between
    assert run(tmp_path / "c", time_limit=50).stop_reason == "time_limit"
    assert run(tmp_path / "c", time_limit=1000, callback=lambda stage: None).stop_reason == "n_active"


def test_a_noise_floor_that_was_raised_stays_so(tmp_path):
    """A kernel that is not quite positive definite fails at a stage, and all begins anew with more noise."""
    inputs = np.linspace(0, 1, 200)[:, None]
    targets = np.sin(9 * inputs[:, 0])
    options = {"n_active": 40, "first": 0}
    with pytest.warns(JitterWarning):
        expected = select(inputs, targets, Rounded(0.3), **options)
    for t in (1, 9):
        with pytest.raises(Break), pytest.warns(JitterWarning):
            select(inputs, targets, Rounded(0.3), **options, callback=once_raised(t), checkpoint=tmp_path / "c")
    with pytest.warns(JitterWarning):
        found = select(inputs, targets, Rounded(0.3), **options, checkpoint=tmp_path / "c")
    assert found.noise_floor == expected.noise_floor
    assert found.indices.tolist() == expected.indices.tolist()


class Rounded(RBF):
    """Not a covariance, quite."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.round(super().__call__(X, Y), 8)


def once_raised(t):
    """Break off at a stage of the second attempt or a later one."""
    last = [0, 1]

    def callback(stage):
        if stage.t <= last[0]:
            last[1] += 1
        last[0] = stage.t
        if last[1] > 1 and stage.t >= t:
            raise Break

    return callback


# --- writing ---


def test_it_is_written_now_and_then(tmp_path, monkeypatch):
    written = []
    write = checkpoint.write
    clock = [0.0]
    monkeypatch.setattr(checkpoint, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpoint, "write", lambda *given: (written.append(clock[0]), write(*given)))
    run(tmp_path / "c", n_active=150, callback=lambda stage: clock.append(clock.pop() + 0.1))
    assert 3 <= len(written) <= 2 + 15 / checkpoint.SECONDS
    assert min(np.diff(written[:-1])) >= checkpoint.SECONDS  # the last is the end


def test_nothing_is_left_behind_but_the_file_also_of_a_killed_run(tmp_path, often):
    for name in (".c.0123abcd.unfinished", ".c.notes", ".d.0123abcd.unfinished"):
        (tmp_path / name).mkdir()
    run(tmp_path / "c")
    assert sorted(os.listdir(tmp_path)) == [".c.notes", ".d.0123abcd.unfinished", "c"]


def test_a_disk_that_fills_up_is_no_reason_to_stop(tmp_path, monkeypatch, often):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sodalite.core.container._header", full)
    with pytest.warns(CheckpointWarning, match=r"could not be written: No space left on device\. The selection goes"):
        found = run(tmp_path / "c")
    assert_same(found, run())
    assert os.listdir(tmp_path) == []


def test_while_rows_are_taken_again_the_file_says_no_less(tmp_path, often):
    assert broken(tmp_path / "c", 70, n_active=250)
    before = (tmp_path / "c").read_bytes()
    assert broken(tmp_path / "c", 5, n_active=250)
    assert (tmp_path / "c").read_bytes() == before


def test_what_is_in_it(tmp_path):
    """Numbers and JSON, and nothing of the rows."""
    chosen = run(tmp_path / "c")
    with safe_open(tmp_path / "c", framework="numpy") as file:
        content = json.loads(file.metadata()["text"])["content"]
        assert file.metadata()["format"] == "sodalite-checkpoint"
        np.testing.assert_array_equal(file.get_tensor("selection.indices"), chosen.indices)
    assert content["about"]["X"] == f"{N} x 2 of float64"
    assert content["about"]["random_state"] == 3
    assert (tmp_path / "c").stat().st_size < 100 * M + 10_000


# --- refusals ---


@pytest.fixture
def stored(tmp_path):
    assert broken(tmp_path / "c", 50)
    return tmp_path / "c"


def changed(values, place):
    values = values.copy()
    values.flat[place] = np.nextafter(values.flat[place], np.inf)
    return values


OTHERS = {
    "one value of X": ((changed(X, 777), Y, KERNEL, {}), "it is of other data: X has other values"),
    "one target": ((X, changed(Y, N - 1), KERNEL, {}), "it is of other data: y has other values"),
    "rows in another order": ((X[::-1], Y[::-1], KERNEL, {}), "X has other values"),
    "two rows the other way round": ((X[[1, 0, *range(2, N)]], Y, KERNEL, {}), "X has other values"),
    "fewer rows": ((X[:-1], Y[:-1], KERNEL, {}), "X was 600 x 2 of float64 and is 599 x 2 of float64"),
    "another type": ((X.astype(np.float32), Y, KERNEL, {}), "X was 600 x 2 of float64 and is 600 x 2 of float32"),
    "more targets": ((X, np.stack([Y, Y], axis=1), KERNEL, {}), "y was 600 x 1 and is 600 x 2"),
    "kernel": ((X, Y, ConstantKernel(2.0000001) * KERNEL.k1.k2 + KERNEL.k2, {}), "another run: kernel is another"),
    "criterion": (
        (X, Y, KERNEL, {"criterion": "underfit"}),
        "criterion was 'Delta(uncertainty=1.0, underfit=1.0)' and is 'Delta(un",
    ),
    "first": ((X, Y, KERNEL, {"first": 4}), "first was None and is 4"),
    "random_state": ((X, Y, KERNEL, {"random_state": 4}), "random_state was 3 and is 4"),
    "no random_state": ((X, Y, KERNEL, {"random_state": None}), "random_state was 3 and is None"),
    "dtype": ((X, Y, KERNEL, {"dtype": "float32"}), "dtype was 'float64' and is 'float32'"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_run_is_refused_and_nothing_is_overwritten(what, stored, monkeypatch):
    (inputs, targets, kernel, options), message = OTHERS[what]
    before = stored.read_bytes()
    monkeypatch.setattr(grow, "run", lambda *given: pytest.fail("the long work began"))
    with pytest.raises(CheckpointError) as caught:
        select(inputs, targets, kernel, **{"n_active": M, "random_state": 3, **options}, checkpoint=stored)
    assert message in str(caught.value)
    assert "Nothing was changed; give another path, or remove the file to begin anew." in str(caught.value)
    assert str(stored) in str(caught.value)
    assert stored.read_bytes() == before


def test_a_file_that_is_truncated_or_has_a_flipped_bit(stored):
    whole = stored.read_bytes()
    damaged = [whole[:length] for length in (0, 1, 7, 8, 100, 1000, -1, -100)]
    places = random.Random(0).sample(range(len(whole)), 40)
    damaged += [whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :] for place in places]
    for content in damaged:
        stored.write_bytes(content)
        words = (
            "is truncated, damaged or no checkpoint|is no checkpoint, but text" if len(content) < len(whole) else None
        )
        with pytest.raises(CheckpointError, match=words):
            run(stored)
        assert stored.read_bytes() == content
    stored.write_bytes(whole)
    assert_same(run(stored), run())


def test_a_file_of_a_later_version(stored, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sodalite.core.container.VERSION", 2)
        run(stored.parent / "later", n_active=5)
    before = (stored.parent / "later").read_bytes()
    with pytest.raises(CheckpointError, match=r"written by a later version .* pip install --upgrade sodalite"):
        run(stored.parent / "later")
    assert (stored.parent / "later").read_bytes() == before


def test_files_that_are_something_else(tmp_path):
    model = GreedyGPRegressor(n_active=5, hyperparameters="fixed").fit(X[:50], Y[:50])
    sodalite.save(model, tmp_path / "model")
    (tmp_path / "text").write_text("a,b\n1,2\n")
    (tmp_path / "folder").mkdir()
    for name, message in {
        "model": "is no checkpoint of sodalite's",
        "text": "is no checkpoint, but a table of text, such as CSV",
        "folder": "cannot be written: it is a folder",
        "absent/c": "cannot be written: there is no folder",
    }.items():
        before = (tmp_path / name).read_bytes() if (tmp_path / name).is_file() else None
        with pytest.raises(CheckpointError, match=message):
            run(tmp_path / name)
        assert before is None or (tmp_path / name).read_bytes() == before


def test_what_is_no_path():
    for path in (3, True, ["c"]):
        with pytest.raises(TypeError, match="checkpoint must be the path of a file; got"):
            run(path)


def test_contents_that_make_no_sense(stored):
    """Of a file whose sums are right: it was made by somebody."""
    header, arrays = read(checkpoint.KIND, stored)
    for name, value in (
        ("generator", {"bit_generator": "os.system"}),
        ("generator", 3),
        ("selection", {"class": "RecordedSelection"}),
        ("selection", {**header.content["selection"], "rmse": {"array": "missing"}}),
    ):
        checkpoint.write(checkpoint.KIND, stored, {**header.content, name: value}, arrays)
        before = stored.read_bytes()
        with pytest.raises(CheckpointError, match="is not a valid checkpoint"):
            run(stored)
        assert stored.read_bytes() == before


# --- the fingerprint ---


def test_the_fingerprint_does_not_depend_on_how_rows_are_cut(monkeypatch):
    whole = fingerprints(ArrayRows(X, Y[:, None]))
    assert whole == {"X": of_block(X, 0), "y": of_block(Y, 0)}
    assert fingerprints(ArrayRows(np.asfortranarray(X), Y[:, None])) == whole
    for most in (100, 7):
        monkeypatch.setattr("sodalite.selection.rows.HASHED", most)
        assert fingerprints(ArrayRows(X, Y[:, None])) == whole
    assert of_block(X.astype(np.float32).astype(np.float64), 0) != whole["X"]


def test_no_two_of_many_small_changes_have_one_fingerprint():
    zeros = np.zeros((40, 5))
    found = {of_block(zeros, 0)}
    for place in range(zeros.size):
        for value in (1.0, -1.0, 5e-324, 2.0):
            other = zeros.copy()
            other.flat[place] = value
            found.add(of_block(other, 0))
    assert len(found) == 1 + 4 * zeros.size


# --- the estimator ---


QUICK = {
    "n_active": 60,
    "hyperparameters": Subset(n_rows=60, n_starts=2, n_screen=40, n_steps=3),
    "posterior": Neighbors(8),
    "random_state": 0,
}


def fitted(path=None, inputs=X, targets=Y, **options):
    options = {**QUICK, **options}
    return GreedyGPRegressor(**options).fit(inputs, targets, checkpoint=path)


def interrupted(path, t, **options):
    options = {**QUICK, **options}
    model = GreedyGPRegressor(**options)
    with pytest.raises(Break):
        model.fit(X, Y, callback=breaking(t), checkpoint=path)


def assert_same_model(found, expected):
    assert found.active_indices_.tolist() == expected.active_indices_.tolist()
    assert found.kernel_ == expected.kernel_
    assert [part.kernel for part in found.rounds_] == [part.kernel for part in expected.rounds_]
    assert [part.objective for part in found.rounds_] == [part.objective for part in expected.rounds_]
    np.testing.assert_allclose(found.selection_.rmse, expected.selection_.rmse, rtol=1e-9)
    for one, other in zip(found.predict(X[:50], True), expected.predict(X[:50], True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("posterior", ["local", "vfe"])
def test_a_fit_goes_on_and_searches_no_second_time(posterior, tmp_path, monkeypatch):
    expected = fitted(posterior=posterior)
    interrupted(tmp_path / "c", 1, posterior=posterior)
    monkeypatch.setattr(Subset, "find", lambda *given: pytest.fail("the kernel was searched for again"))
    interrupted(tmp_path / "c", 35, posterior=posterior)
    assert_same_model(fitted(tmp_path / "c", posterior=posterior), expected)
    assert_same_model(fitted(tmp_path / "c", posterior=posterior), expected)


def test_a_fit_that_fails_after_the_choice_has_it_on_file(tmp_path, monkeypatch):
    expected = fitted()
    with monkeypatch.context() as patch:
        patch.setattr(sodalite.posteriors.Local, "condition", lambda evidence: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fitted(tmp_path / "c")
    monkeypatch.setattr(grow, "run", lambda *given: pytest.fail("the rows were chosen again"))
    assert_same_model(fitted(tmp_path / "c"), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"posterior": "sod"}, "posterior was 'local' and is 'sod'"),
        ({"target": None}, "target was 'standardize' and is None"),
        ({"hyperparameters": "fixed"}, "hyperparameters was 'Subset"),
        ({"kernel": KERNEL}, "kernel is another"),
        ({"targets": -Y}, "it is of other data: y has other values"),
        ({"random_state": 1}, "random_state was 0 and is 1"),
    ],
)
def test_another_fit_is_refused(change, message, tmp_path):
    interrupted(tmp_path / "c", 1)
    with pytest.raises(CheckpointError, match=message):
        fitted(tmp_path / "c", **change)


def test_noise_of_the_rows_own_and_the_function_that_wrote_it_are_compared(tmp_path):
    model = GreedyGPRegressor(KERNEL, n_active=20, hyperparameters="fixed", posterior="sod", random_state=0)
    path = tmp_path / "c"
    expected = model.fit(X, Y, alpha=0.1, checkpoint=path).active_indices_.tolist()
    assert model.fit(X, Y, alpha=0.1, checkpoint=path).active_indices_.tolist() == expected
    for other, message in ((0.2, "alpha has other values"), (None, "alpha was True and is False")):
        with pytest.raises(CheckpointError, match=message):
            model.fit(X, Y, alpha=other, checkpoint=path)
    run(tmp_path / "d", n_active=5)
    with pytest.raises(CheckpointError, match="it was written by select, and this is fit"):
        fitted(tmp_path / "d")


def test_a_model_file_knows_nothing_of_it(tmp_path):
    sodalite.save(fitted(tmp_path / "c", posterior="sod"), tmp_path / "model")
    assert str(tmp_path).encode() not in (tmp_path / "model").read_bytes()


class Own(RBF):
    """A kernel of one's own."""


class Elsewhere:
    """A search of one's own, which ends at a kernel that it was not given."""

    def __repr__(self):
        return "Elsewhere()"

    def find(self, task, kernels, generator):
        return Found(Own(float(generator.uniform(1, 2))) + WhiteKernel(0.1))


def test_a_kernel_of_ones_own_from_elsewhere_is_searched_for_again(tmp_path, monkeypatch):
    expected = fitted(hyperparameters=Elsewhere())
    interrupted(tmp_path / "c", 30, hyperparameters=Elsewhere())
    assert_same_model(fitted(tmp_path / "c", hyperparameters=Elsewhere()), expected)
    monkeypatch.setattr(Elsewhere, "find", lambda *given: Found(Own(3.0) + WhiteKernel(0.1)))
    with pytest.raises(CheckpointError, match="another kernel was found this time"):
        fitted(tmp_path / "c", hyperparameters=Elsewhere())


def test_a_kernel_of_ones_own_that_was_given_is_searched_for_once(tmp_path, monkeypatch):
    options = {"kernel": ConstantKernel(1.0) * Own(1.0) + WhiteKernel(0.1)}
    expected = fitted(**options)
    interrupted(tmp_path / "c", 30, **options)
    monkeypatch.setattr(Subset, "find", lambda *given: pytest.fail("the kernel was searched for again"))
    assert_same_model(fitted(tmp_path / "c", **options), expected)


def test_a_damaged_file_is_found_before_any_long_work(tmp_path, monkeypatch):
    (tmp_path / "c").write_bytes(b"nothing")
    monkeypatch.setattr(Subset, "find", lambda *given: pytest.fail("the long work began"))
    with pytest.raises(CheckpointError, match="is no checkpoint, but text"):
        fitted(tmp_path / "c")


# --- killed ---

KILLED = """
    import os, random, signal, sys, time
    import numpy as np
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sodalite import select
    from sodalite.selection import checkpoint

    path, criterion, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
    checkpoint.SECONDS, checkpoint.SHARE = 0.0, 1e9
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (1000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=1000)
    kernel = ConstantKernel(2.0) * RBF([1.0, 1.5]) + WhiteKernel(0.05)
    options = dict(n_active=300, criterion=criterion, random_state=3)


    def known():
        selection = checkpoint.check_checkpoint(path).selection if os.path.exists(path) else None
        return 0 if selection is None else len(selection.rmse)


    def one():
        before = known()
        far = 20 * (kills + 1) if kills < most else 300  # no more than that before it is killed
        slow = lambda stage: time.sleep(100 if stage.t > far else 0.002 * (stage.t > before))
        np.save(path + ".npy", select(X, y, kernel, **options, checkpoint=path, callback=slow).indices)
        os._exit(0)


    expected = select(X, y, kernel, **options).indices
    chance, kills, done = random.Random(0), 0, False
    while not done:
        child = os.fork()
        if not child:
            one()
        until = time.monotonic() + (chance.uniform(0.0, 0.3) if kills < most else 100)
        while time.monotonic() < until and not done:
            done = os.waitpid(child, os.WNOHANG)[0] == child
            time.sleep(0.001)
        if not done:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills += 1
            known()  # whole, whenever it was
    assert np.array_equal(np.load(path + ".npy"), expected)
    print(kills)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are others there")
@pytest.mark.parametrize(("criterion", "kills"), [("lookahead", 5), campaign("lookahead", 12), campaign("delta", 12)])
def test_killed_at_any_moment_many_times(criterion, kills, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "c"), criterion, str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == kills
