"""To other libraries: the ONNX file predicts as the model does, and what cannot be handed over is refused by name."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, RationalQuadratic, WhiteKernel

import sodalite
from helpers import FIXED, KERNELS, PERIODIC, POSTERIORS, campaign
from sodalite import GreedyGPRegressor
from sodalite.core import optional
from sodalite.exports import greedy_allocator, handover, to_gpflow, to_gpytorch, to_onnx
from sodalite.exports.onnx import IR_VERSION, OPSET
from sodalite.tables import Column, Preprocessing

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

DATA = Path(__file__).parents[1] / "data"

USUAL = ConstantKernel(1.7) * RBF([0.9, 1.4]) + WhiteKernel(0.05)


def rows(n=120, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def targets(X, q=1):
    noise = 0.2 * np.random.default_rng(1).normal(size=(len(X), q))
    Y = 30 + 4 * np.stack([np.sin(2 * X[:, 0] + j) + X[:, -1] for j in range(q)], axis=1) + noise
    return Y if q > 1 else Y[:, 0]


def fitted(posterior="sod", kernel=USUAL, X=None, q=1, **options):
    X = rows() if X is None else X
    options = {"n_active": 20, "hyperparameters": "fixed", "random_state": 0, **options}
    return GreedyGPRegressor(kernel, posterior=posterior, **options).fit(X, targets(X, q))


def session(model, path, **options):
    model.to_onnx(path, **options)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def assert_same(model, path, X, tolerance=1e-9):
    """The file's mean and standard deviation are the model's, relative to the targets' spread."""
    mean, std = session(model, path).run(["mean", "std"], {"X": X})
    expected = model.predict(X, return_std=True)
    for found, value in zip((mean, std), expected, strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance * model.y_std_.max())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


# ONNX


