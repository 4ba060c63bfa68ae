"""Fixtures that several files of tests use."""

from __future__ import annotations

from dataclasses import replace

import pytest


@pytest.fixture(params=["kept", "not kept"])
def keep(request, monkeypatch):
    """Whether the shards keep the v's, whatever memory there is."""
    from sodalite.selection import plan, rows

    kept = request.param == "kept"
    monkeypatch.setattr(rows, "make_plan", lambda *given: replace(plan.make_plan(*given), keep=kept))
    return kept


@pytest.fixture
def one_thread():
    """One thread: the least memory is that of one."""
    from helpers import threads

    with threads(1):
        yield
