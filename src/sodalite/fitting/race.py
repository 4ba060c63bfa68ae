"""The race of mean functions and scales of the target (docs/method.rst, `race`).

Each candidate predicts the rows of folds from the others, with a Gaussian process whose parameters have been
climbed a little. What counts is the log density of the targets themselves, by Student's t, and their RMSE. The simplest
is kept, unless another is ahead by more than chance, and gets the whole fit. If a line or a constant alone then
predicts better than this model, that is what is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import inf, log, pi, sqrt
from time import perf_counter

import numpy as np
from scipy.special import gammaln, stdtrit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

from ..core.threads import keep_memory, one_blas_thread
from ..core.types import Floats, Indices
from ..core.warn import warn
from ..hyperparameters import Fixed
from ..hyperparameters.climb import climb
from ..hyperparameters.likelihood import Plausibility
from ..kernels import default_kernels, robust_spread
from ..kernels.neighbours import Index
from ..posteriors.line import fit_line
from ..selection.rows import ArrayRows, Rows, noise_alone, targets
from .clock import RACE, Clock
from .fitted import Fitted
from .means import SEED, LinearMean, Regressor, TreesMean, Trial, fit_folds, name_of
from .pipeline import Settings, check, fit_with_mean
from .targets import AUTO, Target

TINY = np.finfo(np.float64).tiny  # the least variance that is divided by
JUDGES = 200  # rows that candidates are compared on: their log densities are then known to some .05 nats a row
POOL = 5000  # rows that the judges are drawn from, and that lines and trees see
PROMISING = 0.98  # ratio of the RMSE of trees that see the pool to that of the model, up to which they get a whole fit
MOST_LEFT_OUT = 2000  # rows that are left out of whole fits to compare them: .01 nats a row
MANY = 1000  # rows from which on some judges lie beside each other, as rows do among all of them
WINDOWS = 8  # parts of the judges that lie beside each other, where there are more rows
FEWEST = 20  # rows below which nothing competes: their log densities say too little
FEWEST_FOR_TREES = 500  # rows below which trees are not tried
FEWEST_VALUES = 5  # different targets below which no other scale is tried
FOLDS = 5  # parts of the judges, each of which the others predict
STEPS, MORE_STEPS = 5, 1  # steps of a climb of all judges' likelihood, and from its end of that without a fold
WORTH = 0.01  # nats a row that a candidate must gain
LARGER = 1.05  # ratio of RMSEs up to which they are level; 1.02 would lose .02 nats a row, 1.1 a hundredth of RMSE
SURE = 2.0  # standard errors by which a line or a constant alone must be ahead, or the process beside a line
AS_GOOD = 1.02  # ratio of the RMSE beside a line to that of the line alone up to which a process may be worth its while
SHARE = 0.1  # share of a time limit that the race may take
NUS = (2.0, 3.0, 5.0, 10.0, 30.0, 300.0)  # degrees of freedom that are tried
ROUNDS = 20  # steps of the fixed-point iteration for the scale of a t
LEVELS = np.arange(1, 40, 2) / 40  # of the quantiles by which a mean is computed
WIDE = 3.0  # ratio of the largest to the least positive target from which its logarithm is something else
SKEWED = 0.5  # skewness of targets from which a power is tried
NOTHING = 1e-6  # variance of a process that has nothing to learn, as a share of the noise


@dataclass(frozen=True)
class Candidate:
    """A mean function, a scale of the target, and whether a Gaussian process learns what the mean leaves."""

    mean: Regressor | None
    target: str | None
    alone: bool = False

    def __str__(self) -> str:
        name = "constant" if self.mean is None else name_of(self.mean)
        parts = [name + " alone" * self.alone, *([] if Target(self.target).is_linear else [str(Target(self.target))])]
        return ", ".join(parts)

    def applied(self, settings: Settings, rows: Rows) -> Settings:
        """The settings of the whole fit."""
        settings = replace(settings, mean=self.mean, target=self.target, alone=self.alone)
        if not self.alone:
            return settings
        spread = robust_spread(rows.take(_some(np.arange(rows.shape[0]), POOL)).X) * 2 * sqrt(rows.shape[1])
        return replace(settings, kernel=ConstantKernel(NOTHING) * RBF(spread) + WhiteKernel(1.0), method=Fixed())


@dataclass(frozen=True)
class Judged:
    """A candidate, and how well it predicts some rows, each left out."""

    candidate: Candidate
    density: Floats
    """Log densities of the targets in their own units, of shape (rows,)."""
    squares: Floats
    """Squared errors in units of the targets, of shape (rows,)."""

    @property
    def trial(self) -> Trial:
        """What is told of it."""
        return Trial(str(self.candidate), -float(self.density.mean()), float(np.sqrt(self.squares.mean())))

    def beats(self, other: Judged, errors: float = 1.0, larger: float = LARGER) -> bool:
        """Whether its density is larger by more than chance and its RMSE hardly larger, or the other way round.

        Parameters
        ----------
        other : Judged
        errors : float
            Standard errors of a mean difference by which it must be ahead.
        larger : float
            Ratio of the RMSEs up to which it is hardly larger.
        """
        unit = max(float(other.squares.max()), TINY)  # targets may be so large that squares of squares are infinite
        gain, fewer = self.density - other.density, other.squares / unit - self.squares / unit
        chance, by_chance = (float(part.std()) / sqrt(len(part)) for part in (gain, fewer))
        ratio = sqrt(float(self.squares.mean()) / max(float(other.squares.mean()), TINY))
        if gain.mean() > max(WORTH, errors * chance):
            return ratio <= larger
        return bool(ratio * LARGER < 1 and fewer.mean() > errors * by_chance and gain.mean() >= -chance)


def fit(rows: Rows, target_shape: tuple[int, ...], settings: Settings, follow: Clock) -> Fitted:
    """Fit a model to the rows, with the mean function and the scale of the target that win where these are left open.

    Parameters are those of `sodalite.fitting.pipeline.fit_with_mean`.
    """
    keep_memory()
    began = perf_counter()
    rows = check(rows, settings, follow)
    plain = Candidate(settings.mean, "standardize" if settings.target == AUTO else settings.target, settings.alone)
    if not settings.competes or rows.q > 1 or rows.shape[0] < FEWEST:
        return fit_with_mean(rows, target_shape, plain.applied(settings, rows), follow)
    follow.say(RACE)
    race = Race.of(rows, settings, began)
    if not np.ptp(race.y):  # nothing is better than another
        return fit_with_mean(rows, target_shape, plain.applied(settings, rows), follow)
    best = race.winner(plain)
    limit = settings.time_limit

    def whole(candidate: Candidate, is_first: bool = False) -> Whole:
        """A fit in the time that is left; the checkpoint is that of the first."""
        left = None if limit is None else max(limit - (perf_counter() - began), 0.0)
        applied = replace(candidate.applied(settings, rows), time_limit=left)
        applied = applied if is_first else replace(applied, checkpoint=None, file=None)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")  # a warning may concern a model that is not kept
            return Whole(candidate, fit_with_mean(rows, target_shape, applied, follow), said)

    kept = whole(best, is_first=True)
    if (alone := race.alone(kept)) is not None:
        kept = whole(alone)
    is_early = limit is None or perf_counter() - began < 0.5 * limit
    if settings.chooses_mean and is_early and race.promises_trees(kept.model):
        trees = whole(replace(best, mean=TreesMean()))
        first, second = (each.left_out(trees.model.judges) for each in (trees, kept))
        if first is not None and second is not None and first.beats(second):
            kept = trees
    for each in kept.said:
        warn(each.message, each.category)
    judged = sorted(race.judged, key=lambda each: -float(each.density.mean()))
    trials = tuple(each.trial for each in judged) if len(judged) > 1 else ()
    return replace(kept.model, mean_function=replace(kept.model.mean_function, trials=trials))


@dataclass(frozen=True)
class Whole:
    """A candidate that got a whole fit, and what this has warned of."""

    candidate: Candidate
    model: Fitted
    said: list[warnings.WarningMessage]

    def left_out(self, known: Indices | None, larger: Floats | None = None) -> Judged | None:
        """How well it predicts at most `MOST_LEFT_OUT` of some rows, or of all, each left out; None if it cannot.

        Errors are `larger` by such factors, of shape (rows,), as lines have seen the rows.
        """
        which = _some(np.arange(self.model.n_rows) if known is None else known, MOST_LEFT_OUT)
        if (found := self.model.left_out(which, 1.0 if larger is None else larger[:, None])) is None:
            return None
        distribution, y = found
        return Judged(self.candidate, distribution.log_density(y)[:, 0], np.square(y - distribution.mean)[:, 0])


class Race:
    """Candidates on some rows of a fit.

    Parameters
    ----------
    pool : ArrayRows
        Rows in memory, with one target.
    rows : array of int
        Their numbers among the rows of the fit.
    settings : Settings
    n : int
        How many rows the fit has.
    end : float
        The time, by `time.perf_counter`, after which no candidate is tried that need not be.
    ends : tuple of float
        The least and the largest target of all rows, which a scale must suit.
    """

    def __init__(
        self, pool: ArrayRows, rows: Indices, settings: Settings, n: int, end: float, ends: tuple[float, float]
    ) -> None:
        self.X, self.y, self.rows = np.asarray(pool.X, dtype=np.float64), pool.y, rows
        self.settings, self.n, self.end, self.ends = settings, n, end, ends
        self.judges = _judges(self.X)
        self.fold = np.random.default_rng(SEED).permutation(len(self.judges)) % FOLDS
        self.judged: list[Judged] = []

    @classmethod
    def of(cls, rows: Rows, settings: Settings, began: float) -> Race:
        """The race of some rows of a fit, without those whose targets say nothing."""
        which = _some(np.arange(rows.shape[0]), POOL)
        some = rows.take(which)
        known = np.ones(len(some), dtype=bool) if settings.weights is None else settings.weights[which] > 0
        if some.alpha is not None:
            known &= ~noise_alone(ArrayRows(some.X, some.y, some.alpha))
        end = inf if settings.time_limit is None else began + SHARE * settings.time_limit
        y = targets(rows)[0]
        pool = ArrayRows(some.X[known], np.asarray(some.y[known], dtype=np.float64))
        return cls(pool, which[known], settings, rows.shape[0], end, (float(y.min()), float(y.max())))

    def winner(self, plain: Candidate) -> Candidate:
        """The simplest candidate, unless another beats it: each mean function with each scale."""
        with one_blas_thread():
            best, others = self._judge(plain), list(self._scales())
            candidates = [replace(plain, target=scale) for scale in others]
            for mean in self._means():
                candidates += [replace(plain, target=scale, mean=mean) for scale in (plain.target, *others)]
            for candidate in candidates:
                if perf_counter() < self.end and (judged := self._judge(candidate)).beats(best):
                    best = judged
            return best.candidate

    def alone(self, kept: Whole) -> Candidate | None:
        """The line or the constant without a process that is to replace a whole fit; None if there is none.

        A line that the process was fitted beside, which cannot fit too much, stays unless the process beats it.
        """
        model, which, found = kept.candidate, np.searchsorted(self.rows, _some(self.rows, MOST_LEFT_OUT)), None
        is_beside_line = isinstance(model.mean, LinearMean)
        t = self._target(model).scaled(self.y)
        larger = 1 / (1 - fit_line(self.X, t)[1][which]) if is_beside_line else None
        best = kept.left_out(self.rows, larger)
        if best is None:
            return None
        for candidate in self._without_process(model):
            judged = self._judge(candidate, which)
            is_beside = is_beside_line and candidate == replace(model, alone=True)
            if judged.beats(best, SURE) or (is_beside and not best.beats(judged, SURE, AS_GOOD)):
                best, found = judged, candidate
        return found

    def _without_process(self, model: Candidate) -> Iterator[Candidate]:
        """Candidates without a process, the line of the model first."""
        scales = dict.fromkeys([model.target, *(each.candidate.target for each in self.judged)])
        if isinstance(model.mean, LinearMean) or next(self._means(), None) is not None:
            line = model.mean if isinstance(model.mean, LinearMean) else LinearMean()
            yield from (Candidate(line, scale, alone=True) for scale in scales)
        if self.settings.chooses_mean and self.settings.target == AUTO:
            yield Candidate(None, "standardize", alone=True)

    def _scales(self) -> Iterator[str]:
        """Scales other than the target's own that may suit it, if they compete."""
        y, bounds = self.y, self.settings.bounds
        if self.settings.target != AUTO or len(np.unique(y)) < FEWEST_VALUES:
            return
        low = bounds[0] if np.isfinite(bounds[0]) else 0.0
        least, most = (end - low for end in self.ends)
        is_whole = bool(np.all(y == np.floor(y)))
        if least > 0 and most > WIDE * least:
            yield "log"
        if least > 0 and self.ends[1] < (bounds[1] if np.isfinite(bounds[1]) else 1.0):
            yield "logit"
        if is_whole and least >= 0 and most > WIDE * max(least, 1.0):
            yield "sqrt"
        elif least <= 0 and abs(_skewness(y[:, 0])) > SKEWED:
            yield "power"

    def _means(self) -> Iterator[Regressor]:
        """Mean functions other than a constant, if they compete.

        A line through a series leads astray ahead of it, which rows between others cannot tell. Two levels are no
        series.
        """
        is_series = self.X.shape[1] == 1 and len(np.unique(self.X)) > 2
        if self.settings.chooses_mean and not is_series:
            yield LinearMean()

    def promises_trees(self, model: Fitted) -> bool:
        """Whether trees that see some of the rows err hardly more on others than the model does."""
        scale = model.posterior.scale
        bars = None if scale is None else scale.bars
        if bars is None or self.n < FEWEST_FOR_TREES or find_spec("lightgbm") is None:
            return False
        error = self.y - fit_folds(TreesMean(), self.X, self.y)[1]
        return float(np.sqrt(np.mean(np.square(error)))) < PROMISING * bars.rmse * float(model.units[0])

    def _target(self, candidate: Candidate) -> Target:
        """The candidate's scale."""
        return Target.fit(candidate.target, self.y, self.settings.bounds)

    def _judge(self, candidate: Candidate, rows: Indices | None = None) -> Judged:
        """How well a candidate predicts the judges or, without a process, some rows of the pool."""
        target, judges = self._target(candidate), self.judges if rows is None else rows
        t = target.scaled(self.y)
        if candidate.alone:
            error = self._error_alone(candidate.mean, t)[judges]
            std = np.full(len(error), float(error.std()) or 1.0)
        else:
            error, std = self._left_out(candidate.mean, t)
        y, t = self.y[judges, 0], target.scaled(self.y[judges, 0])
        z, nu, width = _student(error / std)
        density = z - np.log(std)
        if target.is_linear:
            mean = t - error
        else:
            density = density + target.log_slope(y)
            spread = np.clip(np.multiply.outer(std, width * stdtrit(nu, LEVELS)), -target.reach, target.reach)
            mean = target.undone((t - error)[:, None] + spread).mean(axis=1)
        judged = Judged(candidate, density, np.square(y - mean))
        self.judged.append(judged)
        return judged

    def _error_alone(self, mean: Regressor | None, t: Floats) -> Floats:
        """The errors of a line or a constant through the other rows of the pool, of shape (pool,)."""
        if mean is None:
            return np.asarray((t - t.mean())[:, 0] / (1 - 1 / len(t)))
        line, leverage = fit_line(self.X, t)
        return np.asarray((t - line(self.X))[:, 0] / (1 - leverage))

    def _left_out(self, mean: Regressor | None, t: Floats) -> tuple[Floats, Floats]:
        """The errors of the judges, each without its fold, and their standard deviations, of shape (judges,)."""
        X, y, is_line = self.X[self.judges], t[self.judges], isinstance(mean, LinearMean)
        if mean is not None and not is_line:
            y = (t - fit_folds(mean, self.X, t)[1])[self.judges]

        def rest(known: Indices) -> Floats:
            """What the mean that is fitted to some judges leaves of all, of shape (judges, 1)."""
            return np.asarray(y - (fit_line(X[known], y[known])[0](X) if is_line else y[known].mean()))

        whole = rest(np.arange(len(y)))
        unit = float(whole.std()) or 1.0
        kernels = default_kernels(X, whole / unit)
        kernel = _climbed(kernels[(len(kernels) - 1) // 2], X, whole / unit, STEPS)
        error, std = np.empty(len(y)), np.ones(len(y))
        for number in range(FOLDS):
            known, new = np.flatnonzero(self.fold != number), np.flatnonzero(self.fold == number)
            left = rest(known) / unit
            again = _climbed(kernel, X[known], left[known], MORE_STEPS)
            guess, std[new] = _predicted(again, X[known], left[known], X[new])
            error[new] = left[new, 0] - guess
        return unit * error, unit * std


def _climbed(kernel: Kernel, X: Floats, y: Floats, steps: int) -> Kernel:
    """A kernel after some steps."""
    return kernel.clone_with_theta(climb(Plausibility(kernel, X, y, None), kernel.theta, kernel.bounds, steps)[1])


def _predicted(kernel: Kernel, X: Floats, y: Floats, new: Floats) -> tuple[Floats, Floats]:
    """Means and standard deviations of new observations given rows X, each of shape (new,)."""
    between = kernel(new, X)
    solved = np.linalg.solve(kernel(X), np.column_stack([y, between.T]))
    variance = kernel.diag(new) - np.einsum("ij,ji->i", between, solved[:, 1:])
    return between @ solved[:, 0], np.sqrt(np.maximum(variance, TINY))


def _some(rows: Indices, most: int) -> Indices:
    """At most so many of some rows, drawn at random, in order."""
    return np.sort(np.random.default_rng(SEED).permutation(rows)[:most])


def _judges(X: Floats) -> Indices:
    """The rows of a pool that judge: drawn at random or, of many, half of them beside each other."""
    n = len(X)
    if n <= MANY:
        return _some(np.arange(n), JUDGES)
    order = np.random.default_rng(SEED).permutation(n)
    index = Index.of(X, np.median(X, axis=0), 1 / np.square(robust_spread(X)))
    near = index.query(X[order[:WINDOWS]], JUDGES // WINDOWS // 2).ravel()
    others = order[~np.isin(order, near)]
    return np.sort(np.concatenate([np.unique(near), others[: JUDGES // 2]]))


def _student(z: Floats) -> tuple[Floats, float, float]:
    """Log densities of standardised errors by the Student t that suits them best, its degrees of freedom and width."""
    squares = np.square(z)
    best: tuple[float, Floats, float, float] = (-inf, z, inf, 1.0)
    for nu in NUS:
        v = max(float(squares.mean()), TINY)
        for _ in range(ROUNDS):
            v = max(float(np.mean((nu + 1) / (nu + squares / v) * squares)), TINY)
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * log(nu * pi * v)
        density = constant - (nu + 1) / 2 * np.log1p(squares / (nu * v))
        if (value := float(density.mean())) > best[0]:
            best = value, density, nu, sqrt(v)
    return best[1:]


def _skewness(y: Floats) -> float:
    z = y - y.mean()
    return float(np.mean(z**3) / max(np.mean(z**2) ** 1.5, TINY))
