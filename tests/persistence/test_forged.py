"""Checkpoints and model files that somebody made: every checksum is right, and the contents are anything."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

import sodalite
from forging import forge, mutated, opened
from helpers import DTYPES
from sodalite import GreedyGPRegressor, persistence, select, stopping
from sodalite.core import container
from sodalite.core.container import DEEPEST
from sodalite.core.jitter import JitterWarning
from sodalite.core.validation import OutlierWarning
from sodalite.fitting.pipeline import Settings
from sodalite.hyperparameters import Fixed, Subset
from sodalite.persistence import ModelFileError
from sodalite.scores import Delta
from sodalite.selection.checkpoint import CheckpointError
from sodalite.tables import Column, Preprocessing

KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.5]) + WhiteKernel(0.05)
REMEDY = "Nothing was changed; give another path, or remove the file to begin anew."


def rows(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=n)


X, Y = rows()


# --- checkpoints ---


def chosen(score="delta", seed=lambda: 3, kernel=KERNEL, **options):
    def run(path=None, n_active=12):
        return select(
            X, Y, kernel, n_active=n_active, score=score, random_state=seed(), n_jobs=1, checkpoint=path, **options
        )

    return run


def fit(path=None, n_active=12):
    search = Subset(n_rows=40, n_starts=2, n_screen=30, n_steps=3)
    options = {"posterior": "sod", "score": "delta", "hyperparameters": search, "random_state": 0, "n_jobs": 1}
    return GreedyGPRegressor(n_active=n_active, checkpoint=path, **options).fit(X, Y).selection_


RUNS = {
    "delta": chosen(),
    "look-ahead": chosen("lookahead"),
    "sampled": chosen("sampled", lambda: np.random.Generator(np.random.MT19937(5))),
    "without a seed": chosen(seed=lambda: None, first=7),
    "fit": fit,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def outcome(run, path):
    """What became of a run, in comparable form; the message where it was refused."""
    before = path.read_bytes()
    try:
        found = run(path)
    except CheckpointError as error:
        assert path.read_bytes() == before
        return str(error)
    return found.indices.tolist(), found.stop_reason, found.rmse, found.factor


@pytest.mark.parametrize("n_before", [12, 8], ids=["finished", "resumed"])
@pytest.mark.parametrize("name", RUNS)
def test_whatever_is_changed_in_a_checkpoint_the_answer_is_right_or_refused(name, n_before, path):
    run, generator = RUNS[name], np.random.default_rng(0)
    run(path, n_before)
    expected = run()
    content, arrays, header = opened(path, "checkpoint")
    refused = 0
    for _ in range(80):
        *forged, words = mutated(content, arrays, generator)
        forge(path, "checkpoint", *forged, header)
        found = outcome(run, path)
        if isinstance(found, str):
            assert found.endswith(REMEDY), words
            assert "Error" not in found, words  # of another library, or of Python
            refused += 1
        else:
            assert found[:2] == (expected.indices.tolist(), expected.stop_reason), words
            np.testing.assert_allclose(found[2], expected.rmse, rtol=1e-5, err_msg=words)
            np.testing.assert_allclose(found[3], expected.factor, rtol=1e-5, atol=1e-8, err_msg=words)
    assert refused > 50
    forge(path, "checkpoint", content, arrays, header)
    assert run(path).indices.tolist() == expected.indices.tolist()


def changed(*keys, value):
    def change(content, arrays):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def array(name, function):
    def change(content, arrays):
        arrays[name] = function(arrays[name].copy())

    return change


def put(place, value):
    def change(values):
        values[place] = value
        return values

    return change


def other_rows(content, arrays):
    """Rows of the data, with all that follows from them alone; their RMSE is another's."""
    arrays["indices"] = np.r_[arrays["indices"][:1], np.setdiff1d(np.arange(len(X)), arrays["indices"])[:7]]
    arrays["X"] = X[arrays["indices"]]
    arrays["order"] = arrays["indices"]


def no_scores(content, arrays):
    """And no scores, as if all rows had been given."""
    other_rows(content, arrays)
    arrays["scores"] = arrays["gains"] = np.full(8, np.nan)


