"""Every criterion, posterior and way to find hyperparameters, on every data set: what the defaults were chosen by.

"+scale" has calibrated standard deviations, "+shape" the learnt distribution of errors as well. The mean functions are
tried with the estimator in full, "default" in the tables. Sets of more than 10 000 rows are thinned to that, so that it
ends today; 300 active rows. Times are the processor's, of all cores together. The table and the figure go to
benchmarks/results and docs.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from sodalite import GreedyGPRegressor, Selection
from sodalite.criteria import CRITERIA
from sodalite.hyperparameters import Subset, Task, Weave
from sodalite.hyperparameters.joint import Joint
from sodalite.kernels import compile_kernel, default_kernels
from sodalite.metrics import coverage, nlpd, rmse
from sodalite.posteriors import POSTERIORS, Evidence, Judging, Local
from sodalite.posteriors.predictive import Predictive
from sodalite.selection.grow import grow
from sodalite.selection.rows import ArrayRows
from sodalite.stopping import Size

from .common import load
from .evidence import record

RESULTS = Path("benchmarks/results/study.json")
FIGURE = Path("docs/images/study.png")
SETS = (
    *("mcycle", "concrete", "airfoil", "mauna_loa_weekly", "pumadyn32nm", "pol", "elevators", "bike_noleak"),
    *("kin40k", "protein", "keggdirected", "precip_global", "jacksboro_dem", "us_elevation", "chm"),
)
ROWS, ACTIVE = 10_000, 300  # most rows of a set; active rows
WAY = ("posterior", "hyperparameters", "criterion", "mean")  # what makes a combination
CONSTANT = "constant"
MEANS = (CONSTANT, "linear", "trees", "auto")


def rows_of(name: str) -> tuple[np.ndarray, ...] | None:
    """X, y of shape (n, 1), X_test and y_test of a thinned set; None if it is not to be had."""
    data = load(name)
    if data is None:
        return None
    X, y, X_test, y_test = data
    generator = np.random.default_rng(0)
    some, few = generator.permutation(len(X))[:ROWS], generator.permutation(len(X_test))[:2000]
    return X[some], y[some, None], X_test[few], y_test[few]


def choose(X: np.ndarray, Y: np.ndarray, kernel: Kernel, criterion: str) -> Selection:
    return grow(
        ArrayRows(X, Y),
        compile_kernel(kernel, X),
        n_active=ACTIVE,
        criterion=CRITERIA[criterion],
        rule=Size(ACTIVE),
        generator=np.random.default_rng(0),
    )


def judged_by_shape(found: Predictive, y: np.ndarray) -> dict[str, float]:
    """NLPD and coverage of the 95 % interval by the learnt distribution."""
    inside = np.abs(2 * found.cumulative(y[:, None]) - 1) <= 0.95
    return {"nlpd": -float(found.log_density(y[:, None]).mean()), "coverage": float(inside.mean())}


def means_on(name: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> list[dict]:
    """The default estimator with each mean function."""
    results = []
    for mean in MEANS:
        begin = process_time()
        given = None if mean == CONSTANT else mean
        model = GreedyGPRegressor(mean=given, n_active=ACTIVE, random_state=0).fit(X, y)
        found = model.fitted_.predictive(X_test)
        result = {"set": name, "hyperparameters": "weave", "criterion": "lookahead", "posterior": "default"}
        result |= {"mean": mean, "rmse": rmse(y_test, found.mean[:, 0])} | judged_by_shape(found, y_test)
        results.append(result | {"seconds": process_time() - begin})
    return results


def one_set(name: str) -> list[dict]:
    """All combinations on one data set."""
    data = rows_of(name)
    if data is None:
        return []
    X, Y, X_test, y_test = data
    results = []

    def measure(kernel, hyper: str, criterion: str, found_in: float, posteriors) -> None:
        compiled = compile_kernel(kernel, X)
        begin = process_time()
        chosen = choose(X, Y, kernel, criterion)
        chosen_in = process_time() - begin
        for posterior in posteriors:
            begin = process_time()
            calibrate = posterior.endswith("+scale")
            made = POSTERIORS[posterior.removesuffix("+scale")].condition(
                Evidence(compiled, ArrayRows(X, Y), chosen, judging=Judging() if calibrate else None)
            )
            mean, variance = made.mean_and_variance(X_test, noisy=True)
            std = np.sqrt(variance)
            result = {
                "set": name,
                "hyperparameters": hyper,
                "criterion": criterion,
                "posterior": posterior,
                "mean": CONSTANT,
                "rmse": rmse(y_test, mean[:, 0]),
                "nlpd": nlpd(y_test, mean[:, 0], std),
                "coverage": coverage(y_test, mean[:, 0], std),
                "seconds": found_in + chosen_in + process_time() - begin,
            }
            results.append(result)
            if calibrate:
                learnt = judged_by_shape(made.predictive(X_test), y_test)
                results.append(result | {"posterior": posterior.replace("+scale", "+shape")} | learnt)

    kernels = default_kernels(X, Y)
    begin = process_time()
    subset = Subset().find(Task(X, Y), kernels, np.random.default_rng(0)).kernel
    subset_in = process_time() - begin
    begin = process_time()
    near = Weave().find(Task(X, Y, posterior=Local), kernels, np.random.default_rng(0)).kernel
    near_in = process_time() - begin
    others = [posterior for posterior in POSTERIORS if posterior != "local"]

    def joint(kernel, criterion: str) -> float:
        """J of the rows that a kernel and a criterion choose, and all others, per row."""
        chosen = choose(X, Y, kernel, criterion)
        return Joint(kernel, X, Y, chosen.indices, np.arange(len(X)))(kernel.theta)[0]

    for criterion in CRITERIA:
        measure(subset, "subset", criterion, subset_in, [*others, "local", "local+scale"])
        measure(near, "weave", criterion, near_in, ["local", "local+scale"])
        begin = process_time()
        task = Task(X, Y, criterion=CRITERIA[criterion], n_active=ACTIVE)
        found = Weave().find(task, kernels, np.random.default_rng(0))
        measure(found.kernel, "weave", criterion, process_time() - begin, others)
        # The last result is of a posterior other than "local".
        results[-1] |= {"began": joint(found.rounds[0].kernel, criterion), "ended": joint(found.kernel, criterion)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some sets are predicted no better than by simple ways
        means = means_on(name, X, Y[:, 0], X_test, y_test)
    return results + means


def ways(results: list[dict]) -> list[tuple[str, ...]]:
    """All combinations of posterior, hyperparameters, criterion and mean that were measured."""
    return sorted({tuple(r[key] for key in WAY) for r in results})


def summary(results: list[dict]) -> list[dict]:
    """For each way: the mean over the sets of NLPD and of RMSE, both relative to the best way on that set."""
    sets = sorted({r["set"] for r in results})
    best = {
        (name, what): min(r[what] for r in results if r["set"] == name) for name in sets for what in ("nlpd", "rmse")
    }
    table = []
    for way in ways(results):
        mine = [r for r in results if tuple(r[key] for key in WAY) == way]
        table.append(
            {
                "way": way,
                "nlpd": float(np.mean([min(r["nlpd"] - best[r["set"], "nlpd"], 5.0) for r in mine])),
                "worst": float(np.max([min(r["nlpd"] - best[r["set"], "nlpd"], 5.0) for r in mine])),
                "rmse": float(np.mean([r["rmse"] / best[r["set"], "rmse"] for r in mine])),
                "coverage": float(np.mean([abs(r["coverage"] - 0.95) for r in mine])),
                "seconds": float(np.mean([r["seconds"] for r in mine])),
            }
        )
    return sorted(table, key=lambda row: row["nlpd"])


def verdicts(results: list[dict]) -> list[str]:
    """What is asked of every set: the weave against the subset, and `sod` with lookahead against random rows."""
    found = {
        (r["set"], r["posterior"], r["hyperparameters"], r["criterion"]): r for r in results if r["mean"] == CONSTANT
    }
    sets = list(dict.fromkeys(r["set"] for r in results))
    lines = ["weave against subset (NLPD), J at the weave's end and start, and lookahead against random (RMSE, NLPD):"]
    lines.append(
        f"{'':17} {'local':>7} {'sod':>7} {'vfe':>7} {'J':>8} {'from':>8}   {'sod, RMSE':>14}   {'sod, NLPD':>14}"
    )
    for name in sets:
        change = [
            found[name, posterior, "weave", "lookahead"]["nlpd"] - found[name, posterior, "subset", "lookahead"]["nlpd"]
            for posterior in ("local+scale", "sod", "vfe")
        ]
        ends = next(r for r in results if r["set"] == name and r["criterion"] == "lookahead" and "ended" in r)
        ahead, drawn = (found[name, "sod", "weave", criterion] for criterion in ("lookahead", "random"))
        lines.append(
            f"{name:17} {change[0]:+7.3f} {change[1]:+7.3f} {change[2]:+7.3f} "
            f"{ends['ended']:8.3f} {ends['began']:8.3f}   "
            f"{ahead['rmse']:6.3f} {drawn['rmse']:6.3f}   {ahead['nlpd']:6.3f} {drawn['nlpd']:6.3f}"
        )
    return lines


def table_lines(table: list[dict]) -> list[str]:
    """The ways, best first, as a list-table of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    names = [*WAY]
    names += ["NLPD above the best", "worst", "RMSE / best", "coverage off", "CPU s"]
    lines += [f"   {'*' if i == 0 else ' '} - {name}" for i, name in enumerate(names)]
    for row in table:
        cells = (
            *row["way"],
            f"{row['nlpd']:.3f}",
            f"{row['worst']:.2f}",
            f"{row['rmse']:.3f}",
            f"{row['coverage']:.3f}",
            f"{row['seconds']:.1f}",
        )
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells)]
    return lines


