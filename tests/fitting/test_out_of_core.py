"""Data that are larger than memory: read as they are needed, within a limit that the operating system enforces."""

import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

import sodalite
from helpers import campaign
from helpers import paper_select as select
from sodalite import GreedyGPRegressor
from sodalite.cli.app import app
from sodalite.exceptions import TableError
from sodalite.hyperparameters import Subset, Weave
from sodalite.kernels import PeriodicColumn
from sodalite.posteriors import Neighbors, SubsetOfData
from sodalite.selection import plan
from sodalite.tables import ParquetRows, is_on_disk, open_parquet

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

QUICK = Subset(n_rows=60, n_starts=2, n_screen=40, n_steps=3)
KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.5, 2.0]) + WhiteKernel(0.05)
N = 900


def rows(n=N, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=n)


X, Y = rows()


def write(path, X=X, y=Y, group=100, **more):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y, **more}
    parquet.write_table(arrow.table(columns), path, row_group_size=group)
    return path


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "rows.parquet")


@pytest.fixture
def folder(tmp_path):
    """Three files, whose row groups end at odd places."""
    (tmp_path / "rows").mkdir()
    for name, begin, end, group in (("a", 0, 333, 100), ("b", 333, 334, 7), ("c", 334, N, 250)):
        write(tmp_path / "rows" / f"{name}.parquet", X[begin:end], Y[begin:end], group)
    (tmp_path / "rows" / "_metadata.parquet").write_text("not one of them")
    return tmp_path / "rows"


@pytest.fixture(params=["file", "folder", "memory map"])
def stored(request, tmp_path):
    """X on disk, in all ways that there are."""
    if request.param == "memory map":
        np.save(tmp_path / "X.npy", X)
        return np.load(tmp_path / "X.npy", mmap_mode="r")
    return open_parquet(request.getfixturevalue(request.param), "y")[0]


# --- rows in Parquet files ---


def test_slices_and_rows_by_number(folder):
    found, y = open_parquet(folder, "y")
    assert (found.shape, found.dtype, len(found), found.names) == ((N, 3), np.float64, N, ["x0", "x1", "x2"])
    np.testing.assert_array_equal(y, Y)
    rng = np.random.default_rng(0)
    parts = [(None,), (0, 0), (5, 5), (330, 340), (-10, None), (800, 5000), (None, None, 7), (50, 10)]
    some = [[3], [], [899, 0, 333, 333, -1], np.arange(N) % 5 == 2, rng.permutation(N)[:200]]
    some += [np.sort(rng.choice(N, 300, replace=False)), np.array([2**7], dtype=np.uint8)]
    for rows in [*(slice(*part) for part in parts), *some]:
        index = np.asarray(rows, dtype=int) if isinstance(rows, list) else rows
        got = found[index]
        np.testing.assert_array_equal(got, X[index])
        assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(found[-2], X[-2])
    np.testing.assert_array_equal(np.asarray(found), X)
    for wrong in (N, -N - 1, [0, N], 1.5, "x0"):
        with pytest.raises(IndexError):
            found[wrong]


def test_each_row_group_is_read_once_for_many_rows(folder, monkeypatch):
    found, _ = open_parquet(folder, "y")
    read = []
    kind = type(found.parts[0])
    original = kind.read
    monkeypatch.setattr(kind, "read", lambda self: (read.append((self.file, self.number)), original(self))[1])
    found[np.random.default_rng(0).permutation(N)]
    assert sorted(read) == [(part.file, part.number) for part in found.parts]
    read.clear()
    for begin in range(0, N, 10):
        found[begin : begin + 10]
    assert len(read) <= len(found.parts)


def test_no_more_row_groups_are_held_than_it_says(folder):
    found, _ = open_parquet(folder, "y")
    for begin in range(0, N, 90):
        part = found[begin : begin + 90]
        kept = found.parts[0].kept.groups.values()
        assert sum(group.nbytes for group in kept) <= found.held_bytes < X.nbytes
        assert not any(np.shares_memory(part, group) for group in kept)


