"""Compiled kernels against scikit-learn's own, over the registry."""

from __future__ import annotations

import tracemalloc
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from helpers import DTYPES, FIXED, KERNELS, ROUGH, scales, slopes
from sodalite import GreedyGPRegressor
from sodalite.kernels import (
    KERNEL_CLASSES,
    NODES,
    PeriodicColumn,
    compile_kernel,
    default_kernel,
    n_rows,
    take,
)
from sodalite.kernels.nodes import Node, declares
from sodalite.kernels.stationary import Stationary
from sodalite.report.words import kernel_shape

# Kernels of the distance alone, at a given scale of the inputs (three of them).
STATIONARY = {
    "rbf": lambda s: RBF(1.3 * s),
    "rbf-per-input": lambda s: RBF(scales(3, s)),
    "matern-1/2": lambda s: Matern(1.2 * s, nu=0.5),
    "matern-1/2-per-input": lambda s: Matern(scales(3, s), nu=0.5),
    "matern-3/2": lambda s: Matern(1.2 * s, nu=1.5),
    "matern-5/2-per-input": lambda s: Matern(scales(3, s), nu=2.5),
    "matern-inf": lambda s: Matern(1.2 * s, nu=inf),
    "rational-quadratic": lambda s: RationalQuadratic(0.9 * s, alpha=0.7),
    "periodic": lambda s: PeriodicColumn(2, 1.4, periodicity=2.3 * s),
    "compound": lambda s: ConstantKernel(1.7) * RBF(scales(3, s)) * Matern(s, nu=2.5) + RationalQuadratic(s) ** 2,
}

kernels = pytest.mark.parametrize("name", KERNELS)
stationary = pytest.mark.parametrize("name", STATIONARY)
inputs = pytest.mark.parametrize("d", [1, 3])
types = pytest.mark.parametrize("dtype", [getattr(np, name) for name in DTYPES])


