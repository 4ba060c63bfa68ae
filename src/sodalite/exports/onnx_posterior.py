"""A posterior's predictions in an ONNX graph: mean, variance and quantiles of new observations of the scaled targets.

All posteriors are products with k(x, I). "local" looks for the nearest rows among all, and solves each query's small
system by elimination, since ONNX has no operation for that. Letters are those of NOTATION.md, "Posteriors".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from scipy.special import ndtri

from ..core.types import Floats
from ..kernels import CompiledKernel
from ..kernels.neighbours import ALL, Index, Neighbours
from ..posteriors import POSTERIORS, Local, Posterior, SubsetOfData
from ..posteriors.calibration import Scale
from ..posteriors.novelty import LEAST_EDGE, MOST_EDGE, rank_of_edge
from ..posteriors.predictive import TINY as SMALLEST
from ..posteriors.predictive import Standard
from ..posteriors.projected import Projected
from ..posteriors.shape import KNOWN, STRENGTH, Shape, Width
from .onnx_graph import Graph, Tensor, Value
from .onnx_kernel import Features, OnnxNode, each

TINY = float(np.finfo(np.float64).tiny)  # keeps a prior variance of 0, where the variance is 0 too, out of a division


@dataclass(frozen=True)
class Queries:
    """Rows to predict for."""

    X: Tensor
    """Of shape (queries, d)."""
    features: Features
    prior: Value
    """k(x, x) without noise, of shape (queries, 1)."""


@dataclass(frozen=True)
class Latent:
    """The latent function at the queries."""

    mean: Tensor
    """Of shape (queries, q)."""
    variance: Value
    """As the posterior predicts it, of shape (queries, 1)."""
    full_variance: Value
    """With the part that "sor" leaves out: the novelty is its share of the prior variance."""


@dataclass(frozen=True)
class Predicted:
    """Observations at the queries, of the scaled targets."""

    mean: Tensor
    """Of shape (queries, q)."""
    variance: Value
    """Of shape (queries, 1)."""
    quantiles: Tensor | None
    """Of shape (queries, q, levels); None if none are asked for."""


def predicted_nodes(g: Graph, posterior: Posterior, kernel: OnnxNode, X: Tensor, levels: Floats) -> Predicted:
    """Return mean, variance and the quantiles of some levels, as `sodalite.posteriors.predictive.Predictive` does."""
    x = kernel.prepare(g, X)
    prior, noise = kernel.diagonal(g, x)
    queries = Queries(X, x, prior)
    found = latent(posterior, g, kernel, queries)
    variance, scale = g.add(found.variance, noise), posterior.scale
    if scale is None:
        return Predicted(found.mean, variance, _gaussian_quantiles(g, found.mean, variance, levels))
    extra = g.constant(np.array(scale.extra))
    far = g.add(g.add(prior, noise), extra)
    novelty = _novelty(g, found.full_variance, prior)
    factor = _scale(g, scale, posterior.kernel, kernel, queries, novelty, far)
    total = g.add(variance, extra)
    calibrated = g.multiply(total, factor)
    shape = scale.shape
    if not len(levels) or shape is None or shape.is_gaussian:
        return Predicted(found.mean, calibrated, _gaussian_quantiles(g, found.mean, calibrated, levels))
    width = _widths(g, scale, shape, posterior.kernel, kernel, queries, total, calibrated, novelty)
    outside = g("Unsqueeze", _outside(g, novelty, scale.edge, scale.by_logarithm), axes=[2])
    learnt = np.stack([np.zeros(len(levels)) if t is None else t[1].quantiles(levels) for t in shape.targets])
    gaussian = np.array([[t is None] for t in shape.targets], dtype=np.float64)  # (q, 1): these stay Gaussian
    share = g("Max", outside, gaussian)
    near = g("Mul", g("Unsqueeze", width, axes=[2]), learnt)
    far = g("Mul", _std(g, calibrated), ndtri(levels))
    error = g("Add", g("Mul", g("Sub", 1.0, share), near), g("Mul", share, far))
    return Predicted(found.mean, calibrated, g("Add", g("Unsqueeze", found.mean, axes=[2]), error))


def _std(g: Graph, variance: Value) -> Tensor:
    """Standard deviations of shape (queries, 1, 1)."""
    return g("Unsqueeze", g("Sqrt", variance), axes=[2])


def _gaussian_quantiles(g: Graph, mean: Tensor, variance: Value, levels: Floats) -> Tensor | None:
    """Quantiles of shape (queries, q, levels); None if there are no levels."""
    if not len(levels):
        return None
    return g("Add", g("Unsqueeze", mean, axes=[2]), g("Mul", _std(g, variance), ndtri(levels)))


def _widths(
    g: Graph,
    scale: Scale,
    shape: Shape,
    compiled: CompiledKernel,
    kernel: OnnxNode,
    queries: Queries,
    variance: Value,
    calibrated: Value,
    novelty: Tensor,
) -> Tensor:
    """The widths of the errors, of shape (queries, q), as `Shape.widths` computes them; 0 of a Gaussian target."""
    std = g("Sqrt", calibrated)
    columns = [g("Sqrt", g("Max", variance, SMALLEST))]
    if shape.sums is not None:
        assert scale.near is not None
        assert scale.counts is not None
        columns.append(g("Sqrt", g("Add", novelty, KNOWN)))
        found = _nearest(g, scale.near, scale.X, compiled, kernel, queries, min(max(shape.sizes), len(scale.X)))
        for k in shape.sizes:
            some = g("Gather", found, np.arange(min(k, len(scale.X))), axis=1)
            total = g("ReduceSum", g("Gather", shape.sums, some, axis=0), axes=[1], keepdims=0)  # (queries, q)
            number = g("Add", g.sum_of(g("Gather", scale.counts, some, axis=0), 1), STRENGTH)
            columns.append(g("Div", g("Add", total, STRENGTH * shape.mean), number))
    logs = [g("Log", column) for column in columns]  # each of shape (queries, 1) or (queries, q)
    widths = [_width(g, target, logs, std, j) for j, target in enumerate(shape.targets)]
    return g("Concat", *widths, axis=1)


def _width(g: Graph, target: tuple[Width, Standard] | None, logs: list[Tensor], std: Tensor, j: int) -> Tensor:
    """The width of target j, of shape (queries, 1), from the logarithms of the features or from `std`."""
    if target is None:
        return g("Mul", std, 0.0)
    width = target[0]
    if not len(width.coefficients):
        return g("Mul", std, float(np.exp(width.level)))
    sum_of = g.constant(np.full((1, 1), width.level))
    for at, (log, coefficient) in enumerate(zip(logs, width.coefficients, strict=False)):
        column = log if at < 2 else g("Gather", log, [j], axis=1)
        inside = g("Min", g("Max", column, float(width.limits[0, at])), float(width.limits[1, at]))
        sum_of = g("Add", sum_of, g("Mul", inside, float(coefficient)))
        if at == 0:
            sum_of = g("Add", sum_of, g("Sub", column, inside))
    return g("Exp", sum_of)


@singledispatch
def latent(posterior: object, g: Graph, kernel: OnnxNode, queries: Queries) -> Latent:
    """Return the latent function at the queries, for each kind of posterior."""
    raise TypeError(
        f"to_onnx can write the posteriors {', '.join(POSTERIORS)}; {type(posterior).__name__} is Python code, which "
        f"cannot become an ONNX graph."
    )


@latent.register
def _(posterior: SubsetOfData, g: Graph, kernel: OnnxNode, queries: Queries) -> Latent:
    return _given_active(g, kernel, queries, posterior).latent


@latent.register
def _(posterior: Projected, g: Graph, kernel: OnnxNode, queries: Queries) -> Latent:
    given = _given_active(g, kernel, queries, posterior)
    rest = given.latent.variance  # k - Q
    u = g.product(given.w, posterior.root.T)
    projected = g.sum_of(g("Mul", u, u), 1)  # w.B^-1 w
    full: Value = g.add(projected, rest)
    variance: Value = projected
    if posterior.restored:
        variance = full
    elif posterior.scale is not None and posterior.scale.floor:
        scale = posterior.scale
        restored_share = _outside(g, _novelty(g, full, queries.prior), scale.edge, scale.by_logarithm)
        variance = g.add(projected, g.multiply(restored_share, rest))
    return Latent(given.latent.mean, variance, full)


@latent.register
def _(posterior: Local, g: Graph, kernel: OnnxNode, queries: Queries) -> Latent:
    posterior = posterior.in_memory()
    given = _given_active(g, kernel, queries, posterior.base)
    if not posterior.k:
        return given.latent
    if posterior.shared is not None:
        raise ValueError(
            "to_onnx cannot write posterior 'local' with neighbourhoods that queries share, since their factors would "
            "be most of the file. Fit it with n_neighbors=64, where each query has neighbours of its own."
        )
    gain, drop = _neighbourhood(g, posterior, kernel, queries, given)
    variance = g.positive(g("Sub", given.latent.variance, drop))
    return Latent(g("Add", given.latent.mean, gain), variance, variance)


@dataclass(frozen=True)
class GivenActive:
    """What every posterior begins with: the products with k(x, I)."""

    active: Features
    """The active rows, as a right side."""
    w: Tensor
    """L^-1 k(I, x), or L_u^-1 k(I, x) in the projected processes; of shape (queries, m)."""
    latent: Latent
    """The mean, and k - w.w."""


def _given_active(g: Graph, kernel: OnnxNode, queries: Queries, base: SubsetOfData | Projected) -> GivenActive:
    active = kernel.right_side(g, base.rows)
    K = _tensor(kernel.block(g, queries.features, active))
    mean, w = g.product(K, base.weights), g.product(K, base.inverse.T)
    rest = g.positive(g("Sub", queries.prior, g.sum_of(g("Mul", w, w), 1)))
    return GivenActive(active, w, Latent(mean, rest, rest))


def _neighbourhood(
    g: Graph, local: Local, kernel: OnnxNode, queries: Queries, given: GivenActive
) -> tuple[Tensor, Tensor]:
    """What each query's neighbours add to the mean, (queries, q), and take from the variance, (queries, 1)."""
    k, found = local.k, _nearest(g, local.near, local.X, local.kernel, kernel, queries, local.k)
    near = each(lambda rows: g("Gather", rows, found, axis=0), kernel.constants(g, local.rows))  # (queries, k, width)
    near_right = kernel.right_side(g, near)
    V = g.product(_tensor(kernel.block(g, near, given.active)), local.base.inverse.T)
    Vt = g.transposed(V)
    noises = g("Unsqueeze", g("Gather", local.noises, found, axis=0), axes=[2])
    eye = g.constant(np.eye(k))
    C = g("Add", g("Sub", kernel.block(g, near, near_right), g.product(V, Vt)), g("Mul", noises, eye))
    one = each(lambda rows: g("Unsqueeze", rows, axes=[1]), queries.features)
    v = g("Unsqueeze", given.w, axes=[1])
    c = g.transposed(g("Sub", kernel.block(g, one, near_right), g.product(v, Vt)))  # (queries, k, 1)
    weights = g.transposed(_solve(g, C, c, eye, k))
    gain = g.product(weights, g("Gather", local.r, found, axis=0))  # (queries, 1, q)
    drop = g.product(weights, c)
    return g("Squeeze", gain, axes=[1]), g("Squeeze", drop, axes=[1])


