"""Model files whose rows are mapped: what is read and checked when, what joins them, and what is damaged."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors import safe_open
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor, persistence
from sodalite.cli.app import app
from sodalite.core import container
from sodalite.core.joined import Joined
from sodalite.exceptions import ModelFileError
from sodalite.posteriors import Neighbors

N = 900
KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.5, 2.0]) + WhiteKernel(0.05)


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=n)


X, Y = rows()
X[100:150] = X[200:250]  # copies
T = rows(60, seed=3)[0]


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """All models of `local` are mapped, and small blocks are checked."""
    monkeypatch.setattr("sodalite.persistence.model.LEAST_ROWS", 1)
    monkeypatch.setattr("sodalite.core.container.BLOCK", 2000)


def fitted(kernel=KERNEL, q=1, **options):
    y = Y if q == 1 else np.stack([Y, X[:, 0]], axis=1)
    options = {"n_active": 20, "hyperparameters": "fixed", "random_state": 0, "memory_limit": "200MB", **options}
    inputs, alpha = options.pop("X", X), options.pop("alpha", None)
    return GreedyGPRegressor(kernel, **options).fit(inputs, y, alpha=alpha)


@pytest.fixture(scope="module")
def plain():
    return fitted(posterior=Neighbors(9))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sodalite"


def same(one, other, X=T):
    for ours, theirs in zip(one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


KINDS = {
    "plain": {},
    "by columns": {"X": np.asfortranarray(X)},
    "two targets, alpha": {"q": 2, "alpha": np.linspace(0, 0.1, N)},
    "mean": {"mean": "linear"},
    "linear kernel": {"kernel": DotProduct(1.0) + WhiteKernel(0.1)},
    "not calibrated": {"calibrate": False, "posterior": Neighbors(5)},
}


@pytest.mark.parametrize("kind", ["two targets, alpha", "mean", "by columns", *(campaign(kind) for kind in KINDS)])
def test_a_mapped_model_predicts_the_same(kind, path):
    one = fitted(**KINDS[kind])
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert other.posterior_.store is not None
    same(one, other)
    np.testing.assert_array_equal(np.asarray(other.fitted_.rows.X), X)
    np.testing.assert_array_equal(np.asarray(other.fitted_.rows.y), one.fitted_.rows.y)
    persistence.check_file(path)
    sodalite.save(other, path)  # over the file that it is mapped from
    same(one, sodalite.load(path))
    same(one, other)


def test_shared_neighbourhoods_and_single_precision(path):
    one = fitted(X=X.astype(np.float32))
    one.fitted_ = replace(one.fitted_, posterior=one.posterior_.sharing(cell=60, h=150, power=1))
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert persistence.read_header(path).arrays["fitted.posterior.store.X"][0] == "float32"
    same(one, other)


def test_a_few_rows_read_a_few_cells(plain, path, monkeypatch):
    monkeypatch.setattr("sodalite.kernels.row_store.CELL_ROWS", 16)
    sodalite.save(plain, path)
    other = sodalite.load(path)
    seen = other.posterior_.store.X._checked
    assert len(seen) >= 8
    assert not seen.any()
    other.predict(T[:1])
    assert 0 < seen.sum() < len(seen)
    assert not other.fitted_.rows.X._checked.any()
    assert not other.fitted_.rows.y._checked.any()


def test_pickle_holds_all_rows(plain, path):
    sodalite.save(plain, path)
    other = pickle.loads(pickle.dumps(sodalite.load(path)))
    path.unlink()
    same(plain, other)
    assert isinstance(other.fitted_.rows.X, np.ndarray)


# Rows that join


def test_rows_join_a_mapped_model_without_its_rows_being_moved(plain, path):
    sodalite.save(plain, path)
    before = path.read_bytes()
    here, there = pickle.loads(pickle.dumps(plain)), sodalite.load(path)
    mapped = there.posterior_.store.X
    new, y = rows(60, seed=7)
    new[:10], new[50:] = X[:10], new[40:50]  # some are there already, some come twice
    for model in (here, there):
        model.partial_fit(new, y)
    store = there.posterior_.store
    assert isinstance(store.X, Joined)
    assert store.X.parts[0] is mapped
    assert (store.n_joined, len(store.dead)) == (50, len(np.intersect1d(np.arange(10), remainder(plain))))
    same(here, there)
    for model in (here, there):
        model.partial_fit(new + 0.01, y)
    assert there.posterior_.store.n_joined == 100
    same(here, there)
    assert path.read_bytes() == before
    sodalite.save(there, path)
    again = sodalite.load(path)
    assert (again.posterior_.store.n_joined, again.fitted_.n_rows) == (0, N + 120)
    same(here, again)


def remainder(model):
    return np.setdiff1d(np.arange(N), model.active_indices_)


@pytest.mark.parametrize("kind", ["two targets, alpha", campaign("mean"), campaign("linear kernel")])
def test_rows_join_models_of_other_kinds(kind, path):
    here = fitted(**{"posterior": Neighbors(7), **KINDS[kind]})
    sodalite.save(here, path)
    there = sodalite.load(path)
    new, y = rows(40, seed=8)
    new[:5] = X[:5]
    y = np.stack([y, y], axis=1) if here.fitted_.q == 2 else y
    for model in (here, there):
        model.partial_fit(new, y, alpha=0.05 if here.fitted_.rows.alpha is not None else None)
    assert there.posterior_.store.n_joined == 40
    same(here, there)
    sodalite.save(there, path)
    same(here, sodalite.load(path))


@pytest.mark.parametrize("why", ["many rows", "more active rows"])
def test_rows_are_laid_out_anew_where_that_is_needed(why, plain, path):
    sodalite.save(plain, path)
    here, there = pickle.loads(pickle.dumps(plain)), sodalite.load(path)
    new, y = rows(400 if why == "many rows" else 20, seed=7)
    for model in (here, there):
        model.set_params(n_active=20 if why == "many rows" else 24).partial_fit(new, y)
    assert there.posterior_.store.n_joined == 0
    same(here, there)


# Damage


def test_damage_is_found_wherever_it_is_by_the_time_it_matters(plain, path):
    sodalite.save(plain, path)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    for place in [*range(8), *range(8, len(whole), len(whole) // 60)]:
        data = bytearray(whole)
        data[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(data)
        with pytest.raises(ModelFileError) as caught:
            persistence.check_file(path)
        assert str(path) in str(caught.value)
    path.write_bytes(whole[:-100])
    with pytest.raises(ModelFileError, match="truncated, damaged"):
        sodalite.load(path)


def test_damage_that_predictions_come_across_names_the_file(plain, path):
    sodalite.save(plain, path)
    with safe_open(path, framework="numpy") as file:
        residuals = file.get_tensor("fitted.posterior.store.values").tobytes()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(residuals, residuals[:-4] + b"\0\1\2\3"))
    model = sodalite.load(path)
    with pytest.raises(ModelFileError, match=r"model\.sodalite is damaged: array .*values' is not the one"):
        model.predict(X)


def test_a_file_that_is_truncated_while_it_is_mapped(plain, path):
    """The system would end the process if it read beyond the end of the file; hence a process of its own."""
    sodalite.save(plain, path)
    code = f"""
