"""The benchmark of ordinary data: its simple ways, its statistics, its table. None of the data is needed."""

from __future__ import annotations

import json
from functools import partial
from math import inf, nan

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from sodalite import GreedyGPRegressor

ordinary = pytest.importorskip("benchmarks.ordinary", reason="the benchmarks are not part of the source distribution")


# The simple ways


def test_joined_dots_pass_through_means_and_stay_constant_outside():
    x, y = np.array([2.0, 0.0, 1.0, 1.0]), np.array([5.0, 1.0, 2.0, 4.0])
    found = ordinary.joined_dots(x, y, np.array([-9.0, 0.0, 0.5, 1.0, 1.5, 2.0, 9.0]))
    assert_allclose(found, [1, 1, 2, 3, 4, 5, 5])


@pytest.mark.parametrize("d", [1, 4])
def test_the_straight_line_is_least_squares_also_of_inputs_that_are_constant_or_equal(d):
    generator = np.random.default_rng(d)
    X, T = generator.normal(3, 100, (30, d)), generator.normal(3, 100, (5, d))
    y = X.sum(axis=1) + generator.normal(size=30)
    expected = LinearRegression().fit(X, y).predict(T)
    assert_allclose(ordinary.straight_line(X, y, T), expected)
    twice, new = (np.column_stack([part, part, np.ones(len(part))]) for part in (X, T))
    assert_allclose(ordinary.straight_line(twice, y, new), expected)


def test_nearest_is_the_mean_of_the_k_nearest_in_standardised_inputs():
    generator = np.random.default_rng(0)
    X, T, y = generator.normal(size=(40, 2)), generator.normal(size=(7, 2)), generator.normal(size=40)
    stretch = np.array([1.0, 1e4])
    mean, std = X.mean(axis=0), X.std(axis=0)
    found = dict(ordinary.nearest(X * stretch, y, T * stretch))
    assert tuple(found) == ordinary.NEIGHBOURS
    for k, means in found.items():
        peer = KNeighborsRegressor(k).fit((X - mean) / std, y)
        assert_allclose(means, peer.predict((T - mean) / std))


def test_nearest_never_asks_for_more_rows_than_there_are():
    X, y = np.arange(4.0)[:, None], np.arange(4.0)
    assert [k for k, _ in ordinary.nearest(X, y, X)] == [1, 2, 3]


@pytest.mark.parametrize("d", [1, 2])
def test_every_simple_way_predicts_every_row(d):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(25, d)), generator.normal(size=25)
    found = dict(ordinary.simple_ways(X, y, X[:3], 0))
    assert {name.split()[0] for name in found} == {"mean", "line", "near", "trees"} | ({"dots"} if d == 1 else set())
    assert all(guess.shape == (3,) and np.isfinite(guess).all() for guess in found.values())


# The statistics


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "statistic", "beyond"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 1, 0, False),
        ([3.0, 3.0], [2.0, 2.0], 1.5, inf, True),
        ([3.0], [2.0], 1.5, nan, False),
        ([1.0, 1.0], [0.0, 0.0], inf, inf, True),
        ([0.0, 0.0], [0.0, 0.0], 1, 0, False),
        ([1.0, 1.5, 1.0], [2.0, 3.0, 2.0], 0.5, None, False),
    ],
    ids=["equal", "never varies", "one split decides nothing", "no error", "no errors", "better is never worse"],
)
def test_a_difference_is_told_from_chance(ours, theirs, ratio, statistic, beyond):
    found = ordinary.compare(ours, theirs, 1 / 9)
    assert (found[0], found[2]) == (ratio, beyond)
    if statistic is not None:
        assert found[1] == pytest.approx(statistic, nan_ok=True)


def test_the_standard_error_allows_for_training_rows_in_common():
    ours, theirs = np.array([1.2, 1.5, 1.1, 1.4]), np.ones(4)
    difference = ours - theirs
    plain = difference.mean() / (difference.std(ddof=1) / 2)
    assert_allclose(ordinary.compare(ours, theirs, 0.0)[1], plain)
    assert_allclose(ordinary.compare(ours, theirs, 1 / 9)[1], plain * np.sqrt((1 / 4) / (1 / 4 + 1 / 9)))


@pytest.mark.parametrize("splits", [3, 5, 10])
def test_chance_alone_is_called_worse_in_one_case_of_twenty(splits):
    """Without training rows in common, as the standard error is that of independent differences then."""
    generator = np.random.default_rng(splits)
    found = [ordinary.compare(*generator.normal(9, 1, (2, splits)), 0.0)[2] for _ in range(2000)]
    assert 0.03 < np.mean(found) < 0.07


