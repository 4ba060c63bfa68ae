"""A cluster gives the picks of one machine, whatever happens to its workers. Real processes, really killed."""

import os
import re
import signal
import threading
from contextlib import contextmanager
from time import monotonic

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from dask_cluster import Killer, cluster
from helpers import campaign
from sodalite import GreedyGPRegressor, select
from sodalite.cluster import client as cluster_client
from sodalite.cluster.client import TIMEOUT, insist
from sodalite.kernels import compile_kernel
from sodalite.scores import Delta
from sodalite.selection.shard import StageError

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
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
    with cluster(3) as (client, _):
        yield client


@pytest.mark.parametrize("chunks", [N, 1000, (10, 1990, 4000), 5999, (0, 1, 0, 5999, 0)])
def test_the_picks_are_those_of_one_machine_whatever_the_partitions(client, chunks):
    X, y = rows()
    here = select(X, y, KERNEL, n_active=80, first=0)
    X_there, y_there = da.from_array(X, chunks=(chunks, 2)), da.from_array(y, chunks=700)
    there = select(X_there, y_there, KERNEL, n_active=80, first=0, executor=client)
    np.testing.assert_array_equal(there.indices, here.indices)
    np.testing.assert_allclose(there.rmse, here.rmse, rtol=1e-12)
    np.testing.assert_allclose(there.factor, here.factor, rtol=0, atol=1e-10)


@pytest.mark.parametrize("score", ["lookahead", "random", *map(campaign, ("delta", "uncertainty", "sampled"))])
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


@pytest.mark.parametrize(("posterior", "sent"), [("vfe", False), campaign("local", False), campaign("vfe", True)])
def test_a_mean_function_is_that_of_one_machine(client, posterior, sent):
    X, y = rows(1500)
    options = {"kernel": KERNEL, "hyperparameters": "fixed", "mean": "trees", "n_active": 40, "random_state": 0}
    here = GreedyGPRegressor(posterior=posterior, **options).fit(X, y)
    there = GreedyGPRegressor(posterior=posterior, **options)
    if sent:
        there.fit(X, y, executor=client)
    else:
        there.fit(da.from_array(X, chunks=(400, 3)), da.from_array(y, chunks=400))
    np.testing.assert_allclose(there.predict(X, return_std=True), here.predict(X, return_std=True), rtol=1e-8)
    lazy = there.predict(da.from_array(X, chunks=(500, 3)))
    np.testing.assert_allclose(lazy.compute(), here.predict(X), rtol=1e-8)


def test_several_shards_a_piece(client):
    X, y = rows(40_000)
    here = select(X, y, KERNEL, n_active=60, first=0)
    there = select(da.from_array(X, chunks=(20_000, 3)), y, KERNEL, n_active=60, first=0, executor=client)
    np.testing.assert_array_equal(there.indices, here.indices)


def test_the_client_that_is_there_is_found(client):
    X, y = rows(500)
    there = select(da.from_array(X, chunks=(100, 3)), y, KERNEL, n_active=10, first=0)
    np.testing.assert_array_equal(there.indices, select(X, y, KERNEL, n_active=10, first=0).indices)


def test_a_client_that_is_not_the_current_one(client):
    X, y = rows(500)
    with cluster(1) as (other, _):  # from here on the current one
        assert distributed.get_client() is other
        there = select(X, y, KERNEL, n_active=10, first=0, executor=client)
    np.testing.assert_array_equal(there.indices, select(X, y, KERNEL, n_active=10, first=0).indices)


def test_only_a_few_rows_travel(client, monkeypatch):
    """Per block the driver sees a panel of candidates, however many rows there are."""
    from sodalite.cluster import executor as dask

    X, y = rows(40_000)
    most, call = [0], dask.DaskExecutor.call

    def watched(self, method, *arguments):
        found = call(self, method, *arguments)
        if method in ("settle", "candidates"):
            most[0] = max(most[0], sum(len(part.index) for part in found))
        return found

    monkeypatch.setattr(dask.DaskExecutor, "call", watched)
    select(da.from_array(X, chunks=(10_000, 3)), y, KERNEL, n_active=60, first=0, executor=client)
    assert 0 < most[0] < 4000


