"""What was measured of peers as a text: first where others are ahead, then every run, the worst set for us at the top.

Ours is the default, judged by the distribution that it has learnt. A peer counts with the best of what it had within
any of its limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from textwrap import wrap

from .peers_models import PEERS
from .peers_runs import DONE, LATE, Point, Run, budget_key, budgets

DEFAULT = "sodalite"
DIGITS = {"rmse": 4, "nlpd": 3, "crps": 4, "seconds": 1}  # decimals that are shown, and that count
MEASURES = (  # what is compared, how it is called, and whether ours is judged as a Gaussian
    ("rmse", "RMSE", False),
    ("nlpd", "NLPD", False),
    ("nlpd", "NLPD, ours as a Gaussian", True),
    ("crps", "CRPS", False),
    ("crps", "CRPS, ours as a Gaussian", True),
    ("seconds", "time", False),
)
WIDTH = 110  # characters in a line of the summary


@dataclass(frozen=True)
class Published:
    """Figures of others, on other splits."""

    label: str
    rmse: float
    nlpd: float


PUBLISHED = {
    "kin40k": (Published("exact GP, published", 0.065, -1.319),),
    "protein": (Published("exact GP, published", 0.538, 0.575),),
    "elevators": (Published("exact GP, published", 0.354, 0.382),),
    "pol": (
        Published("exact GP, published", 0.127, -0.961),
        Published("exact GP, published, better optimiser", 0.076, -1.224),
    ),
}
SOURCE = (
    "published: exact Gaussian processes with Matern 3/2 kernels, 90 % of the rows for training, other splits. They "
    "were collected from papers on exact Gaussian processes by iterative solvers: K. A. Wang et al. (2019), Exact "
    "Gaussian Processes on a Million Data Points, NeurIPS 32, and such as followed it with other optimisers, among "
    "them W. J. Maddox et al. (2021), When are Iterative Gaussian Processes Reliably Accurate?, arXiv:2112.15246. "
    "Which figure is whose was not recorded."
)

Measured = Mapping[str, Mapping[str, Mapping[str, Run]]]


def official(measured: Measured) -> Measured:
    """The runs with the peers' own limits, and others in which a peer ended by itself: trials are left out."""
    own = {peer.name: {budget_key(seconds) for seconds in peer.budgets} for peer in PEERS}
    return {
        name: {
            peer: {key: run for key, run in runs.items() if key in own.get(peer, ()) or run.status == DONE}
            for peer, runs in by_peer.items()
        }
        for name, by_peer in measured.items()
    }


def points(runs: Mapping[str, Run]) -> list[Point]:
    """The best prediction within each limit, the shortest first."""
    return [point for key in budgets(runs) if (point := runs[key].best)]


def rivals(name: str, by_peer: Mapping[str, Mapping[str, Run]]) -> dict[str, list[Point]]:
    """Points of every peer but ours on a set, one for each of its budgets; published figures too."""
    found: dict[str, list[Point]] = {}
    for peer in PEERS:
        known = points(by_peer.get(peer.name, {}))
        if known and not peer.ours:
            found[peer.name] = known
    for each in PUBLISHED.get(name, ()):
        found[each.label] = [{"rmse": each.rmse, "nlpd": each.nlpd, "crps": None, "seconds": None}]
    return found


def ours(by_peer: Mapping[str, Mapping[str, Run]], name: str = DEFAULT) -> Point | None:
    """The prediction of a way of ours on a set."""
    known = points(by_peer.get(name, {}))
    return known[-1] if known else None


def least(some: Sequence[Point], what: str) -> float | None:
    """The smallest value among points, as it is shown."""
    values = [round(point[what], DIGITS[what]) for point in some if point.get(what) is not None]
    return min(values, default=None)


# Where others are ahead


def ahead(measured: Measured, what: str, plain: bool) -> tuple[int, dict[str, list[tuple[float, str, float, float]]]]:
    """Sets on which we have a figure, and for every rival those on which it is ahead: by how much, name, theirs, ours.

    By how much is the ratio of ours to theirs; for NLPD the difference. With `plain`, ours is judged as a Gaussian.
    """
    sets, found = 0, {}
    for name, by_peer in measured.items():
        point = ours(by_peer)
        point = point and (point.get("gaussian") if plain else point)
        if point is None:
            continue
        sets += 1
        own = round(point[what], DIGITS[what])
        for rival, some in rivals(name, by_peer).items():
            theirs = least(some, what)
            if theirs is not None and theirs < own:
                by = own - theirs if what == "nlpd" else own / theirs if theirs > 0 else inf
                found.setdefault(rival, []).append((by, name, theirs, own))
    return sets, found