def with_heavy_tails(posterior, q):
    """A model whose errors have heavy tails and widths that differ by place; of two targets, the second is skewed."""
    generator = np.random.default_rng(2)
    X = rows(300)
    Y = np.stack([np.sin(2 * X[:, 0]), 30 + 4 * X[:, 1]], axis=1)
    Y[:, 0] += generator.standard_t(2.5, 300) * np.where(X[:, 1] > 0, 0.4, 0.02)
    Y[:, 1] += generator.exponential(3, 300)
    model = GreedyGPRegressor(USUAL, posterior=posterior, n_active=20, hyperparameters="fixed", random_state=0)
    model.fit(X, Y[:, 0] if q == 1 else Y)
    assert not model.posterior_.scale.shape.is_gaussian
    return model


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_quantiles_are_the_models(posterior, q, path):
    model, levels = with_heavy_tails(posterior, q), [0.975, 0.001, 0.5]
    file = session(model, path, quantiles=levels)
    assert [output.name for output in file.get_outputs()] == ["mean", "std", "quantiles"]
    # Among the rows, between them and the unknown, and where nothing is known
    X = np.concatenate([rows(30, seed=3), 2.5 * rows(30, seed=4), 1e3 * rows(3, seed=5)])
    mean, std, quantiles = file.run(None, {"X": X})
    assert quantiles.shape == (63, 3) if q == 1 else (63, 2, 3)
    for found, expected in zip((mean, std), model.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(quantiles, model.predict_quantiles(X, levels), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("posterior", ["local", "vfe"])
def test_quantiles_in_units_of_the_standard_deviation(posterior, path):
    X = rows(400)
    y = np.sin(2 * X[:, 0]) + 0.2 * np.random.default_rng(2).standard_t(2.5, 400)
    model = GreedyGPRegressor(USUAL, posterior=posterior, n_active=20, hyperparameters="fixed", random_state=0).fit(
        X, y
    )
    width, _ = model.posterior_.scale.shape.targets[0]
    assert not len(width.coefficients)
    X = np.concatenate([rows(30, seed=3), 2.5 * rows(30, seed=4), 1e3 * rows(3, seed=5)])
    (found,) = session(model, path, quantiles=[0.1, 0.975]).run(["quantiles"], {"X": X})
    np.testing.assert_allclose(found, model.predict_quantiles(X, [0.1, 0.975]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("posterior", ["local", "vfe"])
def test_quantiles_of_a_gaussian_and_without_calibration(posterior, path):
    X = rows(9, seed=3)
    for calibrate in (True, False):
        model = fitted(posterior, calibrate=calibrate)
        (found,) = session(model, path, quantiles=[0.1, 0.9]).run(["quantiles"], {"X": X})
        np.testing.assert_allclose(found, model.predict_quantiles(X, [0.1, 0.9]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("posterior", ["local", "sod", "vfe"])
@pytest.mark.parametrize("version", [2, 5, 6, 7])
def test_models_of_earlier_files_change_beyond_the_data_as_they_did(version, posterior, path):
    model = sodalite.load(DATA / f"version_{version}_{posterior}.sodalite")
    assert model.posterior_.scale.by_logarithm == (version >= 6)
    X = np.random.default_rng(0).uniform(-4, 4, size=(50, 2))
    std, quantiles = session(model, path, quantiles=[0.1, 0.9]).run(["std", "quantiles"], {"X": X})
    np.testing.assert_allclose(std, model.predict(X, return_std=True)[1], rtol=1e-8)
    np.testing.assert_allclose(quantiles, model.predict_quantiles(X, [0.1, 0.9]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("wrong", [[0.5, 1.0], np.nan, "wide", ["0.5"]])
def test_bad_quantiles_are_refused_and_no_file_is_left(wrong, path):
    with pytest.raises((TypeError, ValueError), match=r"^quantiles must"):
        fitted().to_onnx(path, quantiles=wrong)
    assert not path.exists()


OPAQUE = {name for name in KERNELS if name.startswith("own") or name in ("pairwise", "matern-0.8")}
FLAT = {"constant", "white", "two-constants", "constant-with-noise", "constant-squared"}
NOISELESS = ConstantKernel(1e-3, FIXED) * WhiteKernel(1.0)  # some noise, for kernels that have none


@pytest.mark.parametrize(
    ("name", "posterior"),
    [
        (name, posterior) if name == "usual" or posterior in ("sod", "vfe", "local") else campaign(name, posterior)
        for name in sorted(set(KERNELS) - OPAQUE - FLAT)
        for posterior in POSTERIORS
    ],
)
def test_every_kernel_and_posterior(name, posterior, path):
    d = 1 if name in PERIODIC else 2
    kernel = KERNELS[name](d) + NOISELESS
    # The rows are far enough apart for the inverse of their covariance to be known to 1e-6 without any noise on it; for
    # a cubic polynomial no further, since the rounding of covariances of 1e5 is no small part of what remains of them.
    spread = 1 if name == "polynomial" else 3
    X = spread * rows(60, d)
    model = fitted(posterior, kernel, X, n_active=12, n_neighbors=8, calibrate=False, score="uncertainty")
    assert_same(model, path, spread * rows(9, d, seed=3))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_several_targets(posterior, path):
    assert_same(fitted(posterior, q=3), path, rows(20, seed=3))


@pytest.mark.parametrize("d", [1, 3, 9])
def test_local_with_a_tree_or_all_distances_and_inputs_that_hardly_matter(d, path):
    kernel = RBF([*np.full(d - d // 3, 2.0), *np.full(d // 3, 1e9)]) + WhiteKernel(0.05)
    X = rows(300, d)
    model = fitted("local", kernel, X)
    assert len(model.posterior_.near.index.columns) == d - d // 3
    assert_same(model, path, rows(40, d, seed=3))


def test_error_bars_that_differ_from_place_to_place(path):
    X = rows(800)
    y = X[:, 0] + np.random.default_rng(3).normal(size=800) * np.where(X[:, 1] > 0, 1.0, 0.01)
    model = GreedyGPRegressor(USUAL, n_active=20, hyperparameters="fixed", random_state=0).fit(X, y)
    assert model.posterior_.scale.near is not None
    assert_same(model, path, far(X))
    posterior = replace(model.posterior_, scale=replace(model.posterior_.scale, extra=0.3))
    model.fitted_ = replace(model.fitted_, posterior=posterior)
    assert_same(model, path, rows(100, seed=5))


def far(X):
    """Rows from the midst of others to far away."""
    return np.vstack([X[:30], *(factor * X[:30] for factor in (1.5, 2, 3, 10, 1000))])


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("amplitude", [0.1, 30.0])
def test_error_bars_far_from_all_rows(posterior, amplitude, path):
    model = fitted(posterior, ConstantKernel(amplitude) * RBF([0.9, 1.4]) + WhiteKernel(0.05))
    assert model.predict([[1e4, 1e4]], return_std=True)[1][0] >= 0.999 * targets(rows()).std()
    assert_same(model, path, far(rows()))


def test_copies_of_rows_and_all_rows_active(path):
    X = np.concatenate([rows(60), rows(60)[:30]])
    assert_same(fitted("local", X=X), path, rows(20, seed=3))
    few = fitted("local", X=rows(15))
    assert few.posterior_.k == 0
    assert_same(few, path, rows(20, seed=3))


def test_any_number_of_rows_in_one_session(path):
    model = fitted("local")
    running = session(model, path)
    X = rows(700, seed=4)
    whole = running.run(["mean", "std"], {"X": X})
    for size in (1, 2, 64):
        for found, value in zip(running.run(["mean", "std"], {"X": X[:size]}), whole, strict=True):
            np.testing.assert_allclose(found, value[:size], rtol=1e-9)
    assert session(fitted("sod"), path).run(["mean"], {"X": X[:0]})[0].shape == (0,)


@pytest.mark.parametrize("posterior", ["sod", "local"])
def test_a_missing_input_gives_no_number(posterior, path):
    X = rows(5, seed=4)
    X[2, 1] = np.nan
    for found in session(fitted(posterior), path).run(None, {"X": X}):
        assert np.isnan(found).tolist() == [False, False, True, False, False]


def test_a_loaded_model_gives_the_same_file(path, tmp_path):
    model = fitted("local")
    sodalite.save(model, tmp_path / "m")
    X = rows(30, seed=4)
    found = session(sodalite.load(tmp_path / "m"), path).run(None, {"X": X})
    np.testing.assert_allclose(found, model.predict(X, return_std=True), rtol=1e-10)


@pytest.mark.parametrize("posterior", ["sod", "local"])
def test_rows_of_float32_get_the_answer_of_the_same_rows_in_float64(path, posterior):
    model, X = fitted(posterior), rows(12, seed=5).astype(np.float32)
    model.to_onnx(path, input_dtype="float32")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    single = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = single.run(["mean", "std"], {"X": X})
    assert [part.dtype for part in found] == [np.float64] * 2
    np.testing.assert_allclose(found, model.predict(X.astype(np.float64), return_std=True), rtol=1e-8)
    with pytest.raises(ValueError, match="input_dtype must be 'float64' or 'float32'; got 'int8'"):
        model.to_onnx(path, input_dtype="int8")


def test_what_the_file_says_of_itself(path):
    model = fitted("vfe")
    model.preprocessing_ = Preprocessing("price", (Column("area", "number"), Column("built", "date")))
    model.to_onnx(path)
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    about = {entry.key: entry.value for entry in file.metadata_props}
    assert json.loads(about["inputs"]) == ["area", "built"]
    assert about["target"] == "price"
    assert Preprocessing.from_json(json.loads(about["columns"])) == model.preprocessing_
    assert (about["posterior"], about["kernel"], about["n_active"]) == ("vfe", str(model.kernel_), "20")
    assert [part.version for part in file.opset_import] == [OPSET] == [11]
    assert file.ir_version == IR_VERSION
    assert [value.name for value in file.graph.output] == ["mean", "std"]
    shape = file.graph.input[0].type.tensor_type.shape
    assert [axis.dim_param or axis.dim_value for axis in shape.dim] == ["rows", 2]


def test_the_names_of_a_data_frame_s_columns(path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(), columns=["a", "ü"])
    GreedyGPRegressor(USUAL, n_active=5, posterior="sod", hyperparameters="fixed").fit(X, targets(rows())).to_onnx(path)
    about = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(about["inputs"]) == ["a", "ü"]


@pytest.mark.parametrize("posterior", ["sod", "local"])
@pytest.mark.parametrize("name", sorted(OPAQUE))
def test_kernels_that_are_python_code_are_refused_by_name(name, posterior, path):
    model = fitted(posterior, KERNELS[name](2), n_active=5, n_neighbors=4, calibrate=False)
    with pytest.raises(ValueError, match=r"The kernel has \w+\(.*\) in it, which is Python code"):
        model.to_onnx(path)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("name", sorted(FLAT))
def test_kernels_without_inputs_are_refused(name, path):
    model = fitted("sod", KERNELS[name](2) + WhiteKernel(0.1), n_active=5)
    with pytest.raises(ValueError, match="does not depend on the inputs"):
        model.to_onnx(path)


def test_a_posterior_of_ones_own_is_refused_by_name(path):
    model = fitted("sod", n_active=5)
    own = type("Own", (), {"kernel": model.posterior_.kernel, "scale": None})
    model.fitted_ = replace(model.fitted_, posterior=own())
    with pytest.raises(TypeError, match=r"the posteriors sod, .*; Own is Python code"):
        model.to_onnx(path)
    assert os.listdir(path.parent) == []


def test_files_are_written_whole_or_not_at_all(path, tmp_path, monkeypatch):
    model = fitted()
    with pytest.raises(OSError, match=r"no/m\.onnx cannot be written: there is no folder"):
        model.to_onnx(tmp_path / "no" / "m.onnx")
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        model.to_onnx(path)
    assert os.listdir(tmp_path) == ["model.onnx"]
    assert path.read_text() == "old"


def test_models_that_are_too_large_are_refused(path, monkeypatch):
    monkeypatch.setattr("sodalite.exports.onnx.MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="larger than the 2 GB"):
        fitted().to_onnx(path)
    assert not path.exists()


# What is handed over, whatever the library


class Words:
    """A kernel in words, with the operators that other libraries' kernels have."""

    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return Words(f"({self.text} + {other.text})")

    def __mul__(self, other):
        return Words(f"{self.text} * {other.text}")


class WordMaker:
    def constant(self, value, free):
        return Words(f"{value:g}{'' if free else '!'}")

    def scaled(self, value, free, kernel):
        return Words(f"{value:g}{'' if free else '!'} x {kernel.text}")

    def squared_exponential(self, scale, free):
        return Words(f"SquaredExponential{scale.tolist()}{'' if free else '!'}")

    def matern(self, scale, free, nu):
        return Words(f"Matern{scale.tolist()}{'' if free else '!'}")

    def rational_quadratic(self, scale, free, alpha, alpha_is_free):
        return Words(f"RationalQuadratic{scale.tolist()}{'' if free else '!'}")


HANDED_OVER = {
    "usual": (USUAL, "1.7 x SquaredExponential[0.9, 1.4]", 0.05),
    "fixed": (
        ConstantKernel(2.0, FIXED) * Matern(1.5, FIXED, nu=0.5) + WhiteKernel(0.1, FIXED),
        "2! x Matern[1.5]!",
        0.1,
    ),
    "sum": (
        RBF(1.0) + RationalQuadratic(2.0, 0.7) + ConstantKernel(3.0) + WhiteKernel(0.1) + WhiteKernel(0.2),
        "((SquaredExponential[1.0] + RationalQuadratic[2.0]) + 3)",
        0.3,
    ),
    "product": (RBF(1.0) * Matern(2.0, nu=1.5) + WhiteKernel(0.1), "SquaredExponential[1.0] * Matern[2.0]", 0.1),
    "noise in a product": (
        ConstantKernel(2.0) * (RBF(1.0) + WhiteKernel(0.1)),
        "2 x SquaredExponential[1.0]",
        0.2,
    ),
    "constants": ((RBF(1.0) + ConstantKernel(2.0)) * ConstantKernel(3.0), "3 x (SquaredExponential[1.0] + 2)", None),
}


@pytest.mark.parametrize("what", HANDED_OVER)
def test_the_kernel_the_noise_and_the_rows(what):
    kernel, words, noise = HANDED_OVER[what]
    model = fitted("sod", kernel)
    parts = handover.hand_over(model, WordMaker(), None, None)
    assert parts.kernel.text == words
    assert parts.noise == pytest.approx(noise or model.selection_.noise_floor)
    assert parts.noise > 0
    assert parts.noise_is_free == (what not in ("fixed", "constants"))
    np.testing.assert_array_equal(parts.inducing, rows()[model.active_indices_])
    np.testing.assert_allclose(parts.Y[:, 0] * parts.y_std + parts.y_mean, targets(rows()))


REFUSED = {
    "ExpSineSquared": RBF(1.0) * ExpSineSquared(1.4, 2.3),
    "DotProduct": KERNELS["dot-product"](1),
    "a power": RBF(1.0) ** 2,
    r"Triangle\(": KERNELS["own"](1),
    r"Matern\(.*nu=0\.8\)": KERNELS["matern-0.8"](1),
}


@pytest.mark.parametrize("part", REFUSED)
def test_parts_that_cannot_be_handed_over_are_named(part):
    model = fitted("sod", REFUSED[part] + WhiteKernel(0.1), rows(30, 1), n_active=5)
    with pytest.raises(ValueError, match=rf"The kernel has .*{part}.* in it, which cannot be handed over; these can"):
        handover.hand_over(model, WordMaker(), None, None)


def test_rows_that_are_not_there_or_have_noise_of_their_own(tmp_path):
    X, y = rows(), targets(rows())
    model = fitted("sod")
    sodalite.save(model, tmp_path / "m")
    loaded = sodalite.load(tmp_path / "m")
    with pytest.raises(ValueError, match="pass the training rows as X and y"):
        handover.hand_over(loaded, WordMaker(), None, None)
    parts, again = (
        handover.hand_over(one, WordMaker(), *given) for one, given in ((model, (None, None)), (loaded, (X, y)))
    )
    np.testing.assert_allclose(parts.Y, again.Y)
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\)"):
        handover.hand_over(model, WordMaker(), X[:, :1], y)
    with pytest.raises(ValueError, match="y must hold 1 target of each of the 120 rows"):
        handover.hand_over(model, WordMaker(), X, y[:-1])
    with pytest.raises(ValueError, match="together"):
        handover.hand_over(model, WordMaker(), X, None)
    noisy = GreedyGPRegressor(USUAL, n_active=5, posterior="sod", hyperparameters="fixed").fit(X, y, alpha=0.1)
    with pytest.raises(ValueError, match="alpha"):
        handover.hand_over(noisy, WordMaker(), None, None)
    with pytest.raises(ValueError, match="noise and nothing else"):
        handover.hand_over(fitted("sod", WhiteKernel(0.1)), WordMaker(), None, None)


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("gpytorch", to_gpytorch),
        ("gpflow", to_gpflow),
        ("onnx", lambda model: to_onnx(model, "m.onnx")),
        ("botorch", lambda model: greedy_allocator()),
    ],
)
def test_a_library_that_is_not_installed(extra, call, monkeypatch):
    def missing(name):
        package = name.partition(".")[0]
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(optional, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'sodalite\[{extra}\]'"):
        call(fitted())
