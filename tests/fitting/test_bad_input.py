"""Bad input is refused before any long work, by a message that names the argument and what it got."""

from __future__ import annotations

import re
from math import inf, nan

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    GenericKernelMixin,
    Kernel,
    Matern,
    RationalQuadratic,
    StationaryKernelMixin,
    WhiteKernel,
)

import sodalite.selection.grow
from sodalite import GreedyGPRegressor, select
from sodalite.criteria import CRITERIA
from sodalite.hyperparameters import HYPERPARAMETERS, Fixed, Subset, Weave
from sodalite.posteriors import POSTERIORS, Neighbors
from sodalite.stopping import Decrease, Size, TargetRMSE, TimeLimit

N = 120
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(N, 2))
y = np.sin(X[:, 0]) + 0.1 * GENERATOR.normal(size=N)
KERNEL = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)


def by_select(X=X, y=y, **options):
    return select(X, y, **{"kernel": KERNEL, "n_active": 5, "random_state": 0, **options})


def by_fit(X=X, y=y, first=None, alpha=None, **options):
    model = GreedyGPRegressor(**{"kernel": KERNEL, "n_active": 5, "random_state": 0, **options})
    return model.fit(X, y, alpha=alpha, first=first).selection_


def by_fixed_fit(X=X, y=y, **options):
    return by_fit(X, y, **{"hyperparameters": "fixed", "posterior": "sod", **options})


both = pytest.mark.parametrize("call", [by_select, by_fit])


def changed(array, at, value):
    """A copy with one entry changed."""
    copy = array.copy()
    copy[at] = value
    return copy


@pytest.fixture
def no_long_work(monkeypatch):
    """Neither the search for hyperparameters nor the choice of rows may begin."""

    def fail(*args, **options):
        pytest.fail("the long work began")

    for method in (Weave, Subset, Fixed):
        monkeypatch.setattr(method, "find", fail)
    monkeypatch.setattr(sodalite.selection.grow, "run", fail)


def refuses(error, message):
    """The error, with a message that begins, or goes on, like this."""
    return pytest.raises(error, match=re.escape(message))


# Arguments


def listed(names):
    """As a message lists them."""
    return ", ".join(map(repr, names))


def cases(names, values, error, message):
    """A case for each argument and value: the message may speak of {name}, {value} and its {type}."""
    return [
        (name, value, error, message.format(name=name, value=value, type=type(value).__name__))
        for name in names.split()
        for value in values
    ]


def ids_of(cases):
    """Each case's argument and its place among them: values need not be printable, nor the same in every process."""
    return [f"{name}-{place}" for place, (name, *_) in enumerate(cases)]


KNOWN_CRITERIA = f"criterion must be one of {listed(CRITERIA)} or a callable"

