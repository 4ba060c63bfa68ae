"""The default estimator on ordinary data, beside simple ways that a person would try first.

The simple ways are the mean, a straight line, joining the dots (one input), the mean of the k nearest rows, and boosted
trees. They are favoured: k, and the trees' smallest leaf, are those with the least error on the test rows. Every set is
split at random, a tenth of the rows for the test, several times; the mean over the splits counts.

Whether the difference to the best simple way is more than chance is decided by Student's t of the differences on the
splits, one-sided at 5 %. Their standard error is that of Nadeau and Bengio (2003, *Inference for the generalization
error*), which allows for training rows that the splits share: the squared standard error is the variance of the
differences times (1 / splits + test rows / training rows). Coverage counts as outside 90 to 98 % only where a true
coverage of that bound would give a share so far out with a probability of less than 2.5 % (binomial distribution).

    python -m benchmarks ordinary --only nile lynx --splits 3 --json after.json --against before.json

Results are kept as JSON, in benchmarks/results/ordinary.json by default; a run of some sets replaces theirs there. Once
there are results of all sets, docs/ordinary.txt is written.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isnan, nan, sqrt
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from sodalite import GreedyGPRegressor
from sodalite.metrics import rmse

from .common import standardised
from .evidence import record
from .ordinary_sets import SETS, Ordinary, missing

RESULTS = Path("benchmarks/results/ordinary.json")
NEIGHBOURS = (1, 2, 3, 5, 8, 13, 21, 34)  # candidates for k, the number of nearest rows
LEAVES = (20, 3)  # candidates for the trees' smallest leaf, in rows: scikit-learn's default, and one for small tables
BEARABLE = 1.1  # RMSE over that of the best simple way, above which a set counts as worse
LEAST, MOST = 0.90, 0.98  # coverage of the 95 % band that is good enough
QUICK_ROWS, QUICK_SPLITS = 2000, 2  # with --quick: the most rows of a set, and splits
FAMILIES = ("mean", "line", "dots", "near", "trees")


# The simple ways


def straight_line(X: np.ndarray, y: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Least squares on standardised inputs, the shortest solution where there are several."""
    X, T = standardised(X, T)
    weights = np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
    return y.mean() + T @ weights


