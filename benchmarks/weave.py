"""The weave against the likelihood of a random subset, on several splits of every data set.

On one split, chance decides a good part: where errors are heavy-tailed a few test rows move the NLPD by a tenth. So the
mean over splits counts, with the standard error of the difference beside it. Sets of more than 20 000 rows are thinned
to that, another sample for every split. For "sod", J of the rows that either way has chosen, and of all others, stands
beside it: it is what the weave raises, from where the subset ends. The table goes to docs/weave.txt.
"""

from __future__ import annotations

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.hyperparameters.joint import Joint
from sodalite.metrics import nlpd

from .common import load
from .evidence import record
from .study import SETS

ROWS, SPLITS = 20_000, 3  # most rows of a set; splits of each
BEARABLE = 0.02  # loss of NLPD, in nats, above which the weave counts as worse on a set


def one_split(name: str, split: int, posterior: str) -> list[tuple[float, float]] | None:
    """The NLPD on the test rows and J of the others, per row: with the weave, and with a subset."""
    data = load(name, split)
    if data is None:
        return None
    X, y, X_test, y_test = data
    generator = np.random.default_rng(split)
    some, few = generator.permutation(len(X))[:ROWS], generator.permutation(len(X_test))[:5000]
    found = []
    for hyperparameters in ("weave", "subset"):
        model = GreedyGPRegressor(posterior=posterior, hyperparameters=hyperparameters, random_state=split)
        mean, std = model.fit(X[some], y[some]).predict(X_test[few], return_std=True)
        scaled = (y[some, None] - model.y_mean_) / model.y_std_
        joint = Joint(model.kernel_, X[some], scaled, model.active_indices_, np.arange(len(some)))
        found.append((nlpd(y_test[few], mean, std), joint(model.kernel_.theta)[0]))
    return found


def main() -> None:
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    for posterior in ("local", "sod"):
        raises_joint = posterior != "local"
        say(f"NLPD of {posterior}, mean of {SPLITS} splits")
        heading = f"  {'':17} {'weave':>7} {'subset':>7} {'difference':>15}"
        say(heading + f"{'J, weave':>11} {'subset':>7}" * raises_joint)
        gains = worse = lower = sets = 0
        for name in SETS:
            found = [one_split(name, split, posterior) for split in range(SPLITS)]
            values = np.array([pair for pair in found if pair is not None])  # of shape (splits, ways, 2)
            if not len(values):
                continue
            difference = values[:, 0, 0] - values[:, 1, 0]
            mean, error = difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))
            (ours, joint), (theirs, before) = values.mean(axis=0)
            sets, gains, worse = sets + 1, gains + (mean < 0), worse + (mean > BEARABLE)
            lower += joint < before
            line = f"  {name:17} {ours:7.3f} {theirs:7.3f} {mean:+7.3f} ± {error:.3f}"
            line += f"{joint:11.3f} {before:7.3f}" * raises_joint
            say(line + "  worse" * bool(mean > BEARABLE))
        last = f"  the weave gains on {gains} of {sets} sets, and loses more than {BEARABLE} on {worse}"
        say(last + f"; J is lower on {lower}" * raises_joint)
    record("weave", "python -m benchmarks weave", {"weave.txt": lines})