def test_types(tmp_path):
    whole, exact = np.arange(N, dtype=np.int16), np.linspace(0, 1, N, dtype=np.float32)
    write(tmp_path / "rows.parquet", whole=whole, exact=exact, yes=whole % 2 == 0)
    mixed = ParquetRows(tmp_path / "rows.parquet", ["yes", "exact", "whole"])
    assert mixed.dtype == np.float64
    np.testing.assert_array_equal(mixed[:], np.stack([whole % 2 == 0, exact, whole], axis=1))
    assert ParquetRows(tmp_path / "rows.parquet", ["exact"]).dtype == np.float32
    np.testing.assert_array_equal(ParquetRows(tmp_path / "rows.parquet", ["exact"])[:][:, 0], exact)


def test_it_can_be_sent_to_another_process(folder):
    found, _ = open_parquet(folder, "y", ["x2", "x0"])
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again[100:400], X[100:400][:, [2, 0]])


def mistakes(tmp_path):
    text, gaps = np.full(N, "a"), np.where(np.arange(N) % 450 == 7, None, 1.0)
    write(tmp_path / "text.parquet", text=text)
    write(tmp_path / "gaps.parquet", gaps=arrow.array(gaps, type=arrow.float64()))
    whole = write(tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "short.parquet").write_bytes(whole[:-20])
    (tmp_path / "none").mkdir()
    (tmp_path / "mixed").mkdir()
    write(tmp_path / "mixed" / "a.parquet")
    write(tmp_path / "mixed" / "b.parquet", X[:, :2])
    yield "absent.parquet", None, "there is no such file or folder"
    yield "none", None, "has no files that end in .parquet or .pq"
    yield "short.parquet", None, "short.parquet cannot be read as Parquet"
    yield "text.parquet", None, "'text' holds no numbers. Name the columns to use"
    yield "gaps.parquet", None, "has missing values: 'gaps' (2)"
    yield "whole.parquet", ["x0", "x11"], "has no column 'x11'; it has 'x0', 'x1', 'x2', 'y'. Did you mean 'x1'?"
    yield "whole.parquet", ["x0", "y"], "'y' is the target, and cannot be among the columns too"
    yield "mixed", None, "b.parquet has no column 'x2'"


def test_mistakes(tmp_path):
    for name, columns, message in mistakes(tmp_path):
        with pytest.raises(TableError) as caught:
            open_parquet(tmp_path / name, "y", columns)
        assert message in str(caught.value)


def test_a_file_that_is_damaged_further_on(file):
    found, y = open_parquet(file, "y")
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 3 : len(whole) // 2] = bytes(len(whole) // 2 - len(whole) // 3)
    file.write_bytes(whole)
    with pytest.raises((TableError, ValueError)):
        select(found, y, KERNEL, n_active=5)


# --- the same as in memory ---


@pytest.mark.parametrize("criterion", ["delta", "lookahead"])
@pytest.mark.parametrize("memory_limit", [None, "12MB"])
def test_the_picks_are_those_of_an_array_in_memory(stored, criterion, memory_limit):
    options = {"n_active": 40, "criterion": criterion, "random_state": 0, "memory_limit": memory_limit}
    assert select(stored, Y, KERNEL, **options).indices.tolist() == select(X, Y, KERNEL, **options).indices.tolist()