@pytest.fixture
def built(monkeypatch):
    """The hosts that are built again in the middle of a selection."""
    from sodalite.cluster import executor as dask

    found, build = [], dask.DaskExecutor._build

    def watched(self, hosts):
        found.extend(hosts if self._log else [])
        build(self, hosts)

    monkeypatch.setattr(dask.DaskExecutor, "_build", watched)
    return found


@pytest.mark.campaign  # fewer are killed in the next test
def test_ten_workers_killed_at_random_moments(built):
    X, y = rows()
    here = select(X, y, KERNEL, n_active=150, first=0)
    X_there, y_there = da.from_array(X, chunks=(500, 3)), da.from_array(y, chunks=500)
    with cluster(12) as (client, workers), Killer(workers, 0.5) as killer:
        options = {"n_active": 150, "first": 0, "callback": lambda stage: killer.going.set()}
        while killer.count < 10:
            there = select(X_there, y_there, KERNEL, **options, executor=client)
            np.testing.assert_array_equal(there.indices, here.indices)
            np.testing.assert_allclose(there.rmse, here.rmse, rtol=1e-10)
    assert killer.count >= 10
    assert built


def test_workers_killed_in_fits_and_with_rows_that_the_driver_sent(built):
    X, y = rows(3000)
    here = select(X, y, KERNEL, n_active=100, first=0)
    model = GreedyGPRegressor(KERNEL, n_active=60, hyperparameters="fixed", posterior="vfe", score="delta", first=0)
    expected = model.fit(X, y).predict(X[:50])
    with cluster(5) as (client, workers), Killer(workers, 0.3) as killer:
        while killer.count < 4:
            there = select(
                X, y, KERNEL, n_active=100, first=0, executor=client, callback=lambda stage: killer.going.set()
            )
            np.testing.assert_array_equal(there.indices, here.indices)
            model.fit(da.from_array(X, chunks=(300, 3)), y, executor=client)
            np.testing.assert_allclose(model.predict(X[:50]), expected, rtol=1e-7)
    assert built


@contextmanager
def stopping(workers):
    """A function that stops a worker as Ctrl-Z does: its connections stay, and it says nothing any more."""
    stopped = []

    def stop(number):
        if workers[number] not in stopped:
            os.kill(workers[number].pid, signal.SIGSTOP)
            stopped.append(workers[number])

    yield stop
    for worker in stopped:
        os.kill(worker.pid, signal.SIGCONT)


@pytest.mark.parametrize("sent", [False, campaign(True)])
def test_a_worker_that_is_stopped_is_named_and_given_up(built, sent):
    X, y = rows(2000)
    here = select(X, y, KERNEL, n_active=60, first=0)
    data = (X, y) if sent else (da.from_array(X, chunks=(400, 3)), da.from_array(y, chunks=400))
    with cluster(3) as (client, workers), stopping(workers) as stop, dask.config.set({TIMEOUT[0]: "4s"}):
        began = monotonic()
        with pytest.warns(UserWarning, match="has not been heard from for") as told:
            there = select(
                *data, KERNEL, n_active=60, first=0, executor=client, callback=lambda stage: stage.t > 20 and stop(1)
            )
        assert 4 < monotonic() - began < 30
        assert len(client.scheduler_info()["workers"]) == 2
    np.testing.assert_array_equal(there.indices, here.indices)
    assert built
    words = [str(warning.message) for warning in told if "has not been heard from for" in str(warning.message)]
    assert [re.sub(r"\d+ seconds", "N seconds", text).split(" seconds", 1)[1] for text in words] == [
        ". It is waited for until N seconds have passed; set 'sodalite.worker-timeout' in Dask's configuration to "
        "change that.",
        ": it is given up, and others do its work.",
    ]
    assert len({re.search(r"\((tcp://\S+)\)", text)[1] for text in words}) == 1


