"""A fitted model in words: which inputs matter, how noisy the targets are, how its errors are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array
from ..fitting.means import MeanFunction
from ..fitting.targets import Target
from ..kernels import compile_kernel
from ..posteriors import Posterior
from ..posteriors.calibration import ErrorBars
from ..posteriors.predictive import Standard

HARDLY = 0.01  # share of the predictions' variance, up to which an input "hardly matters"
MOST_NAMED = 5  # inputs that a sentence names; it counts the others
MOSTLY = 0.5  # share of an observation's variance, below which the noise is not most of it
VARIES = 1.5  # ratio of the upper to the lower end of a range, up to which one number stands for both
HEAVY = 30.0  # degrees of freedom from which the tails of a t are as good as Gaussian: the 99 % band differs by 7 %
SKEWED = 0.1  # difference of the 90 % band's parts above and below the prediction, as a share of it, worth a word
NARROW = 0.9  # 98 % band in units of the 50 % band, as a share of the Gaussian's, below which tails are called lighter
GAUSSIAN_98 = 3.449  # the 98 % band of a Gaussian in units of its 50 % band
PLAIN = Target()  # a target's own scale
UNNAMED = "y"  # what the target is called if it has no name, as in the arguments of `fit`

CRITERIA = {
    "lookahead": "the row that most helps to predict others (lookahead)",
    "delta": "the row where the model is most unsure and most wrong (delta)",
    "uncertainty": "the row where the model is most unsure (uncertainty)",
    "underfit": "the row where the model is most wrong (underfit)",
    "sampled": "a draw that favours rows where the model is unsure and wrong (sampled)",
    "random": "a draw among all rows (random)",
}
"""Which row is chosen next, by the name of the criterion."""
POSTERIORS = {
    "local": "the active rows, and for each prediction the rows nearest to it",
    "sod": "the active rows alone",
    **dict.fromkeys(("sor", "dtc", "fitc", "vfe"), "all rows, seen through the active ones"),
}
"""Which rows predictions are made from, by the name of the posterior."""
MEANS = {"constant": "a constant", "linear": "a straight line", "trees": "boosted trees"}


@dataclass(frozen=True)
class TargetSummary:
    """What a model says of one target: which inputs matter, the noise and the error bars, in units of the target.

    Ranges are from the 10 % to the 90 % quantile of the rows: calibration differs by place.
    """

    name: str
    importance: tuple[tuple[str, float], ...]
    """For each column, its share of the predictions' variance (`sodalite.report.importance`), the largest first. Empty
    where that is not known."""
    noise_std: float
    """The standard deviation of the noise, as predictions have it: scaled by calibration.

    It is the kernel's own where the model's error bars are not known (`std` is None)."""
    noise_share: float
    """The noise's share of the variance of the target."""
    noise_range: tuple[float, float] | None = None
    std: float | None = None
    """The error bar: the standard deviation of a new observation near the rows, of noise and what rows leave open."""
    std_range: tuple[float, float] | None = None
    errors: str = ""
    """The distribution of errors that the model has learnt, in sentences."""
    rmse: float | None = None
    """Of several targets, the RMSE of this one: of rows of the fit, each predicted from the others."""
    coverage: float | None = None
    """The share of these rows in their 95 % intervals; None as `rmse`."""

    @classmethod
    def of(
        cls,
        kernel: spec.Kernel,
        X: Array,
        name: str = UNNAMED,
        importance: Sequence[tuple[str, float]] = (),
        unit: float = 1.0,
        variance: float = 1.0,
        bars: ErrorBars | None = None,
        errors: str = "",
    ) -> TargetSummary:
        """Summarize what a kernel and the error bars of its model say of a target, by some rows X.

        One unit of the kernel's targets is `unit` units of the target, whose variance is in its own units. Without
        error bars, the noise is the kernel's.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> kernel = spec.RBF([0.5, 100.0]) + spec.WhiteKernel(0.1)
        >>> target = TargetSummary.of(kernel, X, "yield", [("hour", 0.99), ("wind", 0.002)])
        >>> target.inputs
        'hour (99 %) matters most; wind hardly matters.'
        >>> target.noise
        'Standard deviation 0.316 by the kernel, as it is without calibration: 10.0 % of the variance of yield.'
        """
        if bars is None:
            compiled = compile_kernel(kernel, X)
            noise = sqrt(float(compiled.noise(compiled.prepare(X[:1]))[0])) * unit
        else:
            noise = bars.noise * unit
        share = min(noise**2 / variance, 1.0) if variance > 0 else 0.0
        target = cls(name, tuple(importance), noise, share, errors=errors)
        if bars is None:
            return target
        noise_low, noise_high, low, high = (end * unit for end in (*bars.noise_range, *bars.std_range))
        return replace(target, std=bars.std * unit, std_range=(low, high), noise_range=(noise_low, noise_high))

    @property
    def inputs(self) -> str:
        """Which inputs matter, by their shares of the predictions' variance, in a sentence; empty if not known."""
        matter = [(name, share) for name, share in self.importance if share > HARDLY]
        others = [name for name, share in self.importance if share <= HARDLY]
        if not matter:
            return "No input makes a difference to predictions." if others else ""
        if len(self.importance) == 1:
            return f"{matter[0][0]} matters."
        first, *rest = _few([f"{name} ({100 * min(share, 1.0):.0f} %)" for name, share in matter])
        text = f"{first} matters most" + (f", then {', '.join(rest)}" if rest else "")
        few = f"; {' and '.join(_few(others, ', '))} hardly {'matter' if len(others) > 1 else 'matters'}"
        return f"{text}{few if others else ''}."

    @property
    def typical_error(self) -> str:
        """How far predictions of this one of several targets are off, in a sentence; empty if that is not known."""
        if self.rmse is None or self.coverage is None:
            return ""
        return f"RMSE {readable(self.rmse, 4)}; 95 % intervals hold {100 * self.coverage:.1f} % of the rows."

    @property
    def noise(self) -> str:
        """How noisy the targets are, in a sentence or two."""
        rest = ""
        if self.std and self.noise_std**2 < MOSTLY * self.std**2:
            rest = " Most of the error bars come from what the rows leave open of the function itself."
        if not self.noise_std:
            return f"The targets are taken to be free of noise.{rest}"
        share = f"{100 * self.noise_share:.1f} %" if self.noise_share >= 0.001 else "less than 0.1 %"
        how = " by the kernel, as it is without calibration" if self.std is None else _by_place(self.noise_range)
        return f"Standard deviation {readable(self.noise_std)}{how}: {share} of the variance of {self.name}.{rest}"

    @property
    def error_bar(self) -> str:
        """The error bar as a number, or as a range where a few places decide the mean; empty where it is not known."""
        if self.std is None:
            return ""
        low, high = (readable(end) for end in self.std_range or (self.std, self.std))
        if self.std_range is not None and self.std > self.std_range[1] and low != high:  # few places decide the mean
            return f"± {low} to ± {high}"
        return f"± {readable(self.std)}"

    @property
    def error_bars(self) -> str:
        """How far new observations are from their predictions, in a sentence; empty where that is not known."""
        if self.std is None:
            return ""
        about = f"A new observation near the data is within {self.error_bar} of its prediction"
        if "to" in self.error_bar:
            by = "depending on the place (standard deviation, from 10 % to 90 % of the rows), and at a few far from it"
            return f"{about}, {by}."
        return f"{about} (standard deviation){_by_place(self.std_range)}."


