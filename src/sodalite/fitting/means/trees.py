"""Boosted trees as the mean, by LightGBM."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ...core.optional import require
from ...core.threads import n_threads
from ...core.types import Floats
from .forest import Forest

MOST_ROUNDS = 1000  # the most boosting rounds: trees whose error still falls then are cut off
PATIENCE = 10  # rounds without a smaller error on the rows that are left out, after which the trees are complete
ALONE = 10_000  # rows below which one thread is as fast: several wait for each other at every split
FEW = 200  # rows below which a leaf may hold 3 rows instead of LightGBM's 20, which would leave some ten leaves at most
# With a rate of 0.2 and 63 bins, five folds take half as long as with LightGBM's 0.1 and 255, at the same error.
SETTINGS: dict[str, Any] = {
    "objective": "l2",
    "learning_rate": 0.2,
    "num_leaves": 31,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 0,
    "verbose": -1,
}


class TreesMean(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Boosted trees, stopped early; one booster for each target.

    Attributes
    ----------
    boosters_ : list of lightgbm.Booster
        They predict standardised targets.
    centre_, unit_ : arrays of shape (q,)
        The means and standard deviations of the targets.
    """

    boosters_: list[Any]
    centre_: Floats
    unit_: Floats

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`."""
        forests = tuple(Forest.of(booster) for booster in self.boosters_)
        return {"forests": forests, "d": self.boosters_[0].num_feature(), "centre": self.centre_, "unit": self.unit_}

    @classmethod
    def restore(cls, forests: tuple[Forest, ...], d: int, centre: Floats, unit: Floats) -> TreesMean:
        """The fitted trees that `saved` describes; a ValueError refuses what are not trees of d inputs."""
        made = cls()
        made.boosters_, made.centre_, made.unit_ = [forest.booster(d) for forest in forests], centre, unit
        return made

    def fit_until(self, X: Floats, y: Floats, X_left: Floats, y_left: Floats) -> Self:
        """Fit to targets of shape (n, q), until the error on other rows no longer falls."""
        lightgbm = require("lightgbm", "trees")
        settings = {**SETTINGS, "num_threads": _threads(X), "min_data_in_leaf": 20 if len(X) >= FEW else 3}
        spread = y.std(axis=0)
        self.boosters_, self.centre_, self.unit_ = [], y.mean(axis=0), np.where(spread > 0, spread, 1.0)
        scaled, left = (y - self.centre_) / self.unit_, (y_left - self.centre_) / self.unit_
        for column, other in zip(scaled.T, left.T, strict=True):
            train = lightgbm.Dataset(X, column, params=settings)
            watched = train.create_valid(X_left, other)
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            booster = lightgbm.train(settings, train, MOST_ROUNDS, valid_sets=[watched], callbacks=[stop])
            booster.free_dataset()
            self.boosters_.append(booster)
        return self

    def fit(self, X: Floats, y: Floats) -> Self:
        """Fit to targets of shape (n,) or (n, q), stopped early by a tenth of the rows."""
        Y = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        left = np.arange(len(X)) % 10 == 0
        return self.fit_until(X[~left], Y[~left], X[left], Y[left])

    def predict(self, X: Any) -> Floats:
        """Predict targets of shape (n, q)."""
        found = np.stack([booster.predict(X, num_threads=_threads(X)) for booster in self.boosters_], axis=1)
        return np.asarray(self.centre_ + self.unit_ * found)


def _threads(X: Any) -> int:
    return 1 if len(X) < ALONE else n_threads()