def _tensor(value: Value) -> Tensor:
    assert isinstance(value, str)  # a kernel without inputs has been refused
    return value


def _solve(g: Graph, C: Tensor, c: Tensor, eye: Tensor, k: int) -> Tensor:
    """C^-1 c for a stack of positive definite C, by Gauss-Jordan elimination, which then needs no pivoting.

    Step i of k, with row and column i of C and pivot C_ii: [C c] <- [C c] - (column - e_i) row / pivot.
    """
    helper, kinds, body = g.onnx.helper, g.onnx.TensorProto, g.inner()
    step, go, go_on, state = (g.name() for _ in range(4))
    row = body("Unsqueeze", body("Gather", state, step, axis=1), axes=[1])
    line = body("Gather", state, step, axis=2)
    column = body("Unsqueeze", line, axes=[2])
    pivot = body("Unsqueeze", body("Gather", line, step, axis=1), axes=[1, 2])
    unit = body("Unsqueeze", body("Gather", eye, step, axis=1), axes=[1])
    after = body("Sub", state, body("Mul", body("Sub", column, unit), body("Div", row, pivot)))
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
    return g("Gather", solved, [k], axis=2)


def _nearest(
    g: Graph, near: Neighbours, X: Floats, compiled: CompiledKernel, kernel: OnnxNode, queries: Queries, k: int
) -> Tensor:
    """The places of the k nearest rows of X to every query, of shape (queries, k), as by `Neighbours.query`."""
    if near.index is None:
        return g.nearest(_by_covariance(g, X, compiled, kernel, queries), k)
    if not near.cycles:
        return g.nearest(_by_distance(g, near, compiled, queries), k)
    if len(X) > ALL:
        raise ValueError(
            f"to_onnx cannot write posterior 'local' with a periodic kernel and more than {ALL} rows; this model "
            f"has {len(X)} that are not active. Use another posterior, or fewer rows."
        )
    nearest = g.nearest(_by_distance(g, near, compiled, queries), k)
    in_phase = g.nearest(_by_covariance(g, X, compiled, kernel, queries), k)
    return _interleaved(g, nearest, in_phase, k)


