"""`RemoteLocal` with its rows in bundles in this process: the predictions of `Local`, whatever the rows are like."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from helpers import campaign
from sodalite import select
from sodalite.cluster.bundles import Bundle, BundleLayout, _first, _home, _near, _radius, _Split, _Surveyed, together
from sodalite.kernels import compile_kernel, neighbours
from sodalite.kernels.cells import Bisection
from sodalite.kernels.neighbours import least_hashes, n_sampled
from sodalite.posteriors import Evidence, Judging, Local, tuning
from sodalite.posteriors.remote import RemoteLocal
from sodalite.selection.rows import ArrayRows, Block


class Index:
    """What a driver knows of distances."""

    def __init__(self, rows):
        self.rows, self.columns, self.scaled = rows, rows.metric.columns, rows.metric.scaled

    def sample(self, most):
        Z = np.concatenate([bundle.store.Z for bundle in self.rows.bundles])
        return Z[least_hashes(Z[:, -1], most)][:, :-1]


class Here:
    """Bundles of this process, which answer as those of a cluster do."""

    def __init__(self, source, remaining, levels, pieces):
        n, d = source.X.shape
        edges = np.linspace(0, n, pieces + 1).astype(int)
        parts = [Block(source.X[a:b], source.y[a:b], begin=a) for a, b in pairwise(edges)]
        surveyed = _Surveyed(remaining, d, max(n_sampled(d), 2**levels * 8))
        seen = surveyed(parts[0])
        for part in parts[1:]:
            seen = surveyed(part).merged(seen)  # in another order
        self.metric = seen.metric(remaining.kernel.centre, remaining.kernel.metric())
        boxes = Bisection.of(self.metric.scaled(seen.rows), levels)
        self.layout = BundleLayout(self.metric, boxes, seen.rows[: n_sampled(d)], np.dtype(np.float64))
        split = [_Split(remaining, self.layout)(part) for part in parts]
        self.bundles = [Bundle(list(each), self.layout) for each in zip(*split, strict=True)]
        self.shape = sum(len(bundle.store) for bundle in self.bundles), d, source.y.shape[1]
        self.n_gathered = []

    def __len__(self):
        return self.shape[0]

    def index(self, centre, weights):
        return Index(self)

    def features(self, kernel):
        raise NotImplementedError

    def nearest_by_covariance(self, kernel, X, k):
        raise NotImplementedError

    def answers(self, function, blocks):
        return [function(self.gathered(asked), *arguments) for asked, arguments in blocks]

    def gathered(self, asked):
        home = _home(asked, self.layout.boxes)
        radius = _radius(home, [_first(bundle, asked, home, at) for at, bundle in enumerate(self.bundles)])
        boxes = [(bundle.store.Z[:, :-1].min(axis=0), bundle.store.Z[:, :-1].max(axis=0)) for bundle in self.bundles]
        rows = together([_near(*each, asked, radius, *box) for *each, box in zip(self.bundles, boxes, strict=True)])
        self.n_gathered.append(len(rows[0]))
        return rows


@dataclass(frozen=True)
class Spread(ArrayRows):
    """A source that lays its rows out in bundles."""

    levels: int = 2
    pieces: int = 3
    lays_out: bool = True

    def lay_out(self, remaining):
        return Here(self, remaining, self.levels, self.pieces)


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
    for kind, source in ((Local, ArrayRows(X, y)), (RemoteLocal, Spread(X, y, None, levels))):
        judging = Judging.of(source, calibrate, 1.0, 0.0, None, np.random.default_rng(0))
        evidence = Evidence(compile_kernel(kernel, X), source, chosen, None, n_neighbors, None, judging)
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
    np.testing.assert_allclose(there.scale.squares, here.scale.squares, rtol=1e-8)


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


def test_few_rows_are_gathered_for_a_query():
    _, there, Q = conditioned(scattered, 3000, 3, n_neighbors=8, calibrate=False, kernel=Matern(1.0) + WhiteKernel(0.1))
    there.remote.n_gathered.clear()
    there.mean(Q[:10])
    assert 8 <= there.remote.n_gathered[0] < 10 * 4 * 8


def test_blocks_of_queries_are_bounded(monkeypatch):
    here, there, Q = conditioned(scattered, 900, 2, n_neighbors=8, calibrate=False)
    monkeypatch.setattr("sodalite.posteriors.remote.BLOCK", 8 * there.detached.width * 20)
    there.remote.n_gathered.clear()
    np.testing.assert_allclose(there.mean(Q), here.mean(Q), rtol=1e-8)
    assert len(there.remote.n_gathered) == -(-len(Q) // 20)
