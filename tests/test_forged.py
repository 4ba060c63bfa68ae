"""Checkpoints and model files that somebody made: every checksum is right, and the contents are anything."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from forging import forge, mutated, opened
from sodalite import GreedyGPRegressor, select
from sodalite.checkpoint import CheckpointError
from sodalite.hyperparameters import Fixed, Subset
from sodalite.jitter import JitterWarning

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
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", HARD)
def test_rounding_is_not_taken_for_forgery(kernel, dtype, path):
    """Of kernels whose covariance is nearly singular, where two ways to the same RMSE differ most."""
    for score in ("delta", "lookahead"):
        run = chosen(score, kernel=HARD[kernel], dtype=dtype)
        path.unlink(missing_ok=True)
        for n_active in (30, 30, 20, 50, 50):
            assert len(run(path, n_active)) == n_active