def rows_of(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def prepared(kernel, A, dtype=np.float64):
    """The compiled kernel, and the features of the rows."""
    compiled = compile_kernel(kernel, A, dtype)
    return compiled, compiled.prepare(A)


def assert_close(actual, expected, tolerance):
    """Equal to a tolerance relative to the largest entry."""
    assert np.shape(actual) == np.shape(expected)
    assert_allclose(actual, expected, rtol=0, atol=tolerance * max(np.abs(expected).max(initial=0), 1e-300))


def tolerance_of(name, dtype, equal_rows=False):
    """The tolerance: rounding, or its root for Matern 1/2 and equal rows, since it is linear in the distance."""
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    return sqrt(tolerance) if equal_rows and "matern-1/2" in name else tolerance


# Values


@kernels
@inputs
@types
def test_block_equals_scikit_learns(name, d, dtype):
    kernel, A, B = KERNELS[name](d), rows_of(23, d), rows_of(17, d, seed=1)
    compiled = compile_kernel(kernel, A, dtype)
    a, b = compiled.prepare(A), compiled.prepare(B)
    for left, right, expected in ((a, b, kernel(A, B)), (b, a, kernel(B, A)), (take(a, [4]), b, kernel(A[[4]], B))):
        block = compiled.block(left, right)
        assert block.dtype == dtype
        assert_close(block, expected, tolerance_of(name, dtype))


@kernels
@inputs
@types
def test_a_block_with_itself_has_no_noise_and_with_it_the_diagonal_is_scikit_learns(name, d, dtype):
    kernel, A = KERNELS[name](d), rows_of(23, d)
    compiled, a = prepared(kernel, A, dtype)
    latent = kernel(A, A)  # scikit-learn adds noise only where it is given one argument
    assert_close(compiled.block(a, a), latent, tolerance_of(name, dtype, equal_rows=True))
    diagonal, noise, tolerance = compiled.diag(a), compiled.noise(a), tolerance_of(name, dtype)
    assert (diagonal.dtype, noise.dtype) == (dtype, np.float64)
    assert_close(diagonal, np.diag(latent), tolerance)
    assert_close(diagonal + noise, kernel.diag(A), tolerance)
    assert_allclose(noise, kernel.diag(A) - np.diag(latent), atol=tolerance * kernel.diag(A).max())


# Gradients


@kernels
@inputs
def test_pullback_equals_finite_differences_and_that_of_single_precision(name, d):
    kernel, A, B = KERNELS[name](d), rows_of(23, d), rows_of(17, d, seed=1)
    G = rows_of(23, 17, seed=2)
    compiled, a = prepared(kernel, A)
    block, pull = compiled.vjp(a, compiled.prepare(B))
    expected = slopes(lambda theta: np.vdot(G, kernel.clone_with_theta(theta)(A, B)), kernel.theta)
    assert_close(block, kernel(A, B), 1e-12)
    gradient = pull(G)
    assert gradient.dtype == np.float64
    assert_close(gradient, expected, 1e-4 if name in ROUGH else 1e-7)
    single, a = prepared(kernel, A, np.float32)
    assert_close(single.vjp(a, single.prepare(B))[1](G), gradient, 1e-4)


@kernels
@inputs
def test_gradient_equals_scikit_learns_on_one_set_of_rows(name, d):
    kernel, A, G = KERNELS[name](d), rows_of(23, d), rows_of(23, 23, seed=2)
    compiled, a = prepared(kernel, A)
    _, pull = compiled.vjp(a, a)
    _, _, pull_diagonal = compiled.diag_vjp(a)
    gradient = pull(G) + pull_diagonal(np.zeros(23), np.diag(G))
    expected = np.einsum("ij,ijp->p", G, kernel(A, eval_gradient=True)[1])
    assert_close(gradient, expected, 1e-5 if name in ROUGH else 1e-7 if "matern-1/2" in name else 1e-9)


@kernels
@inputs
def test_diagonal_pullback_equals_finite_differences(name, d):
    kernel, A = KERNELS[name](d), rows_of(23, d)
    g, g_noise = rows_of(2, 23, seed=2)
    compiled, a = prepared(kernel, A)

    def pulled(theta):
        other = kernel.clone_with_theta(theta)
        latent = np.diag(other(A, A))
        return g @ latent + g_noise @ (other.diag(A) - latent)

    diagonal, noise, pull = compiled.diag_vjp(a)
    assert_array_equal(diagonal, compiled.diag(a))
    assert_array_equal(noise, compiled.noise(a))
    gradient = pull(g, g_noise)
    assert gradient.shape == (kernel.n_dims,)
    assert_allclose(gradient, slopes(pulled, kernel.theta), atol=1e-7 * kernel.diag(A).max())


def test_a_root_of_what_is_zero_has_no_gradient():
    """The slope of a root is infinite at 0, but a latent part of 0 is pure noise or has underflowed: it is constant."""
    A = np.array([[0.0], [1.0], [1e3]])
    compiled, a = prepared(RBF(1.0) ** 0.5 + WhiteKernel(0.4) ** 0.5, A)
    expected = 2 * 0.5 * np.exp(-0.25)  # of exp(-1 / 4 l^2), by log(l), from one pair of rows, twice
    assert_allclose(compiled.vjp(a, a)[1](np.ones((3, 3))), [expected, 0], atol=1e-6)
    assert_allclose(compiled.diag_vjp(a)[2](np.ones(3), np.ones(3)), [0, 3 * 0.5 * sqrt(0.4)])


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, inf])
def test_pullback_needs_no_array_of_rows_by_rows_by_inputs(nu):
    n, d = 400, 30
    A, G = rows_of(n, d), rows_of(n, n, seed=1)
    compiled, a = prepared(ConstantKernel(2.0) * Matern(scales(d, sqrt(d)), nu=nu) + WhiteKernel(0.1), A)
    tracemalloc.start()
    try:
        _, pull = compiled.vjp(a, a)
        pull(G)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * n * 8  # eight blocks; one number per pair and input would take thirty


# Other parameters, other rows


@kernels
@types
def test_with_theta_is_the_kernel_at_other_parameters(name, dtype):
    kernel, A = KERNELS[name](3), rows_of(23, 3)
    theta = kernel.theta + 0.3 * rows_of(1, kernel.n_dims, seed=1)[0]
    compiled = compile_kernel(kernel, A, dtype)
    other = compiled.with_theta(theta)
    assert_allclose(other.spec.theta, theta)
    assert_allclose(compiled.spec.theta, kernel.theta)
    expected = kernel.clone_with_theta(theta)
    assert other.spec == expected
    a = other.prepare(A)
    block = other.block(a, a)
    assert block.dtype == dtype
    assert_close(block, expected(A, A), tolerance_of(name, dtype, equal_rows=True))
    assert_close(other.diag(a) + other.noise(a), expected.diag(A), tolerance_of(name, dtype))


