"""The scikit-learn interface: conventions only, no mathematics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .core.namespaces import in_library_of, in_numpy
from .core.random import generator_from
from .core.types import Floats, Indices
from .core.validation import (
    check_count,
    check_level,
    check_levels,
    check_target,
    check_weights,
    is_dask,
    readable_errors,
)
from .criteria import Criterion
from .fitting.arguments import answer, new_rows, queries, rows_of_fit, target_names
from .fitting.callbacks import CallbackSupportMixin, scikit_learn_callbacks
from .fitting.fitted import Fitted, Unseens
from .fitting.joining import join
from .fitting.likelihood import likelihood_at
from .fitting.pipeline import RandomState, Settings
from .fitting.progress import following
from .fitting.race import fit
from .hyperparameters import Method
from .kernels import check_numeric
from .posteriors import Neighbors, Posterior, joint_samples
from .posteriors.prior import prior_predictions
from .stopping import Callback, Rule

if TYPE_CHECKING:
    from .report.importance import Importance


class _FromFitted:
    """An attribute of a fitted estimator: a part of its `fitted_`, named by a dotted path."""

    def __init__(self, path: str) -> None:
        self.get = attrgetter(path)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        if "fitted_" not in instance.__dict__:
            raise AttributeError(f"{owner.__name__} has no {self.name!r} before it is fitted: call fit first.")
        return self.get(instance.fitted_)


class GreedyGPRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process regression on the few rows that the model itself chooses.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        The covariance function. Its ``WhiteKernel`` is the noise; a kernel without one means noiseless observations.
        With None, several kernels compete, which start from the data: constant x squared-exponential, Matern 5/2,
        Matern 3/2 or, for up to two inputs, Matern 1/2, with one length-scale per input, plus white noise. A trend, a
        second scale, up to two periods, each in one input, and a far scale, which fills gaps, are added where the data
        support them.
    mean : {"auto", "linear", "trees"} or scikit-learn regressor or None, default="auto"
        The mean function, whose residuals the Gaussian process learns. None is a constant, "linear" a straight line,
        "trees" boosted trees (by LightGBM), for tables in which some inputs act in steps or only together with others.
        Trees, or a regressor, are fitted on five folds of the rows (of a sample, if there are more than 200 000), and
        the Gaussian process to the residuals of rows that they have not seen; new rows get the mean of the five
        predictions. "auto" keeps a constant unless a line or, with 500 rows and LightGBM, trees predict better by more
        than chance, by a short race on at most 200 rows (docs/method.rst, `race`). Nothing competes where `kernel` is
        given, with ``hyperparameters="fixed"``, with several targets, and with fewer than 30 rows. With up to 1500
        rows, a line may be all of the model (``mean_.alone``).
    target : {"auto", "standardize", "log", "power", "logit", "sqrt"} or None, default="auto"
        The scale on which the target is learnt. On each, targets are centred and scaled, and `kernel` is in units of
        the scaled targets. "standardize" is the target's own scale; "log" is for positive targets, "power" (of Yeo and
        Johnson) for skewed ones, "logit" for shares between 0 and 1 or the `bounds`, "sqrt" for counts. Predictions are
        on the target's own scale: means are those of the predicted distribution, and quantiles stay where the target
        can be. With several targets, scales are "standardize". None takes targets as they are, neither centred nor
        scaled.
    bounds : tuple of two numbers or None, default=None
        Within which targets are, such as ``(0, None)``. Predictions stay within them.
    n_active : int, default=500
        The maximum number of active rows. A table with no more rows than that has them all active, in their own order,
        without a choice, unless a stopping rule is set or `criterion` is an object of your own, which may leave some
        out.
    tol : float, default=None
        The paper's stopping rule: stop when another row lowers the RMSE of the remaining rows by less than this, in
        units of y.
    criterion : {"lookahead", "delta", "uncertainty", "underfit", "sampled", "random"} or callable, default="lookahead"
        Which row comes next: see `sodalite.select`. "delta" is the paper's.
    posterior : {"local", "sod", "sor", "dtc", "fitc", "vfe"} or object, default="local"
        The predictive distribution given the active rows. "local" is the exact Gaussian process given the active rows
        and each query's nearest rows, "sod" (the paper's) given the active rows alone. The others are projected
        processes: all rows contribute, through the latent function at the active rows. "local" takes the fewest
        neighbours with good leave-one-out predictions and, where it pays, large neighbourhoods that queries share;
        ``sodalite.posteriors.Neighbors(32)`` sets their number. A class that derives from
        `sodalite.posteriors.Posterior` is accepted too.
    hyperparameters : {"weave", "subset", "fixed"} or object, default="weave"
        How the free parameters of the kernel are found. "weave" searches in rounds, and keeps a round only if it
        predicts other rows better. "subset" maximizes the likelihood of a random subset of the rows. "fixed" takes the
        kernel as it is. See `sodalite.hyperparameters.Weave` and `sodalite.hyperparameters.Subset` for the numbers of
        rows that they use.
    calibrate : bool, default=True
        Whether predictive standard deviations are calibrated. If so, they are at least the spread of the targets far
        from all rows, and "local" scales them by the leave-one-out errors of nearby rows: see
        `sodalite.posteriors.calibration`. Otherwise they are those of the Gaussian process, which far from all rows are
        the prior's (zero for "sor").
    time_limit : float, default=None
        The approximate time for the fit, in seconds. The search for hyperparameters and the selection of rows end early
        enough to leave time for the posterior. Conditioning the posterior cannot be cut short: with "local" and
        thousands of rows it takes some seconds, and so does the fit.
    stop : sodalite.stopping.Rule, default=None
        Another stopping rule, such as ``TargetRMSE(0.1)`` or ``Decrease(0.001, patience=5) | TimeLimit(60)``: see
        `sodalite.stopping`.
    memory_limit : int or str, default=None
        Bytes of working memory for the selection of rows, such as ``"2GB"``; None means half of the free memory.
    random_state : int, RandomState instance or None, default=None
        Seeds the samples of rows that compare hyperparameters and numbers of neighbours, the starts of the search and
        the first row.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    active_indices_ : ndarray of shape (m,)
        The active rows, in the order of their selection; in their own order if all rows are active without a choice.
    fitted_ : sodalite.fitting.fitted.Fitted
        The whole result of the fit, in one frozen object; the other attributes are parts of it.
    mean_ : sodalite.fitting.means.MeanFunction
        The mean function: its `name` ("constant" without one), whether it is `alone` and, if it was chosen among
        several, the `trials` with their log densities. The mean of the targets comes on top.
    target_ : sodalite.fitting.targets.Target
        The scale on which the target was learnt: its `name`, and its parameters.
    kernel_ : scikit-learn kernel
        The kernel with the hyperparameters of the fit.
    rounds_ : tuple of sodalite.hyperparameters.Round
        The rounds of the search for hyperparameters.
    selection_ : sodalite.Selection
        The active rows, and the stages of their selection. Its `rmse` is in units of y; for several targets, in
        standard deviations of each. It is NaN if all rows are active without a choice (``selection_.is_ranked`` is
        False); `sodalite.select` ranks all rows of a small table.
    posterior_ : sodalite.posteriors.Posterior
        The posterior of the scaled targets.
    X_train_, y_train_ : ndarray of shape (m, d), (m,) or (m, q)
        The active rows; the targets are scaled.
    y_mean_, y_std_ : ndarray of shape (q,)
        The means and standard deviations by which the targets were centred and scaled.
    baselines_ : sodalite.posteriors.baselines.Baselines
        The leave-one-out errors of the model and of simple models (a constant, a straight line, the nearest rows).
        `fit` warns if one of these is as good.
    judged_ : tuple of sodalite.posteriors.calibration.Away
        How well rows are predicted that are left out with all rows around them, in holes and at the ends of the inputs:
        their RMSE, and the share of them in 90 % intervals.
    log_marginal_likelihood_value_ : float
        The log marginal likelihood at ``kernel_.theta``: of the active rows for "local" and "sod", of all rows under
        the approximate prior for "sor", "dtc" and "fitc"; for "vfe", its lower bound on that of the exact process.
    gross_errors_ : sodalite.fitting.gross.GrossErrors or None
        The rows whose targets contradict all nearby rows, and which therefore count as noise; None without such rows.
    preprocessing_ : sodalite.tables.Preprocessing
        How the columns of a table become the inputs, in models that ``sodalite fit`` has written, or that were saved in
        a pipeline with a `sodalite.TableEncoder`. Such a model predicts data frames with these columns as they are.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    target_names_ : tuple of str or None
        The names of the targets, if y is a series or a data frame.

    Notes
    -----
    With scikit-learn's ``array_api_dispatch``, X and y may be arrays of PyTorch, CuPy and others. The work is done on
    NumPy copies; predictions are arrays of the library of X, on its device. Fitted attributes are NumPy arrays.

    Several targets share one active set and one kernel. The absolute residual that a criterion sees is then the root
    mean square over the scaled targets.

    Examples
    --------
    >>> import numpy as np
    >>> from sodalite import GreedyGPRegressor
    >>> X = np.linspace(0, 10, 100)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> gp = GreedyGPRegressor(n_active=20, random_state=0).fit(X, y)
    >>> mean, std = gp.predict([[2.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(2.5)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        mean: str | Any | None = "auto",
        target: str | None = "auto",
        bounds: tuple[float | None, float | None] | None = None,
        n_active: int = 500,
        tol: float | None = None,
        criterion: str | Criterion = "lookahead",
        posterior: str | Neighbors | type[Posterior] = "local",
        hyperparameters: str | Method = "weave",
        calibrate: bool = True,
        time_limit: float | None = None,
        stop: Rule | None = None,
        memory_limit: int | float | str | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.target = target
        self.bounds = bounds
        self.n_active = n_active
        self.tol = tol
        self.criterion = criterion
        self.posterior = posterior
        self.hyperparameters = hyperparameters
        self.calibrate = calibrate
        self.time_limit = time_limit
        self.stop = stop
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        alpha: Any = None,
        *,
        first: int | Sequence[int] | Indices | None = None,
        executor: Any = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Find the hyperparameters, choose the active rows and condition on them. A fit that fails changes nothing.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            With a Dask client, also a Dask array or dataframe. A memory map, or an array-like that is read when it is
            sliced (such as that of `sodalite.tables.open_parquet`), is never read whole, unless the posterior is
            "local" and all rows fit into `memory_limit`; if they do not, "local" keeps them in temporary files.
        y : array-like of shape (n,) or (n, q)
            With a Dask client, also a Dask array, series or dataframe.
        sample_weight : float or array-like of shape (n,), default=None
            Weights of the rows. The noise variance of a row of weight w, the kernel's and `alpha`, is divided by w, as
            for the mean of w observations. A row of weight 0 has no influence. With weights, a search for
            hyperparameters takes twice as long. A mean function is fitted without weights, to the rows of positive
            weight.
        alpha : float or array-like of shape (n,), default=None
            Known noise variance of each row, such as that of a measurement, in addition to the kernel's
            ``WhiteKernel``; in units of y squared or, for several targets, of the scaled targets. As in scikit-learn,
            it is added to the diagonal of the training covariance and does not enter predictions. By default, rows
            whose targets contradict all nearby rows get noise of their own, and a warning names them (docs/method.rst,
            `gross-errors`): if the rows are in memory, have one target and no `sample_weight`, and if hyperparameters
            are searched for. ``alpha=0`` takes all rows as they are. No row has less noise than the floor of
            `sodalite.kernels.jitter`; `fit` warns where `alpha` is positive and below it.
        first : int or sequence of int, default=None
            The row of X, or rows, to start from; drawn at random if None.
        executor : dask.distributed.Client, default=None
            A cluster to work on; for Dask collections, by default the current client. The rows stay on its workers,
            except for samples. posterior="local" leaves more than 100 000 rows of Dask collections there, where the
            model then predicts from them; fewer, and those for a kernel that is periodic or has no length-scales, it
            fetches.
        callback : callable, default=None
            Called with a `sodalite.stopping.Stage` when a step of the fit begins, and for every row that is chosen:
                the step, the RMSE so far, and the times by which to estimate how long it will take. If it raises
            StopIteration after a row, that row is the last.
        checkpoint : str or path-like, default=None
            A file to which the hyperparameters and the active rows are written as they are found. If the file exists,
            the fit continues from it: see `sodalite.select`.
        """
        names = target_names(y)
        X, y, sample_weight, alpha = in_numpy(X, y, sample_weight, alpha)
        check_numeric(self.kernel, X)
        with (
            self._unchanged_on_failure(),
            scikit_learn_callbacks(self, self.n_active) as report,
            following(callback, report, verbose=self.verbose) as follow,
        ):
            settings = Settings.of(self.get_params(deep=False), first, checkpoint)
            is_weighted = sample_weight is not None
            rows, target_shape, errors = rows_of_fit(self, X, y, alpha, is_weighted, executor, settings)
            if is_weighted:
                settings = replace(settings, weights=check_weights(sample_weight, rows.shape[0]))
            settings = settings.with_columns(getattr(self, "feature_names_in_", None))
            follow.expect(list(settings.costs(*rows.shape).steps(settings.competes)))
            self.fitted_ = replace(fit(rows, target_shape, settings, follow), gross_errors=errors)
            self.target_names_ = names
        return self

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[None]:
        """Restore all attributes if an exception is raised."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        alpha: Any = None,
        *,
        exchange: bool = False,
        callback: Callback | None = None,
    ) -> Self:
        """Add new rows to a fitted model; the first call is a fit.

        The mean function, the kernel and the scaling of the targets stay. The selection continues from the present
        active rows, among all rows, up to `n_active` (which may have been raised by ``set_params``), and the posterior
        is conditioned on all rows. The model is the one that the same active rows give on the joined data.

        Parameters
        ----------
        X, y, sample_weight, alpha, callback : as in `fit`
        exchange : bool, default=False
            Whether active rows may be replaced by others, if the share of new rows among them would otherwise be
            smaller than among all rows. The rows whose removal costs least are replaced, and only if J, the log density
            of all targets, rises. It takes up to three more selections.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight, alpha, callback=callback)
        X, y, sample_weight, alpha = in_numpy(X, y, sample_weight, alpha)
        with self._unchanged_on_failure(), following(callback, verbose=self.verbose) as follow:
            settings = Settings.of(self.get_params(deep=False))
            new = new_rows(self, X, y, alpha)
            if sample_weight is not None:
                settings = replace(settings, weights=check_weights(sample_weight, new.shape[0]))
            self.fitted_ = join(self.fitted_, new, settings, exchange, follow)
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the mean, and on request the standard deviation or the covariance.

        These are of new observations, noise included, as in scikit-learn. The noise is that of the kernel's
        ``WhiteKernel``; without one, they are those of the latent function.

        Before `fit`, the prediction is that of the prior, as in scikit-learn: zero, with the covariance of `kernel`, or
        of ``ConstantKernel(1.0) * RBF(1.0)`` if that is None.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            For a Dask array or dataframe, the results are lazy Dask arrays.
        return_std, return_cov : bool, default=False
            At most one of them. Dask collections have no `return_cov`.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, q)
        std : ndarray of shape (n,) or (n, q)
            With ``return_std``. O(m^2) a row.
        cov : ndarray of shape (n, n) or (n, n, q)
            With ``return_cov``.
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        if not hasattr(self, "fitted_") and not is_dask(X):
            return self._predict_prior(X, return_std, return_cov)
        if return_cov:
            return answer(self, X, Fitted.mean_and_covariance, self._tail, (-1, *self._tail), joint=True)
        if return_std:
            return answer(self, X, Fitted.mean_and_std, self._tail, self._tail)
        return answer(self, X, lambda fitted, rows, _: fitted.mean(rows), self._tail)

    def _predict_prior(self, X: Any, return_std: bool, return_cov: bool) -> Any:
        """The predictions of `predict` before a fit."""
        check_numeric(self.kernel, X)
        (rows,) = in_numpy(X)
        with readable_errors(rows):
            rows = check_array(rows, dtype=[np.float64, np.float32], estimator=self, input_name="X")
        predictions = prior_predictions(self.kernel, rows, return_std, return_cov)
        return in_library_of(X, predictions if return_std or return_cov else predictions[0])

    def _queries(self, X: Any) -> tuple[Floats, Unseens]:
        """Rows to predict for, as numbers in the columns of the fit, and the levels in them that are new to it."""
        return queries(self, X)

    @property
    def _tail(self) -> tuple[int, ...]:
        """The shape of one row's predictions: () for one target, else (q,)."""
        check_is_fitted(self, "fitted_")
        return () if self.fitted_.q == 1 else (self.fitted_.q,)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R^2 of predictions, as in scikit-learn."""
        check_is_fitted(self, "fitted_")  # before a fit, `predict` would answer by the prior
        return float(super().score(X, y, sample_weight))

    def predict_interval(self, X: Any, coverage: float = 0.95) -> tuple[Any, Any]:
        """Predict central intervals that contain new observations with a chosen probability.

        They follow the distribution of errors that the fit has learnt, which need be neither Gaussian nor symmetric:
        half of ``1 - coverage`` is below the interval, and half above.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            For a Dask array or dataframe, the results are lazy Dask arrays.
        coverage : float, default=0.95
            The probability, between 0 and 1.

        Returns
        -------
        lower, upper : ndarrays of shape (n,) or (n, q)

        Examples
        --------
        >>> import numpy as np
        >>> from sodalite import GreedyGPRegressor
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(0, 10, (200, 1))
        >>> gp = GreedyGPRegressor(random_state=0).fit(X, np.sin(X[:, 0]) + generator.exponential(0.2, 200))
        >>> lower, upper = gp.predict_interval([[2.5]], coverage=0.9)
        >>> bool(lower[0] < np.sin(2.5) + 0.2 < upper[0])
        True
        """
        level = check_level("coverage", coverage)
        upper = min(0.5 + level / 2, np.nextafter(1.0, 0.0))  # rounding may make it 1
        bounds = self.predict_quantiles(X, [0.5 - level / 2, upper])
        return bounds[..., 0], bounds[..., 1]

    def predict_quantiles(self, X: Any, quantiles: ArrayLike) -> Any:
        """Predict quantiles of new observations, by the distribution of errors that the fit has learnt.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            For a Dask array or dataframe, the result is a lazy Dask array.
        quantiles : array-like of shape (levels,)
            Cumulative probabilities between 0 and 1, in any order.

        Returns
        -------
        ndarray of shape (n, levels) or (n, q, levels)
            In the order of `quantiles`. A larger level has a larger quantile.
        """
        levels = check_levels("quantiles", quantiles)
        tail = (*self._tail, len(levels))
        return answer(self, X, lambda fitted, rows, new: fitted.predictive(rows, new).quantiles(levels), tail)

    def log_density(self, X: Any, y: Any) -> Any:
        """Return the log density of observations y at X, by the distribution of errors that the fit has learnt.

        Its mean over new rows says how good the whole predictive distribution is; `sodalite.metrics.neg_nlpd` is the
        scorer.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            For a Dask array or dataframe, the result is a lazy Dask array, and y must have the same blocks of rows.
        y : array-like of shape (n,) or (n, q)

        Returns
        -------
        ndarray of shape (n,)
            In units of y: densities per unit. For several targets, the sum of their log densities.
        """
        check_is_fitted(self, "fitted_")
        return answer(
            self, X, lambda fitted, rows, new, Y: fitted.predictive(rows, new).log_density(Y).sum(axis=1), (), y=y
        )

    def pit(self, X: Any, y: Any) -> Any:
        """Return the cumulative probability of observations y at X, by the distribution that the fit has learnt.

        These are the values of the probability integral transform. For new rows they are uniform between 0 and 1 if
        error bars are honest at every level: a histogram of them that rises at both ends shows error bars that are too
        narrow, one that rises in the middle error bars that are too wide.

        Parameters
        ----------
        X, y : as in `log_density`

        Returns
        -------
        ndarray of shape (n,) or (n, q)
        """
        tail = self._tail
        return answer(self, X, lambda fitted, rows, new, Y: fitted.predictive(rows, new).cumulative(Y), tail, y=y)

    def novelty(self, X: Any) -> Any:
        """Return the share of the latent function's prior variance that remains given the rows of the fit.

        It is 0 where the function is known, as at the rows of the fit without noise, and 1 far from all of them,
        where a prediction is just the mean of the targets. It is also high between rows that are far apart for the
        kernel. Noise is not included.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            For a Dask array or dataframe, the result is a lazy Dask array.

        Returns
        -------
        ndarray of shape (n,)
            One number a row, also for several targets. O(m^2) a row.

        Examples
        --------
        >>> import numpy as np
        >>> from sodalite import GreedyGPRegressor
        >>> X = np.linspace(0, 10, 100)[:, None]
        >>> gp = GreedyGPRegressor(n_active=20, random_state=0).fit(X, np.sin(X[:, 0]))
        >>> gp.novelty([[2.5], [1000.0]]).round(3)
        array([0., 1.])
        """
        check_is_fitted(self, "fitted_")
        return answer(self, X, Fitted.novelty, ())

    def importance(
        self, X: Any = None, *, target: int = 0, random_state: RandomState = 0, n_predictions: int = 10_000
    ) -> Importance:
        """Measure which inputs matter, by the share of the predictions' variance that each contributes.

        The effects are measured on the model's predictions, for inputs as they occur: how much predictions change if an
        input takes the values of other rows (in all), and how much it explains by itself (alone). Pairs of inputs that
        act together are named. Length-scales say how fast a function changes with an input, not how far.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d), default=None
            Rows as they occur. None means those that the model holds: those of the fit or, if it comes from a file and
            its posterior is not "local", the active ones.
        target : int, default=0
            Which target, of several.
        random_state : int, RandomState instance or None, default=0
            For the rows that are drawn: at most 1000, each predicted once for every input.
        n_predictions : int, default=10000
            The approximate number of predictions: fewer take less time and give larger errors.

        Returns
        -------
        sodalite.report.importance.Importance
            The inputs in the order of their total effects, with standard errors; it prints as a table.

        Examples
        --------
        >>> import numpy as np
        >>> from sodalite import GreedyGPRegressor
        >>> X = np.random.default_rng(0).uniform(0, 1, (100, 3))
        >>> gp = GreedyGPRegressor(random_state=0).fit(X, 2 * X[:, 0] + np.sin(20 * X[:, 1]) / 5)
        >>> [effect.name for effect in gp.importance().effects][:2]
        ['input 1', 'input 2']
        """
        from .report.importance import importance
        from .report.inputs import inputs_of

        check_is_fitted(self, "fitted_")
        fitted: Fitted = self.fitted_
        check_target(target, fitted.q)
        held = fitted.X_active if fitted.rows is None else fitted.rows.X
        rows = held if X is None else self._queries(X)[0]
        check_count("n_predictions", n_predictions)
        generator = generator_from(random_state)
        return importance(
            lambda queries: fitted.mean(queries)[:, target], rows, inputs_of(self), generator, n_predictions
        )

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = 0) -> Any:
        """Draw new observations at X from the joint predictive distribution; before `fit`, from the prior.

        Samples of one row have the distribution of `predict_quantiles`. Those of several rows have the
        correlations of the Gaussian process: they are joint normal samples, transformed row by row to the learnt
        distribution (a Gaussian copula).

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, q, n_samples)
        """
        generator = generator_from(random_state)
        if hasattr(self, "fitted_"):
            return answer(
                self,
                X,
                lambda fitted, rows, new: fitted.samples(rows, new, n_samples, generator),
                (*self._tail, n_samples),
                joint=True,
            )
        mean, covariance = map(np.asarray, self._predict_prior(in_numpy(X)[0], False, True))
        samples = joint_samples(mean[:, None], covariance[..., None], n_samples, generator, None)
        return in_library_of(X, samples[:, 0])

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> float | tuple[float, Floats]:
        """Return the log marginal likelihood of the scaled targets at some hyperparameters, with fixed active rows.

        It is the likelihood of the same rows as `log_marginal_likelihood_value_`.

        Parameters
        ----------
        theta : array-like of shape (p,), default=None
            The logarithms of the kernel's free parameters, as in ``kernel_.theta``. None means those of the fit, whose
            value is known.
        eval_gradient : bool, default=False
            Whether to return the gradient by `theta` too, which requires `theta`.
        clone_kernel : bool, default=True
            For compatibility with scikit-learn. `kernel_` is not changed in either case.

        Returns
        -------
        value : float
            O(m^3) for "local" and "sod", O(n m^2) for the others.
        gradient : ndarray of shape (p,)
            With ``eval_gradient``.
        """
        check_is_fitted(self, "fitted_")
        if theta is None:
            if eval_gradient:
                raise ValueError("eval_gradient=True requires theta; kernel_.theta is that of the fit.")
            return float(self.log_marginal_likelihood_value_)
        value, gradient = likelihood_at(theta, self.fitted_, self.memory_limit)
        return (value, gradient) if eval_gradient else value

    def plot(self, kind: str | None = None, X: Any = None, y: Any = None, *, ax: Any = None) -> Any:
        """Draw the model with matplotlib: see `sodalite.plot.plot`.

        Parameters
        ----------
        kind : {"posterior", "learning", "calibration", "importance", "dependence"}, default=None
            The kind of plot. None means the posterior for one or two inputs, and partial dependence for more.
        X, y : array-like, optional
            Rows to show, and on which the model is evaluated; by default those of the fit.
        ax : matplotlib axes, optional
            Where to draw.
        """
        from .plot import plot

        return plot(self, kind, X, y, ax=ax)

    def _repr_html_inner(self) -> str:
        from .report.summary import with_summary

        return with_summary(self, super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        from .report.summary import with_summary

        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)
        return bundle | {kind: with_summary(self, text) for kind, text in bundle.items() if kind == "text/html"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # before `fit`, predict and sample_y use the prior
        return tags

    kernel_ = _FromFitted("kernel")
    mean_ = _FromFitted("mean_function")
    target_ = _FromFitted("target")
    selection_ = _FromFitted("selection")
    active_indices_ = _FromFitted("selection.indices")
    posterior_ = _FromFitted("posterior")
    rounds_ = _FromFitted("rounds")
    baselines_ = _FromFitted("baselines")
    judged_ = _FromFitted("judged")
    gross_errors_ = _FromFitted("gross_errors")
    X_train_ = _FromFitted("X_active")
    y_train_ = _FromFitted("y_train")
    y_mean_ = _FromFitted("scaling.mean")
    y_std_ = _FromFitted("scaling.std")
    log_marginal_likelihood_value_ = _FromFitted("posterior.log_marginal_likelihood")
