"""A cluster gives the picks of one machine, whatever happens to its workers. Real processes, really killed."""

import os
import signal
import threading
from contextlib import contextmanager
from time import monotonic

import numpy as np
import pytest

import dask_cluster
from dask_cluster import KERNEL, Killer, cluster
from helpers import campaign
from helpers import paper_select as select
from sodalite import GreedyGPRegressor
from sodalite.cluster import executor
from sodalite.cluster.executor import DaskExecutor, Host
from sodalite.cluster.rows import dask_rows
from sodalite.criteria import Delta
from sodalite.hyperparameters import Subset
from sodalite.kernels import compile_kernel
from sodalite.selection import grow
from sodalite.selection.executors import ShardsLostError
from sodalite.selection.recorder import Recorder
from sodalite.selection.rows import Block, ShardSetup

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of which there are many
N = 6000


def rows(n=N, q=None):
    return dask_cluster.rows(n, q)


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


@pytest.mark.parametrize("criterion", ["lookahead", "random", *map(campaign, ("delta", "uncertainty", "sampled"))])
def test_every_criterion(client, criterion):
    X, y = rows()
    options = {"n_active": 60, "criterion": criterion, "random_state": 3}
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


def test_a_scale_of_the_target_is_that_of_one_machine(client):
    X, y = rows(1200)
    options = {"kernel": KERNEL, "hyperparameters": "fixed", "target": "log", "n_active": 40, "random_state": 0}
    here = GreedyGPRegressor(**options).fit(X, np.exp(y), alpha=0)
    there = GreedyGPRegressor(**options).fit(da.from_array(X, chunks=(400, 3)), da.from_array(np.exp(y), chunks=400))
    np.testing.assert_allclose(there.predict(X, return_std=True), here.predict(X, return_std=True), rtol=1e-8)
    lower, upper = there.predict_interval(da.from_array(X, chunks=(500, 3)))
    np.testing.assert_allclose([lower.compute(), upper.compute()], here.predict_interval(X), rtol=1e-8)


def test_a_race_is_that_of_one_machine(client):
    X, y = rows(300)
    options = {"n_active": 40, "random_state": 0, "posterior": "sod", "hyperparameters": Subset(n_starts=2)}
    here = GreedyGPRegressor(**options).fit(X, np.exp(y), alpha=0)
    there = GreedyGPRegressor(**options).fit(da.from_array(X, chunks=(100, 3)), da.from_array(np.exp(y), chunks=100))
    beside_process = [each for each in here.mean_.trials if "alone" not in each.name]  # these need the rows here
    assert list(there.mean_.trials) == beside_process
    assert there.target_ == here.target_


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
    X, y = rows(40_000)
    most, call = [0], DaskExecutor.call

    def watched(self, method, *arguments):
        found = call(self, method, *arguments)
        if method in ("settle", "candidates"):
            most[0] = max(most[0], sum(len(part.index) for part in found))
        return found

    monkeypatch.setattr(DaskExecutor, "call", watched)
    select(da.from_array(X, chunks=(10_000, 3)), y, KERNEL, n_active=60, first=0, executor=client)
    assert 0 < most[0] < 4000


def test_a_call_is_a_task_for_each_thread_of_the_workers(client, monkeypatch):
    """However many partitions there are: their messages would take the scheduler's time."""
    X, y = rows()
    sent, submit = [], DaskExecutor._submit

    def watched(self, home, function, *arguments):
        sent.append(function)
        return submit(self, home, function, *arguments)

    monkeypatch.setattr(DaskExecutor, "_submit", watched)
    calls, call = [], DaskExecutor.call
    monkeypatch.setattr(DaskExecutor, "call", lambda *given: calls.append(given[1]) or call(*given))
    select(da.from_array(X, chunks=(500, 3)), y, KERNEL, n_active=60, first=0, executor=client)
    assert len(calls) > 3
    assert sent.count(executor._answer) == 3 * len(calls)


@pytest.fixture
def again(monkeypatch):
    """A list that grows when a selection begins again, from the rows chosen so far."""
    found, begin_again = [], Recorder.begin_again

    def watched(self):
        found.append(begin_again(self))
        return found[-1]

    monkeypatch.setattr(Recorder, "begin_again", watched)
    return found


@pytest.mark.campaign  # fewer are killed in the next test
def test_ten_workers_killed_at_random_moments(again):
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
    assert again


def test_workers_killed_in_fits_and_with_rows_that_the_driver_sent(again):
    X, y = rows(3000)
    here = select(X, y, KERNEL, n_active=100, first=0)
    model = GreedyGPRegressor(KERNEL, n_active=60, hyperparameters="fixed", posterior="vfe", criterion="delta")
    expected = model.fit(X, y, first=0).predict(X[:50])
    with cluster(5) as (client, workers), Killer(workers, 0.3) as killer:
        while killer.count < 4:
            there = select(
                X, y, KERNEL, n_active=100, first=0, executor=client, callback=lambda stage: killer.going.set()
            )
            np.testing.assert_array_equal(there.indices, here.indices)
            model.fit(da.from_array(X, chunks=(300, 3)), y, first=0, executor=client)
            np.testing.assert_allclose(model.predict(X[:50]), expected, rtol=1e-7)
    assert again


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
def test_a_worker_that_is_stopped_is_given_up(again, sent):
    X, y = rows(2000)
    here = select(X, y, KERNEL, n_active=60, first=0)
    data = (X, y) if sent else (da.from_array(X, chunks=(400, 3)), da.from_array(y, chunks=400))
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "4s"}),
        cluster(3) as (client, workers),
        stopping(workers) as stop,
    ):
        began = monotonic()
        there = select(
            *data,
            KERNEL,
            n_active=60,
            first=0,
            executor=client,
            callback=lambda stage: stage.t > 20 and stop(1),
        )
        assert 4 < monotonic() - began < 40
        assert len(client.scheduler_info()["workers"]) == 2
    np.testing.assert_array_equal(there.indices, here.indices)
    assert again