@pytest.mark.parametrize("posterior", ["local", "sod", "vfe"])
def test_a_fit_is_that_of_an_array_in_memory(stored, posterior):
    options = {"n_active": 30, "posterior": posterior, "criterion": "delta", "random_state": 0}
    options |= {"hyperparameters": QUICK, "calibrate": False}
    if posterior == "local":
        options["posterior"] = Neighbors(8)
    here, there = (GreedyGPRegressor(**options).fit(inputs, Y) for inputs in (X, stored))
    assert there.active_indices_.tolist() == here.active_indices_.tolist()
    assert there.n_features_in_ == 3
    for one, other in zip(there.predict(stored, True), here.predict(X, True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_weave_works_on_some_of_many_rows(folder, monkeypatch):
    monkeypatch.setattr("sodalite.hyperparameters.weave.MOST_ROWS", 200)
    monkeypatch.setattr("sodalite.fitting.pipeline.MOST_ROWS", 200)
    found, y = open_parquet(folder, "y")
    weave = Weave(n_rounds=1, n_start=60)
    options = {"n_active": 20, "posterior": "vfe", "hyperparameters": weave, "random_state": 0}
    there = GreedyGPRegressor(KERNEL, **options).fit(found, y)
    here = GreedyGPRegressor(KERNEL, **options).fit(X, Y)
    assert there.active_indices_.tolist() == here.active_indices_.tolist()


def test_many_rows_are_predicted_a_block_at_a_time(stored, monkeypatch):
    model = GreedyGPRegressor(KERNEL, n_active=20, hyperparameters="fixed", posterior="sod", random_state=0).fit(X, Y)
    expected = model.predict(X, return_std=True)
    monkeypatch.setattr("sodalite.selection.rows.BLOCK", 300)
    for one, other in zip(model.predict(stored, return_std=True), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(model.predict(stored), expected[0], rtol=1e-9)


def test_values_that_are_not_finite_are_found_before_any_long_work(tmp_path, monkeypatch):
    monkeypatch.setattr(sodalite.selection.grow, "run", lambda *given: pytest.fail("the long work began"))
    bad = X.copy()
    bad[777, 1] = np.inf
    np.save(tmp_path / "X.npy", bad)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    write(tmp_path / "bad.parquet", bad)
    for inputs in (mapped, open_parquet(tmp_path / "bad.parquet", "y")[0]):
        with pytest.raises(ValueError, match="X contains NaN or infinite values, in row 777 for one"):
            GreedyGPRegressor(KERNEL, hyperparameters="fixed", posterior="sod").fit(inputs, Y)


class Sliced:
    """As an HDF5 data set: rows by number must be in order."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def __len__(self):
        return len(self.X)

    def __getitem__(self, rows):
        if not isinstance(rows, slice) and np.any(np.diff(rows) <= 0):
            raise TypeError("Indexing elements must be in increasing order")
        return self.X[rows]


def test_rows_that_cannot_be_had_by_number():
    model = GreedyGPRegressor(KERNEL, n_active=5, hyperparameters="fixed", posterior="sod", random_state=0)
    with pytest.raises(TypeError, match="X, of type Sliced, does not give rows by their numbers"):
        model.fit(Sliced(X), Y)
    options = {"n_active": 20, "random_state": 0}
    assert select(Sliced(X), Y, KERNEL, **options).indices.tolist() == select(X, Y, KERNEL, **options).indices.tolist()


class InMemory(SubsetOfData):
    """A posterior that needs all rows in memory."""

    needs = "all in memory"


class Many:
    """A million rows on disk, none of which may be read."""

    shape, dtype, ndim = (10**6, 400), np.dtype(np.float64), 2

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        if rows == slice(None, 1):  # tells that slices are arrays
            return np.zeros((1, 400))
        pytest.fail("the long work began")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("posterior", "limit", "message"),
    [
        (
            InMemory,
            "90MB",
            "keeps all 1000000 rows in memory, which takes about 16096 MB, but memory_limit is 90 MB. Use",
        ),
        (
            "local",
            "90MB",
            "memory_limit is 90 MB, but posterior='local' needs at least .* MB for these rows, which are on",
        ),
        ("local", "1MB", "memory_limit is 1 MB, but 1000000 rows and 5 active rows need at least"),
    ],
)
def test_a_memory_limit_that_is_too_small_is_refused_at_once(posterior, limit, message):
    model = GreedyGPRegressor(n_active=5, memory_limit=limit, posterior=posterior)
    with pytest.raises(ValueError, match=message):
        model.fit(Many(), np.zeros(10**6))


@pytest.mark.usefixtures("one_thread")
def test_what_is_said_to_be_needed_of_few_rows_is_enough(tmp_path):
    many, y = rows(40_000, 12)
    np.save(tmp_path / "X.npy", many)
    model = GreedyGPRegressor(RBF(3.0), n_active=5, hyperparameters="fixed", calibrate=False, posterior=Neighbors(4))
    stored = np.load(tmp_path / "X.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="which are on disk") as caught:
        model.set_params(memory_limit="16MB").fit(stored, y)
    said = re.search("needs at least ([0-9]+) MB", str(caught.value))[1]
    model.set_params(memory_limit=f"{said}MB").fit(stored, y)


@pytest.mark.usefixtures("one_thread")
def test_a_disk_without_room_is_found_at_once(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10**6))
    model = GreedyGPRegressor(n_active=5, memory_limit="700MB")
    with pytest.raises(
        OSError, match=r"for temporary files, .*, has no room for 12864 MB: .* set the environment variable"
    ):
        model.fit(Many(), np.zeros(10**6))


@pytest.mark.usefixtures("one_thread")
def test_row_groups_that_are_larger_than_the_limit(tmp_path):
    many, y = rows(300_000, 4)
    write(tmp_path / "rows.parquet", many, y, group=300_000)
    found, y = open_parquet(tmp_path / "rows.parquet", "y")
    with pytest.raises(ValueError, match="Reading X takes 26 MB of these: smaller row groups would take less"):
        select(found, y, RBF(1.0), n_active=5, memory_limit="30MB")


@pytest.mark.usefixtures("one_thread")
def test_what_is_kept_of_the_rows_is_counted():
    """The rows as the kernel wants them are kept with the v's; with many columns they are the larger part."""
    plans = [plan.make_plan(100_000, 10, 1, "float64", "100MB", width) for width in (80, 800)]
    assert [part.keep for part in plans] == [True, False]


# --- the commands ---


def command(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize("posterior", ["vfe", "local"])
def test_a_folder_is_fitted_on_disk(posterior, folder, tmp_path, monkeypatch):
    for name in ("fit.MOST_ROWS", "_fits.MOST_ROWS", "_fits.MOST_TESTED"):
        monkeypatch.setattr(f"sodalite.cli.{name}", 50)
    for place in ("selection.rows", "fitting.room"):
        monkeypatch.setattr(f"sodalite.{place}.fits_in_memory", lambda *given: False)
    options = ["-t", "y", "-n", "30", "--posterior", posterior, "--set", "hyperparameters=fixed", "--json"]
    told = json.loads(command("fit", folder, *options, "-o", tmp_path / "model").stdout)
    assert (told["n_rows"], told["n_held_out"], told["inputs"]) == (N, 50, ["x0", "x1", "x2"])  # all, after the test
    ours, nearest, linear, constant = told["scores"]
    assert nearest["rmse"] < constant["rmse"]
    assert ours["rmse"] < linear["rmse"] < constant["rmse"]
    model = sodalite.load(tmp_path / "model")
    assert (getattr(model.posterior_, "store", None) is not None) == (posterior == "local")
    out = tmp_path / "out.csv"
    command("predict", tmp_path / "model", write(tmp_path / "new.parquet", X[:40], Y[:40]), "-o", out)
    np.testing.assert_allclose(np.loadtxt(out, skiprows=1), model.predict(X[:40]), rtol=1e-6)


def test_rows_of_a_folder_are_chosen_on_disk(folder, tmp_path, monkeypatch):
    find = Subset.find
    monkeypatch.setattr(Subset, "find", lambda self, *given: find(QUICK, *given))
    for file in folder.glob("[abc].parquet"):
        table = parquet.read_table(file)
        names = arrow.array([f"{file.stem}{row}" for row in range(len(table))])
        parquet.write_table(table.append_column("name", names), file, row_group_size=100)
    out = tmp_path / "some.parquet"
    told = json.loads(command("select", folder, "-t", "y", "-n", 12, "--exclude", "name", "-o", out, "--json").stdout)
    some = parquet.read_table(out)
    assert some["row"].to_pylist() == told["rows"]
    np.testing.assert_array_equal(some["x1"], X[told["rows"], 1])
    where = [("a", 0) if row < 333 else ("b", 333) if row < 334 else ("c", 334) for row in told["rows"]]
    expected = [f"{name}{row - begin}" for row, (name, begin) in zip(told["rows"], where, strict=True)]
    assert some["name"].to_pylist() == expected


def test_a_large_file_is_left_on_disk(file, monkeypatch):
    assert not is_on_disk(file)
    monkeypatch.setattr("sodalite.tables.parquet.available", lambda: 4 * X.nbytes)
    assert is_on_disk(file)


def test_mistakes_with_a_folder(folder):
    for arguments, message in (
        (["-t", "z"], "has no column 'z'; it has 'x0', 'x1', 'x2', 'y'."),
        ([], "--target is needed: which column of"),
        (["-t", "y", "--set", "missing=drop"], "--set missing=drop needs a table in memory"),
    ):
        for name in (["fit"], ["select", "-n", "3"]):
            done = CliRunner().invoke(app, [*name, str(folder), *arguments])
            assert done.exit_code == 2
            assert message in done.stderr


# --- enforced ---

SCRIPT = """
    import resource, sys, threading
    import numpy as np
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    import sodalite.fitting.room, sodalite.posteriors.tuning, sodalite.selection.rows
    from sodalite import GreedyGPRegressor, select
    from sodalite.posteriors import Neighbors
    from sodalite.tables import ParquetRows

    MB = 10**6
    sodalite.posteriors.tuning.MOST_JUDGED = 4000
    kind, what, path, scale, options = *sys.argv[1:4], *map(eval, sys.argv[4:6])


    def opened(name):
        if kind == "parquet":
            return ParquetRows(f"{path}/{name}.parquet"), np.load(f"{path}/{name}-y.npy")
        return np.load(f"{path}/{name}.npy", mmap_mode="r"), np.load(f"{path}/{name}-y.npy")


    def work(X, y):
        kernel = ConstantKernel(1.0) * RBF(scale) + WhiteKernel(0.1)
        if what == "select":
            return select(X, y, kernel, random_state=0, criterion="delta", **options).indices
        model = GreedyGPRegressor(kernel, hyperparameters="fixed", random_state=0, criterion="delta", **options)
        model.fit(X, y)
        assert (getattr(model.posterior_, "store", None) is not None) == (what == "predict")
        return model.active_indices_ if what == "fit" else model.predict(X[: len(X) // 100], return_std=True)


    def multiply():
        start.wait()  # the linear algebra sets memory aside for each thread that is at it
        for _ in range(20):
            np.ones((300, 300)) @ np.ones((300, 300))


    threading.stack_size(2**20)
    start = threading.Barrier(4)
    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # All else that is loaded or set aside when it is first needed:
    original = sodalite.selection.rows.fits_in_memory
    for module in (sodalite.selection.rows, sodalite.fitting.room):
        module.fits_in_memory = original if what == "select" else lambda *given: False
    work(*opened("small"))
    for module in (sodalite.selection.rows, sodalite.fitting.room):
        module.fits_in_memory = original
    X, y = opened("large")
    size, limit = X.shape[0] * X.shape[1] * X.dtype.itemsize, options["memory_limit"]
    assert size >= (4 if what == "predict" else 2) * limit
    with open("/proc/self/status") as file:
        now = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData"))
    room = limit + 5 * y.nbytes + 8 * MB  # the targets are in memory, also scaled
    resource.setrlimit(resource.RLIMIT_DATA, (now + room, now + room))
    try:
        np.ones(size, dtype=np.uint8)
    except MemoryError:
        pass
    else:
        sys.exit("the limit is not enforced")
    np.save(f"{path}/found.npy", work(X, y))
"""


def limited(kind, what, path, scale, **options):
    """What a process finds that has hardly more memory than its limit."""
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), kind, what, str(path), repr(scale), repr(options)]
    # Arrays go back to the system when they are freed. By default, the C library keeps more and more of them in a heap
    # that becomes fragmented in ways that depend on the timing of threads, and the system counts the gaps too.
    alone = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    alone |= {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **alone}, check=False)
    assert done.returncode == 0, done.stderr
    return np.load(path / "found.npy")


def write_apart(path, name, X, y, kind, group):
    """Inputs in a file of their own, and targets."""
    np.save(path / f"{name}-y.npy", y)
    if kind == "parquet":
        table = arrow.table({f"x{j}": X[:, j] for j in range(X.shape[1])})
        parquet.write_table(table, path / f"{name}.parquet", row_group_size=group)
    else:
        np.save(path / f"{name}.npy", X)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are set otherwise there")


@linux
@pytest.mark.parametrize(
    ("kind", "what"), [("memmap", "select"), campaign("parquet", "select"), campaign("parquet", "fit")]
)
def test_a_limit_of_half_the_data_is_kept_to(kind, what, tmp_path):
    for name, n in (("small", 20_000), ("large", 300_000)):  # 77 MB
        X, y = rows(n, 32)
        write_apart(tmp_path, name, X, y, kind, group=10_000)
    options = {"n_active": 12} | ({"posterior": "vfe"} if what == "fit" else {})
    found = limited(kind, what, tmp_path, 6.0, memory_limit=36 * 10**6, **options).tolist()
    assert len(found) == 12
    kernel = ConstantKernel(1.0) * RBF(6.0) + WhiteKernel(0.1)
    assert what == "fit" or found == select(X, y, kernel, n_active=12, random_state=0).indices.tolist()


# --- local on disk ---

SMOOTH = ConstantKernel(1.0) * RBF([1.0, 1.0, 1.0]) + WhiteKernel(1e-4)
KINDS = {
    "alone": {"kernel": KERNEL, "posterior": Neighbors(9)},
    "shared": {"kernel": SMOOTH, "sigma": 1e-3, "n": 2600},
    "not calibrated": {"kernel": KERNEL, "calibrate": False},
    "two targets": {"kernel": KERNEL, "q": 2, "alpha": True},
    "mean function": {"kernel": KERNEL, "mean": "linear"},
    "linear kernel": {"kernel": DotProduct(1.0) + WhiteKernel(0.1)},
    "periodic kernel": {"kernel": KERNEL + PeriodicColumn(column=1, length_scale=1.0, periodicity=2.0)},
}
QUICKEST = ("shared", "two targets")


@pytest.mark.parametrize("kind", [*QUICKEST, *(campaign(kind) for kind in KINDS if kind not in QUICKEST)])
def test_local_on_disk_predicts_as_in_memory(kind, tmp_path, monkeypatch):
    options = dict(KINDS[kind])
    n, q, sigma = (options.pop(name, default) for name, default in (("n", N), ("q", 1), ("sigma", 0.2)))
    X, y = rows(n)
    y += (sigma - 0.2) * np.random.default_rng(9).normal(size=n)
    X[100:160] = X[200:260]  # duplicates
    if sigma < 0.2:
        y = (
            np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
            + np.sin(4 * X[:, 2])
            + sigma * np.random.default_rng(9).normal(size=n)
        )
    if q == 2:
        y = np.stack([y, X[:, 2]], axis=1)
    alpha = np.linspace(0.01, 0.3, n) if options.pop("alpha", False) else None
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    options |= {"n_active": 25, "hyperparameters": "fixed", "random_state": 0, "memory_limit": "200MB"}
    here = GreedyGPRegressor(**options).fit(X, y, alpha=alpha)
    for place in ("selection.rows", "fitting.room"):
        monkeypatch.setattr(f"sodalite.{place}.fits_in_memory", lambda *given: False)
    there = GreedyGPRegressor(**options).fit(mapped, y, alpha=alpha)
    assert there.posterior_.store is not None
    assert (here.posterior_.shared is None) == (there.posterior_.shared is None) == (kind != "shared")
    assert there.posterior_.k == here.posterior_.k
    T = np.concatenate([X[::20], 1.2 * rows(80, seed=4)[0]])
    ours, theirs = ((*model.predict(T, return_std=True), model.novelty(T)) for model in (there, here))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    for one, other in zip(there.predict(T[:9], return_cov=True), here.predict(T[:9], return_cov=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(there.predict_quantiles(T, [0.1, 0.9]), here.predict_quantiles(T, [0.1, 0.9]), atol=1e-8)
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_allclose(again.predict(T), here.predict(T), rtol=1e-8, atol=1e-8)


NEAR = {"posterior": Neighbors(8), "calibrate": False}


@linux
@pytest.mark.parametrize(
    ("kind", "n", "d", "megabytes", "options"),
    [
        ("memmap", 132_000, 256, 33, {**NEAR, "n_active": 10}),
        campaign("parquet", 200_000, 192, 38, {**NEAR, "n_active": 12}),
        campaign("memmap", 1_400_000, 64, 89, {"n_active": 50}),
    ],
)
def test_local_keeps_to_a_quarter_of_the_data(kind, n, d, megabytes, options, tmp_path, monkeypatch):
    monkeypatch.setattr("sodalite.posteriors.tuning.MOST_JUDGED", 4000)  # more would need as much memory as the rows
    rng = np.random.default_rng(0)
    for name, count in (("small", 1900), ("large", n)):  # three inputs matter
        some = rng.uniform(-3, 3, (count, 8)).astype(np.float32)
        X, y = np.tile(some, (1, d // 8)), np.sin(2 * some[:, 0]) + some[:, 1] / 4 + 0.2 * rng.normal(size=count)
        write_apart(tmp_path, name, X, y, kind, group=2000)
    scale = [1.0] * 3 + [1e4] * (d - 3)
    mean, std = limited(kind, "predict", tmp_path, scale, memory_limit=megabytes * 10**6, **options)
    assert np.isfinite(std).all()
    if n < 150_000:
        return  # the quick representative
    here = GreedyGPRegressor(
        ConstantKernel(1.0) * RBF(scale) + WhiteKernel(0.1),
        **options,
        **{"hyperparameters": "fixed", "random_state": 0, "criterion": "delta"},
    ).fit(X, y)
    for one, other in zip((mean, std), here.predict(X[: n // 100], return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
