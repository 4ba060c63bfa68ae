"""Models handed over to GPyTorch, GPflow and skl2onnx, and rows chosen for BoTorch, by the libraries themselves.

They are large, so that `make test` does without them; `make bench-test` installs them and runs this.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

import sodalite
from sodalite import GreedyGPRegressor
from sodalite.exports import greedy_allocator, to_gpflow, to_gpytorch, to_sklearn

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs are no concern of ours

SCALES = [0.9, 1.6]
KERNELS = {
    "usual": ConstantKernel(1.7) * RBF(SCALES) + WhiteKernel(0.05),
    "one length-scale": RBF(1.1) + WhiteKernel(0.05),
    "Matern 1/2": ConstantKernel(0.6) * Matern(SCALES, nu=0.5) + WhiteKernel(0.05),
    "Matern 3/2": ConstantKernel(0.6) * Matern(SCALES, nu=1.5) + WhiteKernel(0.05),
    "Matern 5/2": ConstantKernel(0.6) * Matern(SCALES, nu=2.5) + WhiteKernel(0.05),
    "rational quadratic": ConstantKernel(0.6) * RationalQuadratic(1.3, 0.7) + WhiteKernel(0.05),
    "sum": ConstantKernel(0.5) * RBF(2.0) + Matern(SCALES, nu=1.5) + ConstantKernel(0.8) + WhiteKernel(0.05),
    "product": ConstantKernel(1.5) * (RBF(SCALES) * RationalQuadratic(1.3, 0.7)) + WhiteKernel(0.05),
    "product of sums": ConstantKernel(1.5) * (RBF(SCALES) + ConstantKernel(0.3)) + WhiteKernel(0.05),
    "noise in a product": ConstantKernel(1.5) * (RBF(SCALES) + WhiteKernel(0.03)),
    "little noise": ConstantKernel(1.5) * RBF(SCALES) + WhiteKernel(1e-5),
}


def rows(n=150, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def targets(X, q=1):
    Y = 30 + 4 * np.stack([np.sin(2 * X[:, 0] + j) + X[:, -1] for j in range(q)], axis=1)
    Y += 0.2 * np.random.default_rng(1).normal(size=Y.shape)
    return Y if q > 1 else Y[:, 0]


def fitted(kernel, posterior="vfe", q=1, **others):
    options = {"hyperparameters": "fixed", "criterion": "uncertainty", "random_state": 0}
    model = GreedyGPRegressor(kernel, n_active=15, posterior=posterior, **options, **others)
    return model.fit(rows(), targets(rows(), q))


@pytest.fixture(scope="module")
def torch():
    return imported("gpytorch") and imported("torch")


def imported(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


# ONNX


def test_skl2onnx_takes_the_model_for_scikit_learn():
    skl2onnx, onnxruntime = imported("skl2onnx"), imported("onnxruntime")
    ours, X = fitted(KERNELS["usual"], "sod", calibrate=False), rows(40, seed=3)
    file = skl2onnx.to_onnx(to_sklearn(ours), X[:1], options={"return_std": True})
    mean, std = onnxruntime.InferenceSession(file.SerializeToString()).run(None, {"X": X})
    np.testing.assert_allclose((mean.ravel(), std.ravel()), ours.predict(X, return_std=True), rtol=1e-8)


# GPyTorch


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("posterior", ["vfe", "fitc"])
def test_gpytorch_predicts_what_we_do(name, posterior, torch):
    gpytorch = imported("gpytorch")
    ours = fitted(KERNELS[name], posterior)
    theirs = to_gpytorch(ours).eval()
    X = rows(40, seed=3)
    with torch.no_grad(), gpytorch.settings.sgpr_diagonal_correction(posterior == "fitc"):
        found = theirs(torch.from_numpy(X)).mean.numpy()
    np.testing.assert_allclose(found * theirs.y_std.numpy() + theirs.y_mean.numpy(), ours.predict(X), rtol=1e-5)


def test_gpytorch_s_variance_is_fitc_s_with_the_correction(torch):
    ours = fitted(KERNELS["usual"], "fitc")
    theirs = to_gpytorch(ours).eval()
    X = rows(40, seed=3)
    with torch.no_grad():
        found = theirs.likelihood(theirs(torch.from_numpy(X))).variance.numpy()
    np.testing.assert_allclose(found, ours.posterior_.mean_and_variance(X, noisy=True)[1], rtol=1e-4)


def test_gpytorch_can_go_on_training(torch):
    gpytorch = imported("gpytorch")
    theirs = to_gpytorch(fitted(KERNELS["usual"]))
    assert theirs.training
    free = {name for name, parameter in theirs.named_parameters() if parameter.requires_grad}
    assert any("lengthscale" in name for name in free)
    assert any("noise" in name for name in free)
    assert any("inducing_points" in name for name in free)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(theirs.likelihood, theirs)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = -objective(theirs(*theirs.train_inputs), theirs.train_targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.01


def test_gpytorch_leaves_what_is_fixed(torch):
    kernel = ConstantKernel(1.7, "fixed") * RBF(SCALES, "fixed") + WhiteKernel(0.05, "fixed")
    theirs = to_gpytorch(fitted(kernel))
    free = [name for name, parameter in theirs.named_parameters() if parameter.requires_grad]
    assert free == ["covar_module.inducing_points"]


def test_gpytorch_takes_one_target(torch):
    with pytest.raises(ValueError, match="models of one target; this one has 2"):
        to_gpytorch(fitted(KERNELS["usual"], q=2))


def test_gpytorch_from_a_file(torch, tmp_path):
    ours = fitted(KERNELS["usual"])
    sodalite.save(ours, tmp_path / "m")
    loaded = sodalite.load(tmp_path / "m")
    with pytest.raises(ValueError, match="pass the training rows"):
        to_gpytorch(loaded)
    one, other = to_gpytorch(ours), to_gpytorch(loaded, rows(), targets(rows()))
    for (name, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(one.train_targets.numpy(), other.train_targets.numpy(), rtol=1e-9, atol=1e-12)


# GPflow


@pytest.fixture(scope="module")
def gpflow():
    return imported("gpflow")


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_gpflow_predicts_what_we_do(name, q, gpflow):
    """Error bars are handed over as the process has them, without the least width far from all rows."""
    ours = fitted(KERNELS[name], q=q, calibrate=False)
    X = rows(40, seed=3)
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        theirs = to_gpflow(ours)
        mean, variance = (part.numpy() for part in theirs.predict_y(X))
    found, std = mean * theirs.y_std + theirs.y_mean, np.sqrt(variance) * theirs.y_std
    expected = [part.reshape(40, q) for part in ours.predict(X, return_std=True)]
    np.testing.assert_allclose(found, expected[0], rtol=1e-5)
    np.testing.assert_allclose(std, expected[1], rtol=1e-4)


def test_gpflow_s_bound_is_ours(gpflow):
    ours = fitted(KERNELS["Matern 3/2"])
    with gpflow.config.as_context(gpflow.config.Config(jitter=1e-10)):
        bound = float(to_gpflow(ours).elbo())
    assert bound == pytest.approx(ours.log_marginal_likelihood_value_, rel=1e-5)


def test_gpflow_can_go_on_training(gpflow):
    theirs = to_gpflow(fitted(KERNELS["usual"]))
    assert len(theirs.trainable_variables) == 4  # the variance, the length-scales, the noise, the inducing points
    before = float(theirs.training_loss())
    gpflow.optimizers.Scipy().minimize(theirs.training_loss, theirs.trainable_variables, options={"maxiter": 5})
    assert float(theirs.training_loss()) < before - 1


def test_gpflow_leaves_what_is_fixed(gpflow):
    kernel = ConstantKernel(1.7, "fixed") * RBF(SCALES, "fixed") + WhiteKernel(0.05, "fixed")
    assert len(to_gpflow(fitted(kernel)).trainable_variables) == 1  # the inducing points


# BoTorch


@pytest.fixture(scope="module")
def botorch():
    return imported("botorch.models.approximate_gp")


def covariance(gpytorch, torch):
    module = gpytorch.kernels.RBFKernel(ard_num_dims=2).double()
    module.lengthscale = torch.tensor(SCALES, dtype=torch.float64)
    return module


@pytest.mark.parametrize("criterion", ["delta", "uncertainty", "lookahead"])
def test_the_inducing_points_are_the_rows_that_select_chooses(criterion, torch, botorch):
    X, y = rows(), targets(rows())
    allocator = greedy_allocator(y, criterion=criterion, noise=0.05)
    found = allocator.allocate_inducing_points(
        torch.from_numpy(X), covariance(imported("gpytorch"), torch), 12, torch.Size([])
    )
    expected = sodalite.select(
        X, (y - y.mean()) / y.std(), RBF(SCALES) + WhiteKernel(0.05), n_active=12, criterion=criterion, random_state=0
    )
    np.testing.assert_array_equal(found.numpy(), X[expected.indices])


def test_botorch_s_model_takes_them(torch, botorch):
    X, y = torch.from_numpy(rows()), torch.from_numpy(targets(rows()))[:, None]
    model = botorch.SingleTaskVariationalGP(
        X, y, inducing_points=10, inducing_point_allocator=greedy_allocator(y.numpy())
    )
    points = model.model.variational_strategy.inducing_points.detach().numpy().reshape(-1, 2)
    assert len(points) == 10
    assert all((rows() == point).all(axis=1).any() for point in points)


def test_stacks_of_rows_and_no_targets(torch, botorch):
    X = torch.from_numpy(np.stack([rows(), rows(seed=5)]))
    module = covariance(imported("gpytorch"), torch)
    found = greedy_allocator().allocate_inducing_points(X, module, 7, torch.Size([2]))
    assert found.shape == (2, 7, 2)
    for part, chosen in zip(X, found, strict=True):
        alone = greedy_allocator().allocate_inducing_points(part, module, 7, torch.Size([]))
        np.testing.assert_array_equal(chosen, alone)
    with pytest.raises(ValueError, match="y has 3 targets, but BoTorch asks about 150 rows"):
        greedy_allocator(np.zeros(3)).allocate_inducing_points(X[0], module, 7, torch.Size([]))