@pytest.mark.campaign  # stopped at other moments than above
def test_a_worker_that_is_stopped_during_sums():
    X, y = rows(600)
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "4s"}),
        cluster(3) as (client, workers),
        stopping(workers) as stop,
    ):
        there = dask_rows(X, y, executor=client)
        stop(1)
        np.testing.assert_array_equal(there.take(np.arange(600)).X, X)
        stop(2)
        np.testing.assert_allclose(there.map(_sum, np.add), y.sum())
        assert len(client.scheduler_info()["workers"]) == 1


def _sum(block):
    return block.y.sum()


def test_a_worker_that_is_stopped_for_a_while_is_waited_for(again):
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
    assert not again


def test_with_no_worker_left_it_waits_as_dask_is_told_and_then_fails():
    X, y = rows(1000)
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        cluster(1) as (client, (worker,)),
        pytest.raises(RuntimeError, match="No worker of the cluster is left, and none came within"),
    ):
        select(
            X,
            y,
            KERNEL,
            n_active=60,
            first=0,
            executor=client,
            callback=lambda stage: stage.t == 20 and os.kill(worker.pid, signal.SIGKILL),
        )


def test_what_kills_every_worker_is_given_up():
    X, y = rows(600)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        cluster(3) as (client, _),
        pytest.raises(RuntimeError, match="2 workers in a row were lost while they computed the same result"),
    ):
        dask_rows(da.from_array(X, chunks=(600, 3)), y, executor=client).map(_kill)


def _kill(block):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_scheduler_that_is_gone_is_told():
    X, y = rows(1000)
    with cluster(2) as (client, _):

        def stop(stage):
            if stage.t == 20:
                client.cluster.close()

        with pytest.raises(RuntimeError, match="its scheduler was stopped, restarted or cannot be reached"):
            select(X, y, KERNEL, n_active=60, first=0, executor=client, callback=stop)
        with pytest.raises(ValueError, match=r"a client that (has lost its scheduler|is closed); make a new one"):
            select(X, y, KERNEL, n_active=60, first=0, executor=client)


@pytest.mark.parametrize("criterion", ["delta", "lookahead", campaign("random"), campaign("sampled")])
def test_shards_that_are_made_again_at_any_call_change_no_pick(client, criterion, monkeypatch, again):
    """And the callback is told of every stage once."""
    X, y = rows(1000)
    options = {"n_active": 30, "criterion": criterion, "random_state": 3}
    here, told = select(X, y, KERNEL, **options), []
    call, calls, left = DaskExecutor.call, [], {k * k for k in range(1, 12)}

    def forgetting(self, method, *arguments):
        calls.append(method)
        if len(calls) in left:
            left.remove(len(calls))
            self._hosts = client.map(forgetful, self._hosts, pure=False)
        return call(self, method, *arguments)

    monkeypatch.setattr(DaskExecutor, "call", forgetting)
    there = select(X, y, KERNEL, **options, executor=client, callback=lambda stage: told.append(stage.t))
    np.testing.assert_array_equal(there.indices, here.indices)
    np.testing.assert_allclose(there.rmse, here.rmse, rtol=1e-10)
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-8)
    assert told == list(range(1, 31))
    assert again
    assert criterion == "random" or max(again) > 0  # random picks need no shard's state


def forgetful(host):
    """A host as it is made again."""
    kind, arguments = host.__reduce__()
    return kind(*arguments)


def test_workers_that_lose_their_shards_whenever_they_have_them_are_given_up(client, monkeypatch):
    X, y = rows(500)
    monkeypatch.setattr(grow, "MOST_LOST", 3)
    call = DaskExecutor.call

    def losing(self, method, *arguments):
        if method == "extend":
            raise ShardsLostError
        return call(self, method, *arguments)

    monkeypatch.setattr(DaskExecutor, "call", losing)
    with pytest.raises(RuntimeError, match="lost 3 times in a row before another row was chosen"):
        select(X, y, KERNEL, n_active=10, first=0, executor=client)


def test_a_host_that_is_called_twice_or_at_another_stage_says_so():
    X, y = rows(100)
    host = Host([Block(X, y[:, None])], ShardSetup(compile_kernel(KERNEL, X), Delta(), 10, 0), 1)
    nothing = (0, 0.0, np.empty(0, dtype=np.int64))
    assert host.answer(1, "candidates", nothing) is None
    assert host.answer(3, "start", (1e-6,)) is not None
    for _ in range(2):
        assert host.answer(4, "candidates", nothing) is not None
    with pytest.raises(AttributeError):
        host.answer(4, "extend", (None,))  # which leaves it at no stage
    assert host.answer(4, "candidates", nothing) is None
