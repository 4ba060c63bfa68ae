"""The greedy choice of the active rows: Algorithm 1 of the paper, on the Cholesky factor.

Adding row j changes what is known of every row x by one number, nu(x): with p = sqrt(s2(j) + noise(j)),

    nu(x) = (k(j, x) - v(j).v(x)) / p,    s2(x) <- s2(x) - nu(x)^2,    r(x) <- r(x) - (r(j) / p) nu(x)

which is the paper's block-inverse update (appendix A.1) written on the factor L of K_II + noise. It needs neither
the n x n covariance of the rows nor that of the remainder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state

from .jitter import with_jitter
from .kernels import CompiledKernel, Features, compile_kernel, take
from .scores import PointwiseScore, Random, best, evaluate, resolve_score
from .stopping import Rule, Stage, resolve_rule
from .validation import check_first, check_rows

Array = NDArray[Any]
Callback = Callable[[Stage], None]


@dataclass(frozen=True)
class Selection:
    """The rows that were chosen, and how it went. `indices`, `rmse` and `factor` are all of the same length."""

    indices: Array
    """The active rows, in the order in which they were chosen."""
    rmse: Array
    """The remainder's RMSE after every stage: ``rmse[t - 1]`` is that of the rows other than the first t chosen,
    predicted from these. NaN once every row is active."""
    factor: Array
    """The lower Cholesky factor of k(I, I) + noise, rows in the order of `indices`."""
    scores: Array
    """The score that each row had when it was chosen; NaN for rows that were given or drawn at random."""
    stop_reason: str
    """Why it ended: ``"n_active"``, ``"all_rows"`` (fewer rows than that), ``"tol"``, ``"target_rmse"``,
    ``"time_limit"``, or the reason of a rule of your own."""
    noise_floor: float
    """The least noise variance that a row was given (`sodalite.jitter`)."""

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Selection({len(self)} rows, rmse={self.rmse[-1]:.4g}, stop_reason={self.stop_reason!r})"


def select(
    X: Any,
    y: Any,
    kernel: Kernel,
    *,
    n_active: int,
    score: str | PointwiseScore | Random = "delta",
    tol: float | None = None,
    patience: int = 1,
    target_rmse: float | None = None,
    time_limit: float | None = None,
    stop: Rule | None = None,
    first: Any = None,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Selection:
    """Choose the rows that a Gaussian process needs, one by one.

    The targets are taken as they are: the prior mean is zero, as in the paper. Time O(n m^2), memory O(n m).

    Parameters
    ----------
    X : array of shape (n, d)
        The inputs.
    y : array of shape (n,) or (n, q)
        The targets. Of several, the score sees the root mean square of a row's residuals.
    kernel : sklearn.gaussian_process.kernels.Kernel
        The covariance, its hyperparameters as they are to be used. A ``WhiteKernel`` in it is the noise; without
        one the observations are noiseless (see `sodalite.jitter`).
    n_active : int
        The most rows to choose. With fewer rows than that, all become active.
    score : {"delta", "uncertainty", "underfit", "random"} or callable, default="delta"
        The row that maximises this comes next: the paper's ``s + abs(r)``, one of its terms, or a function of the
        latent standard deviation s, the absolute residual and the noise variance (three arrays over the rows).
        Ties go to the lowest index. See `sodalite.scores.Delta` for weights on the terms.
    tol : float, optional
        The paper's delta: stop at the first stage whose RMSE on the remainder is not at least this much below the
        stage before. That stage's rows are what is returned.
    patience : int, default=1
        How many stages in a row must fall by less than `tol`.
    target_rmse : float, optional
        Stop when the remainder's RMSE is at most this.
    time_limit : float, optional
        Stop at the first stage that ends after so many seconds.
    stop : sodalite.stopping.Rule, optional
        Any other rule, or a combination of them.
    first : int or sequence of int, optional
        The row to start from (the paper draws it at random), or several rows, in order: then the rules that end the
        selection early are first asked after the last of them.
    random_state : int, numpy.random.RandomState or None, default=None
        For the first row and for ``score="random"``.
    callback : callable, optional
        Called with a `sodalite.stopping.Stage` after every stage.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> chosen = select(X, np.sin(X[:, 0]), RBF(1.0) + WhiteKernel(0.01), n_active=12, first=0)
    >>> chosen.indices[:4]
    array([  0,  33, 146,  95])
    >>> chosen.stop_reason
    'n_active'
    """
    X, y = check_rows(X, y)
    rule = resolve_rule(n_active, tol, patience, target_rmse, time_limit, stop)
    return grow(
        X,
        y.reshape(len(y), -1),
        compile_kernel(kernel, X),
        n_active=n_active,
        score=resolve_score(score),
        rule=rule,
        first=first,
        generator=generator_from(random_state),
        callback=callback,
    )


def grow(
    X: Array,
    y: Array,
    kernel: CompiledKernel,
    *,
    n_active: int,
    score: PointwiseScore | Random,
    rule: Rule,
    first: Any = None,
    generator: np.random.Generator,
    callback: Callback | None = None,
    unit: float = 1.0,
) -> Selection:
    """What `select` does, once its arguments are checked; y has two dimensions.

    `unit` is what one unit of y is worth where RMSE is reported or compared with a rule's bound: the estimator works on
    standardised targets, but its user thinks in those that were given.
    """
    n = X.shape[0]
    m = min(int(n_active), n)
    start = [] if first is None else check_first(first, n, m)
    if isinstance(score, Random):
        order = score.order(n, m, generator, start)
    else:
        order = start or [int(generator.integers(n))]
    features = kernel.prepare(X)
    prior = kernel.diag(features)
    problem = _Problem(
        kernel,
        features,
        y,
        prior,
        kernel.noise(features),
        n_active=m,
        order=order,
        n_given=max(len(start), 1),
        score=None if isinstance(score, Random) else score,
        rule=rule,
        callback=callback,
        unit=unit,
    )
    return with_jitter(problem.grow, float(prior.max()))


@dataclass(frozen=True)
class _Problem:
    """Everything that a selection is about, checked and prepared."""

    kernel: CompiledKernel
    features: Features
    y: Array
    prior: Array
    noise: Array
    n_active: int
    order: list[int]
    """Rows that are taken whatever their score: those given, the first, or a random order."""
    n_given: int
    """The stage from which on the rules may end the selection."""
    score: PointwiseScore | None
    rule: Rule
    callback: Callback | None
    unit: float

    def grow(self, noise_floor: float) -> Selection:
        """Algorithm 1: grow the active set until the rule ends it. O(n t) for stage t."""
        began = perf_counter()
        n, m = len(self.y), self.n_active
        noise = np.maximum(self.noise, noise_floor)
        V = np.empty((m, n))  # row t: coordinate t of every row's v
        L = np.zeros((m, m))
        s2, r = self.prior.copy(), self.y.copy()
        remains = np.ones(n, dtype=bool)
        indices: list[int] = []
        scores: list[float] = []
        rmse: list[float] = []
        reason = None
        while reason is None:
            t = len(indices)
            j, value = self._next(t, s2, r, noise, remains)
            pivot = s2[j] + noise[j]
            if not pivot > 0.5 * noise_floor:
                raise np.linalg.LinAlgError("not positive definite")
            p = np.sqrt(pivot)
            L[t, :t], L[t, t] = V[:t, j], p
            nu = self.kernel.block(take(self.features, [j]), self.features)[0]
            nu -= V[:t, j] @ V[:t]
            nu /= p
            V[t] = nu
            s2 -= nu * nu
            r -= np.multiply.outer(nu, r[j] / p)
            remains[j] = False
            indices.append(j)
            scores.append(value)
            rmse.append(self.unit * float(np.sqrt(np.mean(np.square(r[remains])))) if t + 1 < n else np.nan)
            stage = Stage(rmse, perf_counter() - began, n, m)
            if self.callback is not None:
                self.callback(stage)
            if t + 1 == n:
                reason = "all_rows"
            elif t + 1 >= self.n_given:
                reason = self.rule.check(stage)
        t = len(indices)
        return Selection(np.array(indices), np.array(rmse), L[:t, :t].copy(), np.array(scores), reason, noise_floor)

    def _next(self, t: int, s2: Array, r: Array, noise: Array, remains: Array) -> tuple[int, float]:
        """The row to take, and its score."""
        if self.score is None or t < len(self.order):
            return self.order[t], np.nan
        rows = np.flatnonzero(remains)
        s = np.sqrt(np.maximum(s2[rows], 0))
        abs_r = np.sqrt(np.mean(np.square(r[rows]), axis=1))
        value = evaluate(self.score, s, abs_r, noise[rows])
        place = best(value)
        return int(rows[place]), float(value[place])


def generator_from(random_state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral):
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
