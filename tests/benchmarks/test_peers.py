"""The benchmark of peers: its processes, its file, its table. None of the other libraries is needed."""

from __future__ import annotations

import multiprocessing
import warnings

import numpy as np
import pytest
from benchmarks.peers_models import Peer, Prediction
from benchmarks.peers_runs import DONE, FAILED, LATE, MISSING, STOPPED, Run
from numpy.testing import assert_allclose

import peer_functions
from benchmarks import evidence, peers, peers_models, peers_runs, peers_table
from sodalite.metrics import crps, nlpd

DATA = (np.zeros((5, 1)), np.zeros(5), np.zeros((4, 1)), np.zeros(4))


# Runs


def test_a_gaussian_is_scored_in_closed_form_and_a_learnt_distribution_beside_it():
    y, mean, std = np.array([0.0, 1.0]), np.array([0.5, 0.5]), np.ones(2)
    plain = peers_runs.score(y, Prediction(mean, std))
    assert plain == {"rmse": 0.5, "nlpd": nlpd(y, mean, std), "crps": crps(y, mean, std), "coverage": 1.0}
    learnt = peers_runs.score(y, Prediction(mean, std, lambda y: {"nlpd": -1.0, "crps": 0.1, "coverage": 0.5}))
    assert learnt.pop("gaussian") == {what: plain[what] for what in ("nlpd", "crps", "coverage")}
    assert learnt == {"rmse": 0.5, "nlpd": -1.0, "crps": 0.1, "coverage": 0.5}
    bare = peers_runs.score(y, Prediction(mean))
    assert bare == {"rmse": 0.5, "nlpd": None, "crps": None, "coverage": None}


def run_here(function) -> list[tuple]:
    return list(peers_runs.learn(Peer("x", function), DATA, 1.0))


def test_a_peer_that_runs_out_of_time_counts_with_its_best_prediction():
    *points, end = run_here(peer_functions.steps)
    assert end == ("end", (STOPPED, ""))
    best = Run(STOPPED, tuple(point for _, point in points)).best
    assert_allclose(best["rmse"], 0.1)


def test_what_fails_becomes_a_row_that_says_so():
    assert run_here(peer_functions.refuse) == [("end", (FAILED, "ValueError: the matrix is not positive definite"))]
    assert run_here(peer_functions.hoard) == [("end", (FAILED, "needs more than 20 GB"))]
    assert peers_table.line(Run(FAILED, message="ValueError: no"), "60") == "failed: ValueError: no"
    crashed = peers_runs.measure(Peer("x", peer_functions.crash), DATA, 60.0)
    assert crashed == Run(FAILED, (), "its process ended with exit code 11")
    missing = peers_runs.measure(Peer("x", peer_functions.steps, ("no_such_library",)), DATA, 1.0)
    assert missing == Run(MISSING, (), "no_such_library not installed")
    assert peers_runs.is_needed({"60": missing}, 60.0)  # it is tried again later


def test_predictions_that_are_no_numbers_end_a_run_and_those_before_count():
    (_, first), (_, end) = run_here(peer_functions.diverge)
    assert end == (FAILED, "its predictions are not finite")
    words = peers_table.line(Run(end[0], (first,), end[1]), "60")
    assert words.endswith("of 60 s; then its predictions are not finite")


def test_a_process_that_does_not_end_is_killed():
    assert peers_runs.measure(Peer("x", peer_functions.never), DATA, 0.1, grace=0.1) == Run(LATE)
    assert not multiprocessing.active_children()
    assert peers_table.line(Run(LATE), "60") == "nothing within 60 s"


@pytest.mark.parametrize(
    ("runs", "needed"),
    [
        ({}, True),
        ({"60": STOPPED}, True),
        ({"60": LATE}, True),
        ({"60": DONE}, False),
        ({"60": FAILED}, False),
        ({"60": STOPPED, "600": LATE}, False),
        ({"1000": DONE}, True),
    ],
)
def test_a_longer_limit_is_tried_if_a_shorter_one_was_too_short(runs, needed):
    assert peers_runs.is_needed({key: Run(status) for key, status in runs.items()}, 600.0) is needed


def test_a_timed_optimiser_returns_the_best_so_far():
    calls = []

    def objective(theta):
        calls.append(theta)
        return float(theta @ theta), 2 * theta

    start, bounds = np.array([3.0, 4.0]), [(-9, 9)] * 2
    full, quick = peers_models.TimedLBFGS(60.0), peers_models.TimedLBFGS(-1.0)
    assert_allclose(full(objective, start, bounds)[0], 0, atol=1e-6)
    assert not full.stopped
    calls.clear()
    theta, value = quick(objective, start, bounds)
    assert quick.stopped
    assert len(calls) == 1
    assert_allclose(theta, start)
    assert value == 25


