"""`local` on a cluster whose rows stay on the workers is `local` in memory. Real processes, really killed."""

import os
import pickle
import signal
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, WhiteKernel

import dask_cluster
from dask_cluster import Killer, cluster, model
from helpers import campaign
from sodalite import load, save
from sodalite.cli.app import app
from sodalite.cluster.bundles import Bundles, Fetched
from sodalite.cluster.local import DaskLocal
from sodalite.cluster.rows import DaskRows
from sodalite.exports import to_sklearn
from sodalite.hyperparameters import Found
from sodalite.persistence import check_file
from sodalite.posteriors import Neighbors, tuning

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of which there are many
N = 2500
CHUNKS = (0, 1, 999, 0, 1500)


@pytest.fixture(scope="module")
def client():
    with cluster(3) as (client, _):
        yield client


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """Rows stay on the workers, however few they are."""
    monkeypatch.setattr("sodalite.fitting.room.FETCHED", 0)


def rows(n=N, q=None):
    return dask_cluster.rows(n, q, copies=n // 5)  # equal rows in different pieces


def queries(n=300):
    return np.random.default_rng(9).normal(size=(n, 3)) * 1.2


chunked = partial(dask_cluster.chunked, chunks=CHUNKS)


def compare(there, here, X=None, rtol=1e-8):
    """All predictions of two models at the same queries, the first one's made in any way."""
    X = queries() if X is None else X
    np.testing.assert_array_equal(there.active_indices_, here.active_indices_)
    assert there.posterior_.k == here.posterior_.k
    for found, expected in zip(there.predict(X, return_std=True), here.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol)
    np.testing.assert_allclose(there.novelty(X), here.novelty(X), rtol=rtol, atol=1e-10)
    levels = [0.05, 0.5, 0.9]
    np.testing.assert_allclose(there.predict_quantiles(X, levels), here.predict_quantiles(X, levels), rtol=1e-7)


@pytest.mark.parametrize(
    ("q", "alpha", "mean"),
    [(3, True, None), campaign(None, False, "linear"), campaign(None, True, None), campaign(3, False, None)],
)
def test_a_fit_is_that_in_memory(client, q, alpha, mean):
    X, y = rows(q=q)
    noise = np.linspace(0, 0.5, N) if alpha else None
    here = model(mean=mean).fit(X, y, alpha=noise)
    lazy = None if noise is None else chunked(noise)[0]
    there = model(mean=mean).fit(*chunked(X, y), alpha=lazy, executor=client)
    assert isinstance(there.posterior_, DaskLocal)
    assert len(there.posterior_.X) == len(here.posterior_.X) < N  # equal rows are one
    compare(there, here)
    for found, expected in zip(
        there.predict(X[:40], return_cov=True), here.predict(X[:40], return_cov=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert there.baselines_.model == pytest.approx(here.baselines_.model, rel=1e-8)


def test_the_number_of_neighbours_is_chosen_as_in_memory_and_rows_stay(client, monkeypatch):
    """The driver asks for no more rows than it looks at in any case: samples that judge the model."""
    monkeypatch.setattr(tuning, "N_JUDGED", 300)
    monkeypatch.setattr(tuning, "MOST_JUDGED", 400)
    monkeypatch.setattr("sodalite.posteriors.baselines.MOST_ROWS", 200)
    monkeypatch.setattr("sodalite.hyperparameters.holes.MOST_ROWS", 800)
    X, y = rows()
    here = model(posterior="local").fit(X, y)
    taken, take = [], DaskRows.take

    def watched(self, which):
        found = take(self, which)
        taken.append(len(found))
        return found

    monkeypatch.setattr(DaskRows, "take", watched)
    there = model(posterior="local").fit(*chunked(X, y), executor=client)
    assert taken
    assert max(taken) <= 1200 < N
    compare(there, here)


def test_neighbourhoods_that_queries_share(client, monkeypatch):
    monkeypatch.setattr(tuning, "WORTH_SHARING", -10.0)
    monkeypatch.setattr(tuning, "SAME_ERROR", 10.0)
    monkeypatch.setattr(tuning, "N_JUDGED", 300)
    monkeypatch.setattr(tuning, "COMPARE_WORK", 1e7)  # rows of some cells judge, which workers find
    X, y = rows(2800)
    lazy = chunked(X, y, chunks=700)
    here, there = model(posterior="local").fit(X, y), model(posterior="local").fit(*lazy, executor=client)
    assert here.posterior_.shared is not None
    np.testing.assert_array_equal(there.posterior_.shared.cells.centres, here.posterior_.shared.cells.centres)
    assert there.posterior_.power == here.posterior_.power
    compare(there, here)
    np.testing.assert_allclose(
        there.predict(chunked(queries(), chunks=90)[0]).compute(), here.predict(queries()), rtol=1e-8
    )
    for found, expected in zip(
        there.predict(X[:20], return_cov=True), here.predict(X[:20], return_cov=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_rows_in_single_precision_that_the_driver_has_no_room_for(client):
    X, y = rows()
    X = X.astype(np.float32)
    there = model(memory_limit="100KB").fit(*chunked(X, y), executor=client)
    assert there.X_train_.dtype == np.float32
    compare(there, model().fit(X, y), queries().astype(np.float32))


def test_lazy_predictions_do_not_depend_on_the_blocks(client, monkeypatch):
    X, y = rows()
    here, there = model().fit(X, y), model().fit(*chunked(X, y), executor=client)
    Q, target = queries(), queries()[:, 0] + 50
    began = []
    monkeypatch.setattr(Bundles, "fetch", lambda *_: began.append(1))  # what the driver would call
    for most in (2**16, 40):
        monkeypatch.setattr("sodalite.cluster.local.MOST", most)
        lazy = da.from_array(Q, chunks=((0, 130, 170), 2))
        mean, std = there.predict(lazy, return_std=True)
        assert mean.chunks == ((0, 130, 170),)
        low, high = there.predict_interval(lazy)
        density, pit = there.log_density(lazy, da.from_array(target, chunks=100)), there.pit(lazy, target)
        found = dask.compute(mean, std, low, high, there.novelty(lazy), density, pit)
        expected = (*here.predict(Q, return_std=True), *here.predict_interval(Q), here.novelty(Q))
        expected += here.log_density(Q, target), here.pit(Q, target)
        for part, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-7, atol=1e-9)
    assert not began


def test_predictions_of_dataframes(client):
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    parts = dd.from_pandas(frame, npartitions=4), dd.from_pandas(pd.Series(y), npartitions=4)
    there, here = model().fit(*parts, executor=client), model().fit(frame, y)
    found = there.predict(dd.from_pandas(frame[:200], npartitions=2))
    np.testing.assert_allclose(found.compute(), here.predict(frame[:200]), rtol=1e-8)
    np.testing.assert_allclose(there.predict(frame[:5]), here.predict(frame[:5]), rtol=1e-8)


def test_what_has_no_metric_or_was_sent_is_fetched(client):
    X, y = rows(400)
    periodic = ConstantKernel(1.0) * ExpSineSquared(1.0, 3.0) + WhiteKernel(0.1)
    there = model(kernel=periodic).fit(*chunked(X[:, :1], y, chunks=100), executor=client)
    assert not isinstance(there.posterior_, DaskLocal)
    sent = model().fit(X, y, executor=client)  # the scheduler could not make lost rows again
    assert not isinstance(sent.posterior_, DaskLocal)


def test_a_kernel_without_a_metric_and_no_room_are_told_before_rows_are_chosen(client, monkeypatch):
    class Periodic:
        def find(self, task, kernels, generator):
            return Found(ConstantKernel(1.0) * ExpSineSquared(1.0, 3.0) + WhiteKernel(0.1))

    def full(*_):
        raise OSError(28, "the disk is full")

    monkeypatch.setattr("sodalite.fitting.room.check_disk", full)
    monkeypatch.setattr("sodalite.fitting.pipeline.choose_rows", lambda *_, **__: pytest.fail("rows were chosen"))
    X, y = rows(400)
    with pytest.raises(OSError, match="the disk is full"):
        model(kernel=None, hyperparameters=Periodic(), memory_limit="1KB").fit(*chunked(X[:, :1], y, chunks=100))


def test_what_needs_the_rows_here_is_refused(client):
    X, y = rows(400)
    there = model().fit(*chunked(X, y, chunks=100), executor=client)
    with pytest.raises(TypeError, match=r"cannot be pickled .* Save it to a file with sodalite\.save"):
        pickle.dumps(there)
    with pytest.raises(ValueError, match="no rows can join it"):
        there.partial_fit(X[:5], y[:5])
    np.testing.assert_allclose(
        to_sklearn(there).predict(queries()),
        there.posterior_.base.mean(queries())[:, 0] * there.y_std_ + there.y_mean_,
    )


# Lost workers


@pytest.mark.parametrize("k", [8, campaign(None)])
def test_workers_killed_while_fitting_and_predicting(k):
    X, y = rows()
    posterior = "local" if k is None else Neighbors(k)
    here = model(posterior=posterior).fit(X, y)
    Q = queries(200)
    expected = here.predict(Q)
    with cluster(5) as (client, workers), Killer(workers, 0.4) as killer:
        while killer.count < 3:
            killer.going.set()
            there = model(posterior=posterior).fit(*chunked(X, y, chunks=250), executor=client)
            np.testing.assert_allclose(there.predict(Q), expected, rtol=1e-8)
            lazy = there.predict(da.from_array(Q, chunks=(50, 3)))
            np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-8)
        assert killer.count >= 3
        killer.done.set()
        np.testing.assert_allclose(there.predict(Q), expected, rtol=1e-8)


def test_rows_that_were_on_a_killed_worker_are_made_again(tmp_path):
    X, y = rows(1000)
    expected = model().fit(X, y).predict(queries())
    with cluster(3) as (client, workers):
        there = model().fit(*chunked(X, y, chunks=250), executor=client)
        lazy = there.predict(da.from_array(queries(), chunks=(100, 3)))
        for worker in workers[:2]:
            worker.kill()
            worker.join()
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-8)
        np.testing.assert_allclose(there.predict(queries()), expected, rtol=1e-8)
        save(there, tmp_path / "saved")
    np.testing.assert_allclose(load(tmp_path / "saved").predict(queries()), expected, rtol=1e-8)


def test_a_worker_that_is_stopped_is_given_up_while_predicting():
    X, y = rows(1000)
    expected = model().fit(X, y).predict(queries())
    with dask.config.set({"distributed.scheduler.worker-ttl": "4s"}), cluster(2) as (client, workers):
        there = model().fit(*chunked(X, y, chunks=250), executor=client)
        os.kill(workers[0].pid, signal.SIGSTOP)
        try:
            np.testing.assert_allclose(there.predict(queries()), expected, rtol=1e-8)
            assert len(client.scheduler_info()["workers"]) == 1
        finally:
            os.kill(workers[0].pid, signal.SIGCONT)


def test_rows_that_are_just_being_made_again_are_not_said_to_be_gone(client):
    """Dask calls a future lost until the scheduler has made it again, after its worker is gone."""
    X, y = rows(400)
    there = model().fit(*chunked(X, y, chunks=100), executor=client)
    expected = there.predict(queries())
    there.posterior_.bundles.futures[0]._state.lose()
    np.testing.assert_allclose(there.predict(queries()), expected, rtol=1e-8)


def test_a_cluster_that_was_restarted_is_said_to_have_no_rows():
    X, y = rows(400)
    with cluster(2) as (client, _):
        there = model().fit(*chunked(X, y, chunks=100), executor=client)
        client.cancel(there.posterior_.bundles.futures, force=True)
        with pytest.raises(RuntimeError, match="no longer has the rows"):
            there.predict(queries())
        with pytest.raises(RuntimeError, match="no longer has the rows"):
            there.predict(da.from_array(queries(), chunks=(100, 3)))
        other = distributed.Client(client.scheduler.address, set_as_default=False)
        there = model().fit(*chunked(X, y, chunks=100), executor=other)
        other.close()
        with pytest.raises(RuntimeError, match="or the client was closed"):
            there.predict(queries())


# Files


def test_a_file_loads_where_there_is_no_cluster(client, tmp_path, monkeypatch):
    monkeypatch.setattr("sodalite.cluster.bundles.AHEAD", 8000)
    X, y = rows()
    there = model(mean="linear").fit(*chunked(X, y), executor=client)
    sizes, fetch = [], Fetched._fetch
    monkeypatch.setattr(
        Fetched, "_fetch", lambda self, *span: sizes.append((part := fetch(self, *span)).nbytes) or part
    )
    monkeypatch.setattr("sodalite.core.container.BLOCK", 2000)
    save(there, tmp_path / "m")
    assert max(sizes) <= 8000
    assert len(sizes) > 10
    check_file(tmp_path / "m")
    again = load(tmp_path / "m")
    compare(again, there)
    assert again.posterior_.store is not None
    with pytest.raises(ValueError, match="no rows can join it"):
        again.partial_fit(np.zeros((1, 3)), [0.0])
    sent = pickle.loads(pickle.dumps(again))
    np.testing.assert_allclose(sent.predict(queries()), there.predict(queries()), rtol=1e-8)
    for one in (again, sent):
        save(one, tmp_path / "once more")
        compare(load(tmp_path / "once more"), there)
    found = CliRunner().invoke(app, ["inspect", str(tmp_path / "m"), "--check"])
    assert found.exit_code == 0, found.output
    assert "30 rows of 2,500" in found.output


def test_a_file_of_single_precision_shared_neighbourhoods_and_several_targets(client, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "WORTH_SHARING", -10.0)
    monkeypatch.setattr(tuning, "SAME_ERROR", 10.0)
    monkeypatch.setattr(tuning, "N_JUDGED", 300)
    X, y = rows(2800, q=3)
    there = model(posterior="local").fit(*chunked(X.astype(np.float32), y, chunks=700), executor=client)
    assert there.posterior_.shared is not None
    save(there, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.posterior_.X.dtype == np.float32
    compare(again, there)


def test_a_save_that_fails_leaves_what_was_there(client, tmp_path, monkeypatch):
    X, y = rows(400)
    there = model().fit(*chunked(X, y, chunks=100), executor=client)
    save(there, tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def gone(*_):
        raise RuntimeError("the cluster no longer has the rows")

    monkeypatch.setattr(Fetched, "_fetch", gone)
    with pytest.raises(RuntimeError, match="no longer has the rows"):
        save(there, tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m").read_bytes() == before
