"""Files with something changed and every checksum right: they are read, or refused by one error of one line."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
import warnings
from copy import deepcopy

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Exponentiation, WhiteKernel

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor, persistence, select
from sodalite.cli.app import app
from sodalite.core import container
from sodalite.core.state import DEEPEST
from sodalite.exceptions import ModelFileError
from sodalite.hyperparameters import Subset
from sodalite.persistence.model import KIND
from sodalite.posteriors import Neighbors
from sodalite.report.summary import Record
from sodalite.selection import checkpoint
from sodalite.tables import Numbers, OneHot, Preprocessing

NAMED = "this"  # a module that nothing imports
NUMBERS = (0, -1, 1, 7, 2**31, 2**40, 2**63, -(2**63), 10**30, 0.0, -0.5, 1e-320, 1e308)
VALUES = (*NUMBERS, None, True, "", "x", NAMED, "U99999999", "../../x", [], {}, [1], [[]], {"a": 1}, [None] * 3)
TAGS = ({"class": "RBF"}, {"class": f"{NAMED}.Zen"}, {"class": NAMED}, {"array": "x"}, {"number": "nan"}, {"list": [1]})
LARGE = ({"array": [1.0], "shape": [2**60], "type": "float64"}, {"array": [], "shape": [0, 2**60], "type": "int64"})
MOST_BYTES = 50e6  # far above what the files need, far below what their largest numbers ask for

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (80, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.2 * rng.normal(size=80)
KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.5]) + WhiteKernel(0.05)


def model(**options):
    gp = GreedyGPRegressor(KERNEL, n_active=12, hyperparameters="fixed", random_state=0, **options).fit(X, Y)
    gp.preprocessing_ = Preprocessing("y", (Numbers("a", fill=0.5), OneHot("b", ("x",))))
    gp.about_ = Record("a table")
    return gp


MODELS = {
    "local": lambda: model(posterior=Neighbors(5)),
    "sod": lambda: model(posterior="sod", mean="linear"),
    "vfe": lambda: model(posterior="vfe"),
    "mapped": lambda: model(posterior=Neighbors(5)),
}


def refusal(read, path, error):
    """The message with which a file is refused, or None."""
    try:
        read(path)
    except error as refused:
        return str(refused)
    return None


def places_in(tree):
    """Every (parent, key) in some JSON."""
    found, left = [], [tree]
    while left:
        part = left.pop()
        pairs = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in pairs:
            found.append((part, key))
            left.append(value)
    return found


def mutated(content, arrays, generator):
    """Copies of JSON and arrays with one thing changed."""
    content, arrays = deepcopy(content), dict(arrays)

    def pick(things):
        things = list(things)
        return things[int(generator.integers(len(things)))]

    if arrays and generator.random() < 0.3:
        name = pick(arrays)
        array = np.array(arrays[name])
        shapes = array[:-1], array[:0], array[None], array.ravel(), np.concatenate([array, array]), array[..., None]
        changed = array.copy()
        changed.flat[int(generator.integers(array.size))] = pick((0, -1, 2**40, 7))
        others = pick(arrays.values()), array.astype(np.float32), array.astype(np.int64), -array, changed
        arrays[name] = pick((*shapes, *others, np.empty((0, 2**20))))
        return content, arrays
    places = places_in(content)
    part, key = pick(places)
    way = pick(("value", "value", "large", "other", "delete", "add", "deep"))
    if way == "other":
        other, where = pick(places)
        part[key] = deepcopy(other[where])
    elif way == "delete":
        del part[key]
    elif way == "add" and isinstance(part[key], dict):
        part[key]["more"] = pick(VALUES)
    elif way == "deep":
        for _ in range(DEEPEST // 2):
            part[key] = {"class": "Exponentiation", "kernel": part[key], "exponent": 1.0}
    else:
        part[key] = deepcopy(pick((*TAGS, *LARGE) if way == "large" else VALUES))
    return content, arrays


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """The header and the arrays of a file of every kind."""
    found = {}
    for name, make in MODELS.items():
        path = tmp_path_factory.mktemp(name) / "model"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sodalite.persistence.model.LEAST_ROWS", 1 if name == "mapped" else 20_000)
            sodalite.save(make(), path)
        found[name] = container.read(KIND, path)
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


@pytest.fixture
def bounded(monkeypatch):
    """Neither much memory is taken nor the module that files name; warnings do not matter, nor does the disk."""
    monkeypatch.setattr("sodalite.core.files._sync", lambda path: None)
    tracemalloc.start()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_BYTES
    assert NAMED not in sys.modules


SEEDS = (0, *(campaign(seed) for seed in range(1, 6)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MODELS)
def test_whatever_is_changed_in_a_model_it_is_loaded_or_refused_in_one_line(name, seed, originals, path, bounded):
    header, arrays = originals[name]
    generator, refused = np.random.default_rng(seed), 0
    for _ in range(160):
        content, changed = mutated(header.content, arrays, generator)
        try:
            container.write(KIND, path, content, changed, set(header.mapped) & set(changed))
        except (ModelFileError, ValueError):  # too deep, or an array of no dimensions
            continue
        message = refusal(sodalite.load, path, ModelFileError)
        assert message is None or (str(path) in message and "\n" not in message)
        refused += message is not None
    assert refused > 40  # the others have odd values, as a file may have that its user has made


def test_inspect_of_a_forged_file_is_a_page_or_one_line(originals, path, bounded):
    header, arrays = originals["local"]
    generator = np.random.default_rng(1)
    for _ in range(100):
        content, changed = mutated(header.content, arrays, generator)
        try:
            container.write(KIND, path, content, changed)
        except ModelFileError:
            continue
        done = CliRunner().invoke(app, ["inspect", str(path)])
        assert done.exit_code in (0, 2), done.exception
        assert done.exit_code == 0 or done.stderr.count("\n") == 1


def test_inspect_takes_no_memory_for_large_numbers(originals, path, bounded):
    header, arrays = originals["local"]
    for part, key in places_in(header.content):
        if type(part[key]) is int:
            kept, part[key] = part[key], 2**40
            container.write(KIND, path, header.content, arrays)
            part[key] = kept
            assert CliRunner().invoke(app, ["inspect", str(path)]).exit_code in (0, 2)


def lying(path, change):
    """Change the layout of the arrays in a header, with the right checksum."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    about = header.pop("__metadata__")
    change(header)
    about["sha256"] = container._hash(about["text"], header)
    text = json.dumps({"__metadata__": about, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


@pytest.mark.parametrize(
    "change",
    [
        *({"shape": shape} for shape in ([2**40, 2], [2**62], [0, 2**62], [-1], "x", [])),
        *({"data_offsets": ends} for ends in ([0, 2**40], [-8, 0], [8])),
        *({"dtype": dtype} for dtype in ("U9", [])),
    ],
    ids=str,
)
def test_lengths_that_the_file_does_not_have_are_refused_before_memory_is_taken(change, originals, path, bounded):
    header, arrays = originals["sod"]
    container.write(KIND, path, header.content, arrays)
    lying(path, lambda layout: layout["fitted.X_active" if "fitted.X_active" in layout else min(layout)].update(change))
    for read in (sodalite.load, persistence.read_header, persistence.check_file):
        with pytest.raises(ModelFileError, match="truncated, damaged"):
            read(path)


def test_a_file_larger_than_the_memory_is_refused(originals, path, monkeypatch):
    container.write(KIND, path, originals["sod"][0].content, originals["sod"][1])
    monkeypatch.setattr("sodalite.core.container.available", lambda: 1000)
    with pytest.raises(ModelFileError, match=r"it takes .* GB of memory"):
        sodalite.load(path)


def test_what_is_nested_too_deep_to_be_read_is_not_written(path):
    gp = model(posterior="sod")
    for _ in range(DEEPEST + 1):
        gp.kernel = Exponentiation(gp.kernel, 1.0)
    with pytest.raises(ModelFileError, match=rf"nested more than {DEEPEST} levels deep: use a kernel of fewer terms"):
        sodalite.save(gp, path)
    assert not os.listdir(path.parent)


def chosen(path=None, n_active=12):
    return select(X, Y, KERNEL, n_active=n_active, criterion="sampled", random_state=3, checkpoint=path)


def fit(path=None, n_active=12):
    search = Subset(n_rows=40, n_starts=2, n_screen=30, n_steps=3)
    gp = GreedyGPRegressor(n_active=n_active, posterior="sod", hyperparameters=search, random_state=0)
    return gp.fit(X, Y, checkpoint=path).selection_


@pytest.mark.parametrize("run", [chosen, fit])
def test_whatever_is_changed_in_a_checkpoint_the_file_is_read_or_refused_and_left(run, path, bounded):
    """What a run makes of values that are forged is its user's affair."""
    run(path, 8)
    header, arrays = container.read(checkpoint.KIND, path)
    generator, refused = np.random.default_rng(0), 0
    for _ in range(200):
        try:
            container.write(checkpoint.KIND, path, *mutated(header.content, arrays, generator))
        except ValueError:
            continue
        before = path.read_bytes()
        message = refusal(checkpoint.check_checkpoint, path, checkpoint.CheckpointError)
        assert message is None or message.endswith(checkpoint.REMEDY)
        assert path.read_bytes() == before
        refused += message is not None
    assert refused > 10
    container.write(checkpoint.KIND, path, header.content, arrays)
    assert run(path).indices.tolist() == run().indices.tolist()
