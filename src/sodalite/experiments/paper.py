"""The paper's experiment, many times over: its table as a distribution, and what its two figures show.

    V. Lalchand and A. C. Faul (2018), A Fast and Greedy Subset-of-Data (SoD) Scheme for Sparsification in
    Gaussian processes.

The paper reports one draw of the data for each function, and no seed; sizes, kernels, noise and thresholds stand in
the authors' published scripts (https://github.com/vr308/CoreML, in the folder "GP/Sparse Sequential GP" and, before, in
"GP"). So its numbers cannot be had to the digit, but one can see where among many draws they fall. The selection
follows the paper's text; `readings` lists where the scripts differ from it. On the kernel the two differ most, so each
draw is modelled twice: with the scripts' kernel, whose hyperparameters are fixed, and with those of maximum likelihood
on a random subset, which is what the text says (appendix A.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

from ..core.threads import on_this_thread, one_blas_thread
from ..core.types import Floats
from ..fitting.select import select
from ..hyperparameters import Subset, Task
from ..kernels import compile_kernel
from ..metrics import rmse
from ..posteriors import Evidence, SubsetOfData
from ..selection.loop import Selection
from ..selection.rows import ArrayRows

N_ROWS = 40  # training rows of every draw, as in the authors' scripts
INTERVAL = (0.0, 20.0)  # interval from which the inputs are drawn, as in the scripts
GRID = np.linspace(*INTERVAL, 1000)
"""The test inputs."""

N_SUBSET = 20
"""Rows of the random subset whose likelihood is maximised; the paper gives no number."""
N_STARTS = 6  # starts of the search for that maximum; 30 find a higher one in 3 of 160 draws
FREE = ConstantKernel(1, (1e-6, 1e9)) * RBF(1, (1e-2, 1e3)) + WhiteKernel(1, (1e-6, 1e6))
"""The kernel whose likelihood is maximised, with bounds far from all plausible values."""

WAYS = ("fixed", "likelihood")
"""How the hyperparameters are found: those of the scripts, or by maximum likelihood."""
QUANTILES = (0.1, 0.5, 0.9)  # quantiles of the draws that are printed: low, median and high


@dataclass(frozen=True)
class Outcome:
    """One line of the paper's table: the RMSE on test data of three schemes, and how much data the last two used.

    The share is the greedy subset's size, in % of the rows. (Of the paper's, 22 and 18 are 9 and 7 of 40 rows, rounded;
    31 is not a whole number of rows.)
    """

    full: float
    random: float
    greedy: float
    share: float


@dataclass(frozen=True)
class Hyperparameters:
    """A squared exponential with noise: sigma_f^2, the length-scale and sigma_n^2 of the paper's theta (appendix A.3).

    The noise variance is the kernel's: not always that of the data.
    """

    signal: float
    length_scale: float
    white: float

    @property
    def kernel(self) -> Kernel:
        """The covariance with these parameters."""
        return ConstantKernel(self.signal) * RBF(self.length_scale) + WhiteKernel(self.white)


@dataclass(frozen=True)
class Setting:
    """A function, how it is observed and how it is modelled, with the numbers that the paper reports for it."""

    stream: int
    """A number by which its random numbers differ from those of the other settings."""
    name: str
    function: Callable[[Floats], Floats]
    noise: float
    """The standard deviation of the observations' noise."""
    hyperparameters: Hyperparameters
    """Those of the authors' scripts."""
    delta: float
    """The threshold of the paper's convergence condition."""
    paper: Outcome
    published: bool = True
    """Whether these are the settings of the authors' published scripts."""

    @property
    def kernel(self) -> Kernel:
        """The covariance with the scripts' hyperparameters."""
        return self.hyperparameters.kernel


def _third(x: Floats) -> Floats:
    return np.asarray(0.5 * np.sin(x) + 0.5 * x - 0.02 * (x - 5) ** 2)


