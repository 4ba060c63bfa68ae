"""A criterion and a posterior of a user's own get what the built-in ones get."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor, select
from sodalite.criteria import Delta, Sampled
from sodalite.kernels import CompiledKernel
from sodalite.posteriors import Posterior, Prediction, SubsetOfData
from sodalite.report import make_report
from sodalite.selection.rivals import RivalSearch

KERNEL = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.01)


def rows(n=400):
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * generator.normal(size=n)


# A criterion, as CONTRIBUTING describes it


def weighted(s, abs_r, noise):
    """Twice the standard deviation, and the residual."""
    return 2 * s + abs_r


weighted.monotone = True


def test_a_monotone_criterion_of_ones_own_passes_most_rows_over(monkeypatch):
    """Its picks are those of the built-in criterion that is the same, and no more rows are looked at."""
    X, y = rows()
    looked = []
    scored = RivalSearch.scored

    def counted(self, N, s2, path, low, places, first):
        looked.append(len(places))
        return scored(self, N, s2, path, low, places, first)

    monkeypatch.setattr(RivalSearch, "scored", counted)
    counts, picks = [], []
    for criterion in (Delta(uncertainty=2.0), weighted, lambda s, abs_r, noise: 2 * s + abs_r):
        looked.clear()
        picks.append(select(X, y, KERNEL, n_active=60, criterion=criterion, first=0).indices)
        counts.append(sum(looked))
    assert picks[0].tolist() == picks[1].tolist() == picks[2].tolist()
    assert counts[0] == counts[1] < 0.5 * counts[2]


def test_a_criterion_of_ones_own_can_be_sampled_and_goes_on_from_a_checkpoint(tmp_path):
    X, y = rows()
    options = {"criterion": Sampled(weighted), "first": 0, "random_state": 0}
    whole = select(X, y, KERNEL, n_active=40, **options)
    select(X, y, KERNEL, n_active=20, checkpoint=tmp_path / "c", **options)
    resumed = select(X, y, KERNEL, n_active=40, checkpoint=tmp_path / "c", **options)
    assert resumed.indices.tolist() == whole.indices.tolist()


# A posterior


@dataclass(frozen=True)
class Doubtful(Posterior):
    """The subset of data, with variances of the latent function twice as large."""

    kernel: CompiledKernel
    inner: SubsetOfData

    @classmethod
    def condition(cls, evidence):
        return cls(evidence.kernel, SubsetOfData.condition(evidence))

    def predict(self, X, joint=False):
        found = self.inner.predict(X, joint)
        return Prediction(found.mean, 2 * found.variance)


@pytest.mark.parametrize("method", ["fixed", campaign("weave")])
def test_a_posterior_of_ones_own(method, tmp_path):
    X, y = rows(1200)
    options = {"kernel": KERNEL, "n_active": 50, "hyperparameters": method, "random_state": 0}
    own = GreedyGPRegressor(posterior=Doubtful, **options).fit(X, y)
    mean, std = own.predict(X[:20], return_std=True)
    if method == "fixed":
        plain = GreedyGPRegressor(posterior="sod", calibrate=False, **options).fit(X, y)
        expected, latent = plain.posterior_.mean_and_variance(X[:20])
        assert_allclose(mean, expected[:, 0] * y.std() + y.mean())
        assert_allclose(std, np.sqrt(2 * latent + 0.01) * y.std())
        cov = own.predict(X[:20], return_cov=True)[1]
        assert_allclose(np.sqrt(np.diag(cov)), std)
        assert_allclose(own.predict_interval(X[:20])[1], mean + norm.ppf(0.975) * std)
        assert_allclose(own.novelty(X[:20]), 2 * latent)
    assert own.novelty(X[:20]).shape == (20,)
    assert own.sample_y(X[:5], 3).shape == (5, 3)
    own.partial_fit(X[:30] + 0.01, y[:30])
    with pytest.raises(TypeError, match=r"a model file cannot hold the class .*Doubtful"):
        sodalite.save(own, tmp_path / "m")


@dataclass(frozen=True)
class Forgetful(Doubtful):
    """Leaves rows out in its own way: every residual is a quarter of the targets' standard deviation."""

    def left_out(self, rows):
        assert (rows.active >= 0).any()
        return Prediction(rows.Y - 0.25, np.full(len(rows.Y), 0.1))


@pytest.mark.parametrize("posterior", [Doubtful, Forgetful])
def test_a_report_leaves_rows_out_as_the_posterior_does(posterior):
    X, y = rows(120)
    options = {"kernel": KERNEL, "n_active": 30, "hyperparameters": "fixed", "calibrate": False, "random_state": 0}
    report = make_report(GreedyGPRegressor(posterior=posterior, **options).fit(X, y))
    if posterior is Forgetful:
        assert report.judgement.rmse == pytest.approx(0.25 * y.std())
    else:  # by the active rows alone, as the subset of data
        plain = make_report(GreedyGPRegressor(posterior="sod", **options).fit(X, y))
        assert report.judgement.rmse == pytest.approx(plain.judgement.rmse)
