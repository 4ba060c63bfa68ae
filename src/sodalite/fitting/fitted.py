"""A fitted model: everything that a fit has found, in one frozen object."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array, Floats, Indices
from ..hyperparameters import Round
from ..posteriors import Evidence, Posterior, joint_samples
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import Away
from ..posteriors.predictive import Distribution, Predictive
from ..selection.loop import Selection
from ..selection.rows import ArrayRows, Scaling
from ..tables.unseen import Unseen
from .between import covariance_between_levels, variance_between_levels
from .gross import GrossErrors
from .means import MeanFunction
from .targets import OnOwnScale, Target

Unseens: TypeAlias = tuple[Unseen, ...]
"""The levels of some rows that the fit has not seen, as the table's encoder tells them."""


@dataclass(frozen=True)
class Fitted:
    """Everything that a fit has found.

    Targets and their variances are in units of the scaled targets: those on the scale T(y) of `target`, less the mean
    function, centred and scaled (`scaling`). The methods return units of y, but for those that say otherwise.
    """

    kernel: Kernel
    """The kernel with the hyperparameters that were found."""
    selection: Selection
    """The active rows, and the stages of their selection."""
    posterior: Posterior
    """The posterior of the scaled targets."""
    scaling: Scaling
    """The means and standard deviations by which the targets were centred and scaled."""
    target_shape: tuple[int, ...]
    """() for targets of shape (n,), (q,) for targets of shape (n, q)."""
    n_rows: int
    """The number of rows of the fit, active or not."""
    X_active: Floats
    """Inputs of the active rows, of shape (m, d)."""
    y_active: Floats
    """Scaled targets of the active rows, of shape (m, q)."""
    optimism: float = 1.0
    """`sodalite.hyperparameters.Found.optimism`."""
    rounds: tuple[Round, ...] = ()
    """The rounds of the search for the hyperparameters."""
    baselines: Baselines | None = None
    """Leave-one-out errors of the model and of simple ones; None if the posterior computes no such errors."""
    target: Target = field(default_factory=Target)
    """The scale T(y) on which the targets are learnt."""
    rows: ArrayRows | None = None
    """All rows of the fit, with scaled targets; None if they are on a cluster, or are not part of the model's file."""
    mean_function: MeanFunction = field(default_factory=MeanFunction)
    """What is predicted before the Gaussian process."""
    judges: Indices | None = None
    """Rows of the fit that the mean function has not seen; None if any rows will do to judge the model."""
    targets_active: Floats | None = None
    """T(y) of the active rows, of shape (m, q); None for a constant mean function, with which it follows from
    `y_active`."""
    targets: Floats | None = None
    """T(y) of `rows`, of shape (n, q); None as `targets_active`, or without `rows`."""

    gross_errors: GrossErrors | None = None
    """Rows of the fit whose targets contradict all rows near by, and which count as noise; None if there are none."""

    def without_rows(self) -> Fitted:
        """Return a copy without `rows`, which no prediction needs."""
        return replace(self, rows=None, targets=None)

    def rows_on_scale(self) -> ArrayRows:
        """Return `rows` with T(y) as targets, before the mean function; without alpha."""
        assert self.rows is not None
        return ArrayRows(self.rows.X, self.scaling.undone(self.rows.y) if self.targets is None else self.targets)

    @property
    def judged(self) -> tuple[Away, ...]:
        """How well rows are predicted that were left out together with all rows around them; in units of T(y).

        Of several targets, in standard deviations of each.
        """
        bars = None if self.posterior.scale is None else self.posterior.scale.bars
        return () if bars is None else tuple(replace(each, rmse=self.scaling.unit * each.rmse) for each in bars.away)

    @property
    def units(self) -> Floats:
        """The value, in units of y, of one unit of the error bars of `posterior`; of shape (q,)."""
        return self.scaling.std if self.target.is_linear else np.ones(self.q)

    @property
    def q(self) -> int:
        """The number of targets."""
        return len(self.scaling.mean)

    @property
    def y_train(self) -> Floats:
        """Scaled targets of the active rows, of shape (m,) or (m, q), as y had."""
        return self.y_active.reshape(-1, *self.target_shape)

    def mean(self, X: Array) -> Floats:
        """Return the predictive mean in units of y, of shape (n, q)."""
        return self.mean_on_scale(X) if self.target.is_plain else self.predictive(X).mean

    def mean_on_scale(self, X: Array) -> Floats:
        """Return the predictive mean of T(y), of shape (n, q)."""
        return self._on_scale(self.posterior.mean(X), X)

    def mean_and_std(self, X: Array, unseen: Unseens = ()) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation of new observations in units of y, each of shape (n, q)."""
        if not self.target.is_plain:
            predictive = self.predictive(X, unseen)
            return predictive.mean, predictive.std
        mean, variance = self.posterior.mean_and_variance(X, noisy=True)
        found = self._on_scale(mean, X)
        return found, self._widened(X, unseen, found, self._std_on_scale(variance))

    def mean_and_covariance(self, X: Array, unseen: Unseens = ()) -> tuple[Floats, Floats]:
        """Return the mean, of shape (n, q), and the covariance of new observations, (n, n, q), in units of y.

        On a scale other than y's own, the correlations are those of T(y).
        """
        mean, covariance = self._covariance_on_scale(X, unseen)
        if self.target.is_plain:
            return mean, covariance
        predictive = self.predictive(X, unseen)
        roots = np.sqrt(np.einsum("iiq->iq", covariance))
        factor = np.divide(predictive.std, roots, out=np.zeros(roots.shape), where=roots > 0)
        return predictive.mean, covariance * factor[:, None] * factor

    def _covariance_on_scale(self, X: Array, unseen: Unseens) -> tuple[Floats, Floats]:
        """Mean and covariance of new observations of T(y), as `mean_and_covariance` has them."""
        mean, covariance = self.posterior.mean_and_covariance(X, noisy=True)
        found = self._on_scale(mean, X)
        between = covariance_between_levels(self.mean_on_scale, X, unseen, found)
        return found, np.multiply.outer(covariance, self.scaling.std**2) + (0 if between is None else between)

    def mean_std_novelty(self, X: Array, unseen: Unseens = ()) -> tuple[Floats, Floats, Floats]:
        """Return mean and standard deviation as `mean_and_std` does, and the novelty, of shape (n,)."""
        if not self.target.is_plain:
            predictive = self.predictive(X, unseen)
            known = predictive.novelty
            return predictive.mean, predictive.std, self.novelty(X, unseen) if known is None else known
        scaled = self.posterior.calibrated(X, noisy=True)
        found, std, novelty = self._on_scale(scaled.mean, X), self._std_on_scale(scaled.variance), scaled.novelty
        assert novelty is not None
        between = variance_between_levels(self.mean_on_scale, X, unseen, found)
        if between is None:
            return found, std, novelty
        return found, np.sqrt(np.square(std) + between), self._novelty(X, novelty, between)

    def predictive(self, X: Array, unseen: Unseens = ()) -> Distribution:
        """Return the predictive distribution of new observations in units of y."""
        return self.target.distribution(self.predictive_on_scale(X, unseen))

    def predictive_on_scale(self, X: Array, unseen: Unseens = ()) -> Predictive:
        """Return the predictive distribution of T(y) of new observations."""
        found = self.posterior.predictive(X).in_units(self.scaling.mean + self.mean_function(X), self.scaling.std)
        between = variance_between_levels(self.mean_on_scale, X, unseen, found.mean)
        if between is None:
            return found
        novelty = None if found.novelty is None else self._novelty(X, found.novelty, between)
        return replace(found.widened(between), novelty=novelty)

    def left_out(self, which: Indices, larger: Floats | float = 1.0) -> tuple[Distribution, Floats] | None:
        """Return the distributions of some rows, each left out of all that the model has learnt, and their targets y.

        None if the posterior cannot leave rows out, or the model does not hold them. Targets are moved away from what
        is predicted, so that errors of T(y) are `larger` by such factors, of shape (rows, 1): the mean function of most
        models has seen the rows.
        """
        if self.rows is None:
            return None
        left, scaling = Evidence(self.posterior.kernel, self.rows, self.selection).take(which), self.scaling
        if self.posterior.scale is None or (found := self.posterior.left_out(left)) is None:
            return None
        on_scale = self.rows_on_scale().y[which]
        centre = on_scale - scaling.std * left.Y  # the mean function of every row, and the mean of all rows
        predictive = self.posterior.predictive_left_out(left, found).in_units(centre, scaling.std)
        on_scale = predictive.mean + larger * (on_scale - predictive.mean)
        return self.target.distribution(predictive), self.target.undone(on_scale)

    def with_bars_in_units(self, which: Indices) -> Fitted:
        """Return the model with a summary of the leave-one-out errors of some rows in units of y, if T(y) is not y."""
        scale = self.posterior.scale
        bars = None if scale is None else scale.bars
        if self.target.is_linear or scale is None or bars is None or (found := self.left_out(which)) is None:
            return self
        distribution, y = found
        assert isinstance(distribution, OnOwnScale)
        scale = replace(scale, bars=distribution.summarised(y, bars, self.scaling.std))
        return replace(self, posterior=replace(self.posterior, scale=scale))  # type: ignore[type-var]

    def samples(self, X: Array, unseen: Unseens, n_samples: int, generator: np.random.Generator) -> Floats:
        """Return joint samples of new observations in units of y, of shape (n, q, n_samples)."""
        mean, covariance = self._covariance_on_scale(X, unseen)
        found = joint_samples(mean, covariance, n_samples, generator, self.predictive_on_scale(X, unseen))
        return found if self.target.is_plain else self.target.undone(found)

    def novelty(self, X: Array, unseen: Unseens = ()) -> Floats:
        """Return the share of the latent prior variance that is left, of shape (n,)."""
        novelty = self.posterior.novelty(X)
        between = variance_between_levels(self.mean_on_scale, X, unseen, self.mean_on_scale(X)) if unseen else None
        return novelty if between is None else self._novelty(X, novelty, between)

    def _novelty(self, X: Array, novelty: Floats, between: Floats) -> Floats:
        """The novelty with the variance that new levels add to T(y); of shape (n,)."""
        kernel = self.posterior.kernel
        prior = kernel.diag(kernel.prepare(X))
        added = np.mean(between / np.square(self.scaling.std), axis=1)
        return np.minimum(novelty + np.divide(added, prior, out=np.zeros(len(added)), where=prior > 0), 1.0)

    def _widened(self, X: Array, unseen: Unseens, mean: Floats, std: Floats) -> Floats:
        """Standard deviations, of shape (n, q), with what levels that the fit has not seen may differ by."""
        between = variance_between_levels(self.mean_on_scale, X, unseen, mean)
        return std if between is None else np.sqrt(np.square(std) + between)

    def _on_scale(self, mean: Floats, X: Array) -> Floats:
        """Means of T(y), of shape (n, q), from those of the scaled targets at X."""
        return np.asarray(self.scaling.undone(mean) + self.mean_function(X))

    def _std_on_scale(self, variance: Floats) -> Floats:
        return np.asarray(np.multiply.outer(np.sqrt(variance), self.scaling.std))


class FittedModel(Protocol):
    """A fitted estimator, `sodalite.GreedyGPRegressor`, as rooms below it see it.

    It may have the attributes `feature_names_in_`, `target_names_`, `preprocessing_` and `about_` too.
    """

    @property
    def fitted_(self) -> Fitted:
        """All that the fit has found."""
        ...

    @property
    def kernel_(self) -> Kernel:
        """The kernel that was found."""
        ...

    @property
    def rounds_(self) -> tuple[Round, ...]:
        """How the kernel was found."""
        ...

    @property
    def baselines_(self) -> Baselines | None:
        """The model beside simple ones."""
        ...

    @property
    def n_features_in_(self) -> int:
        """Inputs, d."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as in scikit-learn."""
        ...

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the mean, and on request the standard deviation or the covariance."""
        ...

    def novelty(self, X: Any) -> Any:
        """Return the share of the prior variance that is left at every row."""
        ...
