"""Nearest neighbours against distances computed one by one; and duplicate rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from helpers import KERNELS, scales
from sodalite.core import threads
from sodalite.kernels import PeriodicColumn, compile_kernel, neighbours
from sodalite.kernels.neighbours import Index, Neighbours, distinct


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def by_metric(weights, X, T, k):
    """The k nearest rows of X by a weighted distance."""
    distance = np.array([[np.sum(weights * (t - x) ** 2) for x in X] for t in T])
    return np.argsort(distance, axis=1, kind="stable")[:, :k]


def by_covariance(kernel, X, T, k):
    """The k nearest rows of X by k(a, a) - 2 k(a, b) + k(b, b)."""
    distance = np.diag(kernel(T, T))[:, None] - 2 * kernel(T, X) + np.diag(kernel(X, X))
    return np.argsort(distance, axis=1, kind="stable")[:, :k]


# Where the kernel is a function of a distance


@pytest.mark.parametrize("d", [1, 2, 6, 7, 12])
@pytest.mark.parametrize("k", [1, 5, 80])
def test_the_nearest_rows_in_the_kernels_length_scales(d, k):
    X, T = rows(80, d), rows(17, d, seed=1)
    kernel = compile_kernel(ConstantKernel(1.7) * RBF(scales(d)), X)
    expected = by_metric(scales(d) ** -2.0, X, T, k)
    assert_array_equal(Neighbours(kernel, X).query(T, k), expected)
    assert_array_equal(Neighbours(kernel, X).query(X, k)[:, 0], np.arange(80))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("rbf", 1.3**-2),
        ("rbf-per-input", scales(3) ** -2.0),
        ("matern-1/2-per-input", scales(3) ** -2.0),
        ("usual", scales(3) ** -2.0),
        ("noise-in-power", 2 * scales(3) ** -2.0),
        *((name, None) for name in ("two-constants", "constant", "white", "dot-product", "polynomial")),
        *((name, None) for name in ("noise-in-both-factors", "own", "pairwise", "periodic")),
        ("seasonal", (1.5 / 4.0**2 + scales(3) ** -2.0 + 0.3 / 0.9**2) / 2.8),  # by all but the period
    ],
)
def test_the_metric_of_a_kernel(name, weights):
    found = compile_kernel(KERNELS[name](3), rows(20, 3)).metric()
    if weights is None:
        assert found is None
    else:
        assert_allclose(found, np.broadcast_to(weights, 3))


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(1.5) * RBF([0.5, 2.0]) + ConstantKernel(0.4) * RationalQuadratic(0.9, 0.7) + ConstantKernel(2.0),
        (RBF([0.5, 2.0]) + ConstantKernel(0.4)) ** 0.5 * RBF([3.0, 0.7]),
        RationalQuadratic(0.9, 0.7) ** 3,
    ],
)
def test_the_metric_is_the_curvature_of_a_smooth_kernel(kernel):
    """Minus the second derivative of the correlation at a distance of zero."""
    step = 1e-4
    moved = step * np.eye(2)
    k = kernel(np.zeros((1, 2)), np.vstack([np.zeros(2), moved]))[0]
    curvature = 2 * (k[0] - k[1:]) / step**2 / k[0]
    assert_allclose(compile_kernel(kernel, rows(9, 2)).metric(), curvature, rtol=1e-5)


@pytest.mark.parametrize("d", [3, 9])
def test_inputs_that_do_not_matter_constant_columns_and_offsets_change_nothing(d):
    X, T = rows(60, d), rows(9, d, seed=1)
    found = Neighbours(compile_kernel(RBF([1.0, *(d - 1) * [1e7]]), X), X).query(T, 8)
    assert_array_equal(found, by_metric(1.0, X[:, :1], T[:, :1], 8))
    expected = Neighbours(compile_kernel(RBF(1.0), X), X).query(T, 8)
    moved, wanted = (np.insert(part + 1e5, 1, -3e4, axis=1) for part in (X, T))
    assert_array_equal(Neighbours(compile_kernel(RBF(1.0), moved), moved).query(wanted, 8), expected)


@pytest.mark.parametrize("d", [2, 9])
@pytest.mark.parametrize("cores", [1, 3])
def test_threads_do_not_change_what_is_found(d, cores, monkeypatch):
    X = rows(200, d)
    index = Neighbours(compile_kernel(RBF(1.0), X), X)
    expected = index.query(X, 9)
    monkeypatch.setattr(threads, "cores", lambda: cores)
    assert_array_equal(index.query(X, 9), expected)
    assert_array_equal(index.query(X[:1], 9), expected[:1])


# How they are found


def indexed(X, weights, search=None):
    """An index that searches in some way."""
    index = Index.of(X, X.mean(axis=0), weights)
    index.search = search
    return index


def on_a_lattice(n, d, seed=0):
    """Distinct rows of small whole numbers: many are at equal distances."""
    X = np.random.default_rng(seed).integers(4, size=(n, d)).astype(float)
    return X[distinct(X)[0]]


@pytest.mark.parametrize("d", [3, 9])
@pytest.mark.parametrize("make", [rows, on_a_lattice])
def test_what_is_found_does_not_depend_on_how(make, d):
    X, T = make(700, d), make(60, d, seed=1)
    kernel = compile_kernel(RBF(1.5), X)
    tree, products = (indexed(X, kernel.metric(), search).query(T, 20) for search in ("tree", "products"))
    assert_array_equal(tree, products)
    far = np.sum((X[tree[:, -1]] - T) ** 2, axis=1)
    for i, t in enumerate(T):
        distance = np.sum((X - t) ** 2, axis=1)
        assert np.all(distance[tree[i]] <= far[i] + 1e-6)
        assert np.sum(distance < far[i] - 1e-6) < 20


def test_the_order_of_rows_does_not_decide_ties():
    X = on_a_lattice(300, 3)
    order = np.random.default_rng(2).permutation(len(X))
    one, other = (Neighbours(compile_kernel(RBF(1.0), X), part) for part in (X, X[order]))
    assert_array_equal(X[one.query(X, 9)], X[order][other.query(X, 9)])


def test_the_quicker_way_is_taken_and_recorded_and_can_be_forced():
    """Rows on a curve in ten dimensions: a tree visits a few of them, products all."""
    t = np.sort(np.random.default_rng(0).uniform(0, 30, 20_000))
    X = np.column_stack([np.sin(t / (1 + i)) for i in range(9)] + [t])
    near = Neighbours(compile_kernel(RBF(1.0), X), X)
    assert near.index.search is None
    found = near.query(X[:50], 5)
    assert near.index.search == "tree"
    near.index.search = "products"
    assert_array_equal(near.query(X[:50], 5), found)
    near.index.search = "guess"
    with pytest.raises(ValueError, match="search must be one of 'tree', 'products'; got 'guess'"):
        near.query(X[:50], 5)


# Where it is not


@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        (ExpSineSquared(1.4, 2.3), 1),
        (DotProduct(0.6), 3),
        (ConstantKernel(0.2) * DotProduct(0.6) ** 3, 2),
        (KERNELS["own"](2), 2),
        (KERNELS["own-subclass"](9), 9),
    ],
    ids=["periodic", "dot-product", "polynomial", "own", "own-subclass"],
)
@pytest.mark.parametrize("k", [1, 7, 40])
def test_other_kernels_are_asked_for_their_covariance(kernel, d, k):
    X, T = 3 * rows(40, d), 3 * rows(11, d, seed=1)
    compiled = compile_kernel(kernel, X)
    assert compiled.metric() is None
    found = Neighbours(compiled, X).query(T, k)
    expected = by_covariance(kernel, X, T, k)
    if type(kernel) is ExpSineSquared or k < 40:
        assert_array_equal(found, expected)
    else:  # rows so far away that the covariance is zero are all as far
        assert_array_equal(np.sort(found), np.sort(expected))


def test_all_blocks_of_queries_are_answered():
    """At most 2^20 covariances are held at a time: those of 128 queries here."""
    X, T = rows(2**13, 1), rows(600, 1, seed=1)
    found = Neighbours(compile_kernel(DotProduct(0.6), X), X).query(T, 1)
    assert_array_equal(found[:, 0], np.abs(X[:, 0] - T).argmin(axis=1))


# Few rows, or none


KINDS = pytest.mark.parametrize("kernel", [RBF(1.0), DotProduct(1.0)], ids=["metric", "covariance"])


@KINDS
@pytest.mark.parametrize("d", [2, 9])
def test_no_more_neighbours_than_rows(kernel, d):
    X, T = rows(5, d), rows(3, d, seed=1)
    compiled = compile_kernel(kernel, X)
    index = Neighbours(compiled, X)
    assert_array_equal(np.sort(index.query(T, 100)), np.tile(np.arange(5), (3, 1)))
    assert index.query(T, 0).shape == (3, 0)
    assert_array_equal(Neighbours(compiled, X[:1]).query(T, 4), np.zeros((3, 1)))
    none = Neighbours(compiled, X[:0]).query(X, 8)
    assert (none.shape, none.dtype) == ((5, 0), np.intp)
    same = np.ones((30, d))
    assert all(len(set(some)) == 7 for some in Neighbours(compiled, same).query(same[:4], 7).tolist())


# Rows that are the same


def with_one_key():
    """Rows of one hash, a function of the first column xor the second's bits."""

    def after(a):
        key = np.array([a]).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return key ^ (key >> np.uint64(29))

    one = np.array([1.5, 2.5])
    for a in np.linspace(3, 4, 1000):
        b = (after(one[0]) ^ one[1:].view(np.uint64) ^ after(a)).view(np.float64)[0]
        if np.isfinite(b) and 1e-300 < abs(b) < 1e300:
            break
    return np.array([one, [a, b], one, [a, b], [9.0, 9.0]])


