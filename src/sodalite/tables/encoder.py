"""`TableEncoder`: the columns of a data frame as numbers, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.optional import require
from ..core.types import Array, Floats
from ..core.warn import warn
from ..core.words import counted
from .base import check_columns
from .column import Lookup, Options
from .preprocessing import Encoded, Preprocessing, imputed_notes
from .training import Training, learn_columns
from .unseen import Unseen
from .values import frame_column, frame_names, is_frame

SHOWN = 5  # new levels of a column that a warning names


class Transformed(np.ndarray[Any, np.dtype[np.float64]]):
    """What `TableEncoder.transform` returns where rows have new levels: an array, with these beside it.

    A pipeline of scikit-learn hands nothing but an array from one step to the next. `encoded_rows` takes the two apart;
    views and copies are plain arrays.
    """

    unseen: tuple[Unseen, ...] = ()


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn the columns of a data frame into numbers that suit a Gaussian process.

    Frames of pandas, polars and pyarrow are taken as they come:

    - numbers stay as they are, also those in texts ("$1,234.50", "12 %", "3,14");
    - dates become days since 1970 and, for each part of the calendar that varies (time of day, weekday, season), a
      point on a circle, so that December is beside January;
    - latitude and longitude become points in kilometres, with no seam at 180 degrees;
    - ordered categories become their places, others one input for each level;
    - levels that are more than 12 become the mean target of the level, adjusted for the other columns, which of rare
      levels is cross-fitted in `fit_transform`; or, where the rows of each level are a series of their own, a point on
      a sphere;
    - missing values become a median and an input that says where, or a level of their own;
    - ids, row numbers and columns of one value are left out.

    An array of numbers passes as it is, but for missing values. ``sodalite fit`` uses the same encoder, and
    `sodalite.save` keeps a pipeline of it and a `sodalite.GreedyGPRegressor`.

    Parameters
    ----------
    columns : sequence of str, default=None
        The columns to use, all of which are kept; None for all that are inputs.
    missing : {"indicator", "median", "drop", "error"}, default="indicator"
        What is done about missing values. With "drop" they become NaN, since a transformer leaves out no rows.
    order : mapping of str to sequence of str, default=None
        The levels of columns whose levels are in order.
    latlon : tuple of two str, default=None
        The columns of latitude and longitude, in degrees; found by their names if None.
    date_format : str or mapping of str to str, default=None
        The format of dates in texts, as ``datetime.strptime`` takes it; needed where two readings are possible.
    na_values : sequence of str, default=()
        Values that mean a missing value, beside the usual ones.
    random_state : int, default=0
        For the folds of cross-fitting.

    Attributes
    ----------
    mapping_ : sodalite.tables.Preprocessing
        Which columns are used, and how each becomes numbers; as JSON by its ``to_json()``.
    readings_ : list of sodalite.tables.Reading
        How each column was read, those that were left out among them.
    notes_ : list of str
        What was noticed: ids, columns that give the target away, codes that may mean missing.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    skrub's ``TableVectorizer`` serves trees: it leaves missing values and large scales to them, its dates are in single
    precision, in which a second of 2026 is not told from the next minute, and its state is code and pickles. What a
    Gaussian process needs is smooth inputs, few of them, and a state in JSON that runs no code. scikit-learn's
    ``TargetEncoder`` shrinks means in the same way, but its arguments for folds differ from version to version.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"town": ["Bern", "Chur", "Bern"], "rent": ["1'200", "900", "1'350"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['town', 'rent']
    >>> encoder.transform(frame).tolist()
    [[0.0, 1200.0], [1.0, 900.0], [0.0, 1350.0]]
    """

    def __init__(
        self,
        *,
        columns: Sequence[str] | None = None,
        missing: str = "indicator",
        order: Mapping[str, Sequence[str]] | None = None,
        latlon: tuple[str, str] | None = None,
        date_format: str | Mapping[str, str] | None = None,
        na_values: Sequence[str] = (),
        random_state: int = 0,
    ) -> None:
        self.columns = columns
        self.missing = missing
        self.order = order
        self.latlon = latlon
        self.date_format = date_format
        self.na_values = na_values
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how the columns of X become numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n, columns)
        y : array-like of shape (n,), default=None
            The target, for the mean targets of levels.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn how the columns of X become numbers, and return these; means of rare levels are cross-fitted."""
        return self._learn(X, y).X

    def transform(self, X: Any) -> Any:
        """The columns of X as numbers, an array of shape (n, inputs).

        A warning names levels that were not seen in `fit`. If the array goes to a `sodalite.GreedyGPRegressor` as it
        is, their error bars are as wide as known levels differ.
        """
        encoded = self.encode(X)
        _warn_of(encoded)
        if not encoded.unseen:
            return encoded.X
        X = encoded.X.view(Transformed)
        X.unseen = encoded.unseen
        return X

    def encode(self, X: Any) -> Encoded:
        """The columns of X as numbers, with counts of missing values and of levels that were not seen in `fit`."""
        check_is_fitted(self, "mapping_")
        return self.mapping_.encode_frame(self._as_frame(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the inputs."""
        check_is_fitted(self, "mapping_")
        return np.array(self.mapping_.names, dtype=object)

    def _as_frame(self, X: Any, reset: bool) -> Any:
        """A frame as it is, and an array with the names "x0", "x1" and so on for its columns; both are checked."""
        if is_frame(X):
            if reset or frame_names(X) == [str(name) for name in getattr(self, "feature_names_in_", [])]:
                validate_data(self, X, skip_check_array=True, reset=reset)
            if reset and not hasattr(self, "n_features_in_"):
                self.n_features_in_ = len(frame_names(X))
            return X
        numbers: Floats = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        return require("pyarrow", "parquet").table(
            {f"x{place}": column for place, column in enumerate(numbers.T.copy())}
        )

    def _learn(self, X: Any, y: Any) -> Training:
        """Set the fitted attributes, and return the columns of X as numbers."""
        if isinstance(self.na_values, str):
            raise ValueError(f"na_values must be a sequence of values; got the text {self.na_values!r}.")
        target = None if y is None else np.asarray(y, dtype=np.float64)
        target = target[:, 0] if target is not None and target.ndim == 2 and target.shape[1] == 1 else target
        if target is not None and (target.ndim != 1 or np.isnan(target).any()):
            target = None  # several targets have no one mean
        options = Options(
            self.missing,
            self.order or {},
            None if self.latlon is None else (self.latlon[0], self.latlon[1]),
            self.date_format,
            tuple(map(str, self.na_values)),
            in_python=True,
            chosen=self.columns is not None or not is_frame(X),
            y=target,
        )
        X = self._as_frame(X, reset=True)
        every = frame_names(X)
        check_columns("X", every, self.columns or [])
        places = {name: place for place, name in enumerate(every)}
        names = [name for name in every if name in set(self.columns or every)]
        get: Lookup = cache(lambda name: frame_column(X, places[name]).blanked(options.na_values))
        learnt = learn_columns("X", names, get, options, self.random_state)
        name = getattr(y, "name", None)
        self.mapping_ = replace(learnt.preprocessing, target=name if isinstance(name, str) else None)
        self.readings_, self.notes_ = list(learnt.readings), list(learnt.notes)
        return learnt

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def without_pipeline(model: Any) -> Any:
    """A fitted pipeline of a `TableEncoder` and a model as the model with its preprocessing; all else as it is."""
    steps = [step for _, step in getattr(model, "steps", ())]
    if len(steps) != 2 or not isinstance(steps[0], TableEncoder) or not hasattr(steps[1], "fitted_"):
        return model
    check_is_fitted(steps[0], "mapping_")
    bare = copy(steps[1])
    bare.preprocessing_ = steps[0].mapping_
    return bare