STATE = "the state of its random numbers"
CHECKPOINTS = {
    "ended": (changed("selection", "ended", value="tol"), "ended must be '' or 'score'; it is 'tol'"),
    "noise_floor": (changed("selection", "noise_floor", value=-1.0), "noise_floor must be a number"),
    "a floor between": (changed("selection", "noise_floor", value=5e-10), "its noise_floor, 5e-10, is none that this"),
    "no floor": (changed("selection", "noise_floor", value=0.0), "its noise_floor, 0, is less than any run has"),
    "n_proposed": (changed("selection", "n_proposed", value="9"), "n_proposed must be a whole number of at least 8"),
    "a row that is not there": (array("indices", put(2, 80)), "it records row 80 as chosen, but the data have rows 0"),
    "a row twice": (array("order", put(2, 3)), "row as chosen twice|two different orders"),
    "other rows": (other_rows, "the data give"),
    "other rows without scores": (no_scores, "scores for rows that were given, or none for rows that were chosen"),
    "another first row": (array("indices", lambda a: a[::-1].copy()), "two different orders"),
    "inputs": (array("X", put((3, 1), 0.5)), "the inputs that it records for row .* are not those of the data"),
    "noise": (array("noise", put(3, 0.06)), "the noise that it records for row .* is not what the kernel says"),
    "RMSE": (array("rmse", lambda a: a * 1.001), "it records an RMSE of .* with 1 rows, but with this kernel the data"),
    "one RMSE": (array("rmse", put(4, 0.5)), "it records an RMSE of 0.5 with 5 rows"),
    "NaN for an RMSE": (array("rmse", put(4, np.nan)), "an RMSE that is negative or no finite number"),
    "score": (lambda content, arrays: [arrays[name].put(5, 3.0) for name in ("scores", "gains")], "a score of 3 for"),
    "two scores": (array("gains", put(5, 3.0)), "two different scores of a chosen row"),
    "time": (array("seconds", put(0, 1e9)), "the times that it records are negative, or run backwards"),
    "random numbers": (changed("generator", "state", "state", value=5), f"{STATE} is not that of this random_state"),
    "kernel": (changed("kernel", value={"kernel": "RBF"}), "select is given its kernel"),
    "about": (changed("about", value=3), "it does not say which data and arguments it is of"),
    "type of X": (changed("about", "X", value=3), "it is of other data: X was 3 and is 80 x 2"),
    "more": (changed("more", value=3), "it has the fields"),
}


@pytest.mark.parametrize("what", CHECKPOINTS)
@pytest.mark.parametrize("n_active", [8, 12], ids=["finished", "resumed"])
def test_a_checkpoint_is_checked_against_the_data_and_each_field_has_its_message(what, n_active, path):
    change, message = CHECKPOINTS[what]
    run = chosen()
    run(path, 8)
    content, arrays, header = opened(path, "checkpoint")
    change(content, arrays)
    forge(path, "checkpoint", content, arrays, header)
    found = outcome(lambda path: run(path, n_active), path)
    if what == "a floor between" and n_active == 8:  # it is below the rows' own noise, and changes nothing
        assert found[0] == run(None, 8).indices.tolist()
        return
    assert isinstance(found, str), found
    assert re.search(message, found), found
    assert found.endswith(REMEDY)


SEEDLESS = {
    "a place beyond the numbers": (("generator", "state", "pos"), 10**6, f"{STATE} has pos 1000000"),
    "a type that takes gigabytes": (("generator", "state", "key", "dtype"), "U9999999", f"{STATE} lacks 624 numbers"),
    "too few numbers": (("generator", "state", "key", "array"), [1, 2], f"{STATE} lacks 624 numbers of type uint32"),
    "another generator": (("generator", "bit_generator"), "PCG64", f"{STATE} has 'PCG64' where 'MT19937' could be"),
}