QUICK = {"hyperparameters": "subset", "n_active": 30}
SOME = [peer for peer in peers_models.PEERS if not peer.name.startswith("sodalite, ")]


@pytest.mark.parametrize("peer", SOME, ids=lambda peer: peer.name)
def test_every_peer_that_is_installed_predicts(peer):
    for module in peer.modules:
        pytest.importorskip(module, exc_type=ImportError)
    random = np.random.default_rng(0)
    X, T = random.normal(size=(700, 2)), random.normal(size=(100, 2))
    y, z = (np.sin(A[:, 0]) + 0.1 * random.normal(size=len(A)) for A in (X, T))
    settings = QUICK if peer.ours else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = [peers_runs.score(z, prediction) for prediction in peer.function(X, y, T, 1.0, **settings)]
    best = Run(DONE, tuple(points)).best
    most = (1.1 if "SVGP" in peer.name else 0.5) * z.std()  # a second is little for mini-batches
    assert best["rmse"] < most
    assert (best["nlpd"] is None) == (peer.name in ("boosted trees", "LightGBM + MAPIE"))
    assert (best["crps"] is None) == (peer.name == "boosted trees")
    assert ("gaussian" in best) == peer.ours
    if best["crps"] is not None:
        assert 0.02 < best["crps"] < most
        assert 0.8 <= best["coverage"] <= 1


# The file and the options


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """The benchmark with two sets, pretend peers and files of its own; returns the calls of `measure`."""
    asked = []

    def measure(peer, data, seconds):
        asked.append((peer.name, seconds))
        return Run(DONE if peer.ours else STOPPED, (point(0.2 if peer.ours else 0.1),))

    some = (Peer("sodalite", None, ours=True), Peer("Rival", None), Peer("Small", None, budgets=(600.0,), most_rows=3))
    for module in (peers, peers_table):
        monkeypatch.setattr(module, "PEERS", some)
    monkeypatch.setattr(peers, "SETS", ("a", "b"))
    monkeypatch.setattr(peers, "RESULTS", tmp_path / "results" / "peers.json")
    monkeypatch.setattr(peers, "load", lambda name: DATA)
    monkeypatch.setattr(peers, "measure", measure)
    monkeypatch.setattr(evidence, "DOCS", tmp_path)
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence.json")
    return asked


def point(value: float, seconds: float = 1.0) -> dict:
    return {"seconds": seconds, "rmse": value, "nlpd": value, "crps": value, "coverage": 0.95}


def test_a_run_that_was_broken_off_goes_on_and_the_table_is_written_at_the_end(quick, tmp_path, capsys):
    peers.main(["--sets", "a", "--peers", "rival", "--seconds", "60"])
    assert quick == [("Rival", 60.0)]
    assert not (tmp_path / "peers.txt").exists()
    assert (
        "runs are left before docs/peers.txt is written: all of b; sodalite on a with 60 s" in capsys.readouterr().out
    )
    peers.main()
    assert quick[1:] == [
        *(("sodalite", 60.0), ("Rival", 600.0)),
        *(("sodalite", 60.0), ("Rival", 60.0), ("Rival", 600.0)),
    ]
    text = (tmp_path / "peers.txt").read_text()
    assert text.count("Rival  ") == 2 * 2 + 2  # with two limits on two sets, and as the best of others on both
    assert text.count("Rival, on 2 of 2 sets") == 3  # in RMSE, NLPD and CRPS
    quick.clear()
    peers.main()
    assert quick == []
    peers.main(["--sets", "b", "--peers", "soda", "--again"])
    assert quick == [("sodalite", 60.0)]


def test_trials_with_other_limits_are_not_in_the_table_of_record(quick, tmp_path):
    peers.main()
    peers.main(["--peers", "rival", "--seconds", "10"])
    peers.main(["--sets", "a", "--peers", "soda"])
    assert ("Rival", 10.0) in quick
    text = (tmp_path / "peers.txt").read_text()
    assert "of 60 s" in text
    assert "of 10 s" not in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sets", "a,moon"], "there is no set 'moon'; there are a, b"),
        (["--peers", "nobody"], "no peer has 'nobody' in its name; there are sodalite; Rival; Small"),
        (["--seconds", "soon"], "'soon' should be numbers, separated by commas"),
        (["--seconds", "0"], "limits must be positive, not 0"),
    ],
)
def test_options_that_are_wrong_are_refused(quick, options, words, capsys):
    with pytest.raises(SystemExit):
        peers.main(options)
    assert words in " ".join(capsys.readouterr().err.split())


# The table