_PAPER = Outcome(32.24, 91.62, 39.29, 22), Outcome(2.36, 5.95, 2.82, 18), Outcome(1.14, 2.17, 1.96, 31)
SETTINGS = (
    Setting(0, "x^2 sin x", lambda x: x**2 * np.sin(x), 20, Hyperparameters(1000, 1, 10), 1, _PAPER[0]),
    Setting(1, "x sin x", lambda x: x * np.sin(x), 1.4, Hyperparameters(10, 1.4, 10), 0.02, _PAPER[1]),
    Setting(2, "0.5 sin x + 0.5 x - 0.02 (x - 5)^2", _third, 1, Hyperparameters(10, 2.5, 1), 0.05, _PAPER[2]),
    # With the scripts' kernel hardly a draw's full GP is as good as the paper's 2.36. These are the nearest found.
    Setting(3, "x sin x", lambda x: x * np.sin(x), 1.8, Hyperparameters(10, 1.4, 2), 0.02, _PAPER[1], published=False),
)


@dataclass(frozen=True)
class Reading:
    """Where the paper's text and its authors' scripts disagree, or the text with itself: parts of sentences.

    They say what the text says, what the scripts do, what is done here, and why.
    """

    topic: str
    text: str
    scripts: str
    here: str
    why: str

    @property
    def sentence(self) -> str:
        """The disagreement in sentences, without the topic."""
        return f"Text: {self.text}. Scripts: {self.scripts}. Here: {self.here}, since {self.why}."


@cache
def readings() -> tuple[Reading, ...]:
    """All such disagreements, from readings.txt, which has a line for each field."""
    text = (files(__package__) / "readings.txt").read_text(encoding="utf-8")
    return tuple(Reading(*block.splitlines()) for block in text.split("\n\n"))


@dataclass(frozen=True)
class Comparison:
    """A number of the paper among the draws' numbers: their median, and their 10 % and 90 % quantiles."""

    quantity: str
    """A field of `Outcome`."""
    way: str
    """One of `WAYS`."""
    paper: float
    median: float
    low: float
    high: float
    percentile: float
    """The share of the draws below the paper's number, in %; draws that equal it count half."""

    @property
    def inside(self) -> bool:
        """Whether the paper's number is within the 10-90 % range of the draws."""
        return self.low <= self.paper <= self.high


class Draw(NamedTuple):
    """One draw of the data: the hyperparameters of maximum likelihood, and the line of the table for each way."""

    likely: Hyperparameters
    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True)
