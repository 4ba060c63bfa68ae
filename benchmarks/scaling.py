"""Time against the rows and against the active rows, peak memory at ten million rows, and the figure of both curves.

Every point is a process of its own, so that its peak memory is its own. The numbers go to benchmarks/results, their
figure to docs/images. Needs 20 GB of memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from sodalite import reference, select

from .common import smooth_problem
from .evidence import record

RESULTS, FIGURE = Path("benchmarks/results"), Path("docs/images/scaling.png")
ROWS = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
ACTIVE = (100, 200, 500, 1000, 2000)
MOST = {"reference": 4e11, "one at a time": 1.2e11}  # n^2 m^2 or n m^2 beyond which a slow way is not waited for
KEPT = "18GB"  # memory limit with room for the coordinates v of all rows
NOT_KEPT = 60  # bytes a row of a memory limit without room for them


def measure(way: str, n: int, m: int, dtype: str, limit: str | None) -> dict[str, float]:
    """Time one way of selecting, and its peak memory, in this process."""
    X, y, kernel = smooth_problem(n, 0.1, n_features=100, dtype=dtype)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begin = perf_counter()
    if way.startswith("ours"):
        select(X, y, kernel, n_active=m, first=0, criterion="delta", dtype=dtype, memory_limit=limit)
    elif way == "one at a time":
        reference.one_at_a_time(X, y, kernel, n_active=m, first=0)
    elif way == "reference":
        reference.select(X, y, kernel, n_active=m, first=0)
    else:
        V, A = np.ones((m, n), dtype=dtype), np.ones((64, m), dtype=dtype)
        begin = perf_counter()
        for t in range(64, m, 64):
            A[:, :t] @ V[:t]
    seconds = perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peak": peak, "before": before, "data": X.nbytes + y.nbytes}


def in_a_process(way: str, n: int, m: int, dtype: str = "float64", limit: str | None = None) -> dict[str, float]:
    """Run `measure` in a process of its own, so that its peak memory is its own."""
    arguments = f"{way!r}, {n}, {m}, {dtype!r}, {limit!r}"
    code = f"import json; from benchmarks.scaling import measure; print(json.dumps(measure({arguments})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def curve(points: list[tuple[int, int]], along: str) -> dict[str, list[tuple[int, float]]]:
    """Seconds against the rows or the active rows, for every way that is fast enough at the point (n, m)."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for way in ("ours", "ours, O(n) memory", "bare product", "one at a time", "reference"):
        lines[way] = []
        for n, m in points:
            limit = KEPT if way == "ours" else None
            if way == "ours, O(n) memory":
                limit = str(NOT_KEPT * n + 200_000_000)
                if n < 300_000:  # there, all fits
                    continue
            if way == "reference" and (n**2 * m**2 > MOST[way] or n > 20_000):
                continue
            if way == "one at a time" and n * m**2 > MOST[way]:
                continue
            if way == "bare product" and n * m > 1.5e9:
                continue
            taken = in_a_process(way, n, m, limit=limit)["seconds"]
            lines[way].append((n if along == "rows" else m, taken))
            print(f"{way:17} n {n:>9} m {m:>5}: {taken:8.2f} s", flush=True)
    return lines


def slope(line: list[tuple[int, float]], begin: int) -> float:
    """The power of x that the time grows as, from x = begin on."""
    x, y = np.log([p for p in line if p[0] >= begin]).T
    return float(np.polyfit(x, y, 1)[0])


def draw(by_rows: dict, by_active: dict, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    styles = {
        "ours": ("#0072B2", "o-"),
        "ours, O(n) memory": ("#56B4E9", "o--"),
        "bare product": ("#999999", "s--"),
        "one at a time": ("#D55E00", "^-"),
        "reference": ("#CC79A7", "v-"),
    }
    for axis, lines, label in zip(
        axes, (by_rows, by_active), ("rows (200 active)", "active rows (of 50 000)"), strict=True
    ):
        for way, line in lines.items():
            if line:
                colour, style = styles[way]
                axis.loglog(*zip(*line, strict=True), style, color=colour, label=way)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=160)


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    by_rows = curve([(n, 200) for n in ROWS], "rows")
    by_active = curve([(50_000, m) for m in ACTIVE], "active")
    print(
        f"time grows as n^{slope(by_rows['ours'], 10_000):.2f} from n = 10 000 on, "
        f"n^{slope(by_rows['ours'], 100_000):.2f} from 100 000 on, and as m^{slope(by_active['ours'], 100):.2f}"
    )
    large = in_a_process("ours", 10_000_000, 200, "float32", "600MB")
    print(
        f"n 10000000, m 200, float32: {large['seconds']:.1f} s, peak {large['peak'] / 1e6:.0f} MB, "
        f"{large['peak'] / large['data']:.2f} times the data ({large['data'] / 1e6:.0f} MB); "
        f"{large['before'] / 1e6:.0f} MB of the peak were there before the selection began"
    )
    values = {
        "rows": by_rows["ours"][-1][0],
        "seconds": by_rows["ours"][-1][1],
        "seconds in O(n) memory": by_rows["ours, O(n) memory"][-1][1],
        "seconds in float32": large["seconds"],
        "peak GB in float32": large["peak"] / 1e9,
        "GB of data in float32": large["data"] / 1e9,
    }
    record("scaling", "python -m benchmarks scaling", values=values)
    (RESULTS / "scaling.json").write_text(json.dumps({"rows": by_rows, "active": by_active, "large": large}, indent=1))
    draw(by_rows, by_active, FIGURE)
    print(f"figure: {FIGURE}")