def test_a_theta_that_is_too_long_is_refused():
    compiled = compile_kernel(RBF([1.0, 2.0]) + WhiteKernel(0.1), rows_of(5, 2))
    with pytest.raises(ValueError, match=r"theta must have an entry for each free parameter of RBF.*; got 4\.$"):
        compiled.with_theta(np.zeros(4))


@kernels
def test_taken_rows_are_rows(name):
    A = rows_of(12, 3)
    compiled, a = prepared(KERNELS[name](3), A)
    block, noise = compiled.block(a, a), compiled.noise(a)
    assert n_rows(a) == 12
    for rows in (slice(3, 9), np.array([7, 0, 7]), A[:, 0] > 0, [5], slice(0, 0)):
        some = take(a, rows)
        expected = block[rows]
        assert n_rows(some) == len(expected)
        assert_allclose(compiled.block(some, a), expected, rtol=1e-7, atol=1e-12)
        assert_allclose(compiled.noise(some), noise[rows], rtol=1e-12)
        assert compiled.diag(some).shape == (len(expected),)


@kernels
@inputs
def test_rows_come_in_any_number_type(name, d):
    A = np.round(3 * rows_of(11, d))
    kernel = KERNELS[name](d)
    for rows in (A.astype(np.int64), A.astype(np.float32), np.asfortranarray(A), np.repeat(A, 2, axis=1)[:, ::2]):
        before = rows.copy()
        compiled = compile_kernel(kernel, rows)
        a = compiled.prepare(rows)
        assert_close(compiled.block(a, take(a, slice(0, 4))), kernel(A, A[:4]), tolerance_of(name, np.float64, True))
        assert_array_equal(rows, before)


@kernels
@inputs
def test_one_row(name, d):
    kernel, A = KERNELS[name](d), rows_of(1, d)
    compiled, a = prepared(kernel, A)
    assert_allclose(compiled.block(a, a) + compiled.noise(a), kernel(A), rtol=1e-12)
    assert compiled.vjp(a, a)[1](np.ones((1, 1))).shape == (kernel.n_dims,)


@kernels
def test_blocks_are_the_callers_to_write_to(name):
    """`block` works in place; it must not return, or write to, an array that the kernel or the features keep."""
    A = rows_of(9, 3)
    compiled, a = prepared(KERNELS[name](3), A)
    first = compiled.block(a, a)
    expected = first.copy()
    first[:] = np.nan
    assert_array_equal(compiled.block(a, a), expected)


# Rounding


@stationary
def test_an_offset_does_not_matter(name):
    kernel = STATIONARY[name](1.0)
    A, B, G = rows_of(23, 3), rows_of(17, 3, seed=1), rows_of(23, 23, seed=1)
    A, B = A + 1e6, B + 1e6  # rounded here once; the differences from here on are exact
    expected = kernel(A - 1e6, B - 1e6)
    compiled, a = prepared(kernel, A)
    assert_close(compiled.block(a, compiled.prepare(B)), expected, 1e-9)
    single = compile_kernel(kernel, A, np.float32)
    assert_close(single.block(single.prepare(A), single.prepare(B)), expected, 1e-5)
    expected = np.einsum("ij,ijp->p", G, kernel(A - 1e6, eval_gradient=True)[1])
    assert_close(compiled.vjp(a, a)[1](G), expected, 1e-7)


@stationary
@pytest.mark.parametrize("scale", [1e-8, 1e8])
@types
def test_the_unit_of_the_inputs_does_not_matter(name, scale, dtype):
    A, B, G = rows_of(23, 3), rows_of(17, 3, seed=1), rows_of(23, 17, seed=2)
    blocks, gradients = [], []
    for s in (1.0, scale):
        compiled = compile_kernel(STATIONARY[name](s), s * A, dtype)
        block, pull = compiled.vjp(compiled.prepare(s * A), compiled.prepare(s * B))
        blocks.append(block)
        gradients.append(pull(G))
    assert_close(*blocks, 1e-12 if dtype == np.float64 else 1e-5)
    assert_close(*gradients, 1e-10 if dtype == np.float64 else 1e-4)


