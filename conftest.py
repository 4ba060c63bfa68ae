"""Settings of all tests and doctests: threads, and a warning that is no error.

Workers that run side by side keep to their share of the cores. Otherwise each would start as many threads as there are
cores, and small problems would spend their time waiting for one another. The numerical libraries read these variables
when they are first imported. So nothing here imports them, and no warning of the package is named in
`pyproject.toml`: pytest would import the package for it, before this file.
"""

from __future__ import annotations

import os

import pytest

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

if WORKERS > 1:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
        os.environ.setdefault(variable, str(max(1, (os.cpu_count() or 1) // WORKERS)))


def pytest_configure(config: pytest.Config) -> None:
    """Let fits pass that are no better than a simple model: many tests fit what no model could predict."""
    config.addinivalue_line("filterwarnings", "ignore::sodalite.exceptions.NoBetterWarning")
