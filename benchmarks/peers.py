"""Against other libraries: RMSE, NLPD, CRPS, coverage and time on the same rows, standardised in the same way.

Every peer runs in a process of its own on one core, with settings that its documentation would suggest, within a limit
of time and one of memory. Those that learn in steps report after some, so that it is known when they reached what they
reached; of these the best on the test rows counts, which flatters them. The longer of a peer's limits is only tried if
the shorter one was too short. A crash, or a library that is not installed, becomes a row that says so.

    python -m benchmarks peers --sets concrete,airfoil --peers gpboost,muygpys --seconds 60

What was measured is kept in benchmarks/results/peers.json as it comes, by set, peer and limit: if it is broken off, the
same command goes on from there, and runs of some sets or peers add to it. Once every peer was tried on every set,
docs/peers.txt is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from .common import load
from .evidence import record
from .peers_models import PEERS, Peer
from .peers_runs import Results, budget_key, is_needed, measure, read, use_one_core, write
from .peers_table import line, official, table

RESULTS = Path("benchmarks/results/peers.json")
SETS = ("concrete", "airfoil", "mauna_loa_weekly", "bike_noleak", "kin40k", "protein")
"""Sets of the published table: three small ones, three large ones. All peers on one of the latter take half an hour."""
FURTHER = ("pumadyn32nm", "pol", "elevators", "keggdirected")
"""Sets that are measured if `--sets` names them."""


def chosen_sets(text: str) -> list[str]:
    """The sets that an option names, separated by commas."""
    names = text.split(",")
    for name in names:
        if name not in SETS + FURTHER:
            raise argparse.ArgumentTypeError(f"there is no set {name!r}; there are {', '.join(SETS + FURTHER)}")
    return names


def chosen_peers(text: str) -> list[Peer]:
    """The peers whose names contain one of the words of an option, separated by commas."""
    words = [word.strip().lower() for word in text.split(",")]
    for word in words:
        if not any(word in peer.name.lower() for peer in PEERS):
            names = "; ".join(peer.name for peer in PEERS)
            raise argparse.ArgumentTypeError(f"no peer has {word!r} in its name; there are {names}")
    return [peer for peer in PEERS if any(word in peer.name.lower() for word in words)]


def chosen_seconds(text: str) -> list[float]:
    """Limits in seconds, separated by commas."""
    try:
        found = sorted(float(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} should be numbers, separated by commas") from None
    if found[0] <= 0:
        raise argparse.ArgumentTypeError(f"limits must be positive, not {found[0]:g}")
    return found


def unmeasured(results: Results, rows: dict[str, int]) -> list[str]:
    """What is still to be tried before the table is complete."""
    sets = [f"all of {name}" for name in SETS if name not in rows]
    return sets + [
        f"{peer.name} on {name} with {budget_key(seconds)} s"
        for name, n in rows.items()
        if name in SETS
        for peer in PEERS
        for seconds in peer.budgets
        if n <= peer.most_rows and is_needed(results.get(name, {}).get(peer.name, {}), seconds)
    ]


def main(arguments: Sequence[str] = ()) -> None:
    names = "; ".join(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks peers",
        description=__doc__.splitlines()[0],
        epilog="for example: python -m benchmarks peers --sets concrete,airfoil --peers gpboost,muygpys --seconds 60",
    )
    add = parser.add_argument
    add("--sets", type=chosen_sets, default=list(SETS), metavar="NAMES", help=f"of {', '.join(SETS + FURTHER)}")
    add(
        "--peers",
        type=chosen_peers,
        default=list(PEERS),
        metavar="WORDS",
        help=f"those with a word in their name: {names}",
    )
    add("--seconds", type=chosen_seconds, metavar="LIMITS", help="for every peer; by default 60, 600 or both, by peer")
    add("--again", action="store_true", help="measure anew what was measured before")
    options = parser.parse_args(arguments)
    use_one_core()
    results = read(RESULTS)
    rows = {}
    for name in SETS + FURTHER:
        if name not in options.sets and name not in results:
            continue
        data = load(name)
        if data is None:
            continue
        rows[name] = len(data[0])
        if name not in options.sets:
            continue
        for peer in options.peers:
            if rows[name] > peer.most_rows:
                continue
            limits = options.seconds or peer.budgets
            runs = results.setdefault(name, {}).setdefault(peer.name, {})
            for seconds in map(budget_key, limits if options.again else ()):
                runs.pop(seconds, None)
            for seconds in limits:
                if is_needed(runs, seconds):
                    runs[budget_key(seconds)] = measure(peer, data, seconds)
                    write(results, RESULTS)
                    words = line(runs[budget_key(seconds)], budget_key(seconds))
                    print(f"{name:17} {peer.name:24} {words}", flush=True)
    measured = {name: results[name] for name in rows if name in results}
    published = {name: runs for name, runs in measured.items() if name in SETS}
    print("\n" + "\n".join(table(measured, rows)))
    left = unmeasured(results, rows)
    if left:
        print(f"\n{len(left)} runs are left before docs/peers.txt is written: {'; '.join(left[:3])}; ...")
    else:
        record("peers", "python -m benchmarks peers", {"peers.txt": table(official(published), rows)})
    print(f"({RESULTS} keeps what was measured; --again measures anew)")
