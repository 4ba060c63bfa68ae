"""Model files: what is saved is what is loaded, and what is damaged is refused with one line."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path

import joblib
import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline

import sodalite
from helpers import KERNELS, POSTERIORS, Triangle
from sodalite import GreedyGPRegressor, criteria, hyperparameters, persistence, stopping
from sodalite.exceptions import ModelFileError
from sodalite.kernels import PeriodicColumn
from sodalite.persistence import TRUSTED_TYPES
from sodalite.persistence.classes import CONVERTER
from sodalite.posteriors import Local, Neighbors, SubsetOfData
from sodalite.report.judgement import Scores
from sodalite.report.summary import ColumnRead, Record
from sodalite.tables import Numbers, OneHot, Preprocessing

N = 300
KERNEL = ConstantKernel(1.2, (1e-3, 1e3)) * Matern([0.7, 1.1, 2.0], [[1e-2, 1e2]] * 3, nu=1.5) + WhiteKernel(0.05)


def rows(n=N, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def targets(X, q=1):
    noise = 0.1 * np.random.default_rng(1).normal(size=(len(X), q))
    Y = 40 + 5 * np.stack([np.sin(X[:, 0] + j) + X[:, -1] for j in range(q)], axis=1) + noise
    return Y if q > 1 else Y[:, 0]


def fitted(posterior="sod", q=1, X=None, alpha=None, **options):
    X = rows() if X is None else X
    options = {"kernel": KERNEL, "n_active": 25, "hyperparameters": "fixed", "random_state": 0, **options}
    return GreedyGPRegressor(posterior=posterior, **options).fit(X, targets(X, q), alpha=alpha)


def assert_same(a, b, X=None):
    """Two models that predict the same, in every way there is."""
    X = rows(40, seed=5) if X is None else X
    for options in ({"return_std": True}, {"return_cov": True}):
        for one, other in zip(a.predict(X, **options), b.predict(X, **options), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(a.sample_y(X, 3), b.sample_y(X, 3), rtol=1e-10, atol=1e-10)
    levels = [0.01, 0.5, 0.9]
    np.testing.assert_allclose(a.predict_quantiles(X, levels), b.predict_quantiles(X, levels), rtol=1e-10, atol=1e-10)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sodalite"


# What is saved is what is loaded


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_loaded_model_predicts_the_same(posterior, q, path):
    one = fitted(posterior, q)
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert_same(one, other)
    assert str(one.kernel_) == str(other.kernel_)
    assert one.kernel_ == other.kernel_
    for name in ("active_indices_", "X_train_", "y_train_", "y_mean_", "y_std_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for part in fields(one.selection_):
        np.testing.assert_array_equal(getattr(one.selection_, part.name), getattr(other.selection_, part.name))
    assert one.log_marginal_likelihood_value_ == other.log_marginal_likelihood_value_
    assert other.get_params(deep=False).keys() == one.get_params(deep=False).keys()
    assert [other.n_features_in_, other.posterior] == [3, posterior]


@pytest.mark.parametrize("posterior", ["sod", "vfe", "local"])
def test_a_loaded_model_can_be_saved_again(posterior, path, tmp_path):
    sodalite.save(fitted(posterior), path)
    sodalite.save(sodalite.load(path), tmp_path / "again")
    first, second = persistence.read_header(path), persistence.read_header(tmp_path / "again")
    assert first == second  # the arrays' checksums are in there


def with_a_scale_for_each_place():
    X = rows(800)
    y = X[:, 0] + np.random.default_rng(3).normal(size=800) * np.where(X[:, 1] > 0, 1.0, 0.01)
    return GreedyGPRegressor(KERNEL, n_active=20, hyperparameters="fixed", random_state=0).fit(X, y)


SINGLE = {"X": np.asfortranarray(rows().astype(np.float32)), "alpha": np.linspace(0, 2, N)}
COPIES = np.concatenate([rows(60), rows(60)[:30]])
CYCLE, COLUMN = ExpSineSquared(1.4, 2.3, "fixed"), PeriodicColumn(2, 1.4, 2.3, "fixed")
LOADED = {
    "single precision, sod": (lambda: fitted("sod", **SINGLE), lambda one: one.X_train_.dtype == np.float32),
    "single precision, local": (lambda: fitted("local", **SINGLE), lambda one: one.X_train_.dtype == np.float32),
    "copies, one scale for all": (
        lambda: fitted(Neighbors(7), X=COPIES),
        lambda one: one.posterior_.scale.nearby is None and len(one.posterior_.X) < len(COPIES) - 25,
    ),
    "no scale, all rows active": (
        lambda: fitted("local", X=rows(20), calibrate=False),
        lambda one: one.posterior_.k == 0,
    ),
    "a scale for each place": (with_a_scale_for_each_place, lambda one: one.posterior_.scale.nearby is not None),
    "a period": (lambda: fitted("local", X=rows(d=1), kernel=RBF(3.0) * CYCLE + WhiteKernel(0.1)), bool),
    "a period of one input": (lambda: fitted("local", kernel=RBF(3.0) * COLUMN + WhiteKernel(0.1)), bool),
}
"""Models, and what must be true of them before and after."""


@pytest.mark.parametrize("kind", LOADED)
def test_models_of_every_kind_are_loaded_as_they_were(kind, path):
    make, is_such = LOADED[kind]
    one = make()
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert is_such(one)
    assert is_such(other)
    assert other.kernel_ == one.kernel_
    assert_same(one, other, rows(40, one.n_features_in_, seed=5))


@pytest.mark.parametrize("name", [name for name in KERNELS if not name.startswith(("own", "pairwise"))])
def test_every_kernel_as_json(name):
    kernel = KERNELS[name](2)
    tree, arrays = CONVERTER.dump(kernel)
    assert not arrays
    again = CONVERTER.load(json.loads(json.dumps(tree, allow_nan=False)), Kernel)
    assert again == kernel
    assert again.get_params().keys() == kernel.get_params().keys()
    np.testing.assert_array_equal(again.theta, kernel.theta)
    np.testing.assert_array_equal(again.bounds, kernel.bounds)


def test_a_period_of_a_column_that_is_not_there():
    with pytest.raises(ValueError, match="needs a column from 0 to 2, the last of X; got 3"):
        fitted("local", kernel=PeriodicColumn(3))


def test_the_rounds_are_kept(path):
    method = hyperparameters.Subset(n_rows=60, n_starts=2, n_screen=40, n_steps=3)
    one = fitted("sod", hyperparameters=method, kernel=None)
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert len(one.rounds_) == len(other.rounds_) > 0
    for a, b in zip(one.rounds_, other.rounds_, strict=True):
        assert a == b
    assert other.hyperparameters == method


def test_the_names_of_inputs(path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(), columns=["a", "b", "ü"])
    one = GreedyGPRegressor(KERNEL, n_active=10, posterior="sod", hyperparameters="fixed")
    for inputs in (X, rows()):
        sodalite.save(one.fit(inputs, targets(rows())), path)
        other = sodalite.load(path)
        assert hasattr(other, "feature_names_in_") == (inputs is X)
        if inputs is X:
            assert other.feature_names_in_.tolist() == ["a", "b", "ü"]
            np.testing.assert_allclose(other.predict(X), one.predict(X), rtol=1e-12)
            with pytest.raises(ValueError, match="feature names"):
                other.predict(X.rename(columns={"a": "z"}))


def test_preprocessing_and_notes_are_kept(path):
    one = fitted()
    columns = Numbers("a", fill=0.5), OneHot("b", ("x", "y"))
    one.preprocessing_ = Preprocessing("y", columns, "median")
    one.about_ = Record("file.csv", 9, columns=(ColumnRead("a", "numbers", True, 2),), simple=(Scores(rmse=1.5),))
    one.target_names_ = ("y",)
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert other.preprocessing_ == one.preprocessing_
    assert (other.about_, other.target_names_) == (one.about_, one.target_names_)
    one.about_ = {"data": "file.csv"}
    with pytest.raises(TypeError, match="about_ must be a Record"):
        sodalite.save(one, path)


PARAMETERS = {
    "kernel": [None, KERNEL, RBF([1.0, 2.0, 3.0], "fixed") ** 2 + WhiteKernel(0.0, "fixed")],
    "criterion": ["uncertainty", criteria.Delta(2.0, 0.5), criteria.Sampled(criteria.Product()), criteria.Random()],
    "stop": [None, stopping.Decrease(0.1, 2) | (stopping.TimeLimit(5.0) & stopping.TargetRMSE(0.01))],
    "hyperparameters": ["weave", hyperparameters.Weave(n_start=7, n_rounds=1)],
    "posterior": ["vfe", Neighbors(7)],
    "tol": [None, 0.5, np.float64(0.25)],
    "memory_limit": [None, "2GB", 10**9],
    "time_limit": [None, float("inf")],
    "calibrate": [True, np.False_],
    "target": [None, "log"],
    "bounds": [None, (0.0, None), (0, 1)],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in PARAMETERS for value in PARAMETERS[name]])
def test_parameters_are_kept(name, value):
    found = CONVERTER.load(json.loads(json.dumps(CONVERTER.dump(value)[0], allow_nan=False)))
    assert found == value
    assert type(found) is type(value) or np.isscalar(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("criterion", lambda s, abs_r, noise: s),
        ("random_state", np.random.RandomState(0)),
        ("stop", stopping.AnyOf((stopping.Size(5), type("Own", (stopping.Rule,), {"check": lambda *_: None})()))),
    ],
)
def test_of_a_parameter_that_no_file_can_hold_a_note_is_kept(name, value, path):
    one = fitted(**{name: value})
    sodalite.save(one, path)
    with pytest.warns(UserWarning, match=f"the parameter {name} was .* Predictions are not affected"):
        other = sodalite.load(path)
    default = GreedyGPRegressor().get_params(deep=False)[name]
    assert other.get_params(deep=False)[name] == default
    np.testing.assert_allclose(other.predict(rows(9)), one.predict(rows(9)), rtol=1e-12)


def test_every_object_of_the_library_that_can_be_a_parameter_is_on_the_list():
    for module in (criteria, stopping):
        for kind in vars(module).values():
            if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__:
                assert kind in CONVERTER.classes.values() or kind in (stopping.Stage, criteria.CriterionTraits), kind


# Going on


def test_a_loaded_local_model_goes_on_learning(path):
    one = fitted("local")
    sodalite.save(one, path)
    other = sodalite.load(path)
    X = rows(50, seed=9)
    for each in (one, other):
        each.set_params(n_active=30).partial_fit(X, targets(X))
    np.testing.assert_array_equal(one.active_indices_, other.active_indices_)
    assert_same(one, other)


@pytest.mark.parametrize("posterior", ["sod", "fitc"])
def test_other_models_say_why_they_cannot(posterior, path):
    sodalite.save(fitted(posterior), path)
    other = sodalite.load(path)
    X = rows(5, seed=9)
    before = other.predict(X)
    with pytest.raises(ValueError, match=r"active rows alone.* posterior='local'"):
        other.partial_fit(X, targets(X))
    np.testing.assert_array_equal(other.predict(X), before)
    other.fit(X, targets(X))
    assert len(other.X_train_) == 5


# Writing


OWN_KERNEL = ConstantKernel(1.0) * Triangle(6.0) + WhiteKernel(0.1)
OWN = {
    r"helpers\.Triangle": {"kernel": OWN_KERNEL},
    r".*\.OwnLocal": {"posterior": type("OwnLocal", (Local,), {})},
    r".*\.OwnSubset": {"posterior": type("OwnSubset", (SubsetOfData,), {})},
}


@pytest.mark.parametrize("name", OWN)
def test_what_is_ones_own_is_refused_and_nothing_is_written(name, path):
    with pytest.raises(TypeError, match=rf"cannot hold the class {name}, .* pickle or joblib"):
        sodalite.save(fitted(**OWN[name]), path)
    assert not os.listdir(path.parent)


def test_only_fitted_models_of_this_kind_are_written(path):
    with pytest.raises(TypeError, match="save takes a GreedyGPRegressor; got Pipeline"):
        sodalite.save(make_pipeline(GreedyGPRegressor()), path)
    with pytest.raises(ValueError, match="not fitted"):
        sodalite.save(GreedyGPRegressor(), path)


def test_a_failure_while_writing_leaves_the_old_file(path, monkeypatch):
    sodalite.save(fitted(), path)
    before = path.read_bytes()

    def half(file, *_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sodalite.core.container._write_array", half)
    with pytest.raises(ModelFileError, match=r"model\.sodalite could not be written: No space left on device\.$"):
        sodalite.save(fitted("local"), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_files_have_the_permissions_that_files_have(path):
    (path.parent / "other").touch()
    sodalite.save(fitted(), path)
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode
    path.chmod(0o640)
    sodalite.save(fitted(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_are_followed(path):
    target = path.parent / "target"
    path.symlink_to(target)
    sodalite.save(fitted(), path)
    assert path.is_symlink()
    assert not target.is_symlink()
    sodalite.load(target)


@pytest.mark.parametrize("where", ["folder", "nowhere/model", os.devnull])
def test_where_nothing_can_be_written(where, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelFileError, match=r"cannot be written: (it is|there is no folder)"):
        persistence.check_path(tmp_path / where)
    with pytest.raises(ModelFileError, match="cannot be written"):
        sodalite.save(fitted(), tmp_path / where)
    assert os.listdir(tmp_path) == ["folder"]


# Reading what is not as it should be


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small file: its bytes."""
    path = tmp_path_factory.mktemp("small") / "model"
    X = rows(12, 1)
    one = GreedyGPRegressor(RBF() + WhiteKernel(0.1), n_active=4, posterior="local", hyperparameters="fixed")
    one.set_params(random_state=0, posterior=Neighbors(3)).fit(X, X[:, 0])
    sodalite.save(one, path)
    return path.read_bytes()