ARGUMENTS = [
    *cases(
        "n_active",
        (1.5, 5.0, True, "5", None, [5]),
        TypeError,
        "n_active must be a whole number; got {value!r} of type {type}.",
    ),
    *cases("n_active", (0, -3), ValueError, "n_active must be at least 1; got {value}."),
    *cases(
        "tol time_limit",
        ("small", True, [0.1], 1j),
        TypeError,
        "{name} must be a number; got {value!r} of type {type}.",
    ),
    *cases("tol time_limit", (-1e-3, -inf, nan), ValueError, "{name} must be at least 0; got {value}."),
    *cases(
        "stop",
        (3, "tol", len),
        TypeError,
        "stop must be a rule of sodalite.stopping, or have a method check(stage); got {value!r}.",
    ),
    ("criterion", "dleta", ValueError, f"{KNOWN_CRITERIA}; got 'dleta'. Did you mean 'delta'?"),
    ("criterion", "uncertainy", ValueError, "got 'uncertainy'. Did you mean 'uncertainty'?"),
    ("criterion", "", ValueError, f"{KNOWN_CRITERIA}; got ''."),
    ("criterion", 3, TypeError, KNOWN_CRITERIA),
    *cases("criterion", (3, None), TypeError, "got {value} of type {type}."),
    *cases(
        "kernel",
        ("rbf", RBF, 1.0),
        TypeError,
        "kernel must be a kernel object of sklearn.gaussian_process.kernels, such as RBF() + WhiteKernel(); "
        "got {value!r} of type {type}.",
    ),
    ("kernel", CompoundKernel([RBF(), RBF()]), TypeError, "a CompoundKernel is several kernels side by side"),
    (
        "kernel",
        RBF([1.0, 2.0, 3.0]),
        ValueError,
        "kernel RBF(length_scale=[1, 2, 3]) has 3 length-scales, but X has 2 columns; give one length-scale, or one "
        "per column.",
    ),
    ("kernel", 2.0 * Matern([1.0, 2.0, 3.0]) + WhiteKernel(), ValueError, "has 3 length-scales, but X has 2 columns"),
    ("kernel", RationalQuadratic([1.0, 2.0]), ValueError, "a RationalQuadratic kernel takes one length-scale"),
    *cases("memory_limit", (0, -1, -2.5, nan), ValueError, "memory_limit must be positive; got {value!r}."),
    *cases(
        "memory_limit",
        ("lots", "", "-3MB", "3 apples", "MB", "1 PB"),
        ValueError,
        "memory_limit must be a number of bytes or a string such as '300MB' or '4GB'; got {value!r}.",
    ),
    *cases(
        "memory_limit",
        (True, [300], 1j),
        TypeError,
        "memory_limit must be a number of bytes or a string such as '300MB'; got {value!r}.",
    ),
    *[
        ("memory_limit", value, ValueError, f"memory_limit is {size} MB, but {N} rows and 5 active rows need at least")
        for value, size in ((1000, 0), ("2MB", 2), ("3.2 MB", 3))
    ],
    ("random_state", "a", ValueError, "'a' cannot be used to seed"),
    ("random_state", -1, ValueError, "random_state"),
    ("random_state", -1, ValueError, "-1"),
    *[
        ("first", value, ValueError, f"first must be the index of a row, from 0 to {N - 1}; got {row}.")
        for value, row in ((N, N), (-1, -1), ([0, N], N), (np.array([3, -2]), -2))
    ],
    *[
        ("first", value, TypeError, f"first must be the index of a row, or several; got {row!r} of type ")
        for value, row in (("a", "a"), (1.0, 1.0), (True, True), ([0, "b"], "b"), ([0, 1.0], 1.0), ([True], True))
    ],
    ("first", {1, 2}, TypeError, "first must be the index of a row, or several; got {1, 2} of type set."),
    ("first", np.array(1.0), TypeError, "first must be the index of a row, or several; got "),
    ("first", [4, 2, 4], ValueError, "first must not name a row twice; got [4, 2, 4]."),
    ("first", range(6), ValueError, "first names 6 rows, more than n_active=5."),
    ("first", [], ValueError, "first must name at least one row; it is empty."),
]


@both
@pytest.mark.parametrize(("name", "value", "error", "message"), ARGUMENTS, ids=ids_of(ARGUMENTS))
@pytest.mark.usefixtures("no_long_work")
def test_a_bad_argument_is_refused_before_any_work(call, name, value, error, message):
    with refuses(error, message):
        call(**{name: value})


KNOWN_POSTERIORS = f"posterior must be one of {listed(POSTERIORS)} or a class that derives from Posterior"
KNOWN_METHODS = f"hyperparameters must be one of {listed(HYPERPARAMETERS)}"