@pytest.mark.campaign  # stopped at other moments than above
def test_a_worker_that_is_stopped_before_rows_are_sent_and_during_sums():
    from sodalite.cluster.table import share_out

    X, y = rows(600)
    with cluster(3) as (client, workers), stopping(workers) as stop, dask.config.set({TIMEOUT[0]: "4s"}):
        stop(0)
        table = share_out(X, y, executor=client)
        np.testing.assert_array_equal(table.take(np.arange(600)).X, X)
        stop(1)
        total = table.map(lambda block: block.y.sum(axis=0), np.add)
        np.testing.assert_allclose(total, y.sum())
        assert len(client.scheduler_info()["workers"]) == 1


def test_a_worker_that_is_stopped_for_a_while_is_waited_for(built):
    X, y = rows(1000)
    here = select(X, y, KERNEL, n_active=40, first=0)
    with cluster(2) as (client, workers), stopping(workers) as stop:

        def pause(stage):
            if stage.t == 20:
                stop(0)
                threading.Timer(2.5, os.kill, (workers[0].pid, signal.SIGCONT)).start()

        there = select(X, y, KERNEL, n_active=40, first=0, executor=client, callback=pause)
        assert len(client.scheduler_info()["workers"]) == 2
    np.testing.assert_array_equal(there.indices, here.indices)
    assert not built


@pytest.mark.parametrize("value", ["soon", "5 parsecs", 0, "-3s"])
def test_a_timeout_that_is_none(client, value):
    X, y = rows(50)
    with (
        dask.config.set({TIMEOUT[0]: value}),
        pytest.raises(ValueError, match=r"sodalite\.worker-timeout in Dask's configuration must be"),
    ):
        select(X, y, KERNEL, n_active=5, executor=client)


def test_a_timeout_of_none_is_never():
    with dask.config.set({TIMEOUT[0]: None}):
        assert cluster_client.worker_timeout() == np.inf
    assert cluster_client.worker_timeout() == 300


def test_with_no_worker_left_it_waits_and_then_fails(monkeypatch):
    monkeypatch.setattr(cluster_client, "PATIENCE", 1.0)
    X, y = rows(1000)
    with cluster(1) as (client, (worker,)):

        def kill(stage):
            if stage.t == 20:
                os.kill(worker.pid, signal.SIGKILL)

        with pytest.raises(RuntimeError, match="No worker of the cluster is left, and none came within 1 seconds"):
            select(X, y, KERNEL, n_active=60, first=0, executor=client, callback=kill)


def test_what_fails_again_and_again_is_given_up(monkeypatch):
    monkeypatch.setattr(cluster_client, "TRIES", 3)
    tries = []
    with pytest.raises(RuntimeError, match="3 times in a row"):
        insist(lambda: bool(tries.append(1)))
    assert len(tries) == 3


CALLS = {
    "candidates": (5, -np.inf, np.empty(0, dtype=np.int64)),
    "draw": (5, 0, 0, np.empty(0, dtype=np.int64)),
    "coordinates": (np.array([1]),),
    "extend": (None,),
    "settle": (None, 1, 5, 0.0, np.empty(0, dtype=np.int64)),
}


def make_host(n=100):
    from sodalite.cluster.executor import Host, HostSetup

    X, y = rows(n)
    return Host((X, y[:, None], None), 0, n, HostSetup(compile_kernel(KERNEL, X), Delta(), 10, 0), 1)


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("changes", [0, 2])
def test_a_shard_that_is_behind_or_ahead_refuses_every_call(method, changes):
    host = make_host()
    host.call(0, "start", (0.0,))
    with pytest.raises(StageError):
        host.call(changes, method, CALLS[method])
    assert len(host.call(1, "candidates", CALLS["candidates"])[0].index) >= 5  # and is none the worse


def test_a_shard_that_is_ahead_is_built_again(client):
    from sodalite.cluster.executor import DaskExecutor, HostSetup
    from sodalite.cluster.table import share_out

    X, y = rows(1000)
    setup = HostSetup(compile_kernel(KERNEL, X), Delta(), 10, 0)
    with DaskExecutor(share_out(X, y, executor=client), setup) as executor:
        executor.call("start", 0.0)
        expected = executor.call("candidates", *CALLS["candidates"])
        executor._hosts[1].replay([("start", (0.0,)), ("start", (0.0,))]).result()  # an answer that went missing
        found = executor.call("candidates", *CALLS["candidates"])
        assert executor.n_lost == 1
        for part, before in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part.index, before.index)
