"""A posterior's predictions in an ONNX graph: mean and variance of new observations of the scaled targets.

All posteriors are products with k(x, I). "local" looks for the nearest rows among all, and solves each query's small
system by elimination, since ONNX has no operation for that. Letters are those of NOTATION.md, "Posteriors".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from ..core.types import Floats
from ..kernels import CompiledKernel
from ..kernels.neighbours import ALL, Neighbours
from ..posteriors import POSTERIORS, Local, Posterior, SubsetOfData
from ..posteriors.calibration import MOST, Scale, rank_of_edge
from ..posteriors.projected import Projected
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


def moments(g: Graph, posterior: Posterior, kernel: OnnxNode, X: Tensor) -> tuple[Tensor, Value]:
    """Return the mean, of shape (queries, q), and the variance of observations, of shape (queries, 1)."""
    x = kernel.prepare(g, X)
    prior, noise = kernel.diagonal(g, x)
    queries = Queries(X, x, prior)
    found = latent(posterior, g, kernel, queries)
    variance, scale = g.add(found.variance, noise), posterior.scale
    if scale is None:
        return found.mean, variance
    extra = g.constant(np.array(scale.extra))
    far = g.add(g.add(prior, noise), extra)
    novelty = _novelty(g, found.full_variance, prior)
    factor = _scale(g, scale, posterior.kernel, kernel, queries, novelty, far)
    return found.mean, g.multiply(g.add(variance, extra), factor)


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
        restored_share = _outside(g, _novelty(g, full, queries.prior), posterior.scale.edge)
        variance = g.add(projected, g.multiply(restored_share, rest))
    return Latent(given.latent.mean, variance, full)


@latent.register
def _(posterior: Local, g: Graph, kernel: OnnxNode, queries: Queries) -> Latent:
    given = _given_active(g, kernel, queries, posterior.base)
    if not posterior.k:
        return given.latent
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
    K = kernel.block(g, queries.features, active)
    assert isinstance(K, str)  # a kernel without inputs has been refused
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
        return g.nearest(_by_distance(g, near, X, compiled, queries), k)
    if len(X) > ALL:
        raise ValueError(
            f"to_onnx cannot write posterior 'local' with a periodic kernel and more than {ALL} rows; this model "
            f"has {len(X)} that are not active. Use another posterior, or fewer rows."
        )
    nearest = g.nearest(_by_distance(g, near, X, compiled, queries), k)
    in_phase = g.nearest(_by_covariance(g, X, compiled, kernel, queries), k)
    return _interleaved(g, nearest, in_phase, k)


def _by_covariance(g: Graph, X: Floats, compiled: CompiledKernel, kernel: OnnxNode, queries: Queries) -> Tensor:
    """k(b, b) - 2 k(a, b) for queries a and rows b, of shape (queries, rows)."""
    features = compiled.prepare(X)
    K = kernel.block(g, queries.features, kernel.right_side(g, features))
    return g("Sub", compiled.diag(features), g("Mul", K, 2.0))


def _by_distance(g: Graph, near: Neighbours, X: Floats, compiled: CompiledKernel, queries: Queries) -> Tensor:
    """b.b - 2 a.b for scaled queries a and rows b, of shape (queries, rows): their squared distance less a.a."""
    weights = compiled.metric()
    assert near.index is not None
    assert weights is not None
    columns, Z = near.index.columns, near.index.scaled(X)
    centred = g("Sub", g("Gather", queries.X, columns, axis=1), compiled.centre[columns])
    here = g("Mul", centred, np.sqrt(weights[columns]))
    return g("Sub", np.einsum("ij,ij->i", Z, Z), g("Mul", g.product(here, Z.T), 2.0))


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
    if scale.near is not None:
        k = min(scale.k, len(scale.X))
        found = _nearest(g, scale.near, scale.X, compiled, kernel, queries, k)
        total = g("Add", g.sum_of(g("Gather", scale.squares, found, axis=0), 1), scale.strength * scale.mean)
        near = g("Mul", total, 1 / (k + scale.strength))
        if scale.novelty is not None:
            own, rank = g("Gather", scale.novelty, found, axis=0), rank_of_edge(k)
            largest, _ = g.outputs(2, "TopK", own, [rank], axis=1, largest=1, sorted=1)
            edge = g("Min", g("Gather", largest, [rank - 1], axis=1), MOST)
    weight = _outside(g, novelty, edge)
    all_over = max(scale.mean, min(scale.mean, 1.0) ** scale.edge)
    far = g("Max", g("Div", scale.floor, g("Max", prior, TINY)), all_over)
    between = g("Sub", near, far)
    up = g("Sub", near, g("Mul", weight, between))
    down = g("Div", g("Mul", near, far), g("Add", far, g("Mul", weight, between)))
    return g("Where", g("Less", far, near), down, up)


def _novelty(g: Graph, variance: Value, prior: Value) -> Tensor:
    """The share of the prior variance that is left, of shape (queries, 1)."""
    return g("Min", g("Div", variance, g("Max", prior, TINY)), 1.0)


def _outside(g: Graph, novelty: Tensor, edge: Value) -> Tensor:
    """How far queries are outside the data, from 0 to 1: `sodalite.posteriors.calibration.outside`."""
    return g("Div", g("Max", g("Sub", novelty, edge), 0.0), g("Sub", 1.0, edge))