FIT_ARGUMENTS = [
    *[
        (
            "alpha",
            value,
            ValueError,
            f"alpha must be a number or an array of shape ({N},), one per row; got shape {got}.",
        )
        for value, got in ((np.ones(N - 1), (N - 1,)), ([], (0,)), (np.ones((N, 1)), (N, 1)), ([0.1], (1,)))
    ],
    *cases(
        "alpha",
        (-1e-9, nan, inf, -inf),
        ValueError,
        "alpha is a variance: it must be finite and not negative; got {value}.",
    ),
    *[
        (
            "alpha",
            changed(np.ones(N), (slice(7, 9),), value),
            ValueError,
            f"it must be finite and not negative; got {value} in row 7, and 2 such rows of {N}.",
        )
        for value in (-0.5, nan, inf)
    ],
    *cases(
        "alpha",
        ("small", "0.1", ["0.1"] * N, True, 1j, [[1.0], 2.0], {}),
        TypeError,
        "alpha must be a number or one number per row; got {value!r}.",
    ),
    *cases("posterior", ("sodd",), ValueError, KNOWN_POSTERIORS + "; got {value!r}. Did you mean 'sod'?"),
    *cases("posterior", ("fitcs",), ValueError, KNOWN_POSTERIORS + "; got {value!r}. Did you mean 'fitc'?"),
    *cases("posterior", ("", 3), ValueError, KNOWN_POSTERIORS + "; got {value!r}."),
    ("posterior", None, ValueError, "got None."),
    ("posterior", dict, ValueError, "posterior must be one of "),
    *cases("hyperparameters", ("subsets",), ValueError, KNOWN_METHODS + "; got {value!r}. Did you mean 'subset'?"),
    *cases("hyperparameters", ("waeve",), ValueError, KNOWN_METHODS + "; got {value!r}. Did you mean 'weave'?"),
    *cases("hyperparameters", ("adam",), ValueError, KNOWN_METHODS + "; got {value!r}."),
    *cases(
        "hyperparameters",
        (3, None, Subset, Subset.find, object()),
        TypeError,
        KNOWN_METHODS + ", or an object with a method find, such as sodalite.hyperparameters.Subset(n_rows=2000); "
        "got {value!r}.",
    ),
    *[
        (
            "kernel",
            ConstantKernel(1.0) * RBF(1.0, value) + WhiteKernel(0.1),
            ValueError,
            f"kernel has bounds ({value[0]:g}, {value[1]:g}) of k1__k2__length_scale. The search needs two positive, "
            "finite numbers, the lower one first, such as (1e-5, 1e5); or 'fixed', to keep the value.",
        )
        for value in ((1e-5, inf), (0, 10), (-1, 10), (10, 0.1), (nan, 1.0), (-inf, inf))
    ],
    (
        "kernel",
        RBF([1.0, 1.0], [(0.1, 10.0), (1.0, inf)]) + WhiteKernel(0.1),
        ValueError,
        "kernel has bounds (1, inf) of dimension 1 of k1__length_scale.",
    ),
    *[
        (
            "kernel",
            RBF(1.0) + WhiteKernel(0.1, value),
            ValueError,
            f"kernel has bounds of k2__noise_level that are no pair of numbers; got {np.atleast_2d(value)!r}. Give "
            "(lower, upper), or 'fixed' to keep the value.",
        )
        for value in ("fixd", (3.0,), (1.0, 2.0, 3.0), None)
    ],
]


@pytest.mark.parametrize(("name", "value", "error", "message"), FIT_ARGUMENTS, ids=ids_of(FIT_ARGUMENTS))
@pytest.mark.usefixtures("no_long_work")
def test_a_bad_argument_of_the_estimator_is_refused_before_any_work(name, value, error, message):
    with refuses(error, message):
        by_fit(**{name: value})


@pytest.mark.parametrize("value", [(1e-5, inf), (0, 10), (10, 0.1)], ids=str)
def test_bounds_do_not_matter_where_nothing_is_sought(value):
    assert len(by_fixed_fit(kernel=RBF(1.0, value) + WhiteKernel(0.1)).indices) == 5


@pytest.mark.parametrize("value", [np.int64(3), (3, 1), np.array([3, 1]), np.array(3)], ids=str)
def test_first_rows_that_are_as_good(value):
    model = GreedyGPRegressor(KERNEL, n_active=5, hyperparameters="fixed", posterior="sod").fit(X, y, first=value)
    first = np.ravel(value).tolist()
    for indices in (model.active_indices_, by_select(first=value).indices):
        assert indices[: len(first)].tolist() == first


@pytest.mark.parametrize("value", ["int8", "float16", "double-double", int, complex, [1]], ids=str)
def test_a_bad_dtype_is_refused(value):
    with refuses(ValueError, f"dtype must be 'float64' or 'float32'; got {value!r}."):
        by_select(dtype=value)


