"""The weave against the likelihood of a random subset, on several splits of every data set.

On one split, chance decides a good part: where errors are heavy-tailed a few test rows move the NLPD by a tenth. So the
mean over splits counts, with the standard error of the difference beside it. Sets of more than 10 000 rows are thinned
to that, another sample for every split. The table goes to docs/weave.txt.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import nlpd

from .common import load
from .study import SETS

TEXT = Path("docs/weave.txt")
ROWS, SPLITS, BEARABLE = 10_000, 3, 0.02


def one_split(name: str, split: int, posterior: str) -> tuple[float, float] | None:
    """The NLPD on the test rows, with the weave and with a subset."""
    data = load(name, split)
    if data is None:
        return None
    X, y, X_test, y_test = data
    generator = np.random.default_rng(split)
    some, few = generator.permutation(len(X))[:ROWS], generator.permutation(len(X_test))[:5000]
    found = []
    for hyperparameters in ("weave", "subset"):
        model = GreedyGPRegressor(posterior=posterior, hyperparameters=hyperparameters, random_state=split)
        found.append(nlpd(y_test[few], *model.fit(X[some], y[some]).predict(X_test[few], return_std=True)))
    return found[0], found[1]


def main() -> None:
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    for posterior in ("local", "sod"):
        say(f"NLPD of {posterior}, mean of {SPLITS} splits")
        say(f"  {'':17} {'weave':>7} {'subset':>7} {'difference':>11}")
        gains = worse = sets = 0
        for name in SETS:
            found = [one_split(name, split, posterior) for split in range(SPLITS)]
            values = np.array([pair for pair in found if pair is not None])
            if not len(values):
                continue
            difference = values[:, 0] - values[:, 1]
            mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))
            sets, gains, worse = sets + 1, gains + (mean < 0), worse + (mean > BEARABLE)
            mark = "  worse" if mean > BEARABLE else ""
            say(f"  {name:17} {values[:, 0].mean():7.3f} {values[:, 1].mean():7.3f} {mean:+7.3f} ± {error:.3f}{mark}")
        say(f"  the weave gains on {gains} of {sets} sets, and loses more than {BEARABLE} on {worse}")
    TEXT.write_text("\n".join(lines) + "\n")
    print(f"table: {TEXT}")
