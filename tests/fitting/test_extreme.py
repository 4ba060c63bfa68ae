"""Numbers of any size: a finite answer, or an error that names the argument and says what to do."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from helpers import DTYPES, POSTERIORS
from sodalite import GreedyGPRegressor, select
from sodalite.cluster.collections import checked
from sodalite.posteriors import Neighbors

NOISE = WhiteKernel(0.01)
KERNELS = {
    "default": None,
    "rbf": ConstantKernel(1.0) * RBF(1.0) + NOISE,
    "matern32": Matern(1.0, nu=1.5) + NOISE,
    "matern12": Matern([1.0, 2.0], nu=0.5) + NOISE,
    "rq": RationalQuadratic() + NOISE,
    "linear": DotProduct() + NOISE,
}
FAR = [[1e155, 0.0], [1e300, -1e300], [0.0, 1.7e308], [-1.7e308, 1.7e308]]
LARGE, SMALL = "has values as large as", "has no value larger than"


def rows(n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.01 * rng.normal(size=n)


def model(kernel="rbf", **options):
    given = {"n_active": 10, "hyperparameters": "fixed", "posterior": Neighbors(4), "random_state": 0, **options}
    return GreedyGPRegressor(KERNELS[kernel], **given)


def prior_std(gp):
    """The standard deviation of an observation of which nothing is known, by the kernel."""
    kernel = gp.posterior_.kernel
    row = kernel.prepare(np.zeros((1, gp.n_features_in_)))
    return float(gp.y_std_[0] * np.sqrt(kernel.diag(row) + kernel.noise(row))[0])


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "linear"])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_query_at_any_distance_gets_what_is_known_of_no_row(posterior, kernel):
    """Squared distances that were no numbers once gave no neighbours, hence an IndexError."""
    X, y = rows()
    gp = model(kernel, posterior=posterior).fit(X, y)
    mean, std = gp.predict(FAR, return_std=True)
    assert_allclose(mean, gp.y_mean_[0], rtol=1e-9)
    assert np.all((std >= 0.999 * y.std()) & (std <= 2.02 * max(y.std(), prior_std(gp))))
    both = gp.predict(FAR, return_cov=True)[1]
    assert_allclose(np.sqrt(np.diag(both)), std, rtol=1e-6)
    assert np.isfinite(gp.sample_y(FAR, 2)).all()
    single = gp.fit(X.astype(np.float32), y).predict(np.array([[3.4e38, -3.4e38]], dtype=np.float32))
    assert_allclose(single, gp.y_mean_, rtol=1e-7)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_variance_that_grows_without_bound_is_an_error(posterior):
    X, y = rows()
    gp = model("linear", posterior=posterior).fit(X, y)
    for options in ({}, {"return_std": True}, {"return_cov": True}):
        with pytest.raises(ValueError, match=r"X has values that are too large to predict for .* 1.7e\+308"):
            gp.predict([[0, 0], [1.7e308, 0]], **options)
    with pytest.raises(ValueError, match=r"X has values that are too large to predict for .* 1.7e\+308"):
        gp.novelty([[0, 0], [1.7e308, 0]])


@pytest.mark.filterwarnings("ignore::sodalite.exceptions.NoBetterWarning")
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_where_periods_are_lost_in_rounding_variances_are_still_no_less_than_zero(posterior):
    X, y = rows()
    gp = GreedyGPRegressor(ExpSineSquared(1.0, 2.0) + NOISE, n_active=20, hyperparameters="fixed", posterior=posterior)
    gp.fit(X[:, :1], y)
    for far in 1e12, 1e13, 3e14:
        assert gp.predict([[far]], return_cov=True)[1][0, 0] > 0
        assert np.isfinite(gp.sample_y([[far]], 3)).all()


@pytest.mark.parametrize("posterior", ["local", "vfe"])
@pytest.mark.parametrize("scale", [1e-99, 1e-30, 1e30, 1e98])
def test_the_units_of_inputs_and_targets_do_not_matter(scale, posterior):
    X, y = rows()
    here = model("default", posterior=posterior).fit(X, y)
    there = model("default", posterior=posterior).fit(X * [scale, 1 / scale], y * scale)
    np.testing.assert_array_equal(there.active_indices_, here.active_indices_)
    for found, expected in zip(
        there.predict(X[:9] * [scale, 1 / scale], return_std=True), here.predict(X[:9], return_std=True), strict=True
    ):
        assert_allclose(found, expected * scale, rtol=1e-6)
    assert there.score(X * [scale, 1 / scale], y * scale) == pytest.approx(here.score(X, y))


powers = st.floats(-323, 308).map(lambda power: 10**power)


@pytest.mark.filterwarnings("ignore::sodalite.exceptions.JitterWarning")  # which says what to do
@pytest.mark.filterwarnings("ignore::sodalite.exceptions.OutlierWarning")  # which names the row
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    scales=st.tuples(powers, powers, powers),
    offsets=st.tuples(st.sampled_from([0.0, 1e8, 1e15, -1e100, 1e300]), st.sampled_from([0.0, 1e15, 1e300])),
    outlier=st.sampled_from([1.0, 1e12, 1e90, 1e155]),
    posterior=st.sampled_from(list(POSTERIORS)),
    kernel=st.sampled_from(list(KERNELS)),
    target=st.sampled_from(["standardize", None]),
    dtype=st.sampled_from(DTYPES),
)
def test_any_scale_gives_finite_numbers_or_an_error_that_names_the_argument(
    scales, offsets, outlier, posterior, kernel, target, dtype
):
    X, y = rows(30)
    with np.errstate(over="ignore"):
        X = np.clip(X * scales[:2] + offsets[0], -1.7e308, 1.7e308)
        y = np.clip(y * scales[2] + offsets[1], -1.7e308, 1.7e308)
        X[3, 0] = np.clip(X[3, 0] * outlier, -1.7e308, 1.7e308)
    gp = model(kernel, posterior=posterior, target=target)
    message = ""
    try:
        gp.fit(X, y)
        found = [*gp.predict(X, return_std=True), *gp.predict(X[:4], return_cov=True), gp.sample_y(X[:3])]
        found += [gp.log_marginal_likelihood_value_, gp.selection_.rmse, gp.score(X, y)]
        assert all(np.isfinite(part).all() for part in found)
    except ValueError as error:
        message = str(error)
    assert re.match("$|X has|y has|kernel returned NaN or infinite variances|kernel has variances", message)


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "linear"])
@pytest.mark.parametrize("criterion", ["delta", "lookahead", "uncertainty"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_selection(kernel, criterion, dtype):
    X, y = rows()
    for scale in (1e-320, 1e-150, 1e-60, 1e8, 1e15):
        found = select(X * scale, y, KERNELS[kernel], n_active=9, first=0, criterion=criterion, dtype=dtype)
        assert len(set(found.indices.tolist())) == 9
        assert np.isfinite(found.rmse).all()
    for scale in (1e121, 1e200, 1e307):
        with pytest.raises(ValueError, match=f"X {LARGE}"):
            select(X * scale, y, KERNELS[kernel], n_active=9, criterion=criterion, dtype=dtype)
        with pytest.raises(ValueError, match=f"y {LARGE}"):
            select(X, y * scale, KERNELS[kernel], n_active=9, criterion=criterion, dtype=dtype)


def test_what_is_refused_is_named(tmp_path):
    X, y = rows()
    bad = X.copy()
    bad[7, 1] = -1e200
    message = "X has values as large as 1e\\+200, in row 7, column 1 for one: .* divide X by a number"
    disk = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    disk[:] = bad
    for table, posterior in ((bad, "local"), (bad, "vfe"), (disk, "vfe")):
        with pytest.raises(ValueError, match=message):
            model(posterior=posterior).fit(table, y)
    with pytest.raises(ValueError, match="X has values as large as 1e\\+200, in row 107, column 1"):
        checked(bad, y, None, None, 100, 40, 2, np.dtype(np.float64))
    with pytest.raises(ValueError, match=f"y {LARGE} 1e\\+300, in row 0"):
        model().fit(X, np.full(len(X), 1e300))
    disk[:] = X * [1, 1e-200]
    for table in (np.array(disk), disk):
        with pytest.raises(ValueError, match=f"X {SMALL} .*e-200 in column 1: .* Multiply it by a number"):
            model(posterior="vfe").fit(table, y)
    with pytest.raises(ValueError, match=f"y {SMALL}"):
        model().fit(X, y * 1e-300)


def test_rows_that_join_are_seen_to_be_of_the_size_of_the_others():
    X, y = rows()
    gp = model().fit(X, y * 1e-90)
    with pytest.raises(ValueError, match=f"X {LARGE}"):
        gp.partial_fit(X * 1e200, y)
    with pytest.raises(ValueError, match=f"y, in standard deviations of the targets of the fit, {LARGE}"):
        gp.partial_fit(X, y * 1e90)
    assert np.isfinite(gp.partial_fit(X + 1, y * 1e-90).predict(X)).all()


def test_noise_of_a_row_that_is_beyond_all_numbers_takes_it_out():
    X, y = rows()
    alpha, wrong = np.zeros(len(X)), y.copy()
    alpha[5], wrong[5] = 1e308, 3.0
    gp = model(posterior="vfe", target=None)
    found, expected = (gp.fit(X, wrong, alpha=each).predict(X) for each in (alpha, np.minimum(alpha, 1e30)))
    assert_allclose(found, expected)
    assert np.isfinite(model().fit(X, y * 1e-90, alpha=alpha).predict(X)).all()
