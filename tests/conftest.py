"""What several files of tests use; and workers that run side by side keep to their share of the cores.

Otherwise each would start as many threads as there are cores, and small problems would spend their time waiting for
one another. The libraries read these variables when they are first imported, so this comes before all else.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

if WORKERS > 1:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
        os.environ.setdefault(variable, str(max(1, (os.cpu_count() or 1) // WORKERS)))


@pytest.fixture(params=["kept", "not kept"])
def keep(request, monkeypatch):
    """Whether the shards keep the v's, whatever memory there is."""
    from sodalite.core import memory
    from sodalite.selection import source

    kept = request.param == "kept"
    monkeypatch.setattr(source, "make_plan", lambda *given: replace(memory.make_plan(*given), keep=kept))
    return kept
