"""The peers: other libraries with settings that their documentation suggests, and Sodalite, as functions of one kind.

A peer's function is given X, y, X_test and the seconds that it may learn for. It yields predictions: one, or several
that become better. It returns `UNFINISHED` if more time might have helped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from sodalite.metrics import interval_coverage, quantile_crps

UNFINISHED = "the time was up"
LEVELS = (np.arange(200) + 0.5) / 200  # of quantiles that the CRPS of a learnt distribution is averaged over
FEW_LEVELS = (np.arange(20) + 0.5) / 20  # where each level is a model; for Gaussians, the CRPS is 0.2 % too large then
GROWTH = 4  # times as many iterations of GPBoost's in every part as in the last one: each begins its search anew
SHORT, LONG = 60.0, 600.0  # seconds that peers are given


@dataclass(frozen=True)
class Prediction:
    """What a peer says about the test rows."""

    mean: np.ndarray
    std: np.ndarray | None = None
    """Standard deviations of new observations, if the peer has them."""
    scores: Callable[[np.ndarray], dict[str, float | None]] | None = None
    """NLPD, CRPS and coverage of a distribution that is not Gaussian, given the test targets."""


Predictions = Generator[Prediction, None, str | None]


@dataclass(frozen=True)
class Peer:
    """A way to predict, and how much time it is given."""

    name: str
    function: Callable[..., Predictions]
    modules: tuple[str, ...] = ()
    """What it needs beyond Sodalite's own dependencies."""
    budgets: tuple[float, ...] = (SHORT, LONG)
    """Seconds to learn for. The longer ones are only tried if the shorter ones were too short."""
    most_rows: float = inf
    ours: bool = False


# Ours


def sodalite(X, y, X_test, seconds, **settings: Any) -> Predictions:
    from sodalite import GreedyGPRegressor

    model = GreedyGPRegressor(random_state=0, **settings).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)

    def learnt(y_test: np.ndarray) -> dict[str, float | None]:
        return {
            "nlpd": -float(np.mean(model.log_density(X_test, y_test))),
            "crps": quantile_crps(y_test, model.predict_quantiles(X_test, LEVELS), LEVELS),
            "coverage": interval_coverage(y_test, *model.predict_interval(X_test)),
        }

    yield Prediction(mean, std, learnt)
    return None


# Gaussian processes


def sklearn_gpr(X, y, X_test, seconds, rows: int | None = None) -> Predictions:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    some = np.random.default_rng(0).permutation(len(X))[:rows]
    kernel = ConstantKernel() * RBF(np.full(X.shape[1], np.sqrt(X.shape[1])), (1e-2, 1e4)) + WhiteKernel(0.1)
    limited = TimedLBFGS(seconds)
    model = GaussianProcessRegressor(kernel, optimizer=limited, random_state=0).fit(X[some], y[some])
    yield Prediction(*model.predict(X_test, return_std=True))
    return UNFINISHED if limited.stopped else None


class TimedLBFGS:
    """scikit-learn's own optimiser of a kernel, L-BFGS-B, that ends with the best so far when the time is up."""

    def __init__(self, seconds: float):
        self.end, self.stopped = perf_counter() + seconds, False

    def __call__(self, objective, start, bounds):
        from scipy.optimize import minimize

        best = (inf, start)

        def timed(theta):
            nonlocal best
            if perf_counter() > self.end and best[0] < inf:
                raise TimeoutError
            value, gradient = objective(theta)
            if value < best[0]:
                best = (value, theta.copy())
            return value, gradient

        try:
            minimize(timed, start, method="L-BFGS-B", jac=True, bounds=bounds)
        except TimeoutError:
            self.stopped = True
        return best[1], best[0]


def gpboost(X, y, X_test, seconds, approximation: str, **settings: Any) -> Predictions:
    """Fit in parts, each with more L-BFGS iterations from where the last one ended: a fit cannot be broken off."""
    import gpboost

    began = perf_counter()
    model = gpboost.GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood="gaussian",
        gp_approx=approximation,
        seed=0,
        **settings,
    )
    options: dict[str, Any] = {"optimizer_cov": "lbfgs"}
    iterations = 1
    while iterations >= 1:
        before = perf_counter()
        model.fit(y=y, params={**options, "maxit": iterations})
        each = (perf_counter() - before) / iterations
        found = model.predict(gp_coords_pred=X_test, predict_var=True, predict_response=True)
        yield Prediction(found["mu"], np.sqrt(found["var"]))
        if model._get_num_optim_iter() < iterations:
            return None
        options["init_cov_pars"] = np.ravel(model.get_cov_pars(format_pandas=False))
        iterations = min(GROWTH * iterations, round((seconds - (perf_counter() - began)) / each))
    return UNFINISHED


