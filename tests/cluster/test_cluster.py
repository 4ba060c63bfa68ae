"""A fit on a cluster is the fit in memory: posteriors, J, predictions; arrays and dataframes; and what is refused."""

from contextvars import Context
from functools import partial
from pathlib import Path

import dask
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import dask_cluster
from dask_cluster import KERNEL, cluster
from helpers import campaign
from helpers import paper_select as select
from sodalite import GreedyGPRegressor, load, save
from sodalite.cluster.rows import dask_rows
from sodalite.exceptions import CheckpointError, JitterWarning
from sodalite.hyperparameters import Weave
from sodalite.kernels import compile_kernel, spread
from sodalite.selection.checkpoint import check_checkpoint
from sodalite.selection.rows import moments

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of which there are many
N = 300
CHUNKS = (0, 1, 120, 0, 179)


rows, chunked = partial(dask_cluster.rows, N), partial(dask_cluster.chunked, chunks=CHUNKS)
model = partial(dask_cluster.model, n_active=40)


def frames(X, y, divisions=True):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    target = pd.DataFrame(y.reshape(len(y), -1)).add_prefix("t")
    made = [dd.from_pandas(part, npartitions=4) for part in (frame, target)]
    if not divisions:
        made = [part.clear_divisions() for part in made]
    return made[0], made[1]["t0"] if y.ndim == 1 else made[1]


@pytest.fixture(scope="module")
def client():
    with cluster(2) as (client, _):
        yield client


def compare(there, here, X, rtol=1e-7):
    np.testing.assert_array_equal(there.active_indices_, here.active_indices_)
    for found, expected in zip(there.predict(X, return_std=True), here.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol)
    np.testing.assert_allclose(there.y_mean_, here.y_mean_, rtol=1e-14)
    np.testing.assert_allclose(there.y_std_, here.y_std_, rtol=1e-13)
    np.testing.assert_allclose(there.X_train_, here.X_train_)
    np.testing.assert_allclose(there.y_train_, here.y_train_, rtol=1e-9, atol=1e-12)
    # Two searches end a little apart, so the likelihoods are compared at the same hyperparameters.
    same = np.array_equal(there.kernel_.theta, here.kernel_.theta)
    found = there.log_marginal_likelihood_value_ if same else there.log_marginal_likelihood(here.kernel_.theta)
    assert found == pytest.approx(here.log_marginal_likelihood_value_, rel=1e-8)


def noise_alone():
    """Rows 5 and 60 are noise: they neither scale targets nor judge error bars, wherever the rows are."""
    X, y = rows()
    alpha = np.zeros(N)
    alpha[[5, 60]], y[[5, 60]] = 1e4, 100.0
    return X, y, {"alpha": alpha}


FITS = {
    "one target": lambda: (*rows(), {"alpha": np.linspace(0, 0.5, N)}),
    "targets": lambda: (*rows(q=3), {"alpha": np.linspace(0, 0.5, N)}),
    "weights": lambda: (*rows(), {"sample_weight": np.arange(N) % 4 / 2}),
    "noise alone": noise_alone,
    "arrays of the driver": lambda: (*rows(), {"alpha": 0.1}),
}


@pytest.mark.parametrize(
    ("posterior", "what"),
    [
        *((posterior, "targets") for posterior in ("sod", "fitc", "vfe", "local")),
        *((posterior, what) for posterior in ("vfe", "local") for what in ("weights", "noise alone")),
        ("fitc", "arrays of the driver"),
        *(campaign(posterior, "targets") for posterior in ("sor", "dtc")),
        *(campaign(posterior, "one target") for posterior in ("sod", "fitc", "vfe", "local", "sor", "dtc")),
    ],
)
def test_a_fit_is_that_in_memory(client, posterior, what, tmp_path):
    X, y, more = FITS[what]()
    here = model(posterior=posterior).fit(X, y, **more)
    lazy = {name: chunked(values)[0] if np.ndim(values) else values for name, values in more.items()}
    data = (X, y) if what == "arrays of the driver" else chunked(X, y)
    there = model(posterior=posterior).fit(*data, **lazy, executor=client)
    compare(there, here, X[:70])
    assert what != "noise alone" or here.y_std_[0] < 2 * rows()[1].std()
    save(there, tmp_path / "model.sod")
    np.testing.assert_allclose(load(tmp_path / "model.sod").predict(X[:9]), there.predict(X[:9]))


def test_noise_below_the_floor_is_told(client):
    X, y = rows()
    with pytest.warns(JitterWarning, match=f"alpha is 1e-12 in {N} rows"):
        model(posterior="dtc", kernel=RBF(0.1)).fit(*chunked(X, y), alpha=1e-12, executor=client)


