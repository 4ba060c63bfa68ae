"""Hyperparameters: values that are refused, and the warning of those that end at a bound, as scikit-learn has it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Hyperparameter, Matern, WhiteKernel

from sodalite import GreedyGPRegressor, select
from sodalite.hyperparameters import Subset
from sodalite.kernels import warn_at_bounds

QUICK = Subset(n_rows=60, n_starts=2, n_screen=60)


def data(n=60):
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (n, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * generator.normal(size=n)


def told(action):
    """The warnings of an action: their messages, and the files that they point to."""
    with pytest.warns(ConvergenceWarning) as caught:
        action()
    some = [warning for warning in caught if warning.category is ConvergenceWarning]
    return [str(warning.message) for warning in some], {warning.filename for warning in some}


def test_the_warnings_are_scikit_learns():
    at_bounds = ConstantKernel(1.0) * RBF([0.3, 3.0], [(0.1, 0.3), (3.0, 1e3)]) + WhiteKernel(2.0, (2.0, 5.0))
    ours, where = told(lambda: warn_at_bounds(at_bounds))
    assert ours == told(at_bounds._check_bounds_params)[0]
    assert len(ours) == 3
    assert where == {__file__}


@pytest.mark.parametrize("hyperparameters", [QUICK, "weave"], ids=["subset", "weave"])
def test_a_fit_tells_of_a_length_scale_at_its_bound(hyperparameters):
    X, y = data()
    kernel = ConstantKernel(1.0) * RBF([1.0, 0.2], [(1e-3, 1e3), (0.1, 0.3)]) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, n_active=60, hyperparameters=hyperparameters, random_state=0)
    messages, where = told(lambda: model.fit(X, y))
    assert len(messages) == 1
    assert where == {__file__}
    assert messages[0] == (
        "The optimal value found for dimension 1 of parameter k1__k2__length_scale is close to the specified upper "
        "bound 0.3. Increasing the bound and calling fit again may find a better value."
    )


def test_a_fit_that_goes_on_from_a_checkpoint_tells_it_again(tmp_path):
    X, y = data()
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(2.0, (1.0, 5.0))
    options = {"n_active": 20, "hyperparameters": QUICK, "random_state": 0}
    first, _ = told(lambda: GreedyGPRegressor(kernel, **options).fit(X, y, checkpoint=tmp_path / "part"))
    again, _ = told(lambda: GreedyGPRegressor(kernel, **options).fit(X, y, checkpoint=tmp_path / "part"))
    assert first == again
    assert "noise_level is close to the specified lower bound 1.0. Decreasing the bound" in first[0]


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(1.0, (0.5, 2.0)) + WhiteKernel(0.1),
        RBF(1.0, (1.0, 1.0)) + WhiteKernel(0.1, "fixed"),
        RBF([1.0, 2.0], "fixed"),
    ],
    ids=["between", "nothing between", "fixed"],
)
def test_values_between_their_bounds_are_not_told_of(kernel):
    warn_at_bounds(kernel)


def test_what_is_not_sought_or_not_given_is_not_told_of():
    """A given kernel that is not optimised, and the default kernel, whose noise is at its lower bound without noise."""
    X, y = data()
    at_bound = RBF(1.0, (1.0, 2.0)) + WhiteKernel(0.1)
    GreedyGPRegressor(at_bound, n_active=20, hyperparameters="fixed").fit(X, y)
    x = np.linspace(0, 5, 40)[:, None]
    model = GreedyGPRegressor(n_active=40, hyperparameters=QUICK, random_state=0).fit(x, np.sin(x[:, 0]))
    assert np.isclose(model.kernel_.theta[-1], model.kernel_.bounds[-1, 0])


@pytest.mark.parametrize("n", [60, 1100], ids=["exact", "rounds"])
def test_given_parameters_outside_their_bounds_are_not_kept(n):
    """They would predict better than anything within the bounds."""
    X, y = data(n)
    kernel = ConstantKernel(1.0) * RBF(1.5, (1e-3, 0.3)) + WhiteKernel(0.01)
    model = GreedyGPRegressor(kernel, n_active=40, random_state=0)
    messages, _ = told(lambda: model.fit(X, y))
    assert "k1__k2__length_scale is close to the specified upper bound 0.3" in messages[0]
    assert model.kernel_.k1.k2.length_scale <= 0.3 * (1 + 1e-9)


# Values


class Shifted(RBF):
    """A kernel of one's own: a squared-exponential of rows less a shift, which changes nothing."""

    def __init__(self, shift=1.0, shift_bounds=(1e-5, 1e5)):
        super().__init__(1.0, "fixed")
        self.shift, self.shift_bounds = shift, shift_bounds

    @property
    def hyperparameter_shift(self):
        return Hyperparameter("shift", "numeric", self.shift_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        assert not eval_gradient
        return super().__call__(X - self.shift, None if Y is None else Y - self.shift)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF(-1.0), "kernel has -1 as the length_scale of RBF(length_scale=-1), which must be a positive number."),
        (RBF([1.0, 0.0]) + WhiteKernel(1.0), "kernel has 0 as the length_scale of RBF"),
        (RBF([1.0, np.nan], "fixed"), "kernel has nan as the length_scale"),
        (RBF(np.inf), "kernel has inf as the length_scale"),
        (Shifted(-2.0), "kernel has -2 as the shift"),
        (RBF(1.0) + WhiteKernel(0.0), "kernel has 0 as the noise_level"),
        (
            RBF(1.0) + WhiteKernel(-0.1, "fixed"),
            "noise_level of WhiteKernel(noise_level=-0.1), which must be zero or a positive number.",
        ),
        (ConstantKernel(np.inf, "fixed") * RBF(1.0), "kernel has inf as the constant_value"),
    ],
    ids=str,
)
def test_values_that_no_covariance_has_are_refused(kernel, words):
    X, y = data()
    for action in (
        lambda: GreedyGPRegressor(kernel).fit(X, y),
        lambda: GreedyGPRegressor(kernel, hyperparameters="fixed").fit(X, y),
        lambda: select(X, y, kernel, n_active=5),
    ):
        with pytest.raises(ValueError, match=re.escape(words)) as error:
            action()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF([1.0, np.inf], "fixed") + WhiteKernel(0.1),
        RBF(1.0) + WhiteKernel(0.0, "fixed"),
        DotProduct(0.0, "fixed") + WhiteKernel(0.1),
        Shifted(-2.0, "fixed") + WhiteKernel(0.1),
    ],
    ids=["an input that does not count", "no noise", "no constant", "of one's own"],
)
def test_fixed_values_at_the_edge_are_taken(kernel):
    X, y = data()
    model = GreedyGPRegressor(kernel, n_active=20, hyperparameters="fixed", random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X, return_std=True)).all()