@pytest.mark.parametrize("what", SEEDLESS)
def test_the_state_of_random_numbers_is_checked_before_numpy_sees_it(what, path, monkeypatch):
    """NumPy would read beyond its array, or make one of whatever size it is told."""
    keys, value, message = SEEDLESS[what]
    monkeypatch.setattr(np.random, "default_rng", lambda: np.random.Generator(np.random.MT19937()))
    run = chosen("sampled", seed=lambda: None)
    run(path, 8)
    content, arrays, header = opened(path, "checkpoint")
    changed(*keys, value=value)(content, arrays)
    forge(path, "checkpoint", content, arrays, header)
    tracemalloc.start()
    try:
        found = outcome(run, path)
        assert tracemalloc.get_traced_memory()[1] < 5e7
    finally:
        tracemalloc.stop()
    assert message in found


FOUND = {
    "beyond the bounds": ({"k2__noise_level": 1e9}, "k2__noise_level 1000000000.0, beyond the bounds of this fit's"),
    "negative": ({"k2__noise_level": -1.0}, "which is no positive number"),
    "too many": ({"k1__k2__length_scale": [1.0, 2.0, 3.0]}, "where 2 numbers belong"),
    "within them": ({"k2__noise_level": 0.3}, "two different kernels"),
    "both": ({"k2__noise_level": 0.3}, "it records an RMSE of .* with this kernel the data give|the noise that it"),
}


@pytest.mark.parametrize("n_active", [8, 12], ids=["finished", "resumed"])
@pytest.mark.parametrize("what", FOUND)
def test_a_kernel_is_checked_against_those_that_compete_and_the_data(what, n_active, path):
    values, message = FOUND[what]
    fit(path, 8)
    content, arrays, header = opened(path, "checkpoint")
    content["found"]["kernel"]["values"] |= values
    if what == "both":
        content["kernel"]["k2"]["noise_level"] = values["k2__noise_level"]
    forge(path, "checkpoint", content, arrays, header)
    found = outcome(lambda path: fit(path, n_active), path)
    assert re.search(message, found), found


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("kernel", "which"), -1),
        (("kernel", "which"), True),
        (("rounds", 0, "seconds"), -5.0),
        (("rounds", 0, "kept"), 1),
        (("rounds", 0, "more"), 1),
        (("rounds",), {}),
    ],
    ids=str,
)
def test_what_was_found_is_checked_by_itself(keys, value, path):
    fit(path, 8)
    content, arrays, header = opened(path, "checkpoint")
    changed("found", *keys, value=value)(content, arrays)
    forge(path, "checkpoint", content, arrays, header)
    assert "is no valid checkpoint" in outcome(fit, path)


def test_a_fixed_parameter_stays_as_it_is(path):
    kernel = RBF([1.0, 1.5], "fixed") + WhiteKernel(0.05)

    def run(path):
        model = GreedyGPRegressor(kernel, n_active=8, hyperparameters=Fixed(), posterior="sod", random_state=0)
        return model.set_params(checkpoint=path).fit(X, Y).selection_

    run(path)
    content, arrays, header = opened(path, "checkpoint")
    content["found"]["kernel"]["values"]["k1__length_scale"] = [1.0, 2.0]
    forge(path, "checkpoint", content, arrays, header)
    assert "k1__length_scale [1.0, 2.0], which is fixed at [1.0, 1.5]" in outcome(run, path)


HARD = {
    "noiseless": RBF(2.0),
    "rough": Matern(1.0, nu=1.5),
    "hardly any noise": RBF(1.0) + WhiteKernel(1e-8),
    "linear": DotProduct(1.0) + WhiteKernel(1e-3),
}


@pytest.mark.filterwarnings(f"ignore::{JitterWarning.__module__}.JitterWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", HARD)
def test_rounding_is_not_taken_for_forgery(kernel, dtype, path):
    """Of kernels whose covariance is nearly singular, where two ways to the same RMSE differ most."""
    for score in ("delta", "lookahead"):
        run = chosen(score, kernel=HARD[kernel], dtype=dtype)
        path.unlink(missing_ok=True)
        for n_active in (30, 30, 20, 50, 50):
            assert len(run(path, n_active)) == n_active


