"""Files with something changed at random and every checksum right, as somebody makes them who means harm."""

from __future__ import annotations

import json
from copy import deepcopy
from hashlib import sha256

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from sodalite.core.container import digest

NUMBERS = (0, -1, 1, 7, 2**31, 2**63, -(2**63), 10**30, 0.0, -0.5, 1e-320, 1e308, float("inf"), float("nan"))
VALUES = (*NUMBERS, None, True, False, "", "x", "inf", "U99999999", "../../x", [], {}, [1], [[]], {"a": 1}, [None] * 3)
TYPES = (np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_)


def opened(path, key):
    """A file's JSON, its arrays and its header; `key` is what the JSON is called in there."""
    with safe_open(path, framework="numpy") as file:
        header = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (this is no dict)
    return json.loads(header[key]), arrays, header


def forge(path, key, content, arrays, header):
    """Write a file with these contents and the checksums that they need."""
    arrays = {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in arrays.items()}
    text = json.dumps({**content, "arrays_sha256": digest(arrays)})
    save_file(arrays, path, {**header, key: text, f"{key}_sha256": sha256(text.encode()).hexdigest()})


def mutated(content, arrays, generator):
    """Copies with one thing changed, and what was changed in words."""
    content, arrays = deepcopy(content), dict(arrays)
    if arrays and generator.random() < 0.5:
        return content, arrays, _change_array(arrays, generator)
    return content, arrays, _change_text(content, generator)


def _pick(things, generator):
    things = list(things)
    return things[int(generator.integers(len(things)))]


def _places(tree):
    """Every (parent, key) in some JSON."""
    found, left = [], [tree]
    while left:
        part = left.pop()
        pairs = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in pairs:
            found.append((part, key))
            left.append(value)
    return found


def _change_text(content, generator):
    places = [(part, key) for part, key in _places(content) if key != "arrays_sha256"]
    part, key = _pick(places, generator)
    old, way = part[key], _pick(("value", "value", "number", "other", "delete", "add", "deep"), generator)
    if way == "number" and isinstance(old, int | float):
        part[key] = _pick((old + 1, -old, old * 1.01, old * 1e6, float(old), str(old)), generator)
    elif way == "other":
        other, where = _pick(places, generator)
        part[key] = deepcopy(other[where])
    elif way == "delete":
        del part[key]
    elif way == "add" and isinstance(old, dict):
        old["more"] = _pick(VALUES, generator)
    elif way == "add" and isinstance(old, list):
        old.append(deepcopy(_pick([*VALUES, *old], generator)))
    elif way == "deep":
        part[key] = {"k1": old}
        for _ in range(300):
            part[key] = {**old, "k1": part[key]} if isinstance(old, dict) else [part[key]]
    else:
        part[key] = deepcopy(_pick(VALUES, generator))
    return f"{way} of {key!r}: {str(old)[:60]} became {str(part[key])[:60] if way != 'delete' else 'nothing'}"


def _change_array(arrays, generator):
    name = _pick(arrays, generator)
    array = arrays[name]
    way = _pick(("type", "shape", "value", "value", "value", "scale", "order", "swap", "delete", "add"), generator)
    if way == "type":
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = array.astype(_pick(TYPES, generator))
    elif way == "shape":
        shapes = array[:-1], array[:0], array[None], array.ravel(), np.concatenate([array, array]), array[..., None]
        arrays[name] = _pick([*shapes, np.empty((0, 2**40), array.dtype)], generator)
    elif way == "value" and array.size:
        arrays[name] = array = array.copy()
        number = _pick(NUMBERS, generator)
        if array.dtype.kind == "i":
            number = int(np.clip(np.nan_to_num(float(number)), -(2.0**62), 2.0**62))
        array.flat[int(generator.integers(array.size))] = number
    elif way == "scale":
        arrays[name] = (array * _pick((-1, 0, 2, 1.001), generator)).astype(array.dtype)
    elif way == "order" and array.ndim:
        arrays[name] = array[generator.permutation(len(array))]
    elif way == "swap":
        arrays[name] = arrays[_pick(arrays, generator)]
    elif way == "delete":
        del arrays[name]
    else:
        arrays["more"] = array
    return f"{way} of array {name!r}"