def muygps(X, y, X_test, seconds, neighbours: int = 30, batch: int = 200) -> Predictions:
    """Learn length-scales and noise by MuyGPyS's leave-one-out likelihood and its L-BFGS-B, then the scale."""
    from MuyGPyS.gp import MuyGPS
    from MuyGPyS.gp.deformation import Anisotropy, l2
    from MuyGPyS.gp.hyperparameter import AnalyticScale, Parameter, VectorParameter
    from MuyGPyS.gp.kernels import Matern
    from MuyGPyS.gp.noise import HomoscedasticNoise
    from MuyGPyS.neighbors import NN_Wrapper
    from MuyGPyS.optimize import L_BFGS_B_optimize
    from MuyGPyS.optimize.batch import sample_batch

    end, stopped = perf_counter() + seconds, False

    def check_time(_) -> None:
        nonlocal stopped
        if perf_counter() > end:
            stopped = True
            raise StopIteration

    np.random.seed(0)  # noqa: NPY002 -- MuyGPyS draws its batch from the global generator
    d = X.shape[1]
    scales = VectorParameter(*(Parameter(np.sqrt(d), (0.01, 100.0)) for _ in range(d)))
    model = MuyGPS(
        kernel=Matern(smoothness=Parameter(1.5), deformation=Anisotropy(l2, scales)),
        noise=HomoscedasticNoise(1e-2, (1e-5, 1.0)),
        scale=AnalyticScale(),
    )
    near = NN_Wrapper(X, neighbours, nn_method="exact", algorithm="ball_tree")
    chosen, around = sample_batch(near, min(batch, len(X)), len(X))
    crosswise, pairwise, targets, targets_around = model.make_train_tensors(chosen, around, X, y)
    model = L_BFGS_B_optimize(model, targets, targets_around, crosswise, pairwise, callback=check_time)
    model = model.optimize_scale(pairwise, targets_around)
    means, variances = [], []
    for begin in range(0, len(X_test), 1000):
        some = X_test[begin : begin + 1000]
        rows, _ = near.get_nns(some)
        crosswise, pairwise, targets_around = model.make_predict_tensors(np.arange(len(some)), rows, some, X, y)
        between, within = model.kernel(crosswise), model.kernel(pairwise)
        means.append(model.posterior_mean(within, between, targets_around))
        variances.append(model.posterior_variance(within, between))
    mean, variance = np.ravel(np.concatenate(means)), np.maximum(np.ravel(np.concatenate(variances)), 1e-12)
    # Its loss compares targets with variances that have no noise in them: which is meant for new ones is left open.
    yield Prediction(mean, np.sqrt(variance))
    yield Prediction(mean, np.sqrt(variance + float(np.squeeze(model.scale())) * float(model.noise())))
    return UNFINISHED if stopped else None


def _gpytorch_kernel(d: int):
    import gpytorch

    return gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))


