"""Windows: rows with their nearest rows among all, found part by part."""

from functools import reduce

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.hyperparameters import Task, Weave
from sodalite.hyperparameters.task import FULL_DENSITY
from sodalite.hyperparameters.windows import COPIES, Nearest, with_windows
from sodalite.kernels import compile_kernel
from sodalite.kernels.neighbours import Index, Neighbours, distinct
from sodalite.posteriors import Local, Neighbors
from sodalite.selection.rows import ArrayRows, Block

KERNEL = ConstantKernel(1.0) * RBF([0.5, 2.0]) + WhiteKernel(0.1)


def rows(n=3000, kind="normal", seed=0):
    generator = np.random.default_rng(seed)
    if kind == "normal":
        return generator.normal(size=(n, 2))
    if kind == "lattice":  # ties everywhere
        return np.stack(np.meshgrid(np.arange(60.0), np.arange(n // 60)), axis=-1).reshape(-1, 2)
    return generator.normal(size=(n // 3, 2))[generator.integers(n // 3, size=n)]  # copies


def nearest_of(X, count=20, size=12):
    index = Index.of(X, np.zeros(2), np.array([4.0, 0.25]))
    index.search = "tree"
    return Nearest(index, index.scaled(X[:count]), size)


@pytest.mark.parametrize("kind", ["normal", "lattice", "copies"])
@pytest.mark.parametrize("edges", [[], [1500], [7, 8, 1100, 2999]])
def test_windows_do_not_depend_on_the_parts_that_rows_come_in(kind, edges):
    X = rows(kind=kind)
    nearest = nearest_of(X)
    whole = nearest(Block(X, X))
    parts = [
        nearest(Block(part, part, begin=begin)) for begin, part in zip([0, *edges], np.split(X, edges), strict=True)
    ]
    for order in (parts, parts[::-1]):
        for one, other in zip(reduce(nearest.merged, order), whole, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["normal", "copies"])
def test_a_window_has_the_nearest_places_and_some_rows_of_each(kind):
    X = rows(kind=kind)
    nearest = nearest_of(X)
    near = nearest(Block(X, X))
    first, group = distinct(X)
    for centre in range(20):
        distance = np.square((X[first] - X[centre]) * [2.0, 0.5]).sum(axis=1)
        expected = np.argsort(distance)[:12]
        found = near.row[near.centre == centre]
        assert set(group[found]) == set(expected)
        counts = np.minimum(np.bincount(group)[expected], COPIES)
        assert len(found) == counts.sum()


def task_of(X, n_sample, **options):
    source = ArrayRows(X, np.sin(X[:, :1]), np.full(len(X), 0.01))
    some = np.sort(np.random.default_rng(1).choice(len(X), n_sample, replace=False))
    return Task(X[some], source.y[some], source.alpha[some], Local, rows=source, **options)


def test_centres_have_the_neighbours_that_they_have_among_all_rows(monkeypatch):
    monkeypatch.setattr("sodalite.hyperparameters.windows.N_SCATTERED", 50)
    X = rows(20_000)
    task, kernel = task_of(X, 2000), compile_kernel(KERNEL, X)
    dense = with_windows(task, task.rows, kernel, np.random.default_rng(0), 30)
    assert len(dense.windows.centres) == 30
    assert len(dense.windows.scattered) == 50
    assert len(dense.X) < 30 * 64 + 80
    assert dense.alpha.shape == (len(dense.X),)
    np.testing.assert_array_equal(dense.y, np.sin(dense.X[:, :1]))
    centres = dense.X[dense.windows.centres]
    here, there = (Neighbours(kernel, every).query(centres, 32) for every in (dense.X, X))
    np.testing.assert_array_equal(dense.X[here], X[there])


def test_no_windows_without_a_metric_or_where_a_sample_knows_most_places():
    X = rows(4000)
    task = task_of(X, 1000)
    linear = compile_kernel(DotProduct() + WhiteKernel(), X)
    assert with_windows(task, task.rows, linear, np.random.default_rng(0), 30) is None
    repeated = task_of(np.round(X), 1000)
    assert with_windows(repeated, repeated.rows, compile_kernel(KERNEL, X), np.random.default_rng(0), 30) is None


@pytest.mark.parametrize("with_source", [True, False])
def test_windows_see_what_varies_faster_than_a_sample_is_dense(monkeypatch, with_source):
    """A sine with fifty rows a cycle, of which a sample has every hundredth: it takes the sine for noise."""
    monkeypatch.setattr("sodalite.hyperparameters.windows.N_SCATTERED", 100)
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 100, size=(30_000, 1))
    y = np.sin(12 * np.pi * X) + 0.1 * generator.normal(size=X.shape)
    kernel = ConstantKernel(1.0) * RBF(10.0) + WhiteKernel(0.5)
    weave = Weave(n_start=100, n_judged=100, n_exact=0)
    task = Task(X[:300], y[:300], posterior=Local, rows=ArrayRows(X, y) if with_source else None)
    found = weave.find(task, [kernel], np.random.default_rng(0))
    if with_source:
        assert FULL_DENSITY in [each.name for each in found.rounds]
        assert 0.005 < found.kernel.k2.noise_level < 0.02
    else:
        assert found.kernel.k2.noise_level > 0.3


def test_a_fit_from_disk_finds_the_kernel_of_memory(monkeypatch, tmp_path):
    monkeypatch.setattr("sodalite.fitting.pipeline.MOST_ROWS", 500)
    monkeypatch.setattr("sodalite.selection.rows.BLOCK", 900)  # 450 rows at a time
    X = rows(2000)
    y = np.sin(3 * X[:, 0]) + 0.1 * X[:, 1] + 0.1 * np.random.default_rng(2).normal(size=2000)
    np.save(tmp_path / "X.npy", X)
    weave = Weave(n_start=100, n_judged=100, n_exact=0)
    options = {"n_active": 20, "posterior": Neighbors(8), "calibrate": False, "random_state": 0}
    model = GreedyGPRegressor(KERNEL, hyperparameters=weave, **options)
    here, there = (clone(model).fit(inputs, y) for inputs in (X, np.load(tmp_path / "X.npy", mmap_mode="r")))
    assert FULL_DENSITY in [each.name for each in here.rounds_]
    assert there.kernel_ == here.kernel_
