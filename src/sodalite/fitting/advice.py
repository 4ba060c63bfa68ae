"""What to say, and to try, where a model predicts no better than a baseline (`sodalite.posteriors.baselines`)."""

from __future__ import annotations

from ..posteriors.baselines import EXACT, FEWEST, Baselines

NO_INPUT = "The inputs say little about the target, or a few outlying targets hide it: try others."
MORE_INPUTS = "Try inputs that say more, or another kernel."


def no_better_words(
    found: Baselines, mean: str | None = None, judged_by: str = "rows, each predicted from the others"
) -> str | None:
    """A warning that the model is no better than a baseline; None if it is better, or few rows were predicted.

    `mean` is the name of the mean function that was tried, which the advice leaves out; None for a constant.
    `judged_by` says which rows were predicted.
    """
    name, remedy = found.better, remedy_words(found, mean)
    if name is None or not remedy:
        return None
    names = {
        "constant": "a constant",
        "line": "a straight line",
        "neighbours": f"the mean of the {found.k} nearest rows" if found.k > 1 else "the nearest row",
    }
    other = found.of(name)
    return (
        f"{'No' if found.model >= other else 'Hardly'} better than {names[name]}: RMSE {found.model:.4g} against "
        f"{other:.4g} for {found.n_rows} {judged_by}. {remedy}"
    )


def alone_words(found: Baselines, mean: str) -> str | None:
    """A warning that a line or a constant, by its name, is all of the model; None if few rows were predicted."""
    if found.n_rows < FEWEST:
        return None
    is_line = mean == "linear"
    beside = f" ({found.constant:.4g} of a constant)" if is_line else ""
    return (
        f"{'A straight line' if is_line else 'A constant'} is all of the model, since it predicts no worse than with a "
        f"Gaussian process: RMSE {found.model:.4g}{beside} for {found.n_rows} rows, each predicted from the others. "
        f"{MORE_INPUTS if is_line else NO_INPUT}"
    )


def remedy_words(found: Baselines, mean: str | None = None) -> str:
    """What can be tried where a model is no better than a baseline; empty as `no_better_words` is None."""
    name = found.better
    if name is None or found.n_rows < FEWEST:
        return ""
    if name == "neighbours" and found.neighbours <= EXACT * found.constant:
        return "Rows are repeated, which makes error bars too small: leave out the copies."
    if name == "constant":
        return NO_INPUT
    if mean is not None:
        return MORE_INPUTS
    if name == "line":
        return 'Try a linear mean (mean="linear"), or inputs that say more.'
    return 'Try a mean of trees (mean="trees"), or another kernel.'
