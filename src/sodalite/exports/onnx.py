"""A fitted model as an ONNX file: mean, standard deviation and quantiles of new observations, in float64."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils.validation import check_is_fitted

from ..core.files import check_writable, replacing
from ..core.optional import require
from ..core.types import Floats
from ..core.validation import check_dtype, check_levels
from ..core.version import __version__
from ..fitting.fitted import FittedModel
from .handover import check_no_mean
from .onnx_graph import Graph
from .onnx_kernel import translate
from .onnx_posterior import predicted_nodes

OPSET, IR_VERSION = 11, 6  # the first versions whose TopK finds the smallest entries; later ones exclude older runtimes
MOST_BYTES = 2**31 - 2**20  # size of the constants in bytes: protobuf files end at 2 GiB, and the nodes need some


def to_onnx(
    model: FittedModel,
    path: str | os.PathLike[str],
    *,
    input_dtype: DTypeLike = "float64",
    quantiles: ArrayLike = (),
) -> None:
    """Write the predictor of a fitted model as an ONNX file, whole or not at all.

    Its input ``X`` has the type `input_dtype` and the shape (rows, d), for any number of rows. Its outputs ``mean`` and
    ``std`` are those of ``predict(X, return_std=True)``: of new observations, in units of y, of shape (rows,) or
    (rows, q). The file's metadata name the inputs and the target, and hold the preprocessing of a table's columns if
    the model has one.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, with any posterior of this library, and kernels of scikit-learn (Matern with nu of 1/2, 3/2, 5/2 or
        infinity).
    path : str or path-like
    input_dtype : {"float64", "float32"}, default="float64"
        The type of the rows to predict for: a runtime refuses all others. Rows of float32 are converted to float64
        first, since covariances and their products need it, and the outputs are float64 in either case. Predictions are
        then those of the rounded rows: for inputs that need more than seven digits, such as seconds since 1970, use
        float64, or subtract an origin before the fit.
    quantiles : array-like of shape (levels,), default=()
        Cumulative probabilities, such as (0.025, 0.975) for a 95 % interval. The file then has a third output,
        ``quantiles``, as ``predict_quantiles`` returns them: of shape (rows, levels) or (rows, q, levels).

    Notes
    -----
    With the posterior "local", the file holds all rows, and every query is compared with each of them: predict some
    hundreds of rows at a time. Among rows that are equally near, the file may choose others than Python does.
    """
    onnx = require("onnx", "onnx")
    check_is_fitted(model, "posterior_")
    check_no_mean(model.fitted_)
    single = check_dtype(input_dtype, "input_dtype") == np.float32
    try:
        check_writable(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror or error}.") from None
    levels = check_levels("quantiles", quantiles) if np.size(quantiles) else np.empty(0)
    data = _file(onnx, model, single, levels).SerializeToString()
    with replacing(path) as unfinished:
        unfinished.write_bytes(data)


def _file(onnx: Any, model: FittedModel, single: bool, levels: Floats) -> Any:
    """The ONNX model; with `single`, for rows of float32."""
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    g, fitted = _graph(onnx, model, single, levels), model.fitted_
    if sum(part.ByteSize() for part in g.constants) > MOST_BYTES:
        raise ValueError("The model is larger than the 2 GB that an ONNX file can hold; fit one with fewer rows.")
    shape, d = ["rows"] if fitted.q == 1 else ["rows", fitted.q], int(model.n_features_in_)
    shapes = {"mean": shape, "std": shape} | ({"quantiles": [*shape, len(levels)]} if len(levels) else {})
    graph = helper.make_graph(
        g.nodes,
        "sodalite",
        [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT if single else double, ["rows", d])],
        [helper.make_tensor_value_info(name, double, shape) for name, shape in shapes.items()],
        g.constants,
    )
    file = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="sodalite", producer_version=__version__
    )
    file.ir_version = IR_VERSION
    helper.set_model_props(file, _about(model))
    return file


def _graph(onnx: Any, model: FittedModel, single: bool, levels: Floats) -> Graph:
    """The graph from the input "X" to the outputs "mean", "std" and, if there are levels, "quantiles"."""
    fitted = model.fitted_
    kernel = translate(fitted.posterior.kernel.root)
    if not kernel.has_inputs:
        raise ValueError(f"The kernel {fitted.kernel} does not depend on the inputs: there is nothing to write.")
    g = Graph(onnx)
    X = g("Cast", "X", to=onnx.TensorProto.DOUBLE) if single else "X"
    found = predicted_nodes(g, fitted.posterior, kernel, X, levels)
    unit, centre = fitted.scaling.std, fitted.scaling.mean
    outputs = {
        "mean": g("Add", g("Mul", found.mean, unit), centre),
        "std": g("Mul", g("Sqrt", found.variance), unit),
    }
    if found.quantiles is not None:
        outputs["quantiles"] = g("Add", g("Mul", found.quantiles, unit[:, None]), centre[:, None])
    for name, value in outputs.items():
        output = g("Squeeze", value, axes=[1]) if fitted.q == 1 else value
        g.nodes.append(onnx.helper.make_node("Identity", [output], [name]))
    return g


def _about(model: FittedModel) -> dict[str, str]:
    """The metadata: texts by their names."""
    mapping, names = getattr(model, "preprocessing_", None), getattr(model, "feature_names_in_", None)
    if mapping is not None:
        names = mapping.names
    about = {
        "inputs": json.dumps(
            [f"x{j}" for j in range(model.n_features_in_)] if names is None else list(map(str, names))
        ),
        "posterior": model.fitted_.posterior.name,
        "kernel": str(model.fitted_.kernel),
        "n_active": str(len(model.fitted_.selection)),
    }
    if mapping is not None:
        about |= {"target": str(mapping.target), "columns": json.dumps(mapping.to_json())}
    return about