def sgpr(X, y, X_test, seconds, inducing: int) -> Predictions:
    import gpytorch
    import torch

    torch.manual_seed(0)
    x, t, x_test = (torch.tensor(a, dtype=torch.float64) for a in (X, y, X_test))
    start = x[torch.randperm(len(x))[:inducing]].clone()

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, t, likelihood):
            super().__init__(x, t, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(_gpytorch_kernel(x.shape[1]), start, likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, t, likelihood).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    began = perf_counter()
    step = 0
    while perf_counter() - began < seconds:
        model.train(), likelihood.train()
        optimizer.zero_grad()
        loss = -objective(model(x), t)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 25 == 0 or perf_counter() - began >= seconds:
            model.eval(), likelihood.eval()
            with torch.no_grad():
                found = likelihood(model(x_test))
                yield Prediction(found.mean.numpy(), found.variance.clamp_min(1e-12).sqrt().numpy())
    return UNFINISHED


def svgp(X, y, X_test, seconds, inducing: int) -> Predictions:
    import gpytorch
    import torch

    torch.manual_seed(0)
    x, t, x_test = (torch.tensor(a, dtype=torch.float32) for a in (X, y, X_test))
    start = x[torch.randperm(len(x))[:inducing]].clone()

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            strategy = gpytorch.variational.VariationalStrategy(
                self, start, gpytorch.variational.CholeskyVariationalDistribution(len(start))
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = _gpytorch_kernel(x.shape[1])

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    began = last = perf_counter()
    while perf_counter() - began < seconds:
        model.train(), likelihood.train()
        order = torch.randperm(len(x))
        for batch in order.split(1024):
            optimizer.zero_grad()
            loss = -objective(model(x[batch]), t[batch])
            loss.backward()
            optimizer.step()
            if perf_counter() - began >= seconds:
                break
        if perf_counter() - last > seconds / 8 or perf_counter() - began >= seconds:
            last = perf_counter()
            model.eval(), likelihood.eval()
            with torch.no_grad():
                parts = [likelihood(model(part)) for part in x_test.split(4096)]
                mean = torch.cat([part.mean for part in parts]).double().numpy()
                variance = torch.cat([part.variance for part in parts]).clamp_min(1e-12)
                yield Prediction(mean, variance.sqrt().double().numpy())
    return UNFINISHED


# Boosted trees


def boosting(X, y, X_test, seconds) -> Predictions:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(max_iter=1000, learning_rate=0.05, early_stopping=True, random_state=0)
    yield Prediction(model.fit(X, y).predict(X_test))
    return None


def catboost(X, y, X_test, seconds) -> Predictions:
    """Boosted means and variances of Gaussians; a tenth of the rows says when to stop."""
    from catboost import CatBoostRegressor

    left = np.random.default_rng(0).random(len(X)) < 0.1
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        iterations=1000,
        learning_rate=0.05,
        early_stopping_rounds=50,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(X[~left], y[~left], eval_set=(X[left], y[left]))
    mean, variance = model.predict(X_test).T
    yield Prediction(mean, np.sqrt(variance))
    return None


def quantile_trees(X, y, X_test, seconds) -> Predictions:
    """A model for each level; a tenth of the rows says when to stop, and another one conforms the 95 % interval."""
    import lightgbm
    from mapie.regression import ConformalizedQuantileRegressor

    part = np.random.default_rng(0).random(len(X))
    conform, stop, rest = part < 0.1, (part >= 0.1) & (part < 0.2), part >= 0.2

    def model_of(level: float):
        model = lightgbm.LGBMRegressor(
            objective="quantile",
            alpha=level,
            n_estimators=1000,
            learning_rate=0.05,
            n_jobs=0,  # OpenMP's own number of threads, as the other peers have
            verbose=-1,
            random_state=0,
        )
        early = lightgbm.early_stopping(50, verbose=False)
        return model.fit(X[rest], y[rest], eval_set=[(X[stop], y[stop])], callbacks=[early])

    models = [model_of(level) for level in FEW_LEVELS]
    quantiles = np.sort(np.column_stack([model.predict(X_test) for model in models]), axis=1)
    ends = ConformalizedQuantileRegressor([models[0], models[-1], model_of(0.5)], confidence_level=0.95, prefit=True)
    intervals = ends.conformalize(X[conform], y[conform]).predict_interval(X_test)[1][:, :, 0]

    def learnt(y_test: np.ndarray) -> dict[str, float | None]:
        return {
            "nlpd": None,
            "crps": quantile_crps(y_test, quantiles, FEW_LEVELS),
            "coverage": interval_coverage(y_test, intervals[:, 0], intervals[:, 1]),
        }

    yield Prediction(quantiles.mean(axis=1), scores=learnt)
    return None


FULL_SCALE = {"num_neighbors": 30, "num_ind_points": 200, "ind_points_selection": "kmeans++"}
PEERS = (
    Peer("sodalite", sodalite, ours=True),
    Peer('sodalite, mean="auto"', partial(sodalite, mean="auto"), ("lightgbm",), ours=True),
    Peer("sodalite, time_limit=4", partial(sodalite, time_limit=4.0), ours=True),
    Peer("sodalite, time_limit=1", partial(sodalite, time_limit=1.0), ours=True),
    Peer("GPBoost Vecchia", partial(gpboost, approximation="vecchia", num_neighbors=20), ("gpboost",)),
    Peer("GPBoost full-scale", partial(gpboost, approximation="full_scale_vecchia", **FULL_SCALE), ("gpboost",)),
    Peer("MuyGPyS", muygps, ("MuyGPyS",)),
    Peer("scikit-learn, 1000 rows", partial(sklearn_gpr, rows=1000)),
    Peer("scikit-learn, all rows", sklearn_gpr, budgets=(LONG,), most_rows=10_000),
    Peer("GPyTorch SGPR 512", partial(sgpr, inducing=512), ("gpytorch",), budgets=(SHORT,)),
    Peer("GPyTorch SVGP 512", partial(svgp, inducing=512), ("gpytorch",), budgets=(SHORT,)),
    Peer("GPyTorch SVGP 1024", partial(svgp, inducing=1024), ("gpytorch",), budgets=(SHORT,)),
    Peer("boosted trees", boosting),
    Peer("CatBoost, uncertainty", catboost, ("catboost",)),
    Peer("LightGBM + MAPIE", quantile_trees, ("lightgbm", "mapie")),
)