def summary(measured: Measured) -> list[str]:
    """Where others are ahead of the default, the most often first, and there the worst sets first."""
    lines = ["Where others are ahead of the default (theirs against ours)"]
    for what, word, plain in MEASURES:
        sets, found = ahead(measured, what, plain)
        lines.append(f"in {word}:" if found else f"in {word}: nobody, on any of {sets} sets")
        for rival, places in sorted(found.items(), key=lambda item: -len(item[1])):
            digits, unit = DIGITS[what], " s" if what == "seconds" else ""
            words = ", ".join(
                f"{name} {theirs:.{digits}f} against {own:.{digits}f}{unit}"
                for _, name, theirs, own in sorted(places, reverse=True)
            )
            text = f"{rival}, on {len(places)} of {sets} sets: {words}"
            lines += wrap(text, WIDTH, initial_indent="  ", subsequent_indent="      ")
    return lines


# Every run


def figures(point: Point, seconds: float | None = None) -> str:
    """A point as a part of a line: RMSE, NLPD, coverage, time and CRPS."""
    cells = [f"{point['rmse']:7.4f}"]
    for what, form, width in (("nlpd", ".3f", 7), ("coverage", ".3f", 6)):
        value = point.get(what)
        cells.append(f"{'' if value is None else format(value, form):>{width}}")
    cells.append(f"{'' if seconds is None else format(seconds, '.1f') + ' s':>8}")
    value = point.get("crps")
    cells.append(f"{'' if value is None else format(value, '.4f'):>7}")
    return " ".join(cells)


def line(run: Run, seconds: str) -> str:
    """A run as a part of a line: the scores of the best prediction, when it was there, and the limit if it was met."""
    point = run.best
    if point is None:
        return {LATE: f"nothing within {seconds} s"}.get(run.status, f"{run.status}: {run.message}")
    limit = "" if run.status == DONE else f"   of {seconds} s"
    failure = f"; then {run.message}" if run.message else ""
    return figures(point, point["seconds"]) + limit + failure


def loss(name: str, by_peer: Mapping[str, Mapping[str, Run]]) -> float:
    """How far we are behind on a set: the larger of the ratios of our RMSE and CRPS to the best of others."""
    point = ours(by_peer)
    if point is None:
        return inf
    every = [one for some in rivals(name, by_peer).values() for one in some]
    ratios = [point[what] / other for what in ("rmse", "crps") if (other := least(every, what))]
    return max(ratios, default=0.0)


def details(measured: Measured, rows: Mapping[str, int]) -> list[str]:
    """Every run, by set."""
    lines = [f"{'':38} {'RMSE':>7} {'NLPD':>7} {'in 95%':>6} {'time':>8} {'CRPS':>7}"]
    for name in sorted(measured, key=lambda name: -loss(name, measured[name])):
        lines.append(f"{name}, {rows[name]} rows")
        for peer in PEERS:
            runs = measured[name].get(peer.name, {})
            for seconds in budgets(runs):
                run = runs[seconds]
                lines.append(f"  {peer.name:36} {line(run, seconds)}")
                if run.best and "gaussian" in run.best:
                    plain = {"rmse": run.best["rmse"], **run.best["gaussian"]}
                    lines.append(f"  {'  as a Gaussian':36} {figures(plain)}")
        lines += [
            f"  {each.label:36} {figures({'rmse': each.rmse, 'nlpd': each.nlpd})}" for each in PUBLISHED.get(name, ())
        ]
    return lines


# How long it takes to be as good


def matches(measured: Measured, rows: Mapping[str, int]) -> list[str]:
    """The best peer in NLPD on each set, and the least time in which one of ours was as good."""
    lines = [f"{'':17} {'ours':>7} {'time':>6}   {'best peer':24} {'NLPD':>7} {'time':>8}   matched in"]
    best = within = counted = fast = large = 0
    for name, by_peer in measured.items():
        own = ours(by_peer)
        known = {
            peer: min(dense, key=lambda point: point["nlpd"])
            for peer, some in rivals(name, by_peer).items()
            if (dense := [point for point in some if point["nlpd"] is not None and point["seconds"] is not None])
        }
        if own is None or not known:
            continue
        peer, point = min(known.items(), key=lambda item: item[1]["nlpd"])
        gap = own["nlpd"] - point["nlpd"]
        counted, best, within = counted + 1, best + (gap <= 0), within + (gap <= 0.01)
        ways = [one for each in PEERS if each.ours and (one := ours(by_peer, each.name))]
        matched = min((one["seconds"] for one in ways if one["nlpd"] <= point["nlpd"]), default=inf)
        if rows[name] > 10_000:
            large, fast = large + 1, fast + (matched <= point["seconds"] / 10)
        share = f"{matched:4.1f} s, {matched / point['seconds']:.2f} of that" if matched < inf else "never"
        lines.append(
            f"{name:17} {own['nlpd']:7.3f} {own['seconds']:4.1f} s   "
            f"{peer:24} {point['nlpd']:7.3f} {point['seconds']:6.1f} s   {share}"
        )
    lines.append(f"best NLPD on {best} of {counted} sets, within 0.01 of the best on {within}")
    lines.append(f"as good as the best peer in a tenth of its time on {fast} of {large} sets of more than 10 000 rows")
    return lines


def table(measured: Measured, rows: Mapping[str, int]) -> list[str]:
    """All of it."""
    return [*summary(measured), "", *details(measured, rows), "", *wrap(SOURCE, WIDTH), "", *matches(measured, rows)]
