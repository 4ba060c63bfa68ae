"""A fitted model as an ONNX file: the mean and the standard deviation of new observations, in float64.

All posteriors are products with k(x, I). "local" looks for the nearest rows among all, and solves each query's small
system by elimination, since ONNX has no operation for that.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.files import check_writable, replacing
from ..core.optional import require
from ..core.validation import check_dtype
from ..core.version import __version__
from ..kernels.neighbours import ALL, Neighbours
from ..posteriors import Local, SubsetOfData
from ..posteriors.calibration import MOST, Scale, rank_of_edge
from ..posteriors.projected import Projected
from .onnx_graph import Graph, Tensor, Value, block, check, constants, diagonal, each, has_inputs, prepare, right_side

OPSET, IR_VERSION = 11, 6  # the first with TopK of the smallest; all runtimes of the last years read them
MOST_BYTES = 2**31 - 2**20  # what a file of this format can hold


def to_onnx(model: Any, path: str | os.PathLike[str], *, input_dtype: Any = "float64") -> None:
    """Write the predictor of a fitted model as an ONNX file, whole or not at all.

    Its input ``X`` is of `input_dtype` and of shape (rows, d), any number of rows. Its outputs ``mean`` and ``std`` are
    those of ``predict(X, return_std=True)``: of new observations, in units of y, of shape (rows,) or (rows, q). The
    file's metadata name the inputs and the target, and hold the mapping of a table's columns if the model has one.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, with any posterior and any of scikit-learn's kernels that is not called as it is.
    path : str or path-like
    input_dtype : {"float64", "float32"}, default="float64"
        The type of the rows that will be asked about: a runtime refuses all others. Rows of float32 are turned into
        float64 at once, since covariances and their products need it, and the outputs are float64 in either case. So
        predictions are those of the rounded rows: inputs that need more than seven digits, such as seconds since 1970,
        want float64, or a smaller origin before the fit.

    Notes
    -----
    With the posterior "local", the file holds all rows, and every query is compared with each: ask for some hundreds at
    a time. Of rows that are equally near, another may be taken than in Python.
    """
    onnx = require("onnx", "onnx")
    check_is_fitted(model, "posterior_")
    single = check_dtype(input_dtype, "input_dtype") == np.float32
    try:
        check_writable(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror or error}.") from None
    data = _file(onnx, model, single).SerializeToString()
    with replacing(path) as unfinished:
        unfinished.write_bytes(data)


def _file(onnx: Any, model: Any, single: bool) -> Any:
    """The model as ONNX has it; with `single`, for rows of float32."""
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    posterior, q = model.posterior_, len(model.y_mean_)
    root = posterior.kernel.root
    check(root)
    if not has_inputs(root):
        raise ValueError(f"The kernel {model.kernel_} does not depend on the inputs: there is nothing to write.")
    g = Graph(onnx)
    X = g("Cast", "X", to=double) if single else "X"
    mean, variance = _moments(g, posterior, X)
    mean = g("Add", g("Mul", mean, model.y_std_), model.y_mean_)
    std = g("Mul", g("Sqrt", variance), model.y_std_)
    for name, value in (("mean", mean), ("std", std)):
        value = g("Squeeze", value, axes=[1]) if q == 1 else value
        g.nodes.append(helper.make_node("Identity", [value], [name]))
    if sum(part.ByteSize() for part in g.constants) > MOST_BYTES:
        raise ValueError("The model is larger than the 2 GB that an ONNX file can hold; fit one with fewer rows.")
    shape, d = ["rows"] if q == 1 else ["rows", q], int(model.n_features_in_)
    graph = helper.make_graph(
        g.nodes,
        "sodalite",
        [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT if single else double, ["rows", d])],
        [helper.make_tensor_value_info(name, double, shape) for name in ("mean", "std")],
        g.constants,
    )
    file = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="sodalite", producer_version=__version__
    )
    file.ir_version = IR_VERSION
    helper.set_model_props(file, _about(model))
    return file


def _about(model: Any) -> dict[str, str]:
    """What the metadata say."""
    mapping, names = getattr(model, "preprocessing_", None), getattr(model, "feature_names_in_", None)
    if mapping is not None:
        names = mapping.names
    about = {
        "inputs": json.dumps(
            [f"x{j}" for j in range(model.n_features_in_)] if names is None else list(map(str, names))
        ),
        "posterior": str(model.posterior),
        "kernel": str(model.kernel_),
        "n_active": str(len(model.active_indices_)),
    }
    if mapping is not None:
        about |= {"target": str(mapping.target), "columns": json.dumps(mapping.to_json())}
    return about


def _moments(g: Graph, posterior: Any, X: Tensor) -> tuple[Tensor, Value]:
    """The mean, of shape (rows, q), and the variance with noise, of shape (rows, 1), of the scaled targets."""
    node = posterior.kernel.root
    local = isinstance(posterior, Local)
    base = posterior.base if local else posterior
    x = prepare(g, node, X)
    latent, noise = diagonal(g, node, x)
    active = right_side(g, node, base.rows)
    K = block(g, node, x, active)
    mean, w = g.product(K, base.weights), g.product(K, base.inverse.T)
    prior, rest = latent, g.positive(_minus(g, latent, g.sum_of(g("Mul", w, w), 1)))
    whole = variance = rest
    if isinstance(base, Projected):
        u = g.product(w, base.root.T)
        variance = g.sum_of(g("Mul", u, u), 1)
        whole = g.add(variance, rest)
        if base.restored:
            variance = whole
        elif base.scale is not None and base.scale.floor:
            back = _outside(g, _novelty(g, whole, prior), base.scale.edge)
            variance = g.add(variance, g.multiply(back, rest))
    else:
        assert isinstance(base, SubsetOfData)
    if local and posterior.k:
        gain, drop = _neighbourhood(g, posterior, X, x, active, w)
        mean = g("Add", mean, gain)
        whole = variance = g.positive(_minus(g, variance, drop))
    variance = g.add(variance, noise)
    if (scale := posterior.scale) is not None:
        extra = g.constant(np.array(scale.extra))
        far = g.add(g.add(prior, noise), extra)
        variance = g.multiply(g.add(variance, extra), _scale(g, scale, X, x, _novelty(g, whole, prior), far))
    return mean, variance


def _neighbourhood(g: Graph, local: Local, X: Tensor, x: Any, active: Any, v: Tensor) -> tuple[Tensor, Tensor]:
    """What each query's neighbours add to the mean and take from the variance; see `sodalite.posteriors.local`."""
    node, k = local.kernel.root, local.k
    found = _nearest(g, local.near, local.X, local.kernel, X, x, k)
    near = each(lambda rows: g("Gather", rows, found, axis=0), constants(g, node, local.rows))  # (queries, k, width)
    near_right = right_side(g, node, near)
    V = g.product(block(g, node, near, active), local.base.inverse.T)
    Vt = g.turned(V)
    noises = g("Unsqueeze", g("Gather", local.noises, found, axis=0), axes=[2])
    eye = g.constant(np.eye(k))
    C = g("Add", g("Sub", block(g, node, near, near_right), g.product(V, Vt)), g("Mul", noises, eye))
    one = each(lambda rows: g("Unsqueeze", rows, axes=[1]), x)
    c = g("Sub", block(g, node, one, near_right), g.product(g("Unsqueeze", v, axes=[1]), Vt))  # (queries, 1, k)
    c = g.turned(c)
    weights = _solve(g, C, c, eye, k)
    gain = g.product(g.turned(weights), g("Gather", local.r, found, axis=0))  # (queries, 1, q)
    drop = g.product(g.turned(weights), c)
    return g("Squeeze", gain, axes=[1]), g("Squeeze", drop, axes=[1])