def test_the_constructor_checks_nothing():
    for name, value, *_ in ARGUMENTS + FIT_ARGUMENTS:
        if name in ("alpha", "first"):  # arguments of fit
            continue
        assert GreedyGPRegressor(**{name: value}).get_params(deep=False)[name] is value


@pytest.mark.usefixtures("no_long_work")
def test_select_needs_a_kernel_and_a_number_of_rows():
    with refuses(TypeError, "kernel must be a kernel object"):
        by_select(kernel=None)
    with refuses(TypeError, "n_active"):
        select(X, y, KERNEL)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda: Decrease(-1), "tol must be at least 0; got -1."),
        (lambda: Decrease(0.1, patience=0), "patience must be at least 1; got 0."),
        (lambda: TargetRMSE(-2), "rmse must be at least 0; got -2."),
        (lambda: TimeLimit(-3), "time_limit must be at least 0; got -3."),
        (lambda: Size(0), "n_active must be at least 1; got 0."),
        (lambda: Neighbors(0), "n_neighbors must be at least 1; got 0."),
    ],
)
def test_a_rule_is_refused_when_it_is_made(rule, message):
    with refuses(ValueError, message):
        rule()


GOOD = [
    ("n_active", np.int32(5)),
    *[("tol", value) for value in (0, np.float32(0.1), inf)],
    ("stop", Decrease(0.1, patience=np.int64(2))),
    *[("memory_limit", value) for value in ("1.5 GB", ".5gib", "1 TiB", 2e8, np.int64(200_000_000), inf)],
    ("criterion", lambda s, abs_r, noise: list(s)),
    ("random_state", np.int64(3)),
]


@pytest.mark.parametrize("call", [by_select, by_fixed_fit])
@pytest.mark.parametrize(("name", "value"), GOOD, ids=ids_of(GOOD))
def test_what_is_as_good_is_taken(call, name, value):
    assert 1 <= len(call(**{name: value})) <= 5


# Data


@pytest.mark.parametrize("value", [np.int64(3), 10**9])
def test_numbers_of_neighbours_that_are_as_good(value):
    assert len(by_fixed_fit(posterior=Neighbors(value))) == 5


class Letters(GenericKernelMixin, StationaryKernelMixin, Kernel):
    """Of sequences, such as strings: exp(-number of places in which they differ)."""

    def __call__(self, X, Y=None, eval_gradient=False):
        differ = [
            [sum(a != b for a, b in zip(one, other, strict=False)) for other in (X if Y is None else Y)] for one in X
        ]
        K = np.exp(-np.array(differ, dtype=float))
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        return np.ones(len(X))