def test_a_flipped_bit_is_found_wherever_it_is(small, path):
    generator = np.random.default_rng(0)
    for place in [*range(8), *range(8, len(small), 5)]:
        data = bytearray(small)
        data[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(data)
        with pytest.raises(ModelFileError) as caught:
            sodalite.load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_truncated_file(small, path):
    for share in (0.0, 0.001, 0.1, 0.5, 0.9, 0.999):
        path.write_bytes(small[: int(share * len(small))])
        with pytest.raises(ModelFileError, match=r"model\.sodalite is truncated, damaged or no model file"):
            sodalite.load(path)
    path.write_bytes(small + b"more")
    with pytest.raises(ModelFileError, match="truncated, damaged"):
        sodalite.load(path)


def test_a_file_of_a_later_version_says_how_to_upgrade(path, monkeypatch):
    monkeypatch.setattr("sodalite.core.container.VERSION", 2)
    sodalite.save(fitted(), path)
    monkeypatch.undo()
    for read in (sodalite.load, persistence.read_header):
        with pytest.raises(ModelFileError, match=r"later version .*format 2.* up to 1.*pip install --upgrade sodalite"):
            read(path)


def test_a_file_that_is_no_model(path):
    save_file({"a": np.zeros(3)}, path)
    for content, message in (
        (path.read_bytes(), "no model file of sodalite's"),
        (b"x,y\n1,2\n", "is no model file, but a table of text, such as CSV"),
        (bytes(range(256)), "truncated, damaged or no model file"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=message):
            sodalite.load(path)
    for other, message in ((path.parent, "is a folder"), (path.parent / "nothing", "no such file")):
        with pytest.raises(ModelFileError, match=message):
            sodalite.load(other)


UNREADABLE = """
import os, sys
import sodalite
from sodalite import persistence
sodalite.load(sys.argv[1])  # imports all that it needs
os.chdir(os.path.dirname(sys.argv[1]))
os.mkdir("folder", 0)
os.mkdir("hidden", 0)
os.rename("model", "locked")
os.chmod("locked", 0)
if os.geteuid() == 0:
    os.seteuid(65534)  # nobody, whom modes hold for
for path in ("locked", "folder", "hidden/model"):
    for read in (sodalite.load, persistence.read_header, persistence.check_file):
        try:
            read(path)
        except sodalite.exceptions.ModelFileError as error:
            print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files have no modes there")
def test_what_must_not_be_read_is_said_to_be_forbidden(small):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "model")
        path.write_bytes(small)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", UNREADABLE, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        for name in ("folder", "hidden"):
            Path(folder, name).chmod(0o755)
    assert not done.stderr
    expected = [f"{name} cannot be read: Permission denied." for name in ("locked", "folder", "hidden/model")]
    assert done.stdout.splitlines() == [line for line in expected for _ in range(3)]


def test_no_pickle_is_read(small, path, monkeypatch):
    path.write_bytes(small)
    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (joblib, "load")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("code could have been run"))
    sodalite.load(path)


def test_the_header_is_read_without_the_arrays(path):
    one = fitted("local")
    sodalite.save(one, path)
    header = persistence.read_header(path)
    assert header.arrays["fitted.rows.X"] == ("float64", (N, 3))
    assert header.arrays["fitted.X_active"] == ("float64", (25, 3))
    assert header.content["fitted"]["n_rows"] == N
    assert header.n_bytes == path.stat().st_size


# Pickle, joblib and skops


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_pickle_and_joblib(posterior, tmp_path):
    one = fitted(posterior)
    assert_same(one, pickle.loads(pickle.dumps(one)))
    joblib.dump(one, tmp_path / "model.joblib")
    assert_same(one, joblib.load(tmp_path / "model.joblib"))


def test_what_can_be_made_again_is_not_pickled():
    one = fitted("local", X=rows(800), n_active=200)
    V = one.posterior_.remainder.V
    assert V.size > 100_000
    data = pickle.dumps(one)
    assert len(data) < V.nbytes
    other = pickle.loads(data)
    assert other.posterior_.remainder.V is None
    few, many = rows(3, seed=2), rows(400, seed=3)
    np.testing.assert_allclose(other.predict(few), one.predict(few), rtol=1e-10)
    assert other.posterior_.remainder.V is None
    np.testing.assert_allclose(other.predict(many), one.predict(many), rtol=1e-10)
    np.testing.assert_allclose(other.posterior_.remainder.V, V, rtol=1e-9, atol=1e-12)
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_allclose(again.predict(few), one.predict(few), rtol=1e-10)


def test_what_is_made_again_keeps_to_the_limit(path):
    one = fitted("local", memory_limit="100MB", n_active=20)
    sodalite.save(one, path)
    other = sodalite.load(path)
    assert other.posterior_.remainder.limit == 10**8
    other.posterior_.remainder.limit = 1000
    other.predict(rows(500, seed=3))
    assert other.posterior_.remainder.V is None


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_skops_with_the_published_types(posterior):
    skops = pytest.importorskip("skops.io")
    one = fitted(posterior, X=rows(d=2), kernel=KERNELS["seasonal"](2) + KERNELS["polynomial"](2))
    one.preprocessing_ = Preprocessing("y", (Numbers("a"), Numbers("b")))
    data = skops.dumps(one)
    assert set(skops.get_untrusted_types(data=data)) <= set(TRUSTED_TYPES)
    assert_same(one, skops.loads(data, trusted=TRUSTED_TYPES), rows(20, 2))
    with pytest.raises(Exception, match=r"[Uu]ntrusted"):
        skops.loads(data, trusted=[])


@pytest.mark.parametrize("name", TRUSTED_TYPES)
def test_the_published_types_exist(name):
    module, _, kind = name.rpartition(".")
    assert isinstance(getattr(__import__(module, fromlist=[kind]), kind), type)


def test_error_bars_of_rows_that_join_a_loaded_model_are_those_of_the_model_itself(tmp_path):
    random = np.random.default_rng(0)
    X = random.uniform(0, 10, (60, 2))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * random.normal(size=60)
    model = GreedyGPRegressor(random_state=0).fit(X[:40], y[:40])
    assert model.fitted_.optimism > 1.01
    sodalite.save(model, tmp_path / "m")
    loaded = sodalite.load(tmp_path / "m").partial_fit(X[40:], y[40:])
    model.partial_fit(X[40:], y[40:])
    np.testing.assert_allclose(loaded.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1], rtol=1e-9)