def kernel_shape(kernel: spec.Kernel, X: Array) -> str:
    """The kinds of covariance in a kernel."""
    leaves = compile_kernel(kernel, X).root.leaves()
    return ", ".join(filter(None, dict.fromkeys(leaf.words for leaf in leaves)))


def bars_of(posterior: Posterior) -> ErrorBars | None:
    """The error bars of new observations near the data; None if the posterior is not calibrated."""
    return None if posterior.scale is None else posterior.scale.bars


def _few(names: Sequence[str], joint: str | None = None) -> list[str]:
    """The first few names, in one text if there is a joint, and how many more there are."""
    few, more = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    return [*([joint.join(few)] if joint else few), *([f"{more} more"] if more > 0 else [])]


def _by_place(ends: tuple[float, float] | None) -> str:
    """A range as part of a sentence; empty if it is too narrow to be worth a word."""
    if ends is None or ends[1] <= VARIES * ends[0]:
        return ""
    low, high = (readable(end, 2) for end in ends)
    return f", {low} to {high} by place (10 % to 90 % of the rows)"


def readable(value: float, digits: int = 3) -> str:
    """A number to some digits, without an exponent where it can be read without.

    Examples
    --------
    >>> readable(1103.2), readable(0.0123456), readable(1234567, 2), readable(3e12), readable(0.0)
    ('1,100', '0.0123', '1,200,000', '3e+12', '0')
    """
    if not value or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names as part of a sentence: "a, b and c", or "a, b, c and 7 others"."""
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def distribution_words(standard: Standard | None, by_place: bool = False) -> str:
    """A distribution of errors, in a sentence or two; None is a Gaussian.

    `by_place` is whether the width of the errors is learnt from those near by.

    Examples
    --------
    >>> distribution_words(None)
    'Errors are Gaussian.'
    >>> distribution_words(Standard(2.4))
    "Errors have heavier tails than Gaussian ones: those of Student's t with 2.4 degrees of freedom."
    """
    if standard is None:
        return "Errors are Gaussian."
    levels = np.array([0.01, 0.05, 0.25, 0.75, 0.95, 0.99])
    low, below, lower, upper, above, high = standard.quantiles(levels).tolist()
    skewness = (above + below) / (above - below)
    if standard.nu < HEAVY:
        tails = f"have heavier tails than Gaussian ones: those of Student's t with {standard.nu:.2g} degrees of freedom"
    elif (high - low) / (upper - lower) < NARROW * GAUSSIAN_98:
        tails = "have lighter tails than Gaussian ones"
    else:
        tails = "are nearly Gaussian"
    text = f"Errors {tails}."
    if abs(skewness) > SKEWED:
        far, near = ("above", "below") if skewness > 0 else ("below", "above")
        text += f" They are skewed: large ones are more often {far} the prediction than {near} it."
    return text + (" Their width is learnt from errors near by." if by_place else "")


def mean_words(mean: MeanFunction, target: Target = PLAIN) -> str:
    """On which scale the target is learnt and what is predicted before the Gaussian process, in sentences.

    Empty for a constant on the target's own scale that nothing competed with.

    Examples
    --------
    >>> mean_words(MeanFunction("linear", alone=True), Target("log", 0.0))
    'The logarithm of the target: a straight line alone. Predictions are at least 0.'
    >>> mean_words(MeanFunction("linear"))
    'A straight line, and the Gaussian process learns what it leaves.'
    >>> mean_words(MeanFunction())
    ''
    """
    if mean.name == "constant" and target.is_plain and not mean.trials:
        return ""
    parts = [] if target.is_linear else [f"the {target} of the target"]
    if mean.name != "constant" or not parts:
        rest = " alone" if mean.alone else ", and the Gaussian process learns what it leaves"
        parts.append(MEANS.get(mean.name, mean.name) + ("" if mean.name == "constant" and not mean.alone else rest))
    text = f"{': '.join(parts)}."
    ends = [readable(end) for end in (target.low, target.high) if np.isfinite(end)]
    if ends:
        words = "between" if len(ends) == 2 else "at least" if np.isfinite(target.low) else "at most"
        text += f" Predictions are {words} {' and '.join(ends)}."
    if mean.trials:
        tried = ", ".join(f"{trial.name} {trial.nlpd:.3f}" for trial in mean.trials)
        text += f" NLPD of some rows, each predicted from others: {tried}."
    return f"{text[0].upper()}{text[1:]}"