@pytest.mark.parametrize("tested", [2, 20, 100, 5000])
def test_allowed_coverage_is_what_chance_gives_at_the_bounds(tested):
    low, high = ordinary.allowed_coverage(tested)
    assert low <= 0.9
    assert high >= 0.98
    assert binom.cdf(round(low * tested) - 1, tested, 0.9) <= 0.025
    assert binom.sf(round(high * tested), tested, 0.98) <= 0.025


# The table


def result(name, ours, theirs, covered=95, **more):
    return ordinary.Result(
        name,
        rows=100,
        inputs=1,
        std=2.0,
        simple={"near 13": theirs} | {way: [9.0] * len(ours) for way in ("mean", "near 1", "trees 3")},
        ours=ours,
        densities=[0.5] * len(ours),
        seconds=[1.0] * len(ours),
        covered=covered,
        tested=100,
        **more,
    )


def test_the_worst_ratio_comes_first_and_failures_before_it():
    results = [
        result("fine", [1.0, 1.0], [2.0, 2.0]),
        result("bad", [3.0, 3.0], [2.0, 2.0]),
        ordinary.Result("broken", failure="ValueError: no"),
        result("worst", [9.0, 3.0], [2.0, 2.0], covered=50),
    ]
    lines = ordinary.table(results)
    assert [line.split()[0] for line in lines[1:5]] == ["broken", "worst", "bad", "fine"]
    text = "\n".join(lines)
    assert "by more than chance: 1 (bad 1.500)" in text
    assert "perhaps by chance: 1 (worst 3.000)" in text
    assert "1 (worst 0.500)" in text
    assert "failures: 1 (broken ValueError)" in text
    assert "better than every simple way: 1" in text


def test_the_best_of_a_family_is_the_best_on_all_splits_together():
    one = result("a", [1.0, 1.0], [7.0, 7.5])
    assert one.way("near") == "near 13"
    assert one.way() == "near 13"
    assert one.way("dots") == ""


def test_results_survive_a_file(tmp_path):
    results = [result("a", [1.0, 1.5], [2.0, 2.0]), ordinary.Result("b", failure="KeyError: 'x'")]
    ordinary.write(results, tmp_path / "new" / "r.json")
    assert json.loads((tmp_path / "new" / "r.json").read_text())[0]["name"] == "a"
    assert ordinary.table(ordinary.read(tmp_path / "new" / "r.json")) == ordinary.table(results)


def test_two_runs_are_compared_on_the_splits_that_both_have():
    before = [result("a", [1.0, 1.0, 7.0], [2.0, 2.0, 2.0]), result("b", [1.0, 1.0], [2.0, 2.0])]
    after = [result("a", [1.5, 1.5], [2.0, 2.0]), result("b", [3.0, 3.0], [2.0, 2.0]), result("c", [1.0], [1.0])]
    lines = [line.split()[:5] for line in ordinary.changes(before, after)[1:]]
    assert lines == [["b", "2", "0.500", "1.500", "3.000"], ["a", "2", "0.500", "0.750", "1.500"]]


def test_a_set_that_fails_is_shown_not_raised():
    class Broken:
        name = "broken"

        def load(self):
            raise KeyError("no such column")

    assert ordinary.measure(Broken()).failure.startswith("KeyError")
    assert "FAILED: KeyError" in ordinary.line(ordinary.measure(Broken()))


def test_a_set_is_measured(monkeypatch):
    class Sine:
        name = "sine"

        def load(self):
            x = np.linspace(0, 6, 40)
            return x[:, None], 50 * np.sin(x)

    quick = partial(GreedyGPRegressor, RBF(1.0) + WhiteKernel(1e-4), hyperparameters="fixed")
    monkeypatch.setattr(ordinary, "GreedyGPRegressor", quick)
    one = ordinary.measure(Sine(), splits=2)
    assert one.failure == ""
    assert (one.rows, one.inputs, one.tested, len(one.ours)) == (40, 1, 8, 2)
    assert max(one.ours) < 0.1
    assert_array_equal([len(errors) for errors in one.simple.values()], 2)
    assert one.way("mean") == "mean"
    assert np.mean(one.simple["mean"]) == pytest.approx(1, abs=0.5)  # in standard deviations of the targets
    assert np.mean(one.densities) < 0
    assert "sine" in ordinary.line(one)