@pytest.mark.parametrize(("divisions", "q"), [(True, None), (False, 3), campaign(True, 3), campaign(False, None)])
def test_dataframes(client, divisions, q):
    X, y = rows(q=q)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    here = model(posterior="dtc").fit(frame, y)
    there = model(posterior="dtc").fit(*frames(X, y, divisions), executor=client)
    compare(there, here, frame.iloc[:50])
    assert there.feature_names_in_.tolist() == ["a", "b", "c"]
    picks = select(*frames(X, y, divisions), KERNEL, n_active=30, first=0, executor=client)
    np.testing.assert_array_equal(picks.indices, select(X, y, KERNEL, n_active=30, first=0).indices)


def test_empty_partitions_and_whole_numbers_of_a_dataframe(client):
    X, y = rows()
    X = np.round(3 * X)
    whole = frames(X, y)[0].astype({"a": "int64", "b": "Int64"})
    some = whole[whole["a"] > 0]  # which may leave partitions with nothing
    few = dd.concat([some.partitions[0].loc[:-1], some])
    kept = X[X[:, 0] > 0]
    target = y[X[:, 0] > 0]
    there = select(few, target, KERNEL, n_active=20, first=0, executor=client)
    np.testing.assert_array_equal(there.indices, select(kept, target, KERNEL, n_active=20, first=0).indices)


FEW = {"sodalite.fitting.pipeline.MOST_ROWS": 150}
WINDOWS = FEW | {"sodalite.hyperparameters.windows.SIZE": 12}
WEAVE = {"n_start": 100, "n_rounds": 0, "n_judged": 50, "n_exact": 0}
MORE = {"n_start": 150, "n_rounds": 1, "n_judged": 100}
ROUGHLY, CLOSELY = {"rtol": 1e-3, "atol": 1e-3}, {"rtol": 1e-5, "atol": 1e-8}


@pytest.mark.parametrize(
    ("options", "patches", "close"),
    [
        ({"kernel": None, "hyperparameters": "weave"}, {}, ROUGHLY),  # few rows are all fetched
        ({"hyperparameters": Weave(**WEAVE), "posterior": "sod", "criterion": "delta"}, FEW, CLOSELY),  # a sample
        ({"hyperparameters": Weave(**WEAVE, n_neighbors=8), "posterior": "local"}, WINDOWS, CLOSELY),
        campaign({"kernel": None, "hyperparameters": Weave(**WEAVE | MORE)}, {}, CLOSELY),
    ],
    ids=["few", "sample", "windows", "rounds"],
)
def test_hyperparameters_are_those_of_memory(client, options, patches, close, monkeypatch):
    for name, value in patches.items():
        monkeypatch.setattr(name, value)
    X, y = rows()
    here, there = model(**options).fit(X, y), model(**options).fit(*chunked(X, y), executor=client)
    names = [[turn.name for turn in one.rounds_] for one in (there, here)]
    assert names[0] == names[1]
    assert "at full density" in names[0] or patches is not WINDOWS
    np.testing.assert_allclose(there.kernel_.theta, here.kernel_.theta, **close)
    if patches is FEW:
        np.testing.assert_array_equal(there.active_indices_, here.active_indices_)
    if not patches and close is CLOSELY:
        compare(there, here, X[:50], rtol=1e-4)


def test_moments_are_exact_where_numbers_are_large(client):
    rng = np.random.default_rng(1)
    y = np.stack([1e9 + rng.normal(size=N), np.full(N, 0.1), 1e-9 * rng.normal(size=N)], axis=1)
    X = np.zeros((N, 1))
    scaling = moments(dask_rows(*chunked(X, y), executor=client))
    mean, std = scaling.mean, scaling.std
    np.testing.assert_allclose(mean, [y[:, 0].mean(), 0.1, y[:, 2].mean()], rtol=1e-15, atol=1e-24)
    assert mean[1] == 0.1
    np.testing.assert_allclose(std, spread(y), rtol=1e-12)
    assert std[1] == 1


def test_j_does_not_depend_on_the_blocks(monkeypatch):
    from sodalite.hyperparameters import joint

    X, y = rows(q=3)
    active, kernel = np.arange(0, N, 20), compile_kernel(KERNEL, X)
    rest = np.setdiff1d(np.arange(N), active)

    def j():
        return joint.joint_density(kernel, X[active], y[active], None, lambda sums: sums(X[rest], y[rest], None))

    value, gradient = j()
    monkeypatch.setattr(joint, "BLOCK", 1000)
    again, same = j()
    assert again == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(same, gradient, rtol=1e-9)


