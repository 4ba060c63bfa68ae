"""NPZ files of every type of number, and files that are damaged or were made to do harm."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest

from sodalite.exceptions import TableError
from sodalite.tables import learn, open_table, read_table


def with_header(path, shape, dtype="<f8", data=b"", size=None, compression=zipfile.ZIP_DEFLATED):
    """An NPZ of one array with a forged header; `size` is the array's size as the zip file's directory claims it."""
    header = io.BytesIO()
    np.lib.format.write_array_header_2_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", header.getvalue() + data)
    if size is not None:
        content = bytearray(path.read_bytes())
        at = content.rindex(b"PK\x01\x02") + 24
        content[at : at + 4] = struct.pack("<I", size)
        path.write_bytes(content)


FORGED = {  # arguments of `with_header`, and the message
    **{
        str(shape): ({"shape": shape, "data": b"\0" * 64}, "")
        for shape in [(60, 10**10), (10**10, 60), (10**12,), (10**30,), (-1,), (3, -2)]
    },
    "columns": ({"shape": (0, 10**10)}, r"its shape is \(0, 10000000000\); .* d <= 1000000 is needed"),
    "texts of no length": ({"shape": (10**10,), "dtype": "<U0"}, "not numbers, texts"),
    **{
        f"zip {kind}": ({"shape": (10**8,), "data": b"\0" * 64, "size": 2**32 - 2, "compression": kind}, "")
        for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    },
}


@pytest.mark.parametrize("what", FORGED)
def test_a_file_that_claims_more_than_there_is(what, tmp_path):
    arguments, message = FORGED[what]
    with_header(tmp_path / "a.npz", **arguments)
    with pytest.raises(TableError, match=rf"a\.npz cannot be read as NPZ: array 'x': .*{message}"):
        read_table(tmp_path / "a.npz")


def test_more_than_fits_in_memory(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", x=np.zeros(1000))
    monkeypatch.setattr("sodalite.tables.reading.available", lambda: 10_000)
    with pytest.raises(TableError, match="half of the memory that is free"):
        read_table(tmp_path / "a.npz")


UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "7D")
WEEKS = np.array(["1970-01-01", "2026-01-01", "NaT"], dtype="M8[Y]")
TYPES = {  # arrays by their type, the kind of column that they are, and the inputs
    **{kind: ("number", np.arange(3).astype(kind), [0, 1, 2]) for kind in ("<f8", ">f8", "<f4", ">f4", "<f2", ">f2")},
    **{kind: ("number", np.arange(3).astype(kind), [0, 1, 2]) for kind in ("g", ">i4", ">u2", "<i8")},
    **{f"{end}M8[{unit}]": ("date", WEEKS.astype(f"{end}M8[{unit}]"), None) for unit in UNITS for end in "<>"},
    **{
        f"m8[{unit}]": ("time", np.array([0, 14, 7], "m8[D]").astype(f"m8[{unit}]"), [0, 14, 7]) for unit in UNITS[2:-1]
    },
}


@pytest.mark.parametrize("what", TYPES)
def test_numbers_dates_and_durations_of_every_type(what, tmp_path):
    kind, values, expected = TYPES[what]
    np.savez(tmp_path / "a.npz", a=values, y=np.arange(3.0))
    found = learn(read_table(tmp_path / "a.npz"), "y", ["a"], missing="drop")
    if expected is None:
        expected = values[:2].astype("M8[D]").astype(int).tolist()
    assert found.X[:, 0].tolist() == expected
    assert found.preprocessing.columns[0].kind == kind


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_columns(order, tmp_path):
    x = np.arange(12, dtype=np.float64).reshape(4, 3)
    np.savez(tmp_path / "a.npz", x=np.asarray(x, order=order), y=x[:, 0])
    training = learn(read_table(tmp_path / "a.npz"), "y")
    assert training.preprocessing.names == ["x0", "x1", "x2"]
    assert np.array_equal(training.X, x)
    with open_table(tmp_path / "a.npz") as reader:
        (table,) = reader.chunks(["x1"])
    assert table.data["x1"].to_pylist() == x[:, 1].tolist()


REFUSED = {
    "complex": ({"x": np.array([1j])}, "holds complex128, not numbers"),
    "objects": ({"x": np.array([{}], dtype=object)}, "array 'x': Object arrays cannot be loaded"),
    "bytes": ({"x": np.array([b"a"])}, r"holds \|S1, not numbers"),
    "records": ({"x": np.array([(1, 2)], dtype="i4,i4")}, "not numbers"),
    "half a character": ({"x": np.array(["\ud800"])}, "cannot be read as NPZ: array 'x'"),
    "a cube": ({"x": np.zeros((2, 2, 2))}, r"array 'x': its shape is \(2, 2, 2\)"),
    "other lengths": ({"x": np.zeros(3), "y": np.zeros(4)}, "equally long.*'x' 3, 'y' 4"),
    "nothing": ({}, "holds no arrays"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_table_can_hold(what, tmp_path):
    arrays, message = REFUSED[what]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(TableError, match=message) as caught:
        read_table(tmp_path / "a.npz")
    assert len(str(caught.value).splitlines()) == 1


def test_an_encrypted_archive(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(3))
    content = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + at] |= 1
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"a\.npz cannot be read as NPZ: .*encrypted"):
        read_table(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_damage_is_one_line_or_does_no_harm(save, tmp_path):
    path, random = tmp_path / "a.npz", np.random.default_rng(0)
    save(path, x=random.normal(size=(5, 2)), t=np.array(["a", "b", "a", "b", "a"]))
    whole = path.read_bytes()
    messages = []
    for trial in range(400):
        data = bytearray(whole)
        if trial % 4 == 0:
            del data[random.integers(len(data)) :]
        else:
            for at in random.integers(len(data), size=1 + trial % 3):
                data[at] = random.integers(256)
        path.write_bytes(data)
        try:
            read_table(path)
        except TableError as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert all(len(message.splitlines()) == 1 for message in messages)
