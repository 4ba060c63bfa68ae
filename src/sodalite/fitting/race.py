"""The race of mean functions and scales of the target, on some of the rows (docs/method.rst, `race`).

Each candidate predicts the rows of folds from the others, with a Gaussian process whose parameters have been climbed a
little. What counts is the log density of the targets themselves, by Student's t, and their RMSE. The simplest is kept,
unless another is ahead by more than chance. The one that is kept then gets the whole fit.
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
from ..kernels import compile_kernel, default_kernels, robust_spread
from ..kernels.neighbours import Index
from ..posteriors import Evidence, SubsetOfData
from ..selection.grow import take_all
from ..selection.rows import ArrayRows, Rows, noise_alone, targets
from .clock import RACE, Clock
from .fitted import Fitted
from .means import SEED, LinearMean, Regressor, TreesMean, Trial, fit_folds, name_of
from .pipeline import Settings, check, fit_with_mean
from .targets import AUTO, Target

TINY = np.finfo(np.float64).tiny  # the least variance that is divided by
JUDGES = 200  # rows that candidates are compared on: their log densities are then known to some .05 nats a row
POOL = 5000  # rows that the judges are drawn from, and that trees see
PROMISING = 0.98  # ratio of the RMSE of trees that see the pool to that of the model, up to which they get a whole fit
MOST_LEFT_OUT = 2000  # rows that are left out of a model with trees and of one without: .01 nats a row
MANY = 1000  # rows from which on some judges lie beside each other, as rows do among all of them
WINDOWS = 8  # parts of the judges that lie beside each other, where there are more rows
FEWEST = 30  # rows below which nothing competes: their log densities say too little
FEWEST_FOR_TREES = 500  # rows below which trees are not tried
MOST_ALONE = 1500  # rows up to which a line may be all of the model: of more, the search tells how much is noise
FOLDS = 5
STEPS, MORE_STEPS = 10, 3  # steps of a climb of all judges' likelihood, and from its end of that without a fold
WORTH = 0.01  # nats a row that a candidate must gain
LARGER = 1.05  # ratio of RMSEs up to which they are level; 1.02 would lose .02 nats a row, 1.1 a hundredth of RMSE
SURE = 2.0  # standard errors by which a process must be ahead of a line alone, which cannot fit too much
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
        spread = robust_spread(rows.take(_some(rows.shape[0], POOL)).X) * 2 * sqrt(rows.shape[1])
        return replace(settings, kernel=ConstantKernel(NOTHING) * RBF(spread) + WhiteKernel(1.0), method=Fixed())


@dataclass(frozen=True)
class Judged:
    """A candidate, and how well it predicts the judges, each without the rows of its fold."""

    candidate: Candidate
    density: Floats
    """Log densities of the targets in their own units, of shape (judges,)."""
    squares: Floats
    """Squared errors in units of the targets, of shape (judges,)."""

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
            Standard errors of a mean difference that may be chance.
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
    plain = Candidate(settings.mean, "standardize" if settings.target == AUTO else settings.target)
    if not settings.competes or rows.q > 1 or rows.shape[0] < FEWEST:
        return fit_with_mean(rows, target_shape, plain.applied(settings, rows), follow)
    follow.say(RACE)
    race = Race.of(rows, settings, began)
    best = race.winner(plain)
    judged = sorted(race.judged, key=lambda each: -float(each.density.mean()))
    limit = settings.time_limit

    def whole(candidate: Candidate) -> tuple[Fitted, list[warnings.WarningMessage]]:
        """A fit in the time that is left, and what it has warned of."""
        left = None if limit is None else max(limit - (perf_counter() - began), 0.0)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")  # a warning may concern a model that is not kept
            applied = replace(candidate.applied(settings, rows), time_limit=left)
            return fit_with_mean(rows, target_shape, applied, follow), said

    model, said = whole(replace(best, alone=False))
    if best.alone:  # few rows and short climbs may not show what a process knows: both get a whole fit
        settings = replace(settings, checkpoint=None, file=None)  # which are those of the first model
        line, theirs = whole(best)
        best = replace(best, alone=False)
        first, second = _left_out(model, best), _left_out(line, best)
        if first is None or second is None or not first.beats(second, errors=SURE, larger=1.0):
            model, said, best = line, theirs, replace(best, alone=True)
    is_early = limit is None or perf_counter() - began < 0.5 * limit
    if settings.chooses_mean and is_early and race.promises_trees(model):
        trees = replace(best, mean=TreesMean(), alone=False)
        settings = replace(settings, checkpoint=None, file=None)  # which are those of the first model
        with_trees, theirs = whole(trees)
        first, second = _left_out(with_trees, trees), _left_out(model, best, with_trees.judges)
        if first is not None and second is not None and first.beats(second):
            model, said = with_trees, theirs
    for each in said:
        warn(each.message, each.category)
    trials = tuple(each.trial for each in judged) if len(judged) > 1 else ()
    return replace(model, mean_function=replace(model.mean_function, trials=trials))


def _left_out(model: Fitted, candidate: Candidate, judges: Indices | None = None) -> Judged | None:
    """How well a whole fit predicts some rows, each left out; by default those that its mean function has not seen."""
    judges = model.judges if judges is None else judges
    known = np.arange(model.n_rows) if judges is None else judges
    which = np.sort(np.random.default_rng(SEED).permutation(known)[:MOST_LEFT_OUT])
    if (found := model.left_out(which)) is None:
        return None
    distribution, y = found
    return Judged(candidate, distribution.log_density(y)[:, 0], np.square(y - distribution.mean)[:, 0])


class Race:
    """Candidates on some rows of a fit.

    Parameters
    ----------
    pool : ArrayRows
        Rows in memory, with one target.
    settings : Settings
    n : int
        How many rows the fit has.
    end : float
        The time, by `time.perf_counter`, after which no candidate is tried that need not be.
    ends : tuple of float
        The least and the largest target of all rows, which a scale must suit.
    """

    def __init__(self, pool: ArrayRows, settings: Settings, n: int, end: float, ends: tuple[float, float]) -> None:
        self.X, self.y, self.settings, self.n, self.end = np.asarray(pool.X, dtype=np.float64), pool.y, settings, n, end
        self.ends = ends
        self.judges = _judges(self.X)
        self.fold = np.random.default_rng(SEED).permutation(len(self.judges)) % FOLDS
        self.judged: list[Judged] = []

    @classmethod
    def of(cls, rows: Rows, settings: Settings, began: float) -> Race:
        """The race of some rows of a fit, without those whose targets say nothing."""
        which = _some(rows.shape[0], POOL)
        some = rows.take(which)
        known = np.ones(len(some), dtype=bool) if settings.weights is None else settings.weights[which] > 0
        if some.alpha is not None:
            known &= ~noise_alone(ArrayRows(some.X, some.y, some.alpha))
        end = inf if settings.time_limit is None else began + SHARE * settings.time_limit
        y = targets(rows)[0]
        pool = ArrayRows(some.X[known], np.asarray(some.y[known], dtype=np.float64))
        return cls(pool, settings, rows.shape[0], end, (float(y.min()), float(y.max())))

    def winner(self, plain: Candidate) -> Candidate:
        """The simplest candidate, unless another beats it: scales compete first, then mean functions."""
        with one_blas_thread():
            best = self._judge(plain)
            for scale in self._scales():
                best = self._better(best, replace(plain, target=scale))
            for mean in self._means():
                best = self._better(best, replace(best.candidate, mean=mean))
            return self._alone(best).candidate

    def _scales(self) -> Iterator[str]:
        """Scales other than the target's own that may suit it, if they compete."""
        y, bounds = self.y, self.settings.bounds
        if self.settings.target != AUTO or len(np.unique(y)) < FOLDS:
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

        A line through a series leads astray ahead of it, which rows between others cannot tell.
        """
        if self.settings.chooses_mean and self.X.shape[1] > 1:
            yield LinearMean()

    def promises_trees(self, model: Fitted) -> bool:
        """Whether trees that see some of the rows err hardly more on others than the model does."""
        scale = model.posterior.scale
        bars = None if scale is None else scale.bars
        if bars is None or self.n < FEWEST_FOR_TREES or find_spec("lightgbm") is None:
            return False
        error = self.y - fit_folds(TreesMean(), self.X, self.y)[1]
        return float(np.sqrt(np.mean(np.square(error)))) < PROMISING * bars.rmse * float(model.units[0])

    def _alone(self, best: Judged) -> Judged:
        """The line without a process, if the best candidate has one that does not beat it."""
        mean = best.candidate.mean
        if not isinstance(mean, LinearMean) or self.n > MOST_ALONE:
            return best
        line = self._judge(replace(best.candidate, alone=True))
        return best if best.beats(line, errors=SURE, larger=1.0) else line

    def _better(self, best: Judged, candidate: Candidate) -> Judged:
        if perf_counter() > self.end:
            return best
        judged = self._judge(candidate)
        return judged if judged.beats(best) else best

    def _judge(self, candidate: Candidate) -> Judged:
        """How well a candidate predicts the judges."""
        target = Target.fit(candidate.target, self.y, self.settings.bounds)
        judges, t = self.judges, target.scaled(self.y)
        error, std = self._left_out(candidate, t)
        y, t = self.y[judges, 0], t[judges, 0]
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

    def _left_out(self, candidate: Candidate, t: Floats) -> tuple[Floats, Floats]:
        """The errors of the judges and their standard deviations on the scale T(y), each of shape (judges,)."""
        X, y, mean = self.X[self.judges], t[self.judges], candidate.mean
        is_line = isinstance(mean, LinearMean)
        if mean is not None and not is_line:
            y = (t - fit_folds(mean, self.X, t)[1])[self.judges]

        def rest(known: Indices) -> Floats:
            """What the mean that is fitted to some judges leaves of all, of shape (judges, 1)."""
            return np.asarray(y - (LinearMean().fit(X[known], y[known]).predict(X) if is_line else y[known].mean()))

        whole = rest(np.arange(len(y)))
        unit = float(whole.std()) or 1.0
        kernel = None if candidate.alone else _climbed(X, whole / unit)
        error, std = np.empty(len(y)), np.ones(len(y))
        for number in range(FOLDS):
            known, new = np.flatnonzero(self.fold != number), np.flatnonzero(self.fold == number)
            left = rest(known) / unit
            error[new] = left[new, 0]
            if kernel is not None:
                mean_there, std[new] = _predicted(
                    _climbed(X[known], left[known], kernel), X[known], left[known], X[new]
                )
                error[new] -= mean_there
        return unit * error, unit * std


def _predicted(kernel: Kernel, X: Floats, y: Floats, new: Floats) -> tuple[Floats, Floats]:
    """Means and standard deviations of new observations given rows X, each of shape (new,)."""
    rows, compiled = ArrayRows(X, y), compile_kernel(kernel, X)
    found = SubsetOfData.condition(Evidence(compiled, rows, take_all(rows, compiled))).predict(new)
    variance = found.variance + compiled.noise(compiled.prepare(new))
    return found.mean[:, 0], np.sqrt(np.maximum(variance, TINY))


def _climbed(X: Floats, y: Floats, kernel: Kernel | None = None) -> Kernel:
    """A default kernel after some steps, or a kernel that has been climbed after a few more."""
    kernels, steps = ([kernel], MORE_STEPS) if kernel is not None else (default_kernels(X, y), STEPS)
    kernel = kernels[(len(kernels) - 1) // 2]
    return kernel.clone_with_theta(climb(Plausibility(kernel, X, y, None), kernel.theta, kernel.bounds, steps)[1])


def _some(n: int, most: int) -> Indices:
    """At most so many of n rows, drawn at random, in order."""
    return np.sort(np.random.default_rng(SEED).permutation(n)[:most])


def _judges(X: Floats) -> Indices:
    """The rows of a pool that judge: drawn at random or, of many, half of them beside each other."""
    n = len(X)
    if n <= MANY:
        return _some(n, JUDGES)
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