@stationary
@types
def test_duplicated_rows_are_never_more_alike_than_the_diagonal(name, dtype):
    A = np.repeat(10 * rows_of(30, 3), 3, axis=0)
    compiled, a = prepared(STATIONARY[name](1.0), A, dtype)
    diagonal = compiled.diag(a)
    same = np.kron(np.eye(30), np.ones((3, 3))) > 0
    block = compiled.block(a, a)
    rounding = 4 * np.finfo(dtype).eps
    assert np.all(block <= diagonal * (1 + rounding))
    squared = 1e3 * np.finfo(dtype).eps  # of a squared distance, rows being up to about thirty length-scales out
    assert_allclose(block[same], diagonal[0], atol=sqrt(squared) if "1/2" in name else 10 * squared)


@pytest.mark.parametrize("name", [name for name in STATIONARY if "1/2" in name])
@types
def test_equal_rows_add_nothing_to_the_gradient_of_a_kernel_with_a_kink(name, dtype):
    """The slope of Matern 1/2 by the squared distance is infinite at 0; times the squared distance it is 0."""
    A = np.repeat(rows_of(1, 3), 8, axis=0)
    compiled = compile_kernel(STATIONARY[name](1.0), np.vstack([A, -A, 2 * A]), dtype)
    a = compiled.prepare(A)
    assert_allclose(compiled.vjp(a, a)[1](np.ones((8, 8))), 0, atol=64 * 100 * sqrt(np.finfo(dtype).eps))


@stationary
@types
def test_constant_columns_add_nothing(name, dtype):
    A = rows_of(23, 3)
    A[:, 1] = 7e5
    compiled, a = prepared(STATIONARY[name](1.0), A, dtype)
    expected = STATIONARY[name](1.0)(A * [1, 0, 1], A * [1, 0, 1])
    assert_close(compiled.block(a, a), expected, tolerance_of(name, dtype, equal_rows=True))
    gradient = compiled.vjp(a, a)[1](np.ones((23, 23)))
    if "per-input" in name:
        assert abs(gradient[1]) <= tolerance_of(name, dtype) * np.abs(gradient).max()


# Random trees


def leaves(d):
    size = st.floats(0.3, 3.0)
    several = st.lists(size, min_size=d, max_size=d)
    bounds = st.sampled_from([(1e-5, 1e5), FIXED])
    return st.one_of(
        st.builds(ConstantKernel, size, bounds),
        st.builds(WhiteKernel, size, bounds),
        st.builds(RBF, size | several, bounds),
        st.builds(Matern, size | several, bounds, nu=st.sampled_from([1.5, 2.5, inf])),
        st.builds(RationalQuadratic, size, size, bounds, bounds),
        st.builds(PeriodicColumn, st.sampled_from(range(d)), size, size, bounds, bounds),
        st.builds(DotProduct, size, bounds),
    )


def trees(d):
    return st.recursive(
        leaves(d),
        lambda parts: st.one_of(
            st.builds(lambda f, g: f + g, parts, parts),
            st.builds(lambda f, g: f * g, parts, parts),
            st.builds(lambda f, p: f**p, parts, st.sampled_from([1, 2, 3])),
        ),
        max_leaves=6,
    )


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(kernel=trees(2), seed=st.integers(0, 99))
def test_any_tree_of_kernels_equals_scikit_learns(kernel, seed):
    A, B, G = rows_of(9, 2, seed), rows_of(6, 2, seed + 100), rows_of(9, 9, seed + 200)
    compiled = compile_kernel(kernel, A)
    a, b = compiled.prepare(A), compiled.prepare(B)
    K, K_gradient = kernel(A, eval_gradient=True)
    size = np.abs(K).max()
    assert_allclose(compiled.block(a, b), kernel(A, B), rtol=0, atol=1e-11 * size)
    assert_allclose(compiled.block(a, a) + np.diag(compiled.noise(a)), K, rtol=0, atol=1e-11 * size)
    assert_allclose(compiled.diag(a) + compiled.noise(a), kernel.diag(A), rtol=1e-11)
    gradient = compiled.vjp(a, a)[1](G) + compiled.diag_vjp(a)[2](np.zeros(9), np.diag(G))
    assert gradient.shape == (kernel.n_dims,)
    assert_allclose(gradient, np.einsum("ij,ijp->p", G, K_gradient), rtol=1e-9, atol=1e-9 * size)


