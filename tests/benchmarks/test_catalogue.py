"""The rule by which the catalogue's tables are taken, the simple ways, and what counts as lost."""

from __future__ import annotations

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
catalogue = pytest.importorskip("benchmarks.catalogue", reason="the benchmarks are not part of the source distribution")


def frame(n=60):
    generator = np.random.default_rng(0)
    group, x = generator.integers(4, size=n), generator.normal(size=n)
    y = 5.0 * group + x + 0.1 * generator.normal(size=n)
    return pandas.DataFrame({"group": [f"g{g}" for g in group], "x": x, "y": y})


def test_the_target_is_the_last_column_of_numbers_that_do_not_count_the_rows():
    table = frame().assign(few=1, number=np.arange(60), text="a")
    assert catalogue.target_of(table) == "y"
    assert catalogue.target_of(table[["text", "few", "number"]]) is None
    assert not catalogue.is_series(table, "y")
    assert catalogue.is_series(pandas.DataFrame({"time": np.arange(60.0) / 12, "y": frame().y}), "y")


def test_simple_ways_find_what_they_are_for():
    table = frame()
    known, new, y = table[["group", "x"]][:40], table[["group", "x"]][40:], table.y.to_numpy()
    errors = {name: np.std(way(known, y[:40], new) - y[40:]) for name, way in catalogue.WAYS.items() if name != "trees"}
    assert errors["ridge"] < 0.2 < errors["groups"] < 0.5 * errors["mean"]
    time = pandas.DataFrame({"time": np.arange(48) / 12})
    season = np.tile(np.arange(12.0), 4)
    assert np.array_equal(catalogue.season(time[:36], season[:36], time[36:]), season[36:])


@pytest.mark.parametrize(("ours", "t", "lost"), [(1.2, 3.0, True), (1.2, 1.0, False), (1.05, 9.0, False)])
def test_lost_is_behind_by_a_tenth_and_by_more_than_chance(ours, t, lost):
    result = catalogue.Result("a", "y", 90, 2, False, {"ours": ours, "mean": 2.0, "ridge": 1.0}, {}, 0.9, t)
    assert (result.is_lost, result.best) == (lost, "ridge")