def _solve(g: Graph, C: Tensor, c: Tensor, eye: Tensor, k: int) -> Tensor:
    """C^-1 c for a stack of positive definite C, by Gauss and Jordan's elimination, which then needs no pivots.

    With the row and column of the pivot, [C c] <- [C c] - (column - e) row / pivot.
    """
    helper, kinds, body = g.onnx.helper, g.onnx.TensorProto, g.inner()
    step, go, go_on, state = (g.name() for _ in range(4))
    row = body("Unsqueeze", body("Gather", state, step, axis=1), axes=[1])
    line = body("Gather", state, step, axis=2)
    column = body("Unsqueeze", line, axes=[2])
    pivot = body("Unsqueeze", body("Gather", line, step, axis=1), axes=[1, 2])
    unit = body("Unsqueeze", body("Gather", eye, step, axis=1), axes=[1])
    change = body("Mul", body("Sub", column, unit), body("Div", row, pivot))
    after = body("Sub", state, change)
    body.nodes.append(helper.make_node("Identity", [go], [go_on]))
    shape = [None, k, k + 1]
    graph = helper.make_graph(
        body.nodes,
        "eliminate",
        [
            helper.make_tensor_value_info(step, kinds.INT64, []),
            helper.make_tensor_value_info(go, kinds.BOOL, []),
            helper.make_tensor_value_info(state, kinds.DOUBLE, shape),
        ],
        [
            helper.make_tensor_value_info(go_on, kinds.BOOL, []),
            helper.make_tensor_value_info(after, kinds.DOUBLE, shape),
        ],
        body.constants,
    )
    solved = g("Loop", np.array(k, dtype=np.int64), "", g("Concat", C, c, axis=2), body=graph)
    return g("Gather", solved, [k], axis=2)  # type: ignore[no-any-return]