def _by_covariance(g: Graph, X: Floats, compiled: CompiledKernel, kernel: OnnxNode, queries: Queries) -> Tensor:
    """k(b, b) - 2 k(a, b) for queries a and rows b, of shape (queries, rows)."""
    features = compiled.prepare(X)
    K = kernel.block(g, queries.features, kernel.right_side(g, features))
    return g("Sub", compiled.diag(features), g("Mul", K, 2.0))


def _by_distance(g: Graph, near: Neighbours, compiled: CompiledKernel, queries: Queries) -> Tensor:
    """b.b - 2 a.b for scaled queries a and rows b, of shape (queries, rows): their squared distance less a.a."""
    weights = compiled.metric()
    assert isinstance(near.index, Index)
    assert weights is not None
    columns, Z = near.index.columns, near.index.rows  # which have a further column that decides ties, 0 in queries
    centred = g("Sub", g("Gather", queries.X, columns, axis=1), compiled.centre[columns])
    here = g("Mul", centred, np.sqrt(weights[columns]))
    return g("Sub", np.einsum("ij,ij->i", Z, Z), g("Mul", g.product(here, Z[:, : len(columns)].T), 2.0))


def _interleaved(g: Graph, first: Tensor, second: Tensor, k: int) -> Tensor:
    """The first k of two rankings taken in turns, without repetitions: `sodalite.kernels.neighbours.interleaved`."""
    shape = np.array([0, 2 * k], dtype=np.int64)  # 0: as many queries as there are
    both = g("Reshape", g("Concat", g("Unsqueeze", first, axes=[2]), g("Unsqueeze", second, axes=[2]), axis=2), shape)
    same = g(
        "Cast", g("Equal", g("Unsqueeze", both, axes=[2]), g("Unsqueeze", both, axes=[1])), to=g.onnx.TensorProto.DOUBLE
    )
    earlier = g.sum_of(g("Mul", same, np.tril(np.ones((2 * k, 2 * k)), -1)), 2)
    repeated = g("Min", g("Reshape", earlier, shape), 1.0)
    order = g("Add", g("Mul", repeated, 4.0 * k), np.arange(2.0 * k))  # repetitions last
    return g("GatherElements", both, g.nearest(order, k), axis=1)