WORDS = ["red", "blue"] * (N // 2)
SECONDS = np.arange(N).astype("timedelta64[s]")
DATES = np.datetime64("2020-01-01") + SECONDS
TEXT = r"^X has 1 column that holds no numbers: 'colour'\. (?!.*'a').*OneHotEncoder"
TEXTS = r"^X has 7 columns that hold no numbers: 'text0', 'text1', 'text2', 'text3', 'text4', \.\.\."
ALONE = r"^X has 1 column that holds no numbers: '0'\. Put a sodalite.TableEncoder before the model"
NUMBERS = "^X must be a table of numbers, one row per observation, also for the kernel Letters, which takes other"

# What is given, and the message; of TypeErrors and ValueErrors.
DATA = {
    **{
        f"X {value} {kind.__name__}": ({"X": kind(changed(X, (17, 1), value))}, "X contains (NaN|infinity)")
        for value in (nan, inf, -inf)
        for kind in (np.asarray, np.float32, np.ndarray.tolist, pd.DataFrame)
    },
    **{
        f"y {value} of shape {targets.shape}": ({"y": targets}, "y contains (NaN|infinity)")
        for value in (nan, inf, -inf)
        for targets in (changed(y, 3, value), np.column_stack([y, changed(y, 3, value)]))
    },
    "no rows": ({"X": X[:0], "y": y[:0]}, r"(?s)(row|sample).*shape.*\(0, 2\)"),
    "no columns": ({"X": X[:, :0]}, r"(?s)(column|feature).*shape.*\(120, 0\)"),
    **{
        f"y of shape {np.shape(targets)}": (
            {"y": targets},
            rf"same number of rows; X has 120, y has {len(targets)}|\[120, {len(targets)}\]",
        )
        for targets in (y[:-1], y[:1], np.tile(y[:-1, None], 2))
    },
    "one column": ({"X": X[:, 0]}, r"1D array|shape \(120,\)"),
    "one list": ({"X": X[:, 0].tolist()}, r"1D array|shape \(120,\)"),
    "three dimensions": ({"X": X[:, :, None]}, r"dim 3|shape \(120, 2, 1\)"),
    "a number": ({"X": 3.0}, r"scalar|shape \(\)"),
    "y a number": ({"y": 3.0}, r"dim 3|shape \(\)|scalar"),
    "y of three dimensions": ({"y": y[:, None, None]}, r"dim 3|shape \(\)|scalar"),
    "no targets": ({"y": None}, "y"),
    "sparse": ({"X": csr_array(X)}, "(?i)sparse"),
    "complex": ({"X": X + 1j}, "Complex data not supported"),
    "text in an array": (
        {"X": changed(X.astype(object), (3, 1), "red")},
        "could not convert string to float: 'red'",
    ),
    **{
        f"{name} of {frame.__module__.partition('.')[0]}": ({"X": frame({"a": X[:, 0], **columns})}, message)
        for frame in (pd.DataFrame, pl.DataFrame)
        for name, columns, message in (
            ("a missing value", {"b": [None, *X[1:, 1]]}, "X contains NaN"),
            ("a text", {"colour": WORDS, "b": X[:, 1]}, TEXT),
            ("texts", {f"text{i}": WORDS for i in range(7)}, TEXTS),
        )
    },
    **{
        f"a column of {kind}": ({"X": pd.DataFrame({"a": X[:, 0], "other": column})}, "'other'")
        for kind, column in (("durations", SECONDS), ("dates", DATES), ("categories", pd.Categorical(WORDS)))
    },
    **{  # their numbers would depend on the unit
        f"{kind} alone, {type(table).__name__}": ({"X": table}, ALONE)
        for kind, column in (("durations", SECONDS), ("dates", DATES))
        for table in (pd.DataFrame({"0": column}), column[:, None])
    },
    **{
        f"for a kernel of other objects, {kind}": ({"X": rows, "kernel": 2.0 * Letters() + WhiteKernel(0.1)}, NUMBERS)
        for kind, rows in (
            ("list", ["AGC", "AC", "AACT"] * 40),
            ("array", np.array(["AGC", "AC", "AACT"] * 40)),
            ("ragged", [[1, 2], [3]] * 60),
            ("frame", pd.DataFrame({"a": ["x"] * N})),
        )
    },
}


@both
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.usefixtures("no_long_work")
def test_bad_data_are_refused_before_any_work(call, kind):
    arrays, message = DATA[kind]
    error = TypeError if kind == "sparse" else (ValueError, TypeError) if kind == "y a number" else ValueError
    with pytest.raises(error, match=message):
        call(**arrays)


@pytest.mark.usefixtures("no_long_work")
@pytest.mark.parametrize("memory_limit", [None, "15MB"])
def test_the_row_that_is_not_finite_is_named(memory_limit):
    with refuses(ValueError, "X contains NaN or infinite values, in row 117 for one. Drop such rows, or fill them in"):
        by_select(X=changed(X, (117, 1), nan), memory_limit=memory_limit)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_column_of_text_is_named_by_predict(frame):
    model = GreedyGPRegressor(KERNEL, n_active=5, hyperparameters="fixed", posterior="sod")
    model.fit(frame({"a": X[:, 0], "b": X[:, 1]}), y)
    with refuses(ValueError, "'b'"):
        model.predict(frame({"a": X[:, 0], "b": WORDS}))


class Rows:
    """An array-like whose length is not what its shape says, once it has been read so many times."""

    def __init__(self, X, reads):
        self.X, self.reads = X, reads
        self.shape, self.dtype = X.shape, X.dtype

    def __len__(self):
        return len(self.X)

    def __getitem__(self, rows):
        self.reads -= 1
        return (self.X if self.reads >= 0 else self.X[:-30])[rows]


@pytest.mark.parametrize("memory_limit", [None, "15MB"])
@pytest.mark.parametrize("reads", range(9))
def test_inputs_that_change_their_length_between_reads(reads, memory_limit):
    rows = Rows(X, reads)
    with refuses(ValueError, "X changed its length while it was read: of rows 0 to 119, 90 came."):
        by_select(X=rows, n_active=60, memory_limit=memory_limit)
    assert rows.reads < 0


def test_inputs_that_keep_their_length_are_read_by_slices():
    assert by_select(X=Rows(X, 10**6), first=0).indices.tolist() == by_select(first=0).indices.tolist()


# A user's own criterion or kernel that goes wrong

# By the way in which it goes wrong: the criterion, the error, and the message.
ONE_VALUE = "criterion must return one value per row"
WRONG_CRITERIA = {
    "nan": (
        lambda s, abs_r, noise: s * nan,
        ValueError,
        "criterion must return numbers, or -inf for rows never to take",
    ),
    "some nan": (
        lambda s, abs_r, noise: np.where(s < np.median(s), nan, s),
        ValueError,
        "must return numbers, or -inf",
    ),
    "inf": (
        lambda s, abs_r, noise: s + inf,
        ValueError,
        "criterion must return numbers, or -inf for rows never to take",
    ),
    "shorter": (lambda s, abs_r, noise: s[1:], ValueError, f"{ONE_VALUE}: an array of shape ("),
    "number": (lambda s, abs_r, noise: 1.0, ValueError, ONE_VALUE),
    "matrix": (lambda s, abs_r, noise: np.outer(s, s), ValueError, ONE_VALUE),
    "nothing": (lambda s, abs_r, noise: None, ValueError, ONE_VALUE),
    "arguments": (lambda s: s, TypeError, "takes 1 positional argument"),
    "an error of its own": (lambda s, abs_r, noise: 1 / 0, ZeroDivisionError, "division by zero"),
}


@pytest.mark.parametrize("call", [by_select, by_fixed_fit])
@pytest.mark.parametrize("kind", WRONG_CRITERIA)
@pytest.mark.filterwarnings("error")
def test_a_criterion_of_ones_own_that_goes_wrong(call, kind):
    criterion, error, message = WRONG_CRITERIA[kind]
    with refuses(error, message):
        call(criterion=criterion)


def test_what_a_criterion_returned_is_told():
    with refuses(ValueError, f"an array of shape ({N},); got ({N - 1},)."):
        by_select(criterion=lambda s, abs_r, noise: s[1:])
    with refuses(ValueError, f"{N} of {N} are not."):
        by_select(criterion=lambda s, abs_r, noise: s * nan)


@pytest.mark.parametrize("memory_limit", [None, "15MB"])
@pytest.mark.parametrize("share", [0, 0.2, 0.5, 1])
def test_rows_that_score_minus_infinity_are_never_taken(share, memory_limit):
    kernel = RBF(1.1) + WhiteKernel(0.1) * DotProduct(0.6)
    levels = 0.1 * (0.36 + np.square(X).sum(axis=1))
    first, bound = int(levels.argmin()), np.quantile(levels, share) + 1e-9
    selection = by_select(
        kernel=kernel,
        criterion=lambda s, abs_r, noise: np.where(noise <= bound, s + abs_r, -inf),
        n_active=N,
        first=first,
        memory_limit=memory_limit,
    )
    assert sorted(selection.indices) == np.flatnonzero(levels <= bound).tolist()
    assert len(selection) == len(selection.rmse) == len(selection.factor) == len(selection.scores)


class Broken(RBF):
    """NaN for rows whose first input exceeds a bound: in their variances, or only in their covariances with others."""

    def __init__(self, length_scale=1.0, length_scale_bounds="fixed", part="diagonal"):
        super().__init__(length_scale, length_scale_bounds)
        self.part = part

    def __call__(self, X, Y=None, eval_gradient=False):
        value = super().__call__(X, Y, eval_gradient)
        K = value[0] if eval_gradient else value
        bad, other = X[:, 0] > 1, (X if Y is None else Y)[:, 0] > 1
        K[bad[:, None] & other[None, :] if self.part == "diagonal" else bad[:, None] != other[None, :]] = nan
        return value

    def diag(self, X):
        return np.where((X[:, 0] > 1) & (self.part == "diagonal"), nan, super().diag(X))


@pytest.mark.parametrize("call", [by_select, by_fit, by_fixed_fit])
@pytest.mark.parametrize("memory_limit", [None, "15MB"])
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("diagonal", f"kernel returned NaN or infinite variances for some of rows 0 to {N - 1}."),
        ("off-diagonal", f"kernel returned NaN or infinite values for {np.sum(X[:, 0] > 1)} rows, row "),
    ],
)
def test_a_kernel_that_returns_nan_on_some_rows(call, part, message, memory_limit):
    first = int(np.argmin(X[:, 0]))
    with refuses(ValueError, message) as caught:
        call(kernel=Broken(part=part) + WhiteKernel(0.1), first=first, memory_limit=memory_limit)
    if part != "diagonal":
        assert str(caught.value).endswith(f"row {np.flatnonzero(X[:, 0] > 1)[0]} the first.")


