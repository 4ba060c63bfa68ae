"""`DaskLocal` with its rows in bundles in this process: the predictions of `Local`, whatever the rows are like."""

from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from helpers import campaign
from helpers import paper_select as select
from sodalite.cluster.bundles import Bundles, first_radius, layout_of, least_radius, near_rows, split
from sodalite.cluster.local import DaskLocal
from sodalite.kernels import compile_kernel, neighbours
from sodalite.kernels.row_store import together
from sodalite.posteriors import Evidence, Judging, Local, tuning
from sodalite.selection.rows import ArrayRows, Block


class Here(Bundles):
    """Bundles of this process, which answer as those of a cluster do."""

    def __init__(self, rows, rest):
        layout = layout_of(rows, rest, rows.levels)
        pieces = rows.map(partial(split, rest, layout))
        self.n_fetched = []
        with patch("sodalite.cluster.bundles.share"):
            super().__init__(None, rest.base, [layout.store(*each) for each in zip(*pieces, strict=True)], layout)

    def each(self, function, *arguments):
        return [function(bundle, *some) for bundle, *some in zip(self.futures, *arguments, strict=True)]

    def fetch(self, asked):
        bounds = [first_radius(bundle, self.layout, asked, number) for number, bundle in enumerate(self.futures)]
        rows = together(near_rows(bundle, asked, least_radius(bounds)) for bundle in self.futures)
        self.n_fetched.append(len(rows[0]))
        return rows


@dataclass(frozen=True)
class Pieces(ArrayRows):
    """Rows in pieces, whose results are combined in another order than that of the pieces."""

    levels: int = 2

    def map(self, function, combine=None, most=0):
        edges = np.linspace(0, len(self.X), 4).astype(int)
        found = [function(Block(self.X[a:b], self.y[a:b], begin=int(a))) for a, b in pairwise(edges)]
        return found if combine is None else reduce(lambda first, second: combine(second, first), found)


def scattered(rng, n):
    return rng.normal(size=(n, 3))


def on_a_grid(rng, n):
    """Many ties, and many equal rows."""
    return rng.integers(0, 6, size=(n, 3)).astype(float)


def with_outliers(rng, n):
    X = rng.normal(size=(n, 3))
    X[::97] *= 1e6
    return X


def conditioned(make, n, levels, n_neighbors=None, seed=0, calibrate=True, kernel=None, m=25):
    """The same model with its rows in memory and in bundles."""
    rng = np.random.default_rng(seed)
    X = make(rng, n)
    y = np.stack([np.sin(X[:, 0]) + 0.1 * rng.normal(size=n), np.cos(X[:, 1])], axis=1)
    kernel = ConstantKernel(1.0) * RBF([1.0, 2.0, 1.5]) + WhiteKernel(0.05) if kernel is None else kernel
    chosen = select(X, y, kernel, n_active=m, first=0)
    found = []
    for kind, source in ((Local, ArrayRows(X, y)), (DaskLocal, Pieces(X, y, None, levels))):
        judging = Judging.of(source, calibrate, 1.0, 0.0, None, np.random.default_rng(0))
        evidence = Evidence(compile_kernel(kernel, X), source, chosen, None, n_neighbors, None, judging)
        with patch("sodalite.cluster.local.lay_out", Here):
            found.append(kind.condition(evidence))
    return (*found, make(np.random.default_rng(seed + 1), 150))


def compare(here, there, Q):
    assert there.k == here.k
    assert len(there.X) == len(here.X)
    for name in ("mean_and_variance", "mean_and_covariance"):
        for found, expected in zip(getattr(there, name)(Q), getattr(here, name)(Q), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(there.novelty(Q), here.novelty(Q), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(there.mean(Q[:2]), here.mean(Q[:2]), rtol=1e-8)  # most bundles have no query


@pytest.mark.parametrize("make", [campaign(scattered), on_a_grid, with_outliers])
@pytest.mark.parametrize(("levels", "search"), [campaign(0, "tree"), (5, "tree"), (3, "products")])
def test_predictions_are_those_in_memory(make, levels, search, monkeypatch):
    monkeypatch.setattr(neighbours, "FINDERS", {search: neighbours.FINDERS[search]})
    monkeypatch.setattr(tuning, "N_JUDGED", 200)
    monkeypatch.setattr(tuning, "MOST_JUDGED", 250)
    here, there, Q = conditioned(make, 900, levels)
    compare(here, there, Q)
    np.testing.assert_allclose(there.scale.nearby.sums, here.scale.nearby.sums, rtol=1e-8)


def test_more_neighbours_than_a_bundle_has_rows():
    compare(*conditioned(scattered, 300, 5, n_neighbors=64, calibrate=False))
    compare(*conditioned(scattered, 40, 3, n_neighbors=64, calibrate=False))


@pytest.mark.parametrize("levels", [2, campaign(6)])
def test_shared_neighbourhoods(levels, monkeypatch):
    monkeypatch.setattr(tuning, "LEAST_ROWS", 500)
    monkeypatch.setattr(tuning, "WORTH_SHARING", -10.0)
    monkeypatch.setattr(tuning, "SAME_ERROR", 10.0)
    monkeypatch.setattr(tuning, "N_JUDGED", 200)
    here, there, Q = conditioned(scattered, 1500, levels)
    assert here.shared is not None
    np.testing.assert_array_equal(there.shared.cells.centres, here.shared.cells.centres)
    compare(here, there, Q)


def test_few_rows_are_fetched_for_a_query():
    _, there, Q = conditioned(scattered, 3000, 3, n_neighbors=8, calibrate=False, kernel=Matern(1.0) + WhiteKernel(0.1))
    there.bundles.n_fetched.clear()
    there.mean(Q[:10])
    assert 8 <= there.bundles.n_fetched[0] < 10 * 4 * 8


def test_blocks_of_queries_are_bounded(monkeypatch):
    here, there, Q = conditioned(scattered, 900, 2, n_neighbors=8, calibrate=False)
    monkeypatch.setattr("sodalite.cluster.local.BLOCK", 8 * there.detached.width * 20)
    there.bundles.n_fetched.clear()
    np.testing.assert_allclose(there.mean(Q), here.mean(Q), rtol=1e-8)
    assert len(there.bundles.n_fetched) == -(-len(Q) // 20)