# What cannot be compiled


@pytest.mark.parametrize("make", [lambda part: part, lambda part: ConstantKernel(2.0) * part**2 + WhiteKernel(0.1)])
def test_a_period_in_the_distance_of_several_inputs_is_refused(make):
    kernel = make(ExpSineSquared(1.4, 2.3))
    compile_kernel(kernel, np.ones((4, 1)))
    with pytest.raises(ValueError, match=r"one input alone, but X has 2 columns.*PeriodicColumn\(column, ...\)"):
        compile_kernel(kernel, np.ones((4, 2)))
    with pytest.raises(ValueError, match="not positive definite"):
        GreedyGPRegressor(kernel).fit(rows_of(40, 2), rows_of(40, 1)[:, 0])


def test_known_kernels_are_declared_whole():
    """What one file says of a kernel is enough: parameters in the order of theta, words, and who can take it over."""
    assert {kind.__name__ for kind in KERNEL_CLASSES} >= {"RBF", "Matern", "PeriodicColumn", "Sum", "Exponentiation"}
    for kind in KERNEL_CLASSES:
        node = NODES[kind]
        if node.operands:
            assert not node.parameters
            continue
        kernel = kind()
        assert node.parameters == tuple(sorted(part.name for part in kernel.hyperparameters))
        compiled = compile_kernel(kernel, np.ones((4, 1)))
        assert isinstance(compiled.root, node)
        assert bool(compiled.root.words) == (kind not in (ConstantKernel, WhiteKernel))
        assert (type(compiled.root).hand_over is not Node.hand_over) == bool(node.handed_over)


class Cauchy(RBF):
    """A kernel that nothing knows of: a rational quadratic with an alpha of one."""


def test_a_new_kernel_is_one_class(monkeypatch):
    monkeypatch.setitem(NODES, Cauchy, Node)  # so that it is forgotten again

    @declares(Cauchy, parameters=("length_scale",))
    class CauchyNode(Stationary):
        words = "heavy tails"

        def value(self, e):
            return 1 / (1 - e)

        def derivatives(self, e):
            k = 1 / (1 - e)
            return k, k * k, ()

    A, B, G = rows_of(9, 3), rows_of(7, 3, 1), rows_of(9, 7, 2)
    kernel, known = 2.0 * Cauchy(1.3) + WhiteKernel(0.1), 2.0 * RationalQuadratic(1.3, 1.0, alpha_bounds=FIXED)
    ours = compile_kernel(kernel, A).with_theta(kernel.theta + 0.2)
    theirs = compile_kernel(known + WhiteKernel(0.1), A).with_theta(kernel.theta + 0.2)
    (k, pull), (expected, pull_expected) = (each.vjp(each.prepare(A), each.prepare(B)) for each in (ours, theirs))
    assert_allclose(k, expected, rtol=1e-12)
    assert_allclose(pull(G), pull_expected(G), rtol=1e-10)
    assert_allclose(ours.metric(), theirs.metric())
    assert "heavy tails" in kernel_shape(kernel, A)
    with pytest.raises(ValueError, match="The kernel has Cauchy in it, which cannot be handed over"):
        ours.root.hand_over(None)


# The default kernel


def test_the_default_kernel_starts_from_the_scales_of_the_data():
    X = rows_of(200, 3) * [1e-6, 1.0, 1e6] + 5
    y = 1e4 * rows_of(200, 1, seed=1)
    kernel = default_kernel(X, y)
    signal, white = kernel.k1, kernel.k2
    assert_allclose(signal.k2.length_scale, sqrt(3) * X.std(axis=0))
    assert_allclose(signal.k1.constant_value + white.noise_level, np.mean(y**2))
    assert np.all(kernel.bounds[:, 0] < kernel.theta)
    assert np.all(kernel.theta < kernel.bounds[:, 1])
