"""Data sets that come with the package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from ..core.types import Floats


def load_mauna_loa() -> tuple[Floats, Floats]:
    """Weekly atmospheric CO2 at Mauna Loa, 1958 to 2001.

    Returns
    -------
    X : array of shape (2225, 1)
        The time, in decimal years.
    y : array of shape (2225,)
        The CO2, in parts per million.

    Notes
    -----
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