class TableRow:
    """A setting with the results of its draws."""

    setting: Setting
    draws: tuple[Draw, ...]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparison for each field of `Outcome` and each of `WAYS`."""
        return tuple(
            located(quantity, way, paper, np.array([getattr(draw.outcomes[way], quantity) for draw in self.draws]))
            for quantity, paper in asdict(self.setting.paper).items()
            for way in WAYS
        )

    @property
    def likely(self) -> dict[str, dict[str, float]]:
        """Median, 10 % and 90 % quantile of each hyperparameter of maximum likelihood, over the draws."""
        quantiles = np.quantile([astuple(draw.likely) for draw in self.draws], QUANTILES, axis=0).T.tolist()
        keys, names = ("low", "median", "high"), [field.name for field in fields(Hyperparameters)]
        return {name: dict(zip(keys, part, strict=True)) for name, part in zip(names, quantiles, strict=True)}


@dataclass(frozen=True)
class Experiment:
    """The paper's table as a distribution."""

    seed: int
    n_draws: int
    n_subset: int
    rows: tuple[TableRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """The table as what JSON can hold."""
        sizes = {"n_rows": N_ROWS, "n_test": len(GRID), "n_subset": self.n_subset}
        table = [
            {
                "function": row.setting.name,
                "published_settings": row.setting.published,
                "noise_sd": row.setting.noise,
                "delta": row.setting.delta,
                "fixed": asdict(row.setting.hyperparameters),
                "likelihood": row.likely,
                "comparisons": [{**asdict(c), "inside": c.inside} for c in row.comparisons],
            }
            for row in self.rows
        ]
        return {"seed": self.seed, "draws": self.n_draws, **sizes, "table": table}


def located(quantity: str, way: str, paper: float, drawn: Floats) -> Comparison:
    """Where the paper's number falls among those of the draws."""
    low, median, high = np.quantile(drawn, QUANTILES).tolist()
    percentile = 100 * float(np.mean((drawn < paper) + 0.5 * (drawn == paper)))
    return Comparison(quantity, way, paper, median, low, high, percentile)


def experiment(
    n_draws: int,
    seed: int = 0,
    settings: Sequence[Setting] = SETTINGS,
    n_subset: int = N_SUBSET,
    progress: Callable[[], None] = lambda: None,
) -> Experiment:
    """Repeat the paper's table over many draws of its data. About 100 ms a draw and setting.

    Fewer draws are the first of more. `n_subset` is the number of rows, at most `N_ROWS`, of the random subset whose
    likelihood is maximised; `progress` is called after each draw of each setting.
    """

    def drawn(setting: Setting, number: int) -> Draw:
        draw = draw_once(setting, seed, number, n_subset)
        progress()
        return draw

    with on_this_thread(), one_blas_thread():  # with so few rows, threads wait for each other most of the time
        rows = [TableRow(setting, tuple(drawn(setting, number) for number in range(n_draws))) for setting in settings]
    return Experiment(seed, n_draws, n_subset, tuple(rows))


def draw_once(setting: Setting, seed: int, number: int, n_subset: int = N_SUBSET) -> Draw:
    """One draw of a line of the paper's table, modelled in each of the two ways."""
    likely = most_likely(setting, seed, number, n_subset)
    kernels = {"fixed": setting.kernel, "likelihood": likely.kernel}
    return Draw(likely, {way: outcome(setting, seed, number, kernels[way]) for way in WAYS})


def most_likely(setting: Setting, seed: int, number: int, n_subset: int = N_SUBSET) -> Hyperparameters:
    """The hyperparameters of maximum likelihood on a random subset of a draw's rows (appendix A.3)."""
    X, y = observe(setting, generator_of(seed, setting.stream, number))
    search = Subset(n_rows=n_subset, n_starts=N_STARTS)
    # The subset has random numbers of its own, so that a draw's data and first row are the same for every kernel.
    best = search.find(Task(X, y[:, None]), [FREE], generator_of(seed, setting.stream, number, 1))
    return Hyperparameters(*np.exp(best.kernel.theta).tolist())


def outcome(setting: Setting, seed: int, number: int, kernel: Kernel) -> Outcome:
    """One draw of a line of the paper's table. Its data, test targets and first row are the same for every kernel."""
    generator = generator_of(seed, setting.stream, number)
    X, y = observe(setting, generator)
    chosen = greedy(setting, kernel, X, y, generator)
    test = setting.function(GRID) + setting.noise * generator.standard_normal(len(GRID))

    def error(selection: Selection) -> float:
        return rmse(test, posterior(kernel, X, y, selection).mean(GRID[:, None])[:, 0])

    def at_random(n_active: int) -> Selection:
        return select(X, y, kernel, n_active=n_active, criterion="random", random_state=generator)

    return Outcome(
        full=error(at_random(N_ROWS)),  # all rows, whose order does not matter
        random=error(at_random(len(chosen))),
        greedy=error(chosen),
        share=100 * len(chosen) / N_ROWS,
    )


def observe(setting: Setting, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Training data: inputs of shape (40, 1), uniform on the interval, and noisy targets."""
    x = generator.uniform(*INTERVAL, N_ROWS)
    return x[:, None], setting.function(x) + setting.noise * generator.standard_normal(N_ROWS)


def generator_of(seed: int, *key: int) -> np.random.Generator:
    """A generator for each draw, so that the number of draws changes none of them."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def greedy(setting: Setting, kernel: Kernel, X: Floats, y: Floats, generator: np.random.Generator) -> Selection:
    """Algorithm 1, from a random first row."""
    return select(X, y, kernel, n_active=N_ROWS, criterion="delta", tol=setting.delta, random_state=generator)


def posterior(kernel: Kernel, X: Floats, y: Floats, selection: Selection) -> SubsetOfData:
    """The exact Gaussian process given the selected rows."""
    return SubsetOfData.condition(Evidence(compile_kernel(kernel, X), ArrayRows(X, y[:, None]), selection))
