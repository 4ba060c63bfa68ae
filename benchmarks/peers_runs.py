"""Runs of peers: each in a process of its own, within a limit of time and memory, and kept in a file as they come."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sodalite.metrics import coverage, crps, nlpd, rmse

from .common import standardised
from .peers_models import UNFINISHED, Peer, Prediction

GRACE = 30.0  # seconds beyond the limit, for imports and for the prediction after the last step
MEMORY = 20e9  # bytes that a peer may have
DONE, STOPPED, LATE, FAILED, MISSING = "done", "stopped", "late", "failed", "missing"
Point = dict[str, Any]
"""Scores of a prediction, and the seconds after which it was there."""


@dataclass(frozen=True)
class Run:
    """What came of a peer on a set, given so many seconds."""

    status: str
    """"done" if it ended by itself, "stopped" if more time might have helped, "late" if nothing came in time,
    "failed", or "missing" if a library is not installed."""
    points: tuple[Point, ...] = ()
    message: str = ""

    @property
    def best(self) -> Point | None:
        """The prediction with the least NLPD, or the last one of a peer that has none; None if there are none."""
        dense = [point for point in self.points if point["nlpd"] is not None]
        return min(dense, key=lambda point: point["nlpd"]) if dense else self.points[-1] if self.points else None


def score(y_test: np.ndarray, prediction: Prediction) -> Point:
    """RMSE, NLPD, CRPS and coverage of the 95 % interval: of the peer's own distribution, and as a Gaussian if both."""
    mean, std = prediction.mean, prediction.std
    gaussian = None
    if std is not None:
        gaussian = {"nlpd": nlpd(y_test, mean, std), "crps": crps(y_test, mean, std)}
        gaussian["coverage"] = coverage(y_test, mean, std)
    found: Point = {"rmse": rmse(y_test, mean), "nlpd": None, "crps": None, "coverage": None}
    if prediction.scores is None:
        return {**found, **(gaussian or {})}
    own = {**found, **prediction.scores(y_test)}
    return own if gaussian is None else {**own, "gaussian": gaussian}


def learn(peer: Peer, data: tuple[np.ndarray, ...], seconds: float) -> Iterator[tuple[str, Any]]:
    """Messages about a peer: ("point", scores) for every prediction, then ("end", status, message).

    Times begin before the peer's imports, and leave out the scoring.
    """
    X, y, X_test, y_test = data
    began, scoring = perf_counter(), 0.0
    predictions = peer.function(X, y, X_test, seconds)
    while True:
        try:
            prediction = next(predictions)
        except StopIteration as end:
            yield "end", (STOPPED if end.value == UNFINISHED else DONE, "")
            return
        except MemoryError:
            yield "end", (FAILED, f"needs more than {MEMORY / 1e9:.0f} GB")
            return
        except Exception as error:
            yield "end", (FAILED, f"{type(error).__name__}: {error}".splitlines()[0][:100])
            return
        taken = perf_counter() - began - scoring
        found = score(y_test, prediction)
        if not all(isfinite(value) for value in found.values() if isinstance(value, float)):
            yield "end", (FAILED, "its predictions are not finite")
            return
        yield "point", {"seconds": taken, **found}
        scoring = perf_counter() - began - taken


def _in_process(peer: Peer, data: tuple[np.ndarray, ...], seconds: float, pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (int(MEMORY), int(MEMORY)))
    warnings.simplefilter("ignore")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for message in learn(peer, data, seconds):
        pipe.send(message)
    pipe.close()


def measure(peer: Peer, data: tuple[np.ndarray, ...], seconds: float, grace: float = GRACE) -> Run:
    """Run a peer on X, y, X_test and y_test in a process, which is killed when the limit and the grace are over."""
    absent = [module for module in peer.modules if find_spec(module) is None]
    if absent:
        return Run(MISSING, message=f"{', '.join(absent)} not installed")
    X, y, X_test, y_test = data
    X, X_test = standardised(X, X_test)
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_in_process, args=(peer, (X, y, X_test, y_test), seconds, send))
    began = perf_counter()
    process.start()
    send.close()
    points: list[Point] = []
    try:
        while receive.poll(max(seconds + grace - (perf_counter() - began), 0.01)):
            kind, what = receive.recv()
            if kind == "end":
                return Run(what[0], tuple(points), what[1])
            points.append(what)
        return Run(STOPPED if points else LATE, tuple(points))
    except EOFError:
        process.join()
        return Run(FAILED, tuple(points), f"its process ended with exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()
        receive.close()


def use_one_core() -> None:
    """Let this process, and those that it starts from now on, compute on one core where the system allows it."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


# The file

Results = dict[str, dict[str, dict[str, Run]]]
"""Runs by set, by peer and by seconds, which are a string as in JSON."""


def budget_key(seconds: float) -> str:
    return f"{seconds:g}"


def budgets(runs: Mapping[str, Run]) -> list[str]:
    """Budgets that there are runs with, in increasing order."""
    return sorted(runs, key=float)


def read(path: Path) -> Results:
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: {
            peer: {seconds: Run(run["status"], tuple(run["points"]), run["message"]) for seconds, run in runs.items()}
            for peer, runs in by_peer.items()
        }
        for name, by_peer in kept.items()
    }


def write(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {
        name: {peer: {seconds: asdict(run) for seconds, run in runs.items()} for peer, runs in by_peer.items()}
        for name, by_peer in results.items()
    }
    whole = path.with_suffix(".part")
    whole.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
    whole.replace(path)


def is_needed(runs: Mapping[str, Run], seconds: float) -> bool:
    """Whether a run is still to be made: not if it is there, nor if the peer ended by itself in less time."""
    run = runs.get(budget_key(seconds))
    if run is not None and run.status != MISSING:
        return False
    shorter = [runs[key] for key in runs if float(key) < seconds]
    return not any(run.status in (DONE, FAILED) for run in shorter)
