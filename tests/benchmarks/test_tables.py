"""The benchmark of raw tables: figures of both ways on a small table of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import tables


def test_there_are_enough_sets_and_each_has_one_name():
    names = [data.name for data in tables.SETS]
    assert len(names) >= 15
    assert len(set(names)) == len(names)


def test_our_figures_are_those_of_the_rows_that_were_not_fitted(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.uniform(0, 10, 120), "town": random.choice(["a", "b", "c"], 120)})
    frame["y"] = np.sin(frame["x"]) + (frame["town"] == "a") + 0.1 * random.normal(size=120)
    frame[:100].to_csv(tmp_path / "rest.csv", index=False)
    frame[100:].to_csv(tmp_path / "test.csv", index=False)
    run = tables._run
    quick = ("--set", "hyperparameters=subset", "--n-active", "40")
    monkeypatch.setattr(tables, "_run", lambda *given: run(*given, *(quick if given[0] == "fit" else ())))
    found, n_inputs = tables.ours_on(tmp_path, "y", frame[100:])
    assert n_inputs == 4
    assert found.rmse < 0.5
    assert found.nlpd < 1
    assert 0.7 < found.coverage <= 1
    with pytest.raises(RuntimeError, match="no column 'z'"):
        run("fit", str(tmp_path / "rest.csv"), "-t", "z")


def test_series_are_runs_of_dates_and_trees_get_the_calendar():
    for data in tables.SERIES:
        assert data.date
        assert data.target != data.date
    frame = pd.DataFrame({"when": ["2024-01-01 06:30", "2024-03-01 00:00"], "y": [1.0, 2.0]})
    made = tables.with_calendar(frame, "when")
    assert made.to_dict("list") == {
        "y": [1.0, 2.0],
        "time": [pytest.approx(6.5 / 24), 60.0],
        "hour": [6.5, 0.0],
        "weekday": [0, 4],
        "day of year": [1, 61],
    }