def test_a_kernel_of_other_objects_takes_rows_of_numbers():
    rows = np.round(X)
    assert len(by_select(X=rows, kernel=2.0 * Letters() + WhiteKernel(0.1)).indices) == 5
    with refuses(ValueError, "Input X contains NaN"):
        by_fixed_fit(X=changed(rows, (2, 0), nan), kernel=Letters() + WhiteKernel(0.1))


# Not bad at all


@pytest.mark.parametrize("call", [by_select, by_fixed_fit])
@pytest.mark.parametrize("n_active", [N, N + 1, 10**12])
def test_as_many_active_rows_as_there_are_or_more(call, n_active):
    selection = call(n_active=n_active)
    assert selection.stop_reason == "all_rows"
    assert sorted(selection.indices) == list(range(N))
    assert np.isnan(selection.rmse[-1])
    assert np.all(np.isfinite(selection.rmse[:-1]) == (call is by_select))  # a fit need not choose


# Predictions


@pytest.fixture(scope="module")
def model():
    return GreedyGPRegressor(KERNEL, n_active=5, hyperparameters="fixed", posterior="sod").fit(X, y)


def test_std_or_cov_but_not_both(model):
    with refuses(ValueError, "At most one of return_std and return_cov"):
        model.predict(X, return_std=True, return_cov=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, path: model.novelty(X),
        lambda model, path: model.score(X, y),
        lambda model, path: model.log_marginal_likelihood(),
        lambda model, path: model.plot(),
        lambda model, path: sodalite.save(model, path / "model.sod"),
    ],
    ids=["novelty", "score", "log_marginal_likelihood", "plot", "save"],
)
def test_before_fit(call, tmp_path):
    """What a prior has no answer to; `predict` and `sample_y` have one."""
    with pytest.raises(NotFittedError, match="GreedyGPRegressor instance is not fitted yet"):
        call(GreedyGPRegressor(), tmp_path)


@pytest.mark.parametrize("method", ["predict", "sample_y"])
@pytest.mark.parametrize("columns", [1, 3])
def test_the_wrong_number_of_columns(model, method, columns):
    message = f"X has {columns} features, but GreedyGPRegressor is expecting 2 features as input."
    with refuses(ValueError, message):
        getattr(model, method)(np.ones((4, columns)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed(X, (2, 0), nan), "Input X contains NaN"),
        (changed(X, (2, 0), inf), "Input X contains infinity"),
        (X[:, 0], "Expected 2D array, got 1D array"),
        (X[:0], "Found array with 0 sample(s)"),
    ],
    ids=["nan", "inf", "1-d", "no-rows"],
)
def test_bad_rows_to_predict(model, rows, message):
    with refuses(ValueError, message):
        model.predict(rows)