def done(*points: dict) -> dict[str, Run]:
    return {"60": Run(DONE, points)}


MEASURED = {
    "fine": {"sodalite": done(point(0.1, 9.0)), "boosted trees": done({**point(0.2), "nlpd": None, "crps": None})},
    "bad": {
        "sodalite": done({**point(0.3, 9.0), "gaussian": {"nlpd": 0.5, "crps": 0.35, "coverage": 0.9}}),
        "boosted trees": done({**point(0.2), "nlpd": None, "crps": None}),
        "MuyGPyS": {"60": Run(LATE), "600": Run(STOPPED, (point(0.25, 99.0), point(0.28, 300.0)))},
        "GPBoost Vecchia": {"60": Run(FAILED, message="its process ended with exit code -11")},
    },
}
ROWS = {"fine": 100, "bad": 20_000}


def test_where_others_are_ahead_is_counted_from_the_results():
    assert peers_table.summary(MEASURED) == [
        "Where others are ahead of the default (theirs against ours)",
        "in RMSE:",
        "  MuyGPyS, on 1 of 2 sets: bad 0.2500 against 0.3000",
        "  boosted trees, on 1 of 2 sets: bad 0.2000 against 0.3000",
        "in NLPD:",
        "  MuyGPyS, on 1 of 2 sets: bad 0.250 against 0.300",
        "in NLPD, ours as a Gaussian:",
        "  MuyGPyS, on 1 of 1 sets: bad 0.250 against 0.500",
        "in CRPS:",
        "  MuyGPyS, on 1 of 2 sets: bad 0.2500 against 0.3000",
        "in CRPS, ours as a Gaussian:",
        "  MuyGPyS, on 1 of 1 sets: bad 0.2500 against 0.3500",
        "in time:",
        "  boosted trees, on 2 of 2 sets: fine 1.0 against 9.0 s, bad 1.0 against 9.0 s",
    ]


def test_a_difference_that_is_not_shown_does_not_count():
    own = {**point(0.1), "gaussian": {"nlpd": 0.1, "crps": 0.1, "coverage": 0.9}}
    close = {"a": {"sodalite": done(own), "MuyGPyS": done(point(0.1 - 1e-6))}}
    lines = peers_table.summary(close)
    assert len(lines) == 7
    assert all(line.endswith("nobody, on any of 1 sets") for line in lines[1:])


def test_the_worst_set_is_at_the_top_and_every_run_has_a_row():
    lines = peers_table.details(MEASURED, ROWS)
    assert [line for line in lines if "rows" in line] == ["bad, 20000 rows", "fine, 100 rows"]
    rows = [" ".join(line.split()) for line in lines[2:8]]
    assert rows == [
        "sodalite 0.3000 0.300 0.950 9.0 s 0.3000",
        "as a Gaussian 0.3000 0.500 0.900 0.3500",
        "GPBoost Vecchia failed: its process ended with exit code -11",
        "MuyGPyS nothing within 60 s",
        "MuyGPyS 0.2500 0.250 0.950 99.0 s 0.2500 of 600 s",
        "boosted trees 0.2000 0.950 1.0 s",
    ]


def test_published_figures_are_beside_ours_and_marked_as_published():
    measured = {"kin40k": {"sodalite": done(point(0.08))}}
    rows = [" ".join(line.split()) for line in peers_table.table(measured, {"kin40k": 36_000})]
    assert "exact GP, published 0.0650 -1.319" in rows
    assert "exact GP, published, on 1 of 1 sets: kin40k 0.0650 against 0.0800" in rows
    assert any("Wang et al. (2019)" in row for row in rows)


def test_the_time_to_match_the_best_peer_is_the_least_of_ours():
    measured = {
        "a": {
            "sodalite": done(point(0.1, 9.0)),
            "sodalite, time_limit=1": done(point(0.2, 2.0)),
            "MuyGPyS": done(point(0.3, 40.0)),
        }
    }
    lines = peers_table.matches(measured, {"a": 20_000})
    assert "2.0 s, 0.05 of that" in lines[1]
    assert lines[2:] == [
        "best NLPD on 1 of 1 sets, within 0.01 of the best on 1",
        "as good as the best peer in a tenth of its time on 1 of 1 sets of more than 10 000 rows",
    ]


def test_figures_of_a_row_can_be_looked_up_in_the_evidence():
    records = {"peers": {"tables": {"peers.txt": peers_table.table(MEASURED, ROWS)}}}
    assert evidence.numbers(records, "peers", "sodalite", "bad, 20000")[:4] == [0.3, 0.3, 0.95, 9.0]  # with the time
    assert evidence.numbers(records, "peers", "boosted trees", "fine, 100")[0] == 0.2
