"""The data set that comes with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


def load_mauna_loa() -> tuple[NDArray[Any], NDArray[Any]]:
    """Weekly atmospheric CO2 at Mauna Loa, 1958 to 2001: decimal years (2225 x 1) and parts per million (2225).

    Collected by C. D. Keeling and T. P. Whorf of the Scripps Institution of Oceanography; in the public domain.

    Examples
    --------
    >>> X, y = load_mauna_loa()
    >>> X.shape, float(y[0])
    ((2225, 1), 316.1)
    """
    with (files(__name__) / "mauna_loa_co2.csv").open() as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :1], table[:, 1]