def _scale(
    g: Graph, scale: Scale, compiled: CompiledKernel, kernel: OnnxNode, queries: Queries, novelty: Tensor, prior: Value
) -> Tensor:
    """The factor of the variances, of shape (queries, 1), as `Scale.factor` computes it."""
    near: Value = scale.mean
    edge: Value = scale.edge
    if scale.near is not None and scale.k:
        k = min(scale.k, len(scale.X))
        found = _nearest(g, scale.near, scale.X, compiled, kernel, queries, k)
        total = g("Add", g.sum_of(g("Gather", scale.squares, found, axis=0), 1), scale.strength * scale.mean)
        counts = np.ones(len(scale.X)) if scale.counts is None else scale.counts
        near = g("Div", total, g("Add", g.sum_of(g("Gather", counts, found, axis=0), 1), scale.strength))
        if scale.novelty is not None:
            own, rank = g("Gather", scale.novelty, found, axis=0), rank_of_edge(k)
            largest, _ = g.outputs(2, "TopK", own, [rank], axis=1, largest=1, sorted=1)
            edge = g("Min", g("Gather", largest, [rank - 1], axis=1), MOST_EDGE)
    all_over = max(scale.mean, min(scale.mean, 1.0) ** scale.edge)
    far = g("Max", g("Div", scale.floor, g("Max", prior, TINY)), all_over)
    between = g("Sub", near, far)
    up = g("Sub", near, g("Mul", _outside(g, novelty, edge, scale.by_logarithm), between))
    weight = _outside(g, novelty, edge, by_logarithm=False)
    down = g("Div", g("Mul", near, far), g("Add", far, g("Mul", weight, between)))
    return g("Where", g("Less", far, near), down, up)


def _novelty(g: Graph, variance: Value, prior: Value) -> Tensor:
    """The share of the prior variance that is left, of shape (queries, 1)."""
    return g("Min", g("Div", variance, g("Max", prior, TINY)), 1.0)


def _outside(g: Graph, novelty: Tensor, edge: Value, by_logarithm: bool) -> Tensor:
    """How far queries are outside the data, from 0 to 1: `sodalite.posteriors.novelty.outside`."""
    if not by_logarithm:
        return g("Div", g("Max", g("Sub", novelty, edge), 0.0), g("Sub", 1.0, edge))
    edge = g("Max", edge, LEAST_EDGE)
    return g("Div", g("Log", g("Max", g("Div", novelty, edge), 1.0)), g("Neg", g("Log", edge)))