def test_a_row_far_from_all_others_is_no_forgery(path):
    far = X.copy()
    far[3] = 1e6
    for n_active in (20, 20, 40, 40):
        select(far, Y, KERNEL, n_active=n_active, random_state=0, checkpoint=path)


@pytest.mark.parametrize("posterior", ["local", "fitc"])
def test_rounding_of_rows_that_are_far_apart_is_not_taken_for_a_forged_model(posterior, path):
    """Near a distance of zero, Matern 1/2 has the root of the squared distance's rounding."""
    far = X * 10.0 ** np.random.default_rng(2).uniform(-3, 5, (len(X), 1))
    options = {"posterior": posterior, "hyperparameters": "fixed", "random_state": 0}
    model = GreedyGPRegressor(Matern(1.0, nu=0.5) + WhiteKernel(0.01), n_active=40, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)
        model.fit(far, Y)
    sodalite.save(model, path)
    np.testing.assert_allclose(sodalite.load(path).predict(far), model.predict(far), rtol=1e-9)


def test_a_checkpoint_is_read_once(path, monkeypatch):
    run, seen = chosen(), []
    run(path, 8)
    digest = container.digest
    monkeypatch.setattr(container, "digest", lambda arrays: seen.append(len(arrays)) or digest(arrays))
    run(path, 8)
    assert len(seen) == 1


# --- models ---


