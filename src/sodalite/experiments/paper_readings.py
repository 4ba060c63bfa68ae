"""Where the paper's text and its authors' published scripts disagree, or the text with itself, and what is done here.

The scripts are at https://github.com/vr308/CoreML, in the folder "GP/Sparse Sequential GP" and, before, in "GP".
"""

from __future__ import annotations

from dataclasses import dataclass

from .paper import INTERVAL, N_ROWS, SETTINGS, Setting


@dataclass(frozen=True)
class Disagreement:
    """A disagreement of the paper's text and its scripts. The fields are parts of sentences: see `sentence`."""

    topic: str
    text: str
    """What the paper's text says."""
    scripts: str
    """What the authors' scripts do."""
    here: str
    """What is done here."""
    why: str
    """The reason for what is done here."""

    @property
    def sentence(self) -> str:
        """The disagreement in sentences, without the topic."""
        return f"Text: {self.text}. Scripts: {self.scripts}. Here: {self.here}, since {self.why}."


PUBLISHED = [setting for setting in SETTINGS if setting.published]
"""The settings of the scripts, a function each, in the order of the paper's table."""


def _listed(values: list[float]) -> str:
    """Numbers as a part of a sentence, such as "20, 1.4 and 1"."""
    *most, last = [f"{value:g}" for value in values]
    return f"{', '.join(most)} and {last}"


def _rows(setting: Setting) -> int:
    """The size of the greedy subset that the paper reports, in rows."""
    return round(setting.paper.share * N_ROWS / 100)


READINGS = (
    Disagreement(
        "hyperparameters",
        "maximum likelihood on a random subset, of a size not given (A.3)",
        "fixed by hand",
        "both",
        "neither follows from the other",
    ),
    Disagreement(
        "noise of the data",
        "the same for all functions, no number",
        f"sd {_listed([setting.noise for setting in PUBLISHED])}",
        "as the scripts",
        "only they have numbers",
    ),
    Disagreement(
        "noise in the kernel",
        "found with the other hyperparameters",
        f"variance {_listed([setting.hyperparameters.white for setting in PUBLISHED])}, with data of variance "
        f"{_listed([setting.noise**2 for setting in PUBLISHED])}",
        "both",
        "it is one of the hyperparameters",
    ),
    Disagreement(
        "error",
        "sum of squares (section 3), RMSE (Algorithm 1)",
        "RMSE, rounded to 0.01",
        "RMSE, not rounded",
        "the thresholds are for it",
    ),
    Disagreement(
        "threshold",
        "no number",
        f"{_listed([setting.delta for setting in PUBLISHED[1:]])}, and 5 % of the inputs' range for "
        f"{PUBLISHED[0].name}",
        f"as the scripts, {PUBLISHED[0].delta:g} for {PUBLISHED[0].name}",
        f"the inputs are drawn from a range of {INTERVAL[1] - INTERVAL[0]:g}",
    ),
    Disagreement(
        "error that rises",
        "ends the selection, as any decrease below the threshold",
        "go on",
        "as the text",
        "Algorithm 1 says so",
    ),
    Disagreement(
        "noise in Delta",
        "none in Sigma (equation 4), though the kernel of A.3 includes it",
        "included",
        "none",
        "equation 4 defines Delta's Sigma",
    ),
    Disagreement(
        "candidates",
        "the remainder",
        "all rows",
        "the remainder",
        "an active row that is chosen again changes nothing, nor does any stage after it",
    ),
    Disagreement(
        "first row",
        "random",
        "the 31st from the left",
        "random",
        "Algorithm 1 says so",
    ),
    Disagreement(
        "random subset",
        "drawn uniformly, as many rows as the greedy one",
        "13 rows listed by hand",
        "as the text",
        "a list suits one draw only",
    ),
    Disagreement(
        "full GP's kernel",
        "the same in all three schemes",
        "another length-scale for the third function, and optimised in an older version",
        "the same",
        "only the rows should differ",
    ),
    Disagreement(
        "test targets",
        "noisy or not is not said",
        "noisy, but noiseless in an older version",
        "noisy",
        f"the full GP's {PUBLISHED[2].paper.full:g} for the third function is near the noise's sd of "
        f"{PUBLISHED[2].noise:g}",
    ),
    Disagreement(
        "squared exponential",
        "no square in A.3",
        "squared",
        "squared",
        "it is no covariance otherwise",
    ),
    Disagreement(
        "stages of x sin x",
        f"13 (figure 1), {PUBLISHED[1].paper.share:g} % of {N_ROWS} rows or {_rows(PUBLISHED[1])} (table 2)",
        f"a disabled line stops at stage {_rows(PUBLISHED[1])}",
        "as many as it takes",
        "Algorithm 1 has no other end",
    ),
)
