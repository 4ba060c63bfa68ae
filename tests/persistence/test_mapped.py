"""Model files whose rows are mapped: what is read and checked when, what joins them, and what is damaged."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor, persistence
from sodalite.cli.app import app
from sodalite.core import container
from sodalite.core.joined import Joined
from sodalite.persistence import ModelFileError
from sodalite.persistence.mapped import SUMS, VerifiedArray

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
    monkeypatch.setattr("sodalite.persistence.posteriors.LEAST_ROWS", 1)
    monkeypatch.setattr("sodalite.core.container.BLOCK", 2000)


def fitted(kernel=KERNEL, q=1, **options):
    y = Y if q == 1 else np.stack([Y, X[:, 0]], axis=1)
    options = {"n_active": 20, "hyperparameters": "fixed", "random_state": 0, "memory_limit": "200MB", **options}
    inputs, alpha = options.pop("X", X), options.pop("alpha", None)
    return GreedyGPRegressor(kernel, **options).fit(inputs, y, alpha=alpha)


@pytest.fixture(scope="module")
def plain():
    return fitted(n_neighbors=9)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sodalite"


def same(one, other, X=T):
    for ours, theirs in zip(one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


KINDS = {
    "plain": {},
    "two targets, alpha": {"q": 2, "alpha": np.linspace(0, 0.1, N)},
    "mean": {"mean": "linear"},
    "linear kernel": {"kernel": DotProduct(1.0) + WhiteKernel(0.1)},
    "not calibrated": {"calibrate": False, "n_neighbors": 5},
}


@pytest.mark.parametrize("kind", ["two targets, alpha", "mean", *(campaign(kind) for kind in KINDS)])
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
    assert persistence.read_header(path).arrays["rows"][0] == "float32"
    same(one, other)


def test_a_few_rows_read_a_few_cells(plain, path, monkeypatch):
    monkeypatch.setattr("sodalite.kernels.row_store.CELL_ROWS", 16)
    sodalite.save(plain, path)
    other = sodalite.load(path)
    seen = other.posterior_.store.verify._seen
    assert len(seen) >= 32
    assert not seen.any()
    other.predict(T[:1])
    assert 0 < seen.sum() < len(seen) / 2
    assert not other.fitted_.rows.X._seen.any()
    assert not other.fitted_.rows.y._seen.any()


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
    here = fitted(n_neighbors=7, **KINDS[kind])
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


def rewritten(path, change):
    """Change the arrays of a file, all checksums right."""
    with safe_open(path, framework="numpy") as file:
        about = file.metadata()
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    content = json.loads(about["model"])
    change(content, arrays)
    ends = arrays["cell_ends"]
    parts = [arrays[name] for name in ("rows", "positions", "residuals", "noises")]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    arrays["cell_sums"] = np.array([container.block_sum(*(part[a:b] for part in parts)) for a, b in spans])
    for name in [name for name in arrays if name.startswith("all_") and not name.endswith(SUMS)]:
        arrays[name + SUMS] = container.block_sums(arrays[name])
    read = {name: array for name, array in arrays.items() if name not in content["mapped_arrays"]}
    content["arrays_sha256"] = container.digest(read)
    text = json.dumps(content)
    save_file(arrays, path, {**about, "model": text, "model_sha256": sha256(text.encode()).hexdigest()})


def changed(name, value, place=5):
    def change(content, arrays):
        arrays[name][place] = value

    return change


def moved(content, arrays):
    arrays["positions"][:10] += 1


def outside(content, arrays):
    arrays["cell_high"][0] = arrays["cell_low"][0]


FORGED = {
    "NaN among rows": (changed("rows", np.nan), "array 'rows' has NaN"),
    "infinite residual": (changed("residuals", np.inf), "array 'residuals' has NaN"),
    "noise of zero": (changed("noises", 0.0), "array 'noises' must be positive"),
    "NaN among all rows": (changed("all_X", np.nan), "array 'all_X' has NaN"),
    "NaN among all targets": (changed("all_Y", np.nan), "array 'all_Y' has NaN"),
    "rows that are elsewhere": (moved, "are not where it says"),
    "rows beyond their cell": (outside, "are not where it says"),
    "cells that end before they begin": (changed("cell_ends", 1, place=1), "'cell_ends' must increase"),
    "boxes inside out": (changed("cell_low", 1e9, place=0), "'cell_low' must not be above 'cell_high'"),
    "no such column": (lambda content, arrays: content["posterior"].update(columns=[0, 1, 7]), "columns must be"),
    "too few columns": (lambda content, arrays: content["posterior"].update(columns=[0, 1]), "columns must be a list"),
    "negative tie": (lambda content, arrays: content["posterior"].update(tie=-1.0), "tie must be"),
    "too many neighbours": (lambda content, arrays: content["posterior"].update(k=10**6), "k, the number of neighb"),
    "unlisted": (lambda content, arrays: content["mapped_arrays"].remove("all_X"), "does not list the arrays"),
    "listed though absent": (lambda content, arrays: content["mapped_arrays"].append("nothing"), "arrays to be mapped"),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_makes_no_sense_is_refused(what, plain, path):
    sodalite.save(plain, path)
    change, message = FORGED[what]
    rewritten(path, change)
    with pytest.raises(ModelFileError, match=message):
        persistence.check_file(path)


def test_damage_that_predictions_come_across_names_the_file(plain, path):
    sodalite.save(plain, path)
    with safe_open(path, framework="numpy") as file:
        residuals = file.get_tensor("residuals").tobytes()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(residuals, residuals[:-4] + b"\0\1\2\3"))
    model = sodalite.load(path)
    with pytest.raises(ModelFileError, match=r"model\.sodalite is damaged: rows .* are not those that were written"):
        model.predict(X)


def test_rows_on_disk_that_have_changed_since_the_fit(tmp_path, monkeypatch):
    for place in ("selection.rows", "fitting.pipeline"):
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


def test_only_blocks_that_are_read_are_checked():
    array = np.arange(1000.0)
    sums = container.block_sums(array)
    assert len(sums) == 4
    sums[2] += 1
    made = VerifiedArray("all_alpha", array, sums, ModelFileError)
    np.testing.assert_array_equal(made[:400], array[:400])
    np.testing.assert_array_equal(made[[999, 3]], [999, 3])
    np.testing.assert_array_equal(made[5:5], [])
    for rows in (slice(400, 600), [550], slice(None), np.arange(1000) == 600):
        with pytest.raises(ModelFileError, match="checksum"):
            made[rows]


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