QUERIES = np.concatenate([X, rows(100, seed=1)[0]])
POSTERIORS = ("local", "sod", "vfe")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One model of each kind, in a file."""
    folder = tmp_path_factory.mktemp("models")
    search = Subset(n_rows=40, n_starts=2, n_screen=30, n_steps=3)
    rule = stopping.Decrease(1e-9, 40) | stopping.TimeLimit(1000.0)
    for name in POSTERIORS:
        options = {"posterior": name, "hyperparameters": search, "stop": rule, "score": Delta(1.0, 2.0)}
        model = GreedyGPRegressor(KERNEL, n_active=12, random_state=0, n_neighbors=5, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the targets have no noise
            model.fit(X, Y, alpha=np.linspace(0, 0.1, len(X)) if name == "local" else None)
        model.preprocessing_ = Preprocessing("y", (Column("a", "number", fill=0.5), Column("b", "date")), "median")
        sodalite.save(model, folder / name)
    return folder


def refusal(path):
    """Why a model file is refused: one line that says what to do."""
    with pytest.raises(ModelFileError) as caught:
        sodalite.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", POSTERIORS)
def test_whatever_is_changed_in_a_model_it_predicts_finite_numbers_or_is_refused(name, models, path):
    content, arrays, header = opened(models / name, "model")
    generator, refused = np.random.default_rng(0), 0
    for _ in range(120):
        *forged, words = mutated(content, arrays, generator)
        forge(path, "model", *forged, header)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*the parameter")
            try:
                model = sodalite.load(path)
            except ModelFileError:
                refused += 1
                continue
        for values in model.predict(QUERIES, return_std=True):
            assert np.isfinite(values).all(), words
        assert model.checkpoint is None
        Settings.of(clone(model).get_params(deep=False))
    assert refused > 60
    sodalite.load(models / name)


def deep(depth):
    def change(content, arrays):
        for _ in range(depth):
            content["kernel"] = {"name": "Exponentiation", "kernel": content["kernel"], "exponent": 1.0}

    return change


def far_row(content, arrays):
    """The covariances of rows that are far out are not exact, but those with all other rows are."""
    arrays["X"][arrays["active"][5]] = 1e9


NESTED = f"its description is nested more than {DEEPEST} levels deep"
MODELS = {
    "checkpoint": (changed("params", "checkpoint", value={"value": "x"}), "a path that a later fit would write to"),
    "deep kernel": (deep(30), "a kernel is nested more than 20 levels deep"),
    "deeper kernel": (deep(200), NESTED),
    "deep notes": (changed("about", value=json.loads("[" * 150 + "]" * 150)), NESTED),
    "more active rows than rows": (changed("n_active", value=81), "it has 81 active rows, but only 80 rows"),
    "rows without end": (changed("n_rows", value=10**12), r"array 'X' has shape \(80, 2\), where \(1000000000000, 2\)"),
    "an active row far away": (far_row, "array 'factor' does not fit the kernel: it gives other covariances"),
    "singular factor": (array("factor", put((7, 7), 1e-200)), "array 'factor'"),
    "another factor": (
        array("factor", lambda a: 1.01 * a),
        "'factor' does not fit the kernel: it gives other variances",
    ),
    "one covariance": (array("factor", lambda a: a[:, ::-1][::-1].T.copy()), "array 'factor'"),
    "no noise": (changed("kernel", "k2", "noise_level", value=0.0), "array 'factor' does not fit the kernel"),
    "negative noise": (
        changed("kernel", "k2", "noise_level", value=-1.0),
        "WhiteKernel's noise_level must be a finite number of at least 0; it is -1.0",
    ),
    "negative variance": (
        changed("kernel", "k1", "k1", "constant_value", value=-2.0),
        "constant_value .* at least 0; it is -2.0",
    ),
    "huge variance": (
        changed("kernel", "k1", "k1", "constant_value", value=1e308),
        "array 'factor'|finite|noise_floor",
    ),
    "bounds that do not fit": (changed("kernel", "k2", "noise_level_bounds", value=[[1, 2]] * 3), "bounds"),
    "no scale": (
        changed("posterior", "scale", "mean", value=0),
        "the scale of the error bars, must be positive; it is 0",
    ),
    "negative scale": (
        changed("posterior", "scale", "mean", value=-1.0),
        "the error bars, must be a finite number of at least 0; it is -1.0",
    ),
    "residual": (array("residuals", put(3, 1e100)), "array 'residuals' has values that are larger than the targets"),
    "residuals": (array("residuals", lambda a: a + 0.1), "array 'residuals' does not follow from the rows"),
    "noises": (array("noises", lambda a: 2 * a), "array 'noises' does not fit the kernel's noise"),
    "spread": (array("y_std", put(0, 1.7e308)), "its predictions at its own rows are not finite"),
    "centre": (array("centre", put(0, 1e300)), "array 'centre' is so far from the active rows"),
    "NaN for an RMSE": (
        array("rmse", put(3, np.nan)),
        "array 'rmse' must be a number of at least 0; at stage 4 it is nan",
    ),
    "floor": (
        changed("selection", "noise_floor", value="0"),
        "noise_floor must be a finite number of at least 0; it is '0'",
    ),
    "first": (
        changed("params", "first", value={"value": [1, -1]}),
        "the parameter first must be a whole number from 0 .*; it is -1",
    ),
    "seed": (
        changed("params", "random_state", value={"value": "x"}),
        "the parameter random_state must be .*; it is 'x'",
    ),
    "kernel's parameter": (
        changed("params", "kernel", value={"value": 3}),
        "the parameter kernel must be a kernel or null; it is 3",
    ),
    "steps": (
        changed("params", "hyperparameters", "value", "fields", "n_steps", value="9"),
        "n_steps of a Subset must be a whole number from 0 to 1000000; it is '9'",
    ),
    "threads": (changed("params", "n_jobs", value={"value": "all"}), "n_jobs must be a whole number or None"),
    "names": (changed("feature_names", value="ab"), "feature_names must be a list of texts; it is 'ab'"),
    "column": (changed("preprocessing", "columns", 0, "kind", value="x"), "the kind of column 'a' in preprocessing"),
    "infinite": (changed("preprocessing", "columns", 0, "fill", value=float("inf")), "its description is not JSON"),
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_that_makes_no_sense_is_refused_in_plain_words(what, models, path):
    change, message = MODELS[what]
    content, arrays, header = opened(models / "local", "model")
    change(content, arrays)
    forge(path, "model", content, arrays, header)
    found = refusal(path)
    assert re.search(message, found), found
    assert found.endswith("Copy it again, or fit it again.")


@pytest.mark.parametrize(
    ("name", "message"), [("inverse", "'inverse' does not fit"), ("root", "'root' must be an inverse")]
)
def test_the_factors_of_a_posterior_of_all_rows_are_checked(name, message, models, path):
    content, arrays, header = opened(models / "vfe", "model")
    arrays[name] = 1000 * arrays[name]
    forge(path, "model", content, arrays, header)
    assert message in refusal(path)


@pytest.mark.parametrize("version", ["9" * 5000, "\u0661", "1e3", "01", "-1", "0", ""])
def test_a_version_that_is_none(version, models, path):
    content, arrays, header = opened(models / "sod", "model")
    forge(path, "model", content, arrays, {**header, "version": version})
    message = refusal(path)
    assert "is no version of the format" in message
    assert len(message) < 300 + len(str(path))


def test_shapes_are_refused_before_memory_is_taken(models, path, monkeypatch):
    content, arrays, header = opened(models / "sod", "model")
    forge(path, "model", {**content, "n_active": 11}, arrays, header)
    monkeypatch.setattr(container, "digest", lambda arrays: pytest.fail("the arrays were read"))
    assert "has shape (12, 2), where (11, 2) is needed" in refusal(path)


def test_a_file_larger_than_the_memory_is_refused(models, monkeypatch):
    monkeypatch.setattr(container, "available", lambda: 1000)
    assert "it takes 0.0 GB of memory, and 0.0 GB are free. Free some" in refusal(models / "sod")


def test_what_asks_for_more_than_the_machine_has_is_taken_back(models, path):
    content, arrays, header = opened(models / "sod", "model")
    content["params"] |= {"n_jobs": {"value": 10**6}, "memory_limit": {"value": "9999TB"}}
    forge(path, "model", content, arrays, header)
    with pytest.warns(UserWarning, match="parameter (n_jobs was 1000000|memory_limit was '9999TB'), more than") as seen:
        model = sodalite.load(path)
    assert len(seen) == 2
    assert (model.n_jobs, model.memory_limit) == (None, None)


def test_a_kernel_as_deep_as_can_be_is_used_and_a_deeper_one_is_not_written(path):
    """scikit-learn takes time that doubles with every level, when a later fit asks for the bounds."""
    for terms in (20, 21):
        kernel = WhiteKernel(0.1)
        for _ in range(terms):
            kernel = kernel + RBF(1.0)
        model = GreedyGPRegressor(kernel, n_active=5, hyperparameters="fixed", posterior="sod").fit(X, Y)
        if terms == 20:
            sodalite.save(model, path)
            np.testing.assert_allclose(sodalite.load(path).predict(X), model.predict(X))
            path.unlink()
        else:
            with pytest.raises(TypeError, match=r"nested up to 20 levels deep.* Use fewer terms, or pickle"):
                sodalite.save(model, path)
    assert not os.listdir(path.parent)


def test_notes_that_are_too_deep_to_be_read_are_not_written(path):
    model = GreedyGPRegressor(KERNEL, n_active=5, hyperparameters="fixed", posterior="sod").fit(X, Y)
    model.about_ = []
    for _ in range(DEEPEST):
        model.about_ = [model.about_]
    with pytest.raises(ModelFileError, match="nested more than 100 levels deep"):
        sodalite.save(model, path)


def test_sizes_of_earlier_files_are_read_from_the_header(models):
    for name in POSTERIORS:
        header = persistence.read_header(models / name)
        persistence.layout.Layout.of(header.content).check(header.arrays)


def test_inspect_of_a_forged_header_is_one_line(models, path):
    app = pytest.importorskip("sodalite.cli.app").app
    content, arrays, header = opened(models / "sod", "model")
    for key, value in (("selection", 3), ("kernel", None), ("params", []), ("n_targets", "x"), ("about", [1])):
        forge(path, "model", {**content, key: value}, arrays, header)
        found = CliRunner().invoke(app, ["inspect", str(path)])
        assert found.exit_code in (1, 2), key
        assert isinstance(found.exception, SystemExit), key
        assert "is no valid model file" in found.output, key
        assert "fit it again" in " ".join(found.output.split()), key
