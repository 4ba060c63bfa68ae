"""Small files that would fill the memory, and pipes that would never answer: refused at once, in one line."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sodalite
from helpers import campaign
from sodalite.cli.app import app
from sodalite.exceptions import CheckpointError, ModelFileError, TableError
from sodalite.persistence import read_header
from sodalite.selection.checkpoint import check_checkpoint
from sodalite.tables import Numbers, ParquetRows, Preprocessing, learn, open_parquet, read_table
from sodalite.tables.base import unique

resource = pytest.importorskip("resource")

N_COLUMNS = 40_000


def most_memory() -> int:
    """The most memory that this process has taken, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def seconds(function) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began


LONG = {
    "no newline at all": (b"", b"a"),
    "one long cell": (b"x,y\n1,2\n", b"1"),
    "one long row": (b"x,y\n1,2\n", b"1,"),
    "one long cell in columns between blanks": (b"x y\n1 2\n", b"1"),
    "one long row of columns between blanks": (b"x y\n1 2\n", b"1 "),
    "a quotation mark that is never closed": (b'x,y\n1,2\n"', b"1\n"),
    "one among the names": (b'"', b"1\n"),
}


@pytest.mark.parametrize("name", ["a.csv.gz", campaign("a.tsv.gz")])
@pytest.mark.parametrize("what", LONG)
def test_a_line_that_does_not_end(what, name, tmp_path):
    """A fifth of a gigabyte when it is unpacked, in a megabyte or less."""
    start, part = LONG[what]
    with gzip.open(tmp_path / name, "wb", compresslevel=1) as file:
        file.write(start.replace(b",", b"\t") if "tsv" in name else start)
        for _ in range(200):
            file.write(part * (2**20 // len(part)))
    before = most_memory()
    with pytest.raises(TableError, match=r"line.* (has more than 4 million characters|cannot be read)") as caught:
        read_table(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1
    assert most_memory() - before < 100e6


def test_many_columns_are_looked_up_at_once():
    """Each of these took minutes, or a time that grew as the square of the columns."""
    names = [f"column {place}" for place in range(N_COLUMNS)]
    assert seconds(lambda: unique(names)) < 2
    found, notes = unique([*names, "column 7"])
    assert found[-1] == "column 7.1"
    assert notes == ["There are two columns named 'column 7'; the second is read as 'column 7.1'."]
    mapping = Preprocessing(None, tuple(Numbers(name) for name in names))
    assert seconds(lambda: mapping.check_names(names[::-1], "wide.csv")) < 2


def test_a_wide_csv_is_read_in_a_time_that_grows_as_its_columns(tmp_path):
    def took(n):
        with open(tmp_path / "wide.csv", "w") as file:
            file.write(",".join(f"c{place}" for place in range(n)) + "\n")
            for row in range(3):
                file.write(",".join([str(row)] * n) + "\n")
        table = read_table(tmp_path / "wide.csv")
        names = table.names
        return seconds(lambda: learn(table, "c0", names[1:], names[5:6]))

    assert took(8000) < 10 * took(1000)  # by the square of the columns, it would be 64


def test_a_wide_parquet_file_is_opened_in_a_time_that_grows_as_its_columns(tmp_path):
    n = 6000
    pq.write_table(pa.table({f"c{place}": [1.0, 2.0] for place in range(n)}), tmp_path / "a.parquet")
    assert seconds(lambda: open_parquet(tmp_path / "a.parquet", "c0")) < 5


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """A working folder in which "pipe" and files of other suffixes are pipes."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes there")
    monkeypatch.chdir(tmp_path)
    for name in PIPES:
        os.mkfifo(name)


PIPES = ["pipe", "a.csv", "a.csv.gz", "a.parquet", "a.feather"]
IN_PLACE = "it is a device or a pipe, not a file"


def test_a_pipe_in_the_place_of_a_table_or_a_model(pipe):
    for name in PIPES:
        for read in (read_table, ParquetRows):
            with pytest.raises(TableError, match=f"{name} cannot be read: {IN_PLACE}"):
                read(name)
    for read in (sodalite.load, read_header):
        with pytest.raises(ModelFileError, match=f"pipe cannot be read: {IN_PLACE}"):
            read("pipe")
    with pytest.raises(CheckpointError, match=IN_PLACE):
        check_checkpoint("pipe")


COMMANDS = ["fit pipe -t y", "fit a.parquet -t y", "select pipe -t y -n 3", "predict pipe pipe", "report pipe"]
COMMANDS += ["inspect pipe", "fit /dev/zero -t y", "inspect /dev/zero"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_wait_for_no_pipe(command, pipe):
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert IN_PLACE in line


def test_standard_input_is_read_from_a_pipe():
    table = "x,y\n" + "".join(f"{value},{value}\n" for value in np.linspace(0, 1, 20))
    result = CliRunner().invoke(app, ["select", "-", "-t", "y", "-n", "2", "--json"], input=table)
    assert result.exit_code == 0, result.output


DAMAGE = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.feather, pyarrow.parquet
from sodalite.exceptions import TableError
from sodalite.tables import learn, read_table

path, kind, random = sys.argv[1], sys.argv[2], np.random.default_rng(0)
whole = pa.table({
    "x": random.normal(size=30),
    "t": random.choice(["a", "b"], 30),
    "d": pa.array(range(30), pa.timestamp("s")),
    "y": random.normal(size=30),
})
if kind == "parquet":
    pa.parquet.write_table(whole, path)
elif kind == "stream":
    with pa.ipc.new_stream(path, whole.schema) as file:
        file.write_table(whole)
else:
    pa.feather.write_feather(whole, path, compression=kind)
data, refused = open(path, "rb").read(), 0
for trial in range(600):
    damaged = bytearray(data)
    if trial % 4 == 0:
        del damaged[random.integers(len(data)) :]
    else:
        for at in random.integers(len(data), size=1 + trial % 3):
            damaged[at] = random.integers(256)
    with open(path, "wb") as file:
        file.write(damaged)
    try:
        learn(read_table(path), "y")
    except TableError as error:
        refused += 1
        assert len(str(error).splitlines()) == 1
print(refused)
"""


@pytest.mark.parametrize("kind", [campaign("uncompressed"), campaign("lz4"), campaign("stream"), "parquet"])
def test_any_damage_to_a_file_of_arrows(kind, tmp_path):
    """In a process of its own: a wrong offset used to end it with a segmentation fault."""
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    done = subprocess.run([sys.executable, "-c", DAMAGE, path, kind], capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) > 100