def draw(results: list[dict]) -> None:
    from matplotlib.figure import Figure

    table = {row["way"]: row for row in summary(results)}
    posteriors = [*[p for p in POSTERIORS if p != "local"], "local", "local+scale", "local+shape"]
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, hyper in zip(axes, ("subset", "weave"), strict=True):
        for at, criterion in enumerate(CRITERIA):
            heights = [table.get((p, hyper, criterion, CONSTANT), {"nlpd": np.nan})["nlpd"] for p in posteriors]
            places = np.arange(len(posteriors)) + 0.13 * (at - len(CRITERIA) / 2)
            axis.bar(places, heights, width=0.12, label=criterion, color=f"C{at}")
        axis.set_xticks(range(len(posteriors)), posteriors, rotation=30)
        axis.set_title(f"hyperparameters: {hyper}")
        axis.set_yscale("log")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("NLPD above the best way, mean over the sets")
    axes[1].legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=160)


def main() -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    results: list[dict] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for name in SETS:
        if any(r["set"] == name for r in results):
            print(f"{name}: kept from before (delete {RESULTS} to measure anew)")
            continue
        begin = process_time()
        found = one_set(name)
        results += found
        RESULTS.write_text(json.dumps(results, indent=0))
        if found:
            best = min(found, key=lambda r: r["nlpd"])
            way = ", ".join(best[key] for key in WAY)
            print(f"{name:17} {process_time() - begin:5.0f} CPU s; best NLPD {best['nlpd']:.3f}: {way}", flush=True)
    table = summary(results)
    for row in table:
        print(
            f"{', '.join(row['way']):48} NLPD +{row['nlpd']:.3f} (worst +{row['worst']:.2f}), RMSE x{row['rmse']:.3f}, "
            f"coverage off by {row['coverage']:.3f}, {row['seconds']:.1f} CPU s"
        )
    text = verdicts(results)
    print("\n".join(text))
    tables = {"study_sets.txt": text, "study_table.rst": table_lines(table)}
    record("study", "python -m benchmarks study", tables)
    draw(results)
    print(f"figure: {FIGURE}")
