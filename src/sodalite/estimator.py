"""The scikit-learn interface: conventions only, no mathematics."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from .cluster.client import find_client
from .cluster.predict import learn_names, novelty_lazily, predict_lazily
from .cluster.table import share_out
from .core.namespaces import given_back, in_numpy
from .core.random import generator_from
from .core.types import Array
from .core.validation import (
    check_alpha,
    check_not_large,
    check_not_small,
    check_predictions,
    check_rows,
    check_targets,
    check_variance,
    is_dask,
    readable_errors,
    reads_from_disk,
    warn_of_outliers,
)
from .fitting.callbacks import CallbackSupportMixin, scikit_learn_callbacks
from .fitting.fitted import Fitted
from .fitting.joining import join
from .fitting.likelihood import likelihood_at
from .fitting.pipeline import Settings, fit
from .kernels import check_numeric
from .posteriors import draw
from .posteriors.prior import prior_predictions
from .selection.progress import following
from .selection.source import Arrays, Source
from .stopping import Callback

BLOCK = 2**20  # numbers that are read at a time, of rows that are to be predicted and are not in memory


def _r2(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """The R^2 of a fitted model's predictions at X, as in scikit-learn."""
    check_is_fitted(self, "fitted_")  # a prior could be judged, but who asks for that has forgotten to fit
    return float(RegressorMixin.score(self, X, y, sample_weight))


class _ScoreMethod:
    """The method ``score(X, y, sample_weight=None)``, of an estimator that has a parameter of the same name.

    `score` names a parameter here (which row comes next) and a method in scikit-learn (the R^2 of predictions). As a
    parameter it is passed, set, listed and cloned; as an attribute it is the method, which is all that is ever looked
    up that way. On the class it is a plain function, whose signature tells scikit-learn that weights can be routed to
    it, as a property's would not.
    """

    def __get__(self, instance: Any, owner: type) -> Any:
        function = _r2
        return function if instance is None else function.__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__["score"] = value


class _Found:
    """An attribute of the fitted model, which an estimator has once it is fitted."""

    def __init__(self, path: str) -> None:
        self.get = attrgetter(path)

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.get(instance.fitted_)


class GreedyGPRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process regression on the few rows that the model itself chooses.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        The covariance. A ``WhiteKernel`` in it is the noise; a kernel without one means noiseless observations. None
        lets several compete, all started from the data: constant x squared-exponential, Matern 5/2, Matern 3/2 or, of
        up to two inputs, Matern 1/2, with one length-scale per input, plus white noise. To the best of them a trend, a
        second scale or, of one input, a period may be added, where the data ask for it.
    n_active : int, default=500
        The most rows to keep. With fewer rows than that, all are kept.
    tol : float, default=None
        The paper's rule: stop when another row lowers the remaining rows' RMSE by less than this (in units of y).
    score : {"lookahead", "delta", "uncertainty", "underfit", "sampled", "random"} or callable, default="lookahead"
        Which row comes next: see `sodalite.select`. "delta" is the paper's.
    posterior : {"local", "sod", "sor", "dtc", "fitc", "vfe"}, default="local"
        What is concluded from the chosen rows. "local" is the exact Gaussian process given them and each query's
        nearest rows, "sod" (the paper's) given them alone; the others see all rows through them.
    hyperparameters : {"weave", "subset", "fixed"} or object, default="weave"
        How the kernel's free parameters are found: in rounds, each kept only if it predicts other rows better; by the
        likelihood of a random subset of the rows; or not at all. See `sodalite.hyperparameters.Weave` and
        `sodalite.hyperparameters.Subset` for how many rows they look at.
    n_neighbors : int, default=None
        How many neighbours a query has, for "local". None means as few as predict the rows well, each from all others.
    calibrate : bool, default=True
        Whether error bars are made honest: far from all rows no less than the targets' own spread, and, for "local",
        scaled by how wrong it was near by. See `sodalite.posteriors.calibration`. False leaves them as the Gaussian
        process has them, which far from all rows is the prior's, whatever the kernel says that to be (for "sor", none).
    normalize_y : bool, default=True
        Centre and scale every target before the fit; `kernel` is in units of the scaled targets, as in scikit-learn.
    patience : int, default=1
        How many stages in a row must fall by less than `tol`.
    target_rmse : float, default=None
        Stop when the remaining rows' RMSE is at most this (in units of y).
    time_limit : float, default=None
        Seconds for the kernel's parameters and the choice of rows. The search for the parameters takes no new step (the
        weave no new round) after three quarters of them; the choice gets what is left, and at least a quarter. What has
        been begun is finished, and the posterior of all rows comes on top.
    stop : sodalite.stopping.Rule, default=None
        Any other stopping rule.
    first : int or sequence of int, default=None
        The row, or rows, to start from; drawn at random if None.
    dtype : {"float64", "float32"}, default="float64"
        The type of the covariances while rows are chosen; the posterior is float64 either way. See `sodalite.select`.
    n_jobs : int, default=None
        Threads for the choice of rows; None means all cores.
    memory_limit : int or str, default=None
        Bytes to work in while rows are chosen, such as ``"2GB"``; None means half of what is free.
    random_state : int, RandomState instance or None, default=None
        For the rows that hyperparameters and neighbours are judged by, the starts and the first row.
    verbose : bool, default=False
        Show progress on standard error.
    checkpoint : str or path-like, default=None
        A file in which `fit` keeps the hyperparameters that it found and the rows that it chose, as it goes on. If it
        is there already, the fit goes on from it: see `sodalite.select`.

    Attributes
    ----------
    active_indices_ : ndarray of shape (m,)
        The rows that were kept, in the order in which they were chosen.
    fitted_ : sodalite.fitting.fitted.Fitted
        All that the fit has found, in one frozen object; the other attributes are parts of it.
    kernel_ : scikit-learn kernel
        The kernel with its hyperparameters found.
    rounds_ : tuple of sodalite.hyperparameters.Round
        How they were found.
    selection_ : sodalite.Selection
        How the choice went. Its `rmse` is in units of y; of several targets, in standard deviations of each.
    posterior_ : object
        The posterior of the scaled targets.
    X_train_, y_train_ : ndarray of shape (m, d), (m,) or (m, q)
        The rows that were kept; the targets are scaled.
    y_mean_, y_std_ : ndarray of shape (q,)
        What the targets were centred and scaled by.
    baselines_ : sodalite.posteriors.baselines.Baselines
        How well the model and simple ways (a constant, a straight line, the nearest rows) predict rows of the fit, each
        from all others. Where the model is no better, `fit` warns.
    log_marginal_likelihood_value_ : float
        The log marginal likelihood at ``kernel_.theta``: of the kept rows for "local" and "sod", of all rows under the
        approximate prior for "sor", "dtc" and "fitc"; for "vfe", its bound on the exact one of all rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With scikit-learn's ``array_api_dispatch``, arrays of PyTorch, CuPy and others are taken: NumPy works on copies, and
    predictions are arrays as the rows are, on the same device. Fitted attributes are NumPy's.

    With several targets, one active set serves them all. They share the kernel, and the absolute residual that a score
    sees is the root mean square over the scaled targets.

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
        n_active: int = 500,
        tol: float | None = None,
        score: Any = "lookahead",
        posterior: str = "local",
        hyperparameters: Any = "weave",
        n_neighbors: int | None = None,
        calibrate: bool = True,
        normalize_y: bool = True,
        patience: int = 1,
        target_rmse: float | None = None,
        time_limit: float | None = None,
        stop: Any = None,
        first: Any = None,
        dtype: Any = "float64",
        n_jobs: int | None = None,
        memory_limit: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_active = n_active
        self.tol = tol
        self.score = score
        self.posterior = posterior
        self.hyperparameters = hyperparameters
        self.n_neighbors = n_neighbors
        self.calibrate = calibrate
        self.normalize_y = normalize_y
        self.patience = patience
        self.target_rmse = target_rmse
        self.time_limit = time_limit
        self.stop = stop
        self.first = first
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any, *, alpha: Any = None, executor: Any = None, callback: Callback | None = None) -> Self:
        """Find the hyperparameters, choose the rows and condition on them. A fit that fails changes nothing.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            With a Dask client, also a Dask array or dataframe.
            A memory map, or an array-like that is read when it is sliced (`sodalite.tables.open_parquet` gives one),
            is never read whole, unless the posterior is "local", which needs all rows in memory.
        y : array-like of shape (n,) or (n, q)
            With a Dask client, also a Dask array, series or dataframe.
        alpha : float or array-like of shape (n,), default=None
            The variance of each row's own noise, in units of y squared (of several targets, of each scaled one), beyond
            what the kernel's ``WhiteKernel`` says of all rows: known measurement errors. As scikit-learn's, it is added
            to the diagonal of the training covariance, and no part of predictions. A row of weight w among rows of
            noise v has alpha v / w. No row has less noise than the floor of `sodalite.core.jitter`; where `alpha` is
            positive and below it, `fit` warns.
        executor : dask.distributed.Client, default=None
            A cluster to work on; for Dask collections, by default the client that there is. The rows stay on its
            workers, but for a sample of them that hyperparameters are learnt from, and for posterior="local", which
            keeps all rows and so fetches them.
        callback : callable, default=None
            Called with a `sodalite.stopping.Stage` when a step of the fit begins, and for every row that is chosen:
            what is being done, the RMSE so far, and how long it may still take.
        """
        X, y, alpha = in_numpy(X, y, alpha)
        check_numeric(self.kernel, X)
        before = self.__dict__.copy()
        try:
            with (
                scikit_learn_callbacks(self, self.n_active) as told,
                following(callback, told, verbose=self.verbose) as follow,
            ):
                settings = Settings.of(self.get_params(deep=False))
                source, target_shape = self._source(X, y, alpha, executor)
                self.fitted_ = fit(source, target_shape, settings, follow)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _source(self, X: Any, y: Any, alpha: Any, executor: Any) -> tuple[Source, tuple[int, ...]]:
        """The rows, checked as far as scikit-learn's conventions go, and the shape of a row's target."""
        if executor is not None or is_dask(X) or is_dask(y):
            client = find_client(executor)
            if is_dask(X) or is_dask(y):
                learn_names(self, X, reset=True)
            else:
                X, y = self._numbers(X, y)
            table = share_out(X, y, alpha, client)
            return table, () if table.pieces.flat else (table.q,)
        if reads_from_disk(X):
            X, y = check_rows(X, y)
            validate_data(self, X, skip_check_array=True)  # notes how many columns there are
        else:
            X, y = self._numbers(X, y)
            check_not_small("X", check_not_large("X", X))
            y = check_targets(y, len(X))
            warn_of_outliers(X, y.reshape(len(X), -1), getattr(self, "feature_names_in_", None))
        Y = y.reshape(len(X), -1)
        check_not_small("y", np.abs(Y).max(axis=0))
        return Arrays(X, Y, None if alpha is None else check_alpha(alpha, len(X))), y.shape[1:]

    def _numbers(self, X: Any, y: Any, reset: bool = True) -> tuple[Array, Array]:
        with readable_errors(X):
            both = validate_data(
                self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True, reset=reset
            )
        return both[0], both[1]

    def partial_fit(
        self, X: Any, y: Any, *, alpha: Any = None, exchange: bool = False, callback: Callback | None = None
    ) -> Self:
        """Let new rows join a fitted model; the first call is a fit.

        The kernel, and what the targets were scaled by, stay as they are. The choice of rows goes on from the present
        active rows, among all rows, up to `n_active` (which may have been raised by ``set_params``), and the posterior
        is conditioned on all rows. What comes out is what the same picks give on the joined data.

        Parameters
        ----------
        X, y, alpha, callback : as in `fit`
        exchange : bool, default=False
            Whether active rows may be given up for others, where there is no room for as large a share of the new rows
            as there is of the old: those that are missed least, and only if J, the log density of all targets, rises.
            It takes up to three more choices of rows.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, alpha=alpha, callback=callback)
        X, y, alpha = in_numpy(X, y, alpha)
        before = self.__dict__.copy()
        try:
            with following(callback, verbose=self.verbose) as follow:
                settings = Settings.of({**self.get_params(deep=False), "checkpoint": None})
                X, y = self._numbers(X, y, reset=False)
                check_not_large("X", X)
                y = check_targets(y, len(X))
                if y.shape[1:] != self.fitted_.target_shape:
                    raise ValueError(
                        f"y has targets of shape {y.shape[1:]}, but the model was fitted with "
                        f"{self.fitted_.target_shape}."
                    )
                new = Arrays(X, y.reshape(len(X), -1), None if alpha is None else check_alpha(alpha, len(X)))
                self.fitted_ = join(self.fitted_, new, settings, exchange, follow)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    @given_back
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The predictive mean, with the standard deviation or the covariance if asked for.

        Before `fit`, it is that of the prior, as in scikit-learn: zero, with the covariance of `kernel`, where None
        stands for ``ConstantKernel(1.0) * RBF(1.0)``.

        Both are those of new observations, noise included, as in scikit-learn: the noise is what the kernel's
        ``WhiteKernel`` says, so a kernel without one gives those of the latent function.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Of a Dask array or dataframe, the results are Dask arrays: nothing is computed until they are.
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
            check_numeric(self.kernel, X)
            with readable_errors(X):
                X = check_array(X, dtype=[np.float64, np.float32], estimator=self, input_name="X")
            known = prior_predictions(self.kernel, X, return_std, return_cov)
            return known if return_std or return_cov else known[0]
        check_is_fitted(self, "fitted_")
        if is_dask(X):
            return predict_lazily(self, X, return_std, return_cov)
        if (
            reads_from_disk(X)
            and len(X.shape) == 2
            and len(X) > (size := BLOCK // max(X.shape[1], 1) + 1)
            and not return_cov
        ):
            parts = [self.predict(np.asarray(X[at : at + size]), return_std) for at in range(0, len(X), size)]
            return tuple(map(np.concatenate, zip(*parts, strict=True))) if return_std else np.concatenate(parts)
        with readable_errors(X):
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        fitted: Fitted = self.fitted_
        check_variance(fitted.posterior.kernel, X)
        with np.errstate(over="ignore"):  # what is not finite is refused
            if return_cov:
                found: tuple[Array, ...] = fitted.mean_and_covariance(X)
            else:
                found = fitted.mean_and_std(X) if return_std else (fitted.mean(X),)
        found = tuple(map(_squeeze, found))
        check_predictions(X, *found)
        return found if return_std or return_cov else found[0]

    @given_back
    def novelty(self, X: Any) -> Any:
        """How little the rows of the fit say about others: the share of the prior variance that they leave.

        It is 0 where the function is known, as at the rows of the fit if there is no noise, and 1 far from all of them,
        where a prediction is no more than the mean of the targets. Between rows that are far apart for the kernel, it
        is high too. The noise has no part in it.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Of a Dask array or dataframe, the result is a Dask array: nothing is computed until it is.

        Returns
        -------
        ndarray of shape (n,)
            One number a row, also of several targets. O(m^2) a row.

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
        if is_dask(X):
            return novelty_lazily(self, X)
        if reads_from_disk(X) and len(X.shape) == 2 and len(X) > (size := BLOCK // max(X.shape[1], 1) + 1):
            return np.concatenate([self.novelty(np.asarray(X[at : at + size])) for at in range(0, len(X), size)])
        with readable_errors(X):
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return self.fitted_.posterior.mean_variance_novelty(X)[2]

    @given_back
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw new observations at X from the predictive distribution, jointly over the rows; before `fit`, the prior.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, q, n_samples)
        """
        mean, cov = self.predict(X, return_cov=True)
        generator = generator_from(random_state)
        if mean.ndim == 1:
            return draw(mean, cov, n_samples, generator)
        return np.stack([draw(mean[:, j], cov[..., j], n_samples, generator) for j in range(mean.shape[1])], axis=1)

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True) -> Any:
        """The log marginal likelihood of the scaled targets at some hyperparameters, the active rows held.

        It is that of the rows that `log_marginal_likelihood_value_` is about.

        Parameters
        ----------
        theta : array-like of shape (p,), default=None
            The logarithms of the kernel's free parameters, as in ``kernel_.theta``. None means those of the fit, whose
            value is known.
        eval_gradient : bool, default=False
            Whether to return the gradient by `theta` too, which must be given then.
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
                raise ValueError("theta must be given where eval_gradient is True; kernel_.theta is that of the fit.")
            return self.log_marginal_likelihood_value_
        found = likelihood_at(theta, self.fitted_, self.memory_limit)
        return found if eval_gradient else found[0]

    def to_gpytorch(self, X: Any = None, y: Any = None) -> Any:
        """The model as GPyTorch's, with the active rows as inducing points: see `sodalite.exports.to_gpytorch`."""
        from .exports import to_gpytorch

        return to_gpytorch(self, X, y)

    def to_gpflow(self, X: Any = None, y: Any = None) -> Any:
        """The model as GPflow's, with the active rows as inducing points: see `sodalite.exports.to_gpflow`."""
        from .exports import to_gpflow

        return to_gpflow(self, X, y)

    def to_onnx(self, path: Any, *, input_dtype: Any = "float64") -> None:
        """Write the predictor, mean and standard deviation, as an ONNX file: see `sodalite.exports.to_onnx`."""
        from .exports import to_onnx

        to_onnx(self, path, input_dtype=input_dtype)

    def plot(self, kind: str | None = None, X: Any = None, y: Any = None, *, ax: Any = None) -> Any:
        """Draw the model with matplotlib: see `sodalite.plot.plot`.

        Parameters
        ----------
        kind : {"posterior", "learning", "calibration", "relevance", "dependence"}, default=None
            What to draw. None means the posterior for one or two inputs, and partial dependence for more.
        X, y : array-like, optional
            Rows to show and to judge by; those of the fit unless given.
        ax : matplotlib axes, optional
            Where to draw.
        """
        from .plot import plot

        return plot(self, kind, X, y, ax=ax)

    def _repr_html_inner(self) -> str:
        from .report.notebook import with_summary

        return with_summary(self, super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        from .report.notebook import with_summary

        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)
        return bundle | {kind: with_summary(self, text) for kind, text in bundle.items() if kind == "text/html"}

    score = _ScoreMethod()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as in scikit-learn."""
        return {**super().get_params(deep), "score": self.__dict__["score"]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # predict and sample_y know the prior
        return tags

    kernel_ = _Found("kernel")
    selection_ = _Found("selection")
    active_indices_ = _Found("selection.indices")
    posterior_ = _Found("posterior")
    rounds_ = _Found("rounds")
    baselines_ = _Found("baselines")
    X_train_ = _Found("X_active")
    y_train_ = _Found("y_train")
    y_mean_ = _Found("scaling.mean")
    y_std_ = _Found("scaling.std")
    log_marginal_likelihood_value_ = _Found("posterior.log_marginal_likelihood")


def _squeeze(values: Array) -> Array:
    """Without its last axis, the targets', where there is one target."""
    return values[..., 0] if values.shape[-1] == 1 else values