def of_levels(n, d, levels):
    return np.random.default_rng(0).integers(levels, size=(n, d)) / 7 - 0.2


SIZES = [(1, 1, 1), (1, 4, 3), (50, 1, 4), (300, 3, 3), (300, 2, 1000), (64, 8, 1)]
TABLES = {
    **{f"{sizes}": of_levels(*sizes) for sizes in SIZES},
    **{f"{sizes}, float32": of_levels(*sizes).astype(np.float32) for sizes in SIZES},
    "repeated": np.random.default_rng(0).permutation(np.tile(rows(40, 3), (25, 1))),
    "no rows": np.empty((0, 3)),
    "zeros of both signs": np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0], [-0.0, -1.0]]),
    "one column for another": np.array(
        [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [2.0, 2.0], [1.0, 2.0], [3.0, 0.0], [0.0, 3.0]]
    ),
    "one key": with_one_key(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_distinct_rows_are_numpys(kind):
    """The first of every set of equal rows, in order."""
    X = TABLES[kind]
    _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    found, place = distinct(X)
    assert_array_equal(found, np.sort(first))
    assert_array_equal(found[place], first[group.ravel()])
    assert_array_equal(X[found][place], X)


# Periods


def quasi_periodic(period=1.0):
    decay = ConstantKernel(0.8) * ExpSineSquared(0.8, period) * RBF(30.0)
    return ConstantKernel(0.3) * Matern(2.0, nu=1.5) + decay + WhiteKernel(0.01)


def test_half_of_the_neighbours_are_near_in_time_and_half_in_the_period():
    x = np.arange(0, 60, 1 / 24)[:, None]
    kernel = compile_kernel(quasi_periodic(), x)
    found = Neighbours(kernel, x).query(np.array([[30.01]]), 16)[0]
    assert len(set(found)) == 16
    away = np.abs(x[found, 0] - 30.01)
    assert (away < 0.4).sum() >= 8
    assert sum(abs(value - round(value)) < 0.08 for value in away if value > 0.5) >= 4


def test_rows_whole_periods_away_stand_for_all_rows(monkeypatch):
    generator = np.random.default_rng(0)
    x = np.sort(generator.uniform(0, 50, 900))[:, None]
    kernel = compile_kernel(quasi_periodic(), x)
    queries = generator.uniform(5, 45, (40, 1))
    everything = Neighbours(kernel, x).query(queries, 12)
    monkeypatch.setattr(neighbours, "ALL", 10)
    some = Neighbours(kernel, x).query(queries, 12)
    same = [len(set(a) & set(b)) / 12 for a, b in zip(everything, some, strict=True)]
    assert np.mean(same) > 0.9


@pytest.mark.parametrize("span", [50, 5000])
def test_rows_whole_periods_away_in_one_of_two_inputs(span, monkeypatch):
    """Also if the kernel's metric hardly depends on that input."""
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.uniform(0, 1, 900), generator.uniform(0, 50, 900)])
    drift = ConstantKernel(0.8) * PeriodicColumn(1, 0.8, 1.0) * RBF([1.0, 30.0])
    spec = ConstantKernel(0.3) * Matern([0.5, 2.0 * span / 50], nu=1.5) + drift + WhiteKernel(0.01)
    kernel = compile_kernel(spec, X)
    queries = np.column_stack([generator.uniform(0, 1, 40), generator.uniform(5, 45, 40)])
    everything = Neighbours(kernel, X).query(queries, 12)
    monkeypatch.setattr(neighbours, "ALL", 10)
    some = Neighbours(kernel, X).query(queries, 12)
    covariances = kernel.block(kernel.prepare(queries), kernel.prepare(X))
    best, found = (np.take_along_axis(covariances, rows, axis=1).sum() for rows in (everything, some))
    assert found > 0.98 * best


def test_threads_may_ask_first_at_the_same_time():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    expected = indexed(X, np.ones(3), "tree").query(X[:20], 5)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            index = indexed(X, np.ones(3))
            for found in pool.map(lambda _, index=index: index.query(X[:20], 5), range(16)):
                assert_array_equal(found, expected)


def test_some_rows_are_found_by_the_metric_of_all():
    X = np.random.default_rng(0).integers(0, 5, size=(600, 3)).astype(float)
    X = X[distinct(X)[0]]
    whole = indexed(X, np.ones(3), "tree")
    nearest = whole.query(X[:30] + 0.5, 6)
    some = np.unique(nearest)
    part = Index(whole.metric, whole.rows[some], "tree")
    assert_array_equal(some[part.query(X[:30] + 0.5, 6)], nearest)  # ties are decided alike
