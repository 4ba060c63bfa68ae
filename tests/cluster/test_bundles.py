"""`local` on a cluster whose rows stay on the workers is `local` in memory. Real processes, really killed."""

import os
import pickle
import re
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, WhiteKernel

import dask_cluster
from dask_cluster import Killer, cluster, model
from helpers import campaign
from sodalite import load, save
from sodalite.cli.app import app
from sodalite.cluster.bundles import Bundles
from sodalite.cluster.local import DaskLocal
from sodalite.cluster.rows import DaskRows
from sodalite.exceptions import ModelFileError
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
    with pytest.raises(TypeError, match=r"cannot be pickled .* Save it to a folder with sodalite\.save"):
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


# Folders


@pytest.fixture(scope="module")
def saved(client, tmp_path_factory):
    """A folder, with what its model should predict."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sodalite.fitting.room.FETCHED", 0)
        X, y = rows()
        there = model(mean="linear").fit(*chunked(X, y), executor=client)
    folder = tmp_path_factory.mktemp("models") / "model"
    save(there, folder)
    return folder, there


def test_a_folder_loads_where_there_is_no_cluster(saved, tmp_path):
    folder, there = saved
    names = sorted(file.name for file in folder.iterdir())
    assert names[0] == "header.sodalite"
    assert all(
        re.fullmatch(rf"rows-[0-9a-f]{{8}}-{number:05d}\.sodalite", name) for number, name in enumerate(names[1:])
    )
    assert len(names) > 2
    check_file(folder)
    again = load(folder)
    compare(again, there)
    assert again.posterior_.store is not None
    with pytest.raises(ValueError, match="no rows can join it"):
        again.partial_fit(np.zeros((1, 3)), [0.0])
    for _ in range(2):  # the second save replaces the first
        save(again, tmp_path / "once more")  # one file of rows, from this machine
        assert len(list((tmp_path / "once more").iterdir())) == 2
        compare(load(tmp_path / "once more"), there)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(again)).predict(queries()), there.predict(queries()), rtol=1e-8
    )


def test_a_folder_of_single_precision_shared_neighbourhoods_and_several_targets(client, tmp_path, monkeypatch):
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


def test_the_commands_take_a_folder(saved, tmp_path):
    folder, there = saved
    found = CliRunner().invoke(app, ["inspect", str(folder), "--check"])
    assert found.exit_code == 0, found.output
    assert "30 rows of 2,500" in found.output
    pd.DataFrame(queries(20), columns=["a", "b", "c"]).to_csv(tmp_path / "q.csv", index=False)
    found = CliRunner().invoke(app, ["predict", str(folder), str(tmp_path / "q.csv"), "-o", str(tmp_path / "out.csv")])
    assert found.exit_code == 0, found.output
    mean = pd.read_csv(tmp_path / "out.csv")["mean"]
    np.testing.assert_allclose(mean, there.predict(pd.read_csv(tmp_path / "q.csv").to_numpy()), rtol=1e-5)


@pytest.fixture
def copied(saved, tmp_path):
    """A copy of the folder, to be damaged."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in saved[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_damaged_rows_are_noticed_when_they_are_used(copied):
    file = sorted(copied.iterdir())[2]
    content = bytearray(file.read_bytes())
    content[-9] ^= 1  # in the last array
    file.write_bytes(content)
    again = load(copied)
    with pytest.raises(ModelFileError, match=r"rows-.* is damaged: array .values. is not the one that was written"):
        again.predict(queries())
    with pytest.raises(ModelFileError, match="is damaged"):
        check_file(copied)


def test_a_file_of_rows_that_is_missing_or_of_another_model(copied):
    first, second = sorted(copied.iterdir())[1:3]
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(ModelFileError, match=r"-00001\.sodalite: there is no such file"):
        load(copied)
    second.write_bytes(first.read_bytes())
    with pytest.raises(ModelFileError, match=r"-00001\.sodalite (belongs to another model|is no valid file)"):
        load(copied)
    second.write_bytes(kept[:-100])
    with pytest.raises(ModelFileError, match=r"-00001\.sodalite is truncated"):
        load(copied)
    (copied / "header.sodalite").unlink()
    with pytest.raises(ModelFileError, match="is a folder, not a model file"):
        load(copied)


def test_a_save_that_fails_leaves_nothing_behind_and_what_was_there(client, tmp_path, monkeypatch):
    X, y = rows(400)
    there = model().fit(*chunked(X, y, chunks=100), executor=client)
    save(there, tmp_path / "m")
    before = {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sodalite.persistence.folder.container.write", full)
        with pytest.raises(ModelFileError, match=r"could not be written: No space left"):
            save(there, tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letters.txt").write_text("mine")
    with pytest.raises(ModelFileError, match="it is a folder with other files in it"):
        save(there, tmp_path / "other")
    with pytest.raises(ModelFileError, match="it is a file, and this model is written to a folder"):
        save(there, tmp_path / "other" / "letters.txt")
    with pytest.raises(ModelFileError, match="there is no folder"):
        save(there, tmp_path / "nowhere" / "m")


def test_workers_that_do_not_see_the_folder(client, tmp_path, monkeypatch):
    X, y = rows(400)
    there = model().fit(*chunked(X, y, chunks=100), executor=client)
    each = Bundles.each

    def elsewhere(self, function, paths):
        return each(self, function, [str(Path(path).parent / "another machine" / "rows") for path in paths])

    monkeypatch.setattr(Bundles, "each", elsewhere)
    with pytest.raises(ModelFileError, match="do not see the same folder"):
        save(there, tmp_path / "m")
    assert not list(tmp_path.iterdir())