def _nearest(g: Graph, near: Neighbours, rows: Any, kernel: Any, X: Tensor, x: Any, k: int) -> Tensor:
    """The places of the k nearest rows of every query, of shape (queries, k), as `Neighbours.query` has them."""
    weights = kernel.metric()
    if weights is None or near.cycles:
        node, features = kernel.root, kernel.prepare(rows)
        own = kernel.diag(features)
        distance = g("Sub", own, g("Mul", block(g, node, x, right_side(g, node, features)), 2.0))
        _, alike = g("TopK", distance, [k], outputs=2, axis=1, largest=0, sorted=1)
        if weights is None:
            return alike  # type: ignore[no-any-return]
        if len(rows) > ALL:
            raise ValueError(
                f"to_onnx cannot write posterior 'local' with a periodic kernel and more than {ALL} rows; this model "
                f"has {len(rows)} that are not active. Use another posterior, or fewer rows."
            )
    if weights is not None:
        assert near.index is not None
        columns, Z = near.index.columns, near.index.scaled(rows)
        here = g("Sub", g("Gather", X, columns, axis=1), kernel.centre[columns])
        here = g("Mul", here, np.sqrt(weights[columns]))
        distance = g("Sub", np.einsum("ij,ij->i", Z, Z), g("Mul", g.product(here, Z.T), 2.0))
    _, found = g("TopK", distance, [k], outputs=2, axis=1, largest=0, sorted=1)
    return _interleaved(g, found, alike, k) if near.cycles else found


def _interleaved(g: Graph, first: Tensor, second: Tensor, k: int) -> Tensor:
    """Two rankings as one, as `sodalite.kernels.neighbours.interleaved` has it."""
    shape = np.array([0, 2 * k], dtype=np.int64)  # as many queries as there are
    both = g("Reshape", g("Concat", g("Unsqueeze", first, axes=[2]), g("Unsqueeze", second, axes=[2]), axis=2), shape)
    same = g(
        "Cast", g("Equal", g("Unsqueeze", both, axes=[2]), g("Unsqueeze", both, axes=[1])), to=g.onnx.TensorProto.DOUBLE
    )
    again = g.sum_of(g("Mul", same, np.tril(np.ones((2 * k, 2 * k)), -1)), 2)
    again = g("Min", g("Reshape", again, shape), 1.0)
    order = g("Add", g("Mul", again, 4.0 * k), np.arange(2.0 * k))
    _, kept = g("TopK", order, [k], outputs=2, axis=1, largest=0, sorted=1)
    return g("GatherElements", both, kept, axis=1)  # type: ignore[no-any-return]


def _scale(g: Graph, scale: Scale, X: Tensor, x: Any, novelty: Tensor, prior: Tensor) -> Tensor:
    """What the variances are multiplied by, of shape (queries, 1), as `Scale.factor` has it."""
    near: Value = scale.mean
    edge: Value = scale.edge
    if scale.near is not None:
        k = min(scale.k, len(scale.X))
        found = _nearest(g, scale.near, scale.X, scale.near._kernel, X, x, k)
        total = g("Add", g.sum_of(g("Gather", scale.squares, found, axis=0), 1), scale.strength * scale.mean)
        near = g("Mul", total, 1 / (k + scale.strength))
        if scale.novelty is not None:
            # The least of the largest few.
            own, few = g("Gather", scale.novelty, found, axis=0), rank_of_edge(k)
            largest, _ = g("TopK", own, [few], outputs=2, axis=1, largest=1, sorted=1)
            edge = g("Min", g("Gather", largest, [few - 1], axis=1), MOST)
    weight = _outside(g, novelty, edge)
    all_over = max(scale.mean, min(scale.mean, 1.0) ** scale.edge)
    tiny = np.finfo(
        np.float64
    ).tiny  # keeps a prior of nothing, where a prediction has no variance, out of the division
    far = g("Max", g("Div", scale.floor, g("Max", prior, tiny)), all_over)
    between = g("Sub", near, far)
    up = g("Sub", near, g("Mul", weight, between))
    down = g("Div", g("Mul", near, far), g("Add", far, g("Mul", weight, between)))
    return g("Where", g("Less", far, near), down, up)  # type: ignore[no-any-return]


def _novelty(g: Graph, latent: Value, prior: Value) -> Tensor:
    """The share of the prior variance that is left, of shape (queries, 1)."""
    tiny = np.finfo(np.float64).tiny
    return g("Min", g("Div", latent, g("Max", prior, tiny)), 1.0)  # type: ignore[no-any-return]


def _outside(g: Graph, novelty: Tensor, edge: Value) -> Tensor:
    """How far rows are outside, as `sodalite.posteriors.calibration.outside` has it."""
    return g("Div", g("Max", g("Sub", novelty, edge), 0.0), g("Sub", 1.0, edge))  # type: ignore[no-any-return]


def _minus(g: Graph, a: Value, b: Tensor) -> Tensor:
    return g("Sub", a, b)  # type: ignore[no-any-return]
