"""A store of rows on disk against the same rows in memory."""

from __future__ import annotations

import errno
import os
import tempfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared, Matern

from helpers import campaign, scales
from sodalite.exceptions import ChangedError
from sodalite.kernels import PeriodicColumn, compile_kernel, row_store, take
from sodalite.kernels.cells import Bisection
from sodalite.kernels.neighbours import Neighbours, distinct
from sodalite.kernels.row_store import build_store, group_means


def rows(n, d, kind="normal", seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    if kind == "grid":  # ties and duplicates
        X = np.round(2 * X)
    if kind == "outlier":
        X[n // 2] = 1e9
    if kind == "offset":
        X += 1e7
    if kind == "equal":
        X[:] = X[0]
    return X


def observed(n, d, kind="normal"):
    rng = np.random.default_rng(1)
    return rows(n, d, kind), rng.normal(size=(n, 2)), rng.uniform(0.1, 2, n)


def built(X, values, noise, kernel, memory=20_000, block=700, dtype=np.float64):
    parts = [slice(begin, begin + block) for begin in range(0, len(X), block)]
    return build_store(
        lambda: parts,
        lambda part: X[part],
        lambda part: (X[part], values[part], noise[part]),
        len(X),
        (X.shape[1], 2),
        np.dtype(dtype),
        kernel.centre,
        kernel.metric(),
        memory,
    )


CASES = [
    (4000, 2, "normal"),
    (3000, 8, "grid"),
    (2000, 1, "grid"),
    (1500, 3, "outlier"),
    (40, 3, "equal"),
    (1, 2, "grid"),
]
CASES += [campaign(20_000, 8, "normal"), campaign(6000, 30, "normal"), campaign(6000, 3, "offset")]


@pytest.mark.parametrize(("n", "d", "kind"), CASES)
def test_the_nearest_rows_are_those_in_memory(n, d, kind):
    X, values, noise = observed(n, d, kind)
    kernel = compile_kernel(Matern(scales(d)), X)
    store = built(X, values, noise, kernel)
    first, group = distinct(X)
    assert len(store) == len(first)
    assert (np.diff(store.ends, prepend=0) > 0).all()
    assert store.ends[-1] == len(store)
    T = np.concatenate([X[:40], rows(40, d, seed=2) * 1.5 + X[0]])
    for k in (1, 7, min(len(first), 300)):
        expected = X[first][Neighbours(kernel, X[first]).query(T, k)] if k <= len(first) else None
        if expected is not None:
            assert_array_equal(store.X[Neighbours(kernel, store).query(T, k)], expected)
    means, noises = group_means(values, noise, group, len(first))
    place = store.find(X)
    assert_array_equal(store.X[place], X)
    assert_allclose(store.values[place], means[group], rtol=1e-9)
    assert_allclose(store.noises[place], noises[group], rtol=1e-12)
    assert_array_equal(store.find(T[40:]), -1)


@pytest.mark.parametrize(
    ("spec", "d"),
    [
        (DotProduct(1.0), 2),
        (ExpSineSquared(1.0, 2.0) + RBF(1.0), 1),
        (RBF([1.0, 2.0]) + PeriodicColumn(length_scale=1.0, periodicity=3.0, column=1), 2),
    ],
    ids=["linear", "periodic", "periodic column"],
)
def test_neighbours_by_the_covariance(spec, d):
    X, values, noise = observed(2500, d)
    kernel = compile_kernel(spec, X)
    store = built(X, values, noise, kernel)
    T = rows(30, d, seed=3)
    assert_array_equal(store.X[Neighbours(kernel, store).query(T, 9)], X[Neighbours(kernel, X).query(T, 9)])


def test_a_sample_does_not_depend_on_where_the_rows_are():
    X, values, noise = observed(3000, 3, "grid")
    kernel = compile_kernel(RBF(1.0), X)
    store = built(X, values, noise, kernel)
    X = X[distinct(X)[0]]
    for most in (10, 200, 10**4):
        here = Neighbours(kernel, X[np.random.default_rng(5).permutation(len(X))]).index.sample(most)
        assert_array_equal(Neighbours(kernel, store).index.sample(most), here)


def test_features_are_those_of_all_rows():
    X, values, noise = observed(700, 3)
    kernel = compile_kernel(RBF(1.0) * Matern(2.0), X)
    store = built(X, values, noise, kernel, dtype=np.float32)
    assert store.X.dtype == np.float32
    whole, features = kernel.prepare(store.X.astype(np.float64)), store.features(kernel)
    which = np.random.default_rng(0).integers(0, 700, (4, 5))
    for part in (slice(10, 90), which, which[0]):
        for one, other in zip(take(features, part), take(whole, part), strict=True):
            assert_array_equal(one, other)


def test_a_query_reads_a_few_cells(monkeypatch):
    X, values, noise = observed(50_000, 2)
    kernel = compile_kernel(RBF(1.0), X)
    near = Neighbours(kernel, built(X, values, noise, kernel, memory=10**6))
    read = []
    original = row_store.RowStore.positions

    def positions(self, rows, metric):
        read.append(len(rows))
        return original(self, rows, metric)

    monkeypatch.setattr(row_store.RowStore, "positions", positions)
    near.query(np.zeros((1, 2)), 16)
    assert 16 <= sum(read) < 16 * row_store.CELL_ROWS


# What goes wrong


def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name.isdigit())


def test_rows_that_change_are_noticed():
    X, values, noise = observed(1000, 2)
    kernel = compile_kernel(RBF(1.0), X)

    def changed(part):
        return X + (np.arange(1000) == 7)[:, None], values, noise

    with pytest.raises(ChangedError, match="X changed while it was read"):
        build_store(lambda: [0], lambda part: X, changed, 1000, (2, 2), X.dtype, kernel.centre, kernel.metric(), 10**6)


@pytest.mark.parametrize("at", [1, 9])
def test_a_full_disk_is_named_and_left_as_it_was(at, monkeypatch, tmp_path):
    X, values, noise = observed(3000, 2)
    kernel = compile_kernel(RBF(1.0), X)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    n_written = []

    class Full:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *given):
            self.file.close()

        def write(self, content):
            n_written.append(len(content))
            if len(n_written) >= at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(content)

    original = row_store._temporary
    monkeypatch.setattr(row_store, "_temporary", lambda: Full(original()))
    with pytest.raises(
        OSError, match=r"the folder for temporary files, .*, is full: .*set the environment variable TMPDIR"
    ):
        built(X, values, noise, kernel)
    assert os.listdir(tmp_path) == []


def test_no_file_has_a_name(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, values, noise = observed(3000, 2)
    store = built(X, values, noise, compile_kernel(RBF(1.0), X))
    assert os.listdir(tmp_path) == []
    assert len(store) == 3000


# Bisection


@pytest.mark.parametrize("d", [1, 4])
def test_boxes_hold_nearly_equally_many_rows(d):
    Z = rows(6400, d)
    cells = Bisection.of(Z, 5)
    counts = np.bincount(cells.locate(Z), minlength=32)
    assert len(cells) == 32
    assert counts.min() == counts.max() == 200


def test_equal_rows_are_one_box():
    assert len(Bisection.of(np.ones((20, 2)), 3)) == 1
    assert_array_equal(Bisection.of(np.ones((20, 2)), 3).locate(rows(5, 2)), 0)
