"""Files that are written whole or not at all, by processes that may be killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from sodalite.core import files
from sodalite.core.files import check_readable, check_writable, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals and locks")

WRITER = """
import sys, time
from sodalite.core.files import replacing

with replacing(sys.argv[1]) as path:
    path.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""

SAVER = """
import sys
import numpy as np
from sodalite.core.container import Kind, write

kind, rows = Kind("sodalite-model", "model file", ValueError), np.zeros(1_000_000)
print("ready", flush=True)
while True:
    write(kind, sys.argv[1], {}, {"rows": rows})
"""


def started(code: str, path) -> subprocess.Popen:
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    return child


def killed(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()


@posix
def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    path = tmp_path / "a.csv"
    others = {".a.csv.notes", ".a.csv.0123abcd", ".b.csv.0123abcd.unfinished"}
    for name in others:
        (tmp_path / name).mkdir()
    living, dead = started(WRITER, path), started(WRITER, path)
    try:
        before = set(os.listdir(tmp_path)) - others
        assert len(before) == 2
        killed(dead)
        assert set(os.listdir(tmp_path)) == others | before
        with replacing(path) as unfinished:
            unfinished.write_text("whole")
        assert path.read_text() == "whole"
        (left,) = set(os.listdir(tmp_path)) - others - {"a.csv"}
        assert left in before
        assert (tmp_path / left / "a.csv").read_text() == "half"
    finally:
        killed(living)
    check_writable(path)
    assert set(os.listdir(tmp_path)) == others | {"a.csv"}
    assert path.read_text() == "whole"


@posix
def test_kills_at_any_moment_of_a_save_leave_nothing_for_good(tmp_path):
    path, chance, left = tmp_path / "m.sodalite", random.Random(0), 0
    for _ in range(6):
        child = started(SAVER, path)
        time.sleep(chance.uniform(0.0, 0.2))
        killed(child)
        left += len(set(os.listdir(tmp_path)) - {path.name})
    assert left  # else nothing was tested
    with replacing(path) as unfinished:
        unfinished.write_bytes(b"whole")
    assert os.listdir(tmp_path) == [path.name]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "table.json"
    path.write_text("old")

    def half() -> None:
        with replacing(path) as unfinished:
            unfinished.write_text("ha")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        half()
    assert os.listdir(tmp_path) == ["table.json"]
    assert path.read_text() == "old"


@posix
def test_many_writers_at_once_do_not_take_one_another_for_dead(tmp_path):
    path, failures = tmp_path / "a", []

    def write(text: str) -> None:
        try:
            for _ in range(30):
                with replacing(path) as unfinished:
                    unfinished.write_text(text)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(str(place) * 1000,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert os.listdir(tmp_path) == ["a"]
    assert len(set(path.read_text())) == 1


@posix
def test_without_locks_files_are_written_all_the_same_and_nothing_is_removed(tmp_path, monkeypatch):
    (tmp_path / ".a.0123abcd.unfinished").mkdir()
    monkeypatch.setattr(files, "fcntl", None)
    with replacing(tmp_path / "a") as unfinished:
        unfinished.write_text("whole")
    assert sorted(os.listdir(tmp_path)) == [".a.0123abcd.unfinished", "a"]


@pytest.mark.parametrize("name", ["n" * 250, "日" * 80], ids=["ASCII", "three bytes each"])
def test_names_as_long_as_they_may_be(name, tmp_path):
    check_writable(tmp_path / name)
    with replacing(tmp_path / name) as unfinished:
        unfinished.write_text("whole")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("check", [check_readable, check_writable])
def test_a_null_character_in_a_path(check):
    with pytest.raises(OSError, match="null character"):
        check("a\0b")


@posix
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a pipe, not a file"):
        check_readable(tmp_path / "pipe")