import os, sodalite
from sodalite.core import container
container.BLOCK = 2000
model = sodalite.load({str(path)!r})
first = model.posterior_.store.X[:50]
whole = first.copy()
os.truncate({str(path)!r}, 4096)
assert (first == whole).all()
for read in (lambda: model.predict(first), lambda: model.posterior_.store.X[:], lambda: model.fitted_.rows.y[[3]]):
    try:
        read()
    except sodalite.exceptions.ModelFileError as error:
        print(error)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert not done.stderr
    assert len(done.stdout.splitlines()) == 3
    for line in done.stdout.splitlines():
        assert re.search(r"model\.sodalite is damaged: array .* the file was truncated after it was opened", line)


def test_rows_on_disk_that_have_changed_since_the_fit(tmp_path, monkeypatch):
    for place in ("selection.rows", "fitting.room"):
        monkeypatch.setattr(f"sodalite.{place}.fits_in_memory", lambda *given: False)
    np.save(tmp_path / "X.npy", X)
    model = GreedyGPRegressor(KERNEL, n_active=20, hyperparameters="fixed", memory_limit="200MB", random_state=0)
    model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
    sodalite.save(model, tmp_path / "model")
    same(model, sodalite.load(tmp_path / "model"))
    np.load(tmp_path / "X.npy", mmap_mode="r+")[:] += 1
    with pytest.raises(ValueError, match="X has changed on disk since the model was fitted"):
        sodalite.save(model, tmp_path / "other")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["X.npy", "model"]


def test_inspect_checks_the_whole_file(plain, path):
    sodalite.save(plain, path)
    assert CliRunner().invoke(app, ["inspect", "--check", str(path)]).exit_code == 0
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    assert CliRunner().invoke(app, ["inspect", str(path)]).exit_code == 0
    done = CliRunner().invoke(app, ["inspect", "--check", str(path)])
    assert done.exit_code == 2
    assert "is damaged" in done.stderr


# Verified arrays and joined ones


def test_only_blocks_that_are_read_are_checked(path):
    kind, array = container.Kind("test", "test file", ModelFileError), np.arange(2000.0).reshape(1000, 2)
    container.write(kind, path, {}, {"a": array}, {"a"})
    whole, changed = path.read_bytes(), array[300].tobytes()
    path.write_bytes(whole.replace(changed, changed[:-1] + b"\1"))
    mapped = container.read(kind, path)[1]["a"]
    np.testing.assert_array_equal(mapped[:200], array[:200])
    np.testing.assert_array_equal(mapped[[999, 3]], array[[999, 3]])
    np.testing.assert_array_equal(mapped[999, 1], array[999, 1])
    np.testing.assert_array_equal(mapped[900:, 0], array[900:, 0])
    np.testing.assert_array_equal(mapped[5:5], array[5:5])
    for rows in (slice(200, 301), [300], 300, slice(None), np.arange(1000) == 300):
        with pytest.raises(ModelFileError, match="checksum"):
            mapped[rows]


def test_arrays_are_joined_without_a_copy():
    parts = [np.arange(12.0).reshape(4, 3), np.empty((0, 3)), -np.arange(6.0).reshape(2, 3)]
    both, whole = Joined(parts), np.concatenate(parts)
    assert (len(both), both.shape, both.dtype) == (6, (6, 3), whole.dtype)
    for rows in (
        slice(None),
        slice(3, 5),
        slice(5, 2),
        slice(0, 6, 2),
        np.array([[5, 0], [3, 4]]),
        [1],
        whole[:, 0] > 2,
    ):
        np.testing.assert_array_equal(both[rows], whole[rows])
    assert np.shares_memory(both[:3], parts[0])
    np.testing.assert_array_equal(np.asarray(Joined([both, parts[0]])), np.concatenate([whole, parts[0]]))
