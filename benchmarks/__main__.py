"""`python -m benchmarks [NAME ...]`: run all, or some, and print what they measured."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

BENCHMARKS = {
    "ablation": "what each stage of the error bars is worth; --help for options",
    "ahead": "steps ahead in series, beside last value, season and exponential smoothing; --help for options",
    "limits": "whether the fit command keeps to its time limit; --help for options",
    "likelihood": "one likelihood and its gradient, against scikit-learn's",
    "pumadyn": "whether the likelihood finds the inputs that matter",
    "bundles": "what local costs on a cluster whose rows stay there, and the arithmetic for 10^9 rows",
    "calibration": "intervals of every level on real data, with the defaults; --help for options",
    "catalogue": "two hundred tables and series chosen by a rule, beside what a person would try first; --help",
    "cluster": "two worker processes against two threads, ten million rows, two large real data sets",
    "dense": "two large data sets: the kernel learnt at the density of the data, against a sample",
    "driver": "what the driver of a cluster costs, with 100 pretend shards, and the arithmetic for 10^9 rows",
    "evidence": "write the documentation's tables from docs/evidence.json; nothing is measured",
    "exactness": "whether the picks on real data are those of one row at a time",
    "fits": "default fits of 60 to 250 000 rows, beside other libraries; --help for options",
    "gaps": "intervals in gaps of series and holes of maps; --help for options",
    "holes": "holes in maps, beside two kernels given by hand; --help for options",
    "joining": "rows that join a full model, with and without an exchange of active rows",
    "local": "queries a second of the posterior local: beside the floor, of the airline kind, against n and k; --help",
    "means": "mean functions beside the default and boosted trees alone; --help for options",
    "ordinary": "the default on ordinary data, beside simple ways that a person would try first; --help for options",
    "page": "how soon a report opens in a browser: its words, its first figure, all of them",
    "peers": "accuracy and time against other libraries, which takes hours; --help for options",
    "predict": "the commands: rows a second of predict, the share of fit that is the fit, the time of --help",
    "precision": "whether float32 chooses as float64 does, against the noise, and a figure",
    "scaling": "time against rows and active rows, peak memory, and a figure",
    "shown": "what README and the documentation show of the commands",
    "speed": "the block engine against the bare products, one row at a time, and the reference",
    "startup": "how soon there is a result: import, and the commands on 200 rows",
    "store": "the default with rows in memory, on disk and on workers, up to ten million; loading its model files",
    "study": "every criterion, posterior and way to find hyperparameters on every data set",
    "sure": "whether intervals hold where queries are unlike the rows, in scenarios; --help for options",
    "tables": "raw tables through the command line, beside boosted trees by skrub; --help for options",
    "weave": "the weave against the likelihood of a subset, over several splits",
}

WITH_OPTIONS = (
    *("ablation", "ahead", "calibration", "catalogue", "fit", "gaps", "holes", "limits"),
    *("local", "means", "ordinary", "peers", "sure", "tables"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="\n".join(f"{name}: {what}" for name, what in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which to run; all by default")
    name = "".join(sys.argv[1:2])
    if name in WITH_OPTIONS and "".join(sys.argv[2:3]).startswith("-"):
        import_module(f"benchmarks.{name}").main(sys.argv[2:])
        return
    for name in parser.parse_args().names or BENCHMARKS:
        print(f"\n== {name}: {BENCHMARKS[name]}", flush=True)
        import_module(f"benchmarks.{name}").main()


main()