def joined_dots(x: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Linear interpolation between neighbours, the mean where inputs are equal, and constant outside."""
    places, which = np.unique(x, return_inverse=True)
    return np.interp(t, places, np.bincount(which, y) / np.bincount(which))


def nearest(X: np.ndarray, y: np.ndarray, T: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Every candidate k, with the means of the k nearest rows in standardised inputs."""
    X, T = standardised(X, T)
    candidates = [k for k in NEIGHBOURS if k <= len(X)]
    which = NearestNeighbors(n_neighbors=candidates[-1]).fit(X).kneighbors(T, return_distance=False)
    sums = np.cumsum(y[which], axis=1)
    for k in candidates:
        yield k, sums[:, k - 1] / k


def simple_ways(X: np.ndarray, y: np.ndarray, T: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Every simple way's name, its first word the family's, and what it predicts at `T`."""
    yield "mean", np.full(len(T), y.mean())
    yield "line", straight_line(X, y, T)
    if X.shape[1] == 1:
        yield "dots", joined_dots(X[:, 0], y, T[:, 0])
    for k, mean in nearest(X, y, T):
        yield f"near {k}", mean
    for leaf in LEAVES:
        trees = HistGradientBoostingRegressor(min_samples_leaf=leaf, random_state=seed)
        with threadpool_limits(1, "openmp"):  # threads that wait for each other take longer on most of these sets
            guess = trees.fit(X, y).predict(T)
        yield f"trees {leaf}", guess


# What is concluded


def compare(ours: Sequence[float], theirs: Sequence[float], share: float) -> tuple[float, float, bool]:
    """The ratio of two mean errors, the difference in standard errors, and whether ours is worse by more than chance.

    Parameters
    ----------
    ours, theirs : sequence of float
        The errors on the same splits.
    share : float
        Test rows per training row.
    """
    difference = np.subtract(ours, theirs)
    splits, mean = len(difference), difference.mean()
    below = np.mean(theirs)
    ratio = float(np.mean(ours) / below) if below > 0 else (inf if mean > 0 else 1.0)
    if splits < 2:
        return ratio, nan, False
    error = difference.std(ddof=1) * sqrt(1 / splits + share)
    statistic = float(mean / error) if error > 0 else (float(np.sign(mean)) * inf if mean else 0.0)
    return ratio, statistic, bool(statistic > student.ppf(0.95, splits - 1))


def allowed_coverage(tested: int) -> tuple[float, float]:
    """The coverages that chance allows where the true one is between `LEAST` and `MOST`."""
    return float(binom.ppf(0.025, tested, LEAST)) / tested, float(binom.ppf(0.975, tested, MOST)) / tested


@dataclass
class Result:
    """What was measured on a set. Errors are RMSE in standard deviations of the set's targets.

    Attributes
    ----------
    name : str
    rows, inputs : int
    std : float
        The targets' standard deviation.
    simple : dict of str to list of float
        The error of every simple way on every split.
    ours : list of float
        The estimator's.
    densities, seconds : list of float
        Its NLPD, with targets in the same unit, and the time of the fit.
    covered, tested : int
        Test rows within the 95 % band, and test rows, of all splits.
    failure : str
        What went wrong, if anything did.
    warnings : list of str
        What the estimator warned of.
    """

    name: str
    rows: int = 0
    inputs: int = 0
    std: float = nan
    simple: dict[str, list[float]] = field(default_factory=dict)
    ours: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    covered: int = 0
    tested: int = 0
    failure: str = ""
    warnings: list[str] = field(default_factory=list)

    def way(self, family: str = "", splits: int | None = None) -> str:
        """The simple way with the least mean error, of a family or of all; empty if there is none."""
        of_family = [name for name in self.simple if family in ("", name.split()[0])]
        means = {name: np.mean(self.simple[name][:splits]) for name in of_family}
        return min(means, key=means.__getitem__, default="")

    def verdict(self, splits: int | None = None) -> tuple[float, float, bool]:
        """`compare` with the best simple way, on the first `splits` splits."""
        share = test_rows(self.rows) / (self.rows - test_rows(self.rows))
        return compare(self.ours[:splits], self.simple[self.way(splits=splits)][:splits], share)

    def coverage(self) -> tuple[float, str]:
        """The coverage, and "narrow" or "wide" if it is outside what is allowed."""
        found, (low, high) = self.covered / self.tested, allowed_coverage(self.tested)
        return found, "narrow" if found < low else "wide" if found > high else ""


# The run


def n_splits(rows: int) -> int:
    return 10 if rows < 500 else 5 if rows < 5000 else 3


def test_rows(rows: int) -> int:
    return max(1, round(rows / 10))


def measure(data: Ordinary, splits: int | None = None, limit: float = inf) -> Result | None:
    """Fit everything on every split, unless there are more rows than `limit`. What fails ends the set, and is noted."""
    result = Result(data.name)
    try:
        X, y = data.load()
        if len(X) > limit:
            return None
        result.rows, result.inputs, result.std = *X.shape, float(y.std())
        for split in range(splits or n_splits(len(X))):
            _one_split(result, X, y, split)
    except Exception as error:
        result.failure = f"{type(error).__name__}: {error}"
    return result


def _one_split(result: Result, X: np.ndarray, y: np.ndarray, split: int) -> None:
    order = np.random.default_rng(split).permutation(len(X))
    test, train = order[: test_rows(len(X))], order[test_rows(len(X)) :]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = perf_counter()
        model = GreedyGPRegressor(random_state=split).fit(X[train], y[train])
        result.seconds.append(perf_counter() - begin)
        mean, std = model.predict(X[test], return_std=True)
        lower, upper = model.predict_interval(X[test])
    said = {f"{warning.category.__name__}: {warning.message}" for warning in caught}
    result.warnings += sorted(said.difference(result.warnings))
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and np.all(std > 0)):
        raise ValueError(f"split {split}: predictions that are not finite, or standard deviations of 0")
    result.ours.append(rmse(y[test], mean) / result.std)
    result.densities.append(-float(model.log_density(X[test], y[test]).mean()) - np.log(result.std))
    result.covered += int(np.sum((y[test] >= lower) & (y[test] <= upper)))
    result.tested += len(test)
    for name, guess in simple_ways(X[train], y[train], X[test], split):
        result.simple.setdefault(name, []).append(rmse(y[test], guess) / result.std)


# What is shown

HEADING = (
    f"{'set':21} {'rows':>6} {'d':>3}  {'mean':>6} {'line':>6} {'dots':>6} {'near':>6} {'k':>2} {'trees':>6}  "
    f"{'ours':>6} {'ratio':>6} {'t':>5} {'splits':>6}  {'in 95 %':>7} {'allowed':>11} {'NLPD':>6} {'s':>5}"
)


def line(result: Result) -> str:
    """A line of the table."""
    start = f"{result.name:21} {result.rows:>6} {result.inputs:>3}  "
    if result.failure:
        return f"{start}FAILED: {result.failure.splitlines()[0]}"
    ways = [result.way(family) for family in FAMILIES]
    errors = [_short(np.mean(result.simple[way])) if way else "" for way in ways]
    k = ways[3].split()[1]
    errors[3] += f" {k:>2}"
    ratio, statistic, beyond = result.verdict()
    share, width = result.coverage()
    low, high = allowed_coverage(result.tested)
    words = ["worse" if beyond else "worse?"] * (ratio > BEARABLE) + [width] * bool(width)
    text = (
        f"{start}{' '.join(f'{e:>6}' for e in errors)}  {_short(np.mean(result.ours))} {ratio:6.3f} "
        f"{_student(statistic)} {len(result.ours):>6}  {share:7.3f} {low:5.3f}-{high:5.3f} "
        f"{np.mean(result.densities):6.2f} {np.mean(result.seconds):5.1f}  {', '.join(words)}"
    )
    return text.rstrip()


def _short(error: float) -> str:
    return f"{error:6.3f}" if error >= 0.01 else f"{error:6.4f}" if error >= 0.0001 else f"{error:6.0e}"


def _student(statistic: float) -> str:
    return f"{'-' if isnan(statistic) else f'{statistic:.1f}':>5}"


def table(results: list[Result]) -> list[str]:
    """All lines, the worst ratio first, and what they come to."""
    good = sorted((r for r in results if not r.failure), key=lambda r: -r.verdict()[0])
    failed = [r for r in results if r.failure]
    return [HEADING, *map(line, failed), *map(line, good), "", *_summary(good, failed)]


def _summary(good: list[Result], failed: list[Result]) -> list[str]:
    ratios = {r.name: r.verdict() for r in good}
    worse = {name: ratio for name, (ratio, _, beyond) in ratios.items() if ratio > BEARABLE and beyond}
    perhaps = {name: ratio for name, (ratio, _, beyond) in ratios.items() if ratio > BEARABLE and not beyond}
    outside = {r.name: r.coverage()[0] for r in good if r.coverage()[1]}
    lines = [f"of {len(good) + len(failed)} sets"]
    for what, which in (
        (f"worse than {BEARABLE} x the best simple way by more than chance", worse),
        (f"worse than {BEARABLE} x the best simple way, perhaps by chance", perhaps),
        (f"95 % band covers less than {LEAST:.0%} or more than {MOST:.0%} by more than chance", outside),
    ):
        lines.append(f"  {what}: {len(which)}" + _named({name: f"{value:.3f}" for name, value in which.items()}))
    lines.append(f"  failures: {len(failed)}" + _named({r.name: r.failure.split(":")[0] for r in failed}))
    if good:
        values = [ratio for ratio, _, _ in ratios.values()]
        ahead = sum(value < 1 for value in values)
        lines.append(f"  better than every simple way: {ahead}; median of the ratios {np.median(values):.3f}")
    return lines


def _named(values: dict[str, str]) -> str:
    return " (" * bool(values) + ", ".join(f"{name} {value}" for name, value in values.items()) + ")" * bool(values)


def changes(before: list[Result], after: list[Result]) -> list[str]:
    """Two runs, set by set, on the splits that both have: what became worse first."""
    old = {r.name: r for r in before}
    pairs = [(old[new.name], new) for new in after if new.name in old]
    heading = (
        f"{'set':21} {'splits':>6} {'ratio':>6} {'now':>6} {'change':>6} {'t':>5}  {'in 95 %':>7} {'now':>7}  "
        f"{'NLPD':>6} {'now':>6}  {'s':>5} {'now':>5}"
    )
    lines = [_change(was, new) for was, new in pairs]
    return [heading, *(text for _, text in sorted(lines, key=lambda line: -line[0]))]


def _change(was: Result, new: Result) -> tuple[float, str]:
    """The new error in old ones, and a line about both runs."""
    if was.failure or new.failure:
        states = ("FAILED" if r.failure else "done" for r in (was, new))
        return inf, f"{new.name:21} {' then '.join(states)}"
    both = min(len(was.ours), len(new.ours))
    share = test_rows(new.rows) / (new.rows - test_rows(new.rows))
    change, statistic, _ = compare(new.ours[:both], was.ours[:both], share)
    densities, seconds = ([np.mean(getattr(r, name)[:both]) for r in (was, new)] for name in ("densities", "seconds"))
    ratios, shares = [r.verdict(both)[0] for r in (was, new)], [r.coverage()[0] for r in (was, new)]
    return change, (
        f"{new.name:21} {both:>6} {ratios[0]:6.3f} {ratios[1]:6.3f} {change:6.3f} {_student(statistic)}  "
        f"{shares[0]:7.3f} {shares[1]:7.3f}  {densities[0]:6.2f} {densities[1]:6.2f}  "
        f"{seconds[0]:5.1f} {seconds[1]:5.1f}"
    )


def write(results: list[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(result) for result in results], indent=0) + "\n")


def read(path: Path) -> list[Result]:
    return [Result(**values) for values in json.loads(path.read_text())]


def _adds(options: argparse.Namespace) -> bool:
    """Whether there are results that a run of some sets is added to."""
    return bool(options.only) and options.json.exists()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ordinary", description=__doc__.splitlines()[0])
    names = [data.name for data in SETS]
    add = parser.add_argument
    add("--only", nargs="+", choices=names, metavar="NAME", help=f"some sets only, of {', '.join(names)}")
    add("--splits", type=int, metavar="N", help="splits of every set; by default 10, 5 or 3, fewer for larger sets")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} splits, and sets of up to {QUICK_ROWS} rows")
    add("--json", type=Path, default=RESULTS, metavar="PATH", help=f"where results go; {RESULTS} by default")
    add("--against", type=Path, metavar="PATH", help="results of an earlier run, to show beside these")
    options = parser.parse_args(arguments)
    if options.splits is not None and options.splits < 1:
        parser.error(f"--splits must be at least 1, not {options.splits}")
    absent = missing()
    if absent:
        print(f"{', '.join(absent)}: not installed; type  python -m pip install --editable '.[ordinary]'")
        return
    try:
        before = read(options.against) if options.against else []
    except OSError as error:
        parser.error(f"--against: {error}")
    splits = options.splits or (QUICK_SPLITS if options.quick else None)
    # A run of some sets replaces these in the file, and leaves the others.
    results = [result for result in read(options.json) if result.name not in options.only] if _adds(options) else []
    print(HEADING, flush=True)
    for data in SETS:
        if options.only and data.name not in options.only:
            continue
        result = measure(data, splits, QUICK_ROWS if options.quick else inf)
        if result is not None:
            results.append(result)
            write(results, options.json)
            print(line(result), flush=True)
    lines = table(results)
    print("\n" + "\n".join(lines))
    if before:
        print("\n" + "\n".join(changes(before, results)))
    print(f"results: {options.json}")
    if {result.name for result in results} == set(names):
        record("ordinary", "python -m benchmarks ordinary", {"ordinary.txt": lines})