@pytest.mark.parametrize("q", [None, 3])
@pytest.mark.parametrize("posterior", ["local", "vfe"])
def test_predictions_are_lazy_and_those_of_memory(client, posterior, q):
    X, y = rows(q=q)
    fitted = model(posterior=posterior).fit(X, y)
    mean, std = fitted.predict(X, return_std=True)
    X_there = da.from_array(X, chunks=(CHUNKS, 2))
    found = fitted.predict(X_there, return_std=True)
    assert all(isinstance(part, da.Array) and part.shape == mean.shape for part in found)
    for part, expected in zip(dask.compute(*found), (mean, std), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-10)
    np.testing.assert_allclose(fitted.predict(X_there).compute(), mean, rtol=1e-10)


def test_predictions_of_a_dataframe(client):
    X, y = rows()
    there = model(posterior="sod").fit(*frames(X, y), executor=client)
    lazy = there.predict(frames(X, y)[0])
    assert isinstance(lazy, da.Array)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_allclose(lazy.compute(), there.predict(frame), rtol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        there.predict(frames(X, y)[0].rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="3 features"):
        there.predict(da.from_array(X[:, :2], chunks=100))
    with pytest.raises(ValueError, match="return_cov is the joint covariance"):
        there.predict(frames(X, y)[0], return_cov=True)


def test_the_code_of_the_readme(client):
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code = text.partition("```py\n")[2].partition("```")[0]
    assert "tcp://scheduler:8786" in code
    X, y = dask_cluster.rows(120)
    names = {"GreedyGPRegressor": GreedyGPRegressor, **dict(zip("Xy", frames(X, y), strict=True))}
    exec(code.replace("tcp://scheduler:8786", client.scheduler.address), names)
    assert np.isfinite(names["mean"].compute()).all()
    names["client"].close()


def test_a_model_from_a_cluster_knows_no_cluster(client):
    X, y = rows()
    there = model(posterior="vfe").fit(*chunked(X, y), executor=client)
    assert clone(there).get_params() == there.get_params()
    with pytest.raises(ValueError, match="holds its active rows alone"):
        there.partial_fit(X, y)
    local = model().fit(*chunked(X, y), executor=client)
    grown = local.partial_fit(X[:5] + 0.1, y[:5])
    assert len(grown.fitted_.rows.X) == N + 5


def test_local_keeps_rows_on_the_disk_of_the_driver_where_memory_has_no_room(client, tmp_path, monkeypatch):
    X, y = rows()
    here = model().fit(X, y)
    for place in ("selection.rows", "fitting.room"):
        monkeypatch.setattr(f"sodalite.{place}.fits_in_memory", lambda *given: False)
    there = model(memory_limit="50MB").fit(*chunked(X, y), executor=client)
    assert there.posterior_.store is not None
    compare(there, here, X[:70])
    compare(load(save(there, tmp_path / "model") or tmp_path / "model"), here, X[:70])


def test_local_refuses_what_does_not_fit(client):
    X, y = rows()
    before = model(memory_limit="5KB")
    with pytest.raises(ValueError, match="posterior='vfe'") as error:
        before.fit(*chunked(X, y), executor=client)
    assert "needs at least" in str(error.value)
    assert not hasattr(before, "kernel_")
    assert not hasattr(before, "n_features_in_")


class Sliced:
    """As an HDF5 data set: it has a shape and a type, and is sliced."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def __len__(self):
        return len(self.X)

    def __getitem__(self, here):
        return self.X[here]


@pytest.mark.parametrize("make", [np.asarray, Sliced, lambda X: da.from_array(X, chunks=70)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_types_of_inputs(client, dtype, make):
    X, y = rows()
    X = np.round(9 * X).astype(dtype)
    found = dask_rows(make(X), y, executor=client)
    some = found.take(np.array([200, 3])).X
    assert found.dtype == some.dtype == ("float32" if dtype == "float32" else "float64")
    np.testing.assert_array_equal(some, X[[200, 3]])


def test_bad_input(client):
    X, y = rows()
    X_there, y_there = chunked(X, y)
    bad = X.copy()
    bad[200, 1] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN or infinite values in partition 1, in row 200.*row 49 of"):
        select(da.from_array(bad, chunks=((151, 149), 3)), y, KERNEL, n_active=5, executor=client)
    bad_y = y.copy()
    bad_y[221] = np.inf
    with pytest.raises(ValueError, match="y contains NaN or infinite values in partition 1, in row 221"):
        select(da.from_array(X, chunks=(150, 3)), da.from_array(bad_y, chunks=7), KERNEL, n_active=5, executor=client)
    with pytest.raises(ValueError, match="X contains NaN or infinite values in partition 2, in row 200"):
        model().fit(*frames(bad, y), executor=client)
    with pytest.raises(ValueError, match="X contains NaN or infinite values, in row 200"):
        select(bad, y, KERNEL, n_active=5, executor=client)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        select(X_there[y_there > 50], y, KERNEL, n_active=5, executor=client)
    with pytest.raises(ValueError, match="same number of rows"):
        select(X_there, y[:-1], KERNEL, n_active=5, executor=client)
    with pytest.raises(ValueError, match="alpha is a variance"):
        model().fit(X_there, y_there, alpha=da.full(N, -1.0, chunks=100), executor=client)
    with pytest.raises(ValueError, match="1 column that holds no numbers: 'a'"):
        model().fit(frames(X, y)[0].astype({"a": "string"}), y_there, executor=client)
    with pytest.raises(TypeError, match="executor must be a dask"):
        select(X, y, KERNEL, n_active=5, executor="tcp://nowhere")


def test_partitions_of_different_widths(client):
    X, y = rows()
    wide, narrow = (da.from_delayed(dask.delayed(part), (150, 3), float) for part in (X[:150], X[150:, :2]))
    with pytest.raises(ValueError, match="X has 2 columns in partition 1, but 3 were promised"):
        select(da.concatenate([wide, narrow]), y, KERNEL, n_active=5, executor=client)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    parts = [dask.delayed(frame.iloc[:150]), dask.delayed(frame.iloc[150:, :2])]
    with pytest.raises(ValueError, match=r"columns \['a', 'b'\] in partition 1"):
        select(dd.from_delayed(parts, meta=frame, verify_meta=False), y, KERNEL, n_active=5, executor=client)


def test_an_error_in_a_partition_is_told_as_it_is(client):
    def read():
        raise FileNotFoundError("rows.parquet")

    X = da.from_delayed(dask.delayed(read)(), (N, 3), float)
    with pytest.raises(FileNotFoundError, match=r"rows\.parquet"):
        select(X, rows()[1], KERNEL, n_active=5, executor=client)


def test_a_client_that_is_closed(client):
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    other.close()
    X, y = rows()
    for call in (lambda: select(X, y, KERNEL, n_active=5, executor=other), lambda: model().fit(X, y, executor=other)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_collection_without_a_client(monkeypatch):
    monkeypatch.setattr(distributed.client, "_global_clients", {})
    X, y = rows()
    with pytest.raises(ValueError, match="there is no client"):
        Context().run(lambda: model().fit(*chunked(X, y)))  # outside of the fixture's


# Checkpoints


@pytest.mark.parametrize("criterion", [campaign("delta"), "lookahead"])
def test_a_checkpoint_of_a_cluster_goes_on_anywhere(client, criterion, tmp_path):
    X, y = rows()
    alpha = np.linspace(0, 0.5, N)
    whole = model(criterion=criterion, posterior="vfe", n_active=40).fit(X, y, alpha=alpha)
    for first, second in ((client, None), (None, client)):
        path = tmp_path / f"from-{first is None}"
        options = {"criterion": criterion, "posterior": "vfe"}
        part = model(**options, n_active=25).fit(X, y, alpha=alpha, executor=first, checkpoint=path)
        np.testing.assert_array_equal(part.active_indices_, whole.active_indices_[:25])
        again = model(**options, n_active=40).fit(X, y, alpha=alpha, executor=second, checkpoint=path)
        compare(again, whole, X[:30])


def test_a_checkpoint_knows_rows_that_it_never_saw_on_the_driver(client, tmp_path):
    X, y = rows()
    path = tmp_path / "c"
    chosen = select(*chunked(X, y), KERNEL, n_active=10, first=0, executor=client, checkpoint=path)
    np.testing.assert_array_equal(select(X, y, KERNEL, n_active=10, first=0, checkpoint=path).indices, chosen.indices)
    other = X.copy()
    other[250, 1] += 1e-12
    with pytest.raises(CheckpointError, match="X has other values"):
        select(*chunked(other, y), KERNEL, n_active=10, first=0, executor=client, checkpoint=path)


def test_with_no_worker_left_the_checkpoint_is_there(tmp_path):
    """All workers are killed in the midst of a selection; it goes on here."""
    X, y = dask_cluster.rows(3000)
    path = tmp_path / "c"
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}), cluster(2) as (client, workers):

        def kill(stage):
            if stage.t == 60:
                for worker in workers:
                    worker.kill()

        with pytest.raises(RuntimeError, match=r"No worker .* is left"):
            select(X, y, KERNEL, n_active=200, first=0, executor=client, checkpoint=path, callback=kill)
    kept = check_checkpoint(path).selection.indices
    assert 60 <= len(kept) < 200
    found = select(X, y, KERNEL, n_active=200, first=0, checkpoint=path).indices
    np.testing.assert_array_equal(found[: len(kept)], kept)
    np.testing.assert_array_equal(found, select(X, y, KERNEL, n_active=200, first=0).indices)
