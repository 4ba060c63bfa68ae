"""Time against the rows and against the active rows, peak memory at ten million rows, and the figure of both curves.

Every point is a process of its own, so that its peak memory is its own. The figure and the numbers behind it go to
benchmarks/results.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from tests import one_at_a_time

from sodalite import reference, select

from .common import smooth_problem

RESULTS = Path("benchmarks/results")
ROWS = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
ACTIVE = (100, 200, 500, 1000, 2000)
MOST = {"reference": 4e11, "one at a time": 1.2e11}  # n^2 m^2 or n m^2 beyond which a slow way is not waited for


def measure(way: str, n: int, m: int, dtype: str, limit: str | None) -> dict[str, float]:
    """Time one way of selecting, and its peak memory, in this process."""
    X, y, kernel = smooth_problem(n, 0.1)
    X, y = X.astype(dtype), y.astype(dtype)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begin = perf_counter()
    if way == "ours":
        select(X, y, kernel, n_active=m, first=0, dtype=dtype, memory_limit=limit)
    elif way == "one at a time":
        one_at_a_time.select(X, y, kernel, n_active=m, first=0)
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
    """The same, in a fresh process."""
    arguments = f"{way!r}, {n}, {m}, {dtype!r}, {limit!r}"
    code = f"import json; from benchmarks.scaling import measure; print(json.dumps(measure({arguments})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def curve(points: list[tuple[int, int]], along: str) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    for way in ("ours", "bare product", "one at a time", "reference"):
        lines[way] = []
        for n, m in points:
            if way == "reference" and (n**2 * m**2 > MOST[way] or n > 20_000):
                continue
            if way == "one at a time" and n * m**2 > MOST[way]:
                continue
            if way == "bare product" and n * m > 1.5e9:
                continue
            taken = in_a_process(way, n, m)["seconds"]
            lines[way].append((n if along == "rows" else m, taken))
            print(f"{way:14} n {n:>9} m {m:>5}: {taken:8.2f} s", flush=True)
    return lines


def slope(line: list[tuple[int, float]]) -> float:
    """The power of x that the time grows as, over the upper half of a curve."""
    x, y = np.log([p[0] for p in line]), np.log([p[1] for p in line])
    upper = slice(len(x) // 2 - 1, None)
    return float(np.polyfit(x[upper], y[upper], 1)[0])


def draw(by_rows: dict, by_active: dict, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    styles = {
        "ours": ("#0072B2", "o-"),
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
        f"time grows as n^{slope(by_rows['ours']):.2f} and as m^{slope(by_active['ours']):.2f} "
        f"(upper half of each curve)"
    )
    large = in_a_process("ours", 10_000_000, 200, "float32", "600MB")
    print(
        f"n 10000000, m 200, float32: {large['seconds']:.1f} s, peak {large['peak'] / 1e6:.0f} MB, "
        f"{large['peak'] / large['data']:.2f} times the data ({large['data'] / 1e6:.0f} MB); "
        f"{large['before'] / 1e6:.0f} MB of the peak were there before the selection began"
    )
    (RESULTS / "scaling.json").write_text(json.dumps({"rows": by_rows, "active": by_active, "large": large}, indent=1))
    draw(by_rows, by_active, RESULTS / "scaling.png")
    print(f"figure: {RESULTS / 'scaling.png'}")