def encoded_rows(model: Any, X: Any) -> tuple[Any, tuple[Unseen, ...]]:
    """The rows of a raw data frame as inputs of a model that knows its columns, and the levels that are new to it.

    All else is left as it is, also a frame with the names of the inputs themselves. A model that knows the columns of a
    table has a `Preprocessing` as its attribute `preprocessing_`.
    """
    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    if isinstance(X, Transformed):
        return np.asarray(X), X.unseen
    if mapping is None or not is_frame(X):
        return X, ()
    names = frame_names(X)
    if names == mapping.names and names != mapping.sources:
        return X, ()
    encoded = mapping.encode_frame(X)
    _warn_of(encoded)
    empty = np.flatnonzero(np.isnan(encoded.X).any(axis=1))
    if len(empty):
        raise ValueError(
            f"X misses values: {counted(encoded.missing)}. Fill them, or leave out these rows: {len(empty)} of "
            f"{len(encoded.X)}; the model was fitted with missing={mapping.missing!r}."
        )
    return encoded.X, encoded.unseen


def _warn_of(encoded: Encoded) -> None:
    """Name levels that the fit has not seen, by column, with how often each occurs, and missing values that are new."""
    for note in imputed_notes(encoded.imputed):
        warn(note)
    for name, levels in encoded.strange.items():
        shown = ", ".join(f"{level!r} ({count})" for level, count in list(levels.items())[:SHOWN])
        more = f" and {len(levels) - SHOWN} more" if len(levels) > SHOWN else ""
        warn(
            f"values of column {name!r} that the model was not fitted with: {shown}{more}. They are predicted as an "
            f"average level, with error bars as wide as levels differ."
        )
