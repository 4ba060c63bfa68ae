"""A cluster gives the picks of one machine, whatever happens to its workers. Real processes, really killed."""

import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import select

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of which there are many
KERNEL = ConstantKernel(1.0) * RBF([2.0, 2.0, 2.0]) + WhiteKernel(0.05)
N = 6000


def rows(n=N, q=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)
    return X, y if q is None else np.stack([y, -y + X[:, 0]], axis=1)


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("chunks", [N, 1000, (10, 1990, 4000), 5999])
def test_the_picks_are_those_of_one_machine_whatever_the_partitions(client, chunks):
    X, y = rows()
    here = select(X, y, KERNEL, n_active=80, first=0)
    X_there, y_there = da.from_array(X, chunks=(chunks, 2)), da.from_array(y, chunks=700)
    there = select(X_there, y_there, KERNEL, n_active=80, first=0, executor=client)
    np.testing.assert_array_equal(there.indices, here.indices)
    np.testing.assert_allclose(there.rmse, here.rmse, rtol=1e-12)
    np.testing.assert_allclose(there.factor, here.factor, rtol=0, atol=1e-10)


@pytest.mark.parametrize("score", ["delta", "uncertainty", "random", "sampled", "lookahead"])
def test_every_score(client, score):
    X, y = rows()
    options = {"n_active": 60, "score": score, "random_state": 3}
    here, there = select(X, y, KERNEL, **options), select(X, y, KERNEL, **options, executor=client)
    np.testing.assert_array_equal(there.indices, here.indices)


def test_without_the_coordinates_kept_and_with_several_targets(client):
    X, y = rows(q=2)
    here = select(X, y, KERNEL, n_active=80, first=0)
    there = select(X, y, KERNEL, n_active=80, first=0, executor=client, memory_limit="10KB")
    np.testing.assert_array_equal(there.indices, here.indices)


def test_the_client_that_is_there_is_found(client):
    X, y = rows(500)
    there = select(da.from_array(X, chunks=(100, 3)), y, KERNEL, n_active=10, first=0)
    np.testing.assert_array_equal(there.indices, select(X, y, KERNEL, n_active=10, first=0).indices)


class Killer(threading.Thread):
    """Kills a worker now and then, as long as another is left."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.done, self.count, self.rng = client, threading.Event(), 0, random.Random(0)

    def run(self):
        while not self.done.wait(self.rng.uniform(0.05, 0.6)):
            try:
                pids = list(self.client.run(os.getpid).values())
            except OSError:  # one is on its way out
                continue
            if len(pids) > 1:
                os.kill(self.rng.choice(pids), signal.SIGKILL)
                self.count += 1


def test_workers_killed_while_rows_are_chosen(client):
    X, y = rows()
    X_there, y_there = da.from_array(X, chunks=(1500, 3)), da.from_array(y, chunks=1500)
    here = select(X, y, KERNEL, n_active=150, first=0)
    killer = Killer(client)
    killer.start()
    try:
        until = time.monotonic() + 60
        while killer.count < 2 and time.monotonic() < until:
            there = select(X_there, y_there, KERNEL, n_active=150, first=0, executor=client)
            np.testing.assert_array_equal(there.indices, here.indices)
    finally:
        killer.done.set()
        killer.join()
    assert killer.count >= 1


def test_bad_input(client):
    X, y = rows(1000)
    bad = X.copy()
    bad[700, 1] = np.nan
    with pytest.raises(ValueError, match="row 700"):
        select(da.from_array(bad, chunks=(300, 3)), y, KERNEL, n_active=5, executor=client)
    bad_y = y.copy()
    bad_y[321] = np.inf
    with pytest.raises(ValueError, match="y contains NaN or infinite values, in row 321"):
        select(da.from_array(X, chunks=(300, 3)), da.from_array(bad_y, chunks=300), KERNEL, n_active=5, executor=client)
    unknown = da.from_array(X, chunks=(300, 3))[da.from_array(y, chunks=300) > 0]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        select(unknown, y, KERNEL, n_active=5, executor=client)
    with pytest.raises(ValueError, match="same number of rows"):
        select(da.from_array(X, chunks=(300, 3)), y[:-1], KERNEL, n_active=5, executor=client)
    with pytest.raises(TypeError, match="executor must be a dask"):
        select(X, y, KERNEL, n_active=5, executor="tcp://nowhere")


def test_a_client_that_is_closed(client):
    other = distributed.Client(client.scheduler.address)
    other.close()
    X, y = rows(100)
    with pytest.raises(ValueError, match="closed"):
        select(X, y, KERNEL, n_active=5, executor=other)
