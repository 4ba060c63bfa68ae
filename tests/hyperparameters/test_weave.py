"""The weave: what it promises of its rounds, whatever the data and the kernel."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    Product,
    WhiteKernel,
)

from helpers import KERNELS, POSTERIORS, SOUGHT, campaign
from sodalite import GreedyGPRegressor
from sodalite.criteria import Delta
from sodalite.hyperparameters import Fixed, Found, Subset, Task, Weave, search
from sodalite.hyperparameters.left_out import LeftOut, LeftOutRows, density_starts
from sodalite.hyperparameters.rounds import Rounds, Verdict
from sodalite.kernels import default_kernels, leaves
from sodalite.metrics import nlpd

QUICK = Weave(n_start=40, n_rounds=3, n_judged=40, n_exact=0)
kinds = pytest.mark.parametrize("posterior", ["local", "sod"])


def data(n=120, d=2, q=1, seed=0):
    """Rows, and smooth targets with a little noise."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X @ generator.normal(size=(d, q))) + 0.1 * generator.normal(size=(n, q))


def usual(d=2):
    return SOUGHT["usual"](d)


def find(X, y, *kernels, posterior="local", weave=QUICK, seed=0, alpha=None, n_active=30):
    task = Task(X, y, alpha, POSTERIORS[posterior], Delta(), n_active)
    return weave.find(task, kernels or [usual(X.shape[1])], np.random.default_rng(seed))


def check(found, *kernels):
    """What holds of every search: bounds, parameters that are fixed, and rounds that only ever raise what they are
    judged by.
    """
    kernel = found.kernel
    (start,) = [own for own in kernels if kind_of(own) == kind_of(kernel)]
    low, high = start.bounds.T
    assert np.all((kernel.theta >= low - 1e-12) & (kernel.theta <= high + 1e-12))
    for parameter in start.hyperparameters:
        if parameter.fixed:
            assert_array_equal(kernel.get_params()[parameter.name], start.get_params()[parameter.name])
    kept = [turn for turn in found.rounds if turn.kept]
    assert kept[0].name == "start"
    assert kept[-1].kernel == kernel
    for _, same in groupby(kept, key=lambda turn: turn.level):
        assert all(late.objective > early.objective for early, late in pairwise(same))
    assert all(np.isfinite(turn.objective) for turn in kept)
    assert all(turn.seconds >= 0 for turn in found.rounds)


def parts_of(kernel):
    return [kernel, *(value for value in kernel.get_params().values() if hasattr(value, "get_params"))]


def kind_of(kernel):
    """The types of a kernel's parts, and how rough the Matern kernels are."""
    return [(type(part), getattr(part, "nu", None)) for part in parts_of(kernel)]


def nu_of(kernel):
    return [part.nu for part in parts_of(kernel) if isinstance(part, Matern)]


# Rounds


def test_rows_are_predicted_from_as_many_neighbours_as_asked_for(monkeypatch):
    counts = []
    made = LeftOut.__init__
    monkeypatch.setattr(LeftOut, "__init__", lambda self, *given: counts.append(given[3]) or made(self, *given))
    find(*data(), weave=replace(QUICK, n_neighbors=7))
    assert set(counts) == {7}


@pytest.mark.parametrize(("n", "n_active"), [(120, 30), (500, 500), campaign(900, 500)])
def test_what_has_failed_is_not_tried_again(n, n_active):
    found = find(*data(n), posterior="sod", weave=replace(QUICK, n_rounds=8), n_active=n_active)
    again = [turn.level for turn in found.rounds if turn.name == "start again"]
    assert len(again) == len(set(again))
    ends = [turn for turn in found.rounds if turn.level == found.rounds[-1].level and "round" in turn.name]
    assert sum(not turn.kept for turn in ends) <= 1


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_when_the_time_is_up_no_round_is_begun(posterior):
    X, y = data()
    first = usual()
    task = Task(X, y, posterior=POSTERIORS[posterior], criterion=Delta(), n_active=30, seconds=0)
    found = QUICK.find(task, [first], np.random.default_rng(0))
    assert {part.name for part in found.rounds} == {"start"}
    assert found.kernel == found.rounds[0].kernel


@pytest.mark.parametrize(("posterior", "q"), [*((kind, 1) for kind in POSTERIORS), ("local", 2), ("sod", 2)])
def test_every_round_that_is_kept_is_better_than_the_one_before(posterior, q):
    X, y = data(n=80, q=q)
    found = find(X, y, usual(), posterior=posterior)
    check(found, usual())
    assert isinstance(found, Found)
    assert len(found.rounds) >= 3


def verdict(*densities, joint=0.0):
    return Verdict(np.array(densities), joint)


NONE = verdict(-np.inf)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (verdict(0.1, 0.1, 0.1, 0.1), verdict(0.0, 0.0, 0.0, 0.0), True),
        (verdict(0.4, 0.5, 0.6, 0.5), verdict(0.0, 0.0, 0.0, 0.0), True),
        (verdict(4.0, -3.0, 2.0, -1.0), verdict(0.0, 0.0, 0.0, 0.0), False),  # 0.5 on average, give or take 1.35
        (verdict(0.0, 0.0, 0.0, 0.0), verdict(0.0, 0.0, 0.0, 0.0), False),
        (verdict(0.1, 0.1, joint=1.0), verdict(0.0, 0.0, joint=1.0), True),
        (verdict(0.1, 0.1, joint=0.9), verdict(0.0, 0.0, joint=1.0), False),
        (verdict(-0.1, -0.1, joint=2.0), verdict(0.0, 0.0, joint=1.0), False),
        (verdict(-3.0), NONE, True),
        (NONE, verdict(-3.0), False),
        (NONE, NONE, False),
        (verdict(np.nan), verdict(-3.0), False),
    ],
)
def test_a_gain_is_beyond_chance_lowers_no_j_and_has_numbers(one, other, expected):
    assert one.beats(other) == expected


def test_a_gain_may_have_to_be_worth_its_while():
    assert not verdict(0.1, 0.1).beats(verdict(0.0, 0.0), worth=0.2)


@pytest.mark.parametrize("seed", range(4))
def test_no_round_that_is_kept_lowers_j(seed, monkeypatch):
    judge, verdicts = Rounds.judge, {}

    def noted(side, kernel):
        verdicts[f"{side.n_active} active rows", *kernel.theta] = found = judge(side, kernel)
        return found

    monkeypatch.setattr(Rounds, "judge", noted)
    monkeypatch.setattr("sodalite.hyperparameters.weave.find_exactly", lambda task, kernels: Found(kernels[0]))  # poor
    X, y = data(n=400, d=3, seed=seed)
    found = find(X, y, posterior="sod", n_active=150, weave=replace(QUICK, n_rounds=6), seed=seed)
    kept = [turn for turn in found.rounds if turn.kept]
    assert len({turn.level for turn in found.rounds}) == 2
    assert len(kept) > 1
    for size, same in groupby(kept, key=lambda turn: turn.level):
        joint = [verdicts[size, *turn.kernel.theta].joint for turn in same]
        assert joint == sorted(joint)
    last = found.rounds[-1].level
    assert verdicts[last, *found.kernel.theta].joint >= verdicts[last, *kept[0].kernel.theta].joint


@pytest.mark.parametrize("posterior", ["sod", *map(campaign, sorted({*POSTERIORS} - {"local", "sod"}))])
def test_other_posteriors_begin_where_the_likelihood_of_some_rows_is_largest(posterior):
    X, y = data()
    kernels = default_kernels(X, y)
    found = find(X, y, *kernels, posterior=posterior)
    task = Task(X, y).take(np.random.default_rng(0).permutation(len(X))[: 2 * QUICK.n_start])
    assert [turn.kernel for turn in found.rounds if turn.name == "start"][-1] == search.find_exactly(
        task, kernels
    ).kernel


@kinds
def test_rounds_that_are_not_kept_are_forgotten(posterior):
    X, y = data()
    found = find(X, y, posterior=posterior, weave=replace(QUICK, n_rounds=8))
    missed = [turn for turn in found.rounds if not turn.kept]
    assert missed
    assert all(turn.kernel != found.kernel for turn in missed if turn.level == found.rounds[-1].level)


def test_active_sets_are_small_first_and_grow():
    X, y = data(n=320)
    found = find(X, y, posterior="sod", n_active=150)
    sizes = [int(turn.level.split()[0]) for turn in found.rounds if "active" in turn.level]
    assert sizes == sorted(sizes)
    assert sizes[0] == 100
    assert max(sizes) == 150
    check(found, usual())


@kinds
def test_the_random_state_settles_everything(posterior):
    X, y = data(n=40)
    one, two, other = (find(X, y, *default_kernels(X, y), posterior=posterior, seed=seed) for seed in (0, 0, 1))
    assert one.kernel == two.kernel
    assert [turn.objective for turn in one.rounds] == [turn.objective for turn in two.rounds]
    assert [turn.objective for turn in one.rounds] != [turn.objective for turn in other.rounds]


def test_from_a_thin_start_it_gets_to_where_many_rows_are():
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, (600, 2))
    y = np.sin(5 * X[:, :1]) + np.cos(5 * X[:, 1:]) + 0.1 * generator.normal(size=(600, 1))
    thin, many = (
        Subset(n_rows=rows, n_starts=2).find(Task(X, y), [usual()], np.random.default_rng(0)).kernel
        for rows in (40, 300)
    )
    weave = Weave(n_start=40, n_judged=600, n_exact=0)
    kernel = find(X, y, weave=weave, n_active=100).kernel
    assert np.abs(thin.theta - many.theta)[1:].max() > 0.5
    assert np.abs(kernel.theta - many.theta)[1:].max() < 0.25  # another objective: rows left out, not the likelihood


# Kernels


@kinds
@pytest.mark.parametrize("name", ["tight", "fixed", "fixed-lengths", "outside"])
def test_bounds_and_fixed_parameters_are_kept_to(posterior, name):
    X, y = data(n=60)
    kernel = SOUGHT[name](2)
    found = find(X, y, kernel, posterior=posterior)
    check(found, SOUGHT[name](2))
    assert kernel == SOUGHT[name](2)  # the kernel passed in is left as it is
    assert found.kernel is not kernel


@pytest.mark.parametrize("posterior", ["local", "vfe"])
@pytest.mark.parametrize(
    ("kernel", "d"),
    [
        (ConstantKernel(1.0) * ExpSineSquared(1.0, 2.0) + WhiteKernel(0.1), 1),
        (DotProduct(1.0) + WhiteKernel(0.1), 2),
        (KERNELS["own"](2), 2),
        (KERNELS["own-noise"](2), 2),
        (RBF(1.0), 2),
        (WhiteKernel(1.0), 2),
        (ConstantKernel(1.0) + WhiteKernel(1.0), 2),
        (KERNELS["noise-by-row"](2), 2),
    ],
    ids=["periodic", "dot-product", "own", "own-noise", "noiseless", "noise-alone", "constant", "noise-by-row"],
)
def test_kernels_of_every_kind(posterior, kernel, d):
    X, y = data(n=30, d=d)
    check(find(X, y, kernel, posterior=posterior), kernel)


@kinds
def test_a_kernel_without_free_parameters_comes_back_as_it_is(posterior):
    X, y = data()
    kernel = KERNELS["all-fixed"](2)
    found = find(X, y, kernel, posterior=posterior)
    assert found.kernel == kernel
    assert found.kernel is not kernel
    assert found.rounds == ()


@kinds
def test_of_several_kernels_one_comes_back(posterior):
    X, y = data(n=60)
    kernels = default_kernels(X, y)
    found = find(X, y, *kernels, posterior=posterior)
    check(found, *kernels)
    plain = [turn.kernel for turn in found.rounds if isinstance(turn.kernel.k1, Product)]
    tried = {(type(kernel.k1.k2), *nu_of(kernel)) for kernel in plain}
    assert {(RBF,), (Matern, 2.5), (Matern, 1.5), (Matern, 0.5)} <= tried


@kinds
def test_a_rough_function_is_not_taken_for_a_smooth_one(posterior):
    truth = ConstantKernel(1.0) * Matern(1.0, nu=0.5) + WhiteKernel(1e-4)
    generator = np.random.default_rng(0)
    X = generator.uniform(-5, 5, (200, 1))
    y = np.linalg.cholesky(truth(X)) @ generator.normal(size=(200, 1))
    weave = Weave(n_start=100, n_rounds=1, n_judged=100, n_exact=0)
    found = find(X, y, *default_kernels(X, y), posterior=posterior, weave=weave, n_active=60)
    assert nu_of(found.kernel)  # not the squared exponential


def test_subset_lets_kernels_compete_by_their_likelihood():
    X, y = data()
    kernels = default_kernels(X, y)
    found = Subset(n_rows=60, n_starts=3).find(Task(X, y), kernels, np.random.default_rng(0))
    assert nu_of(found.kernel) == nu_of(found.rounds[-1].kernel)
    assert [turn.name for turn in found.rounds].count("a short run") == len(kernels) == 4
    best = max(found.rounds[:4], key=lambda turn: turn.objective)
    assert nu_of(best.kernel) == nu_of(found.kernel)
    assert found.rounds[-1].objective >= best.objective


def test_fixed_takes_the_first_of_several():
    X, y = data()
    kernels = default_kernels(X, y)
    assert Fixed().find(Task(X, y), kernels, np.random.default_rng(0)).kernel == kernels[0]


# Odd data


ODD = {
    "one constant target": (data(n=1)[0], np.full((1, 1), 3.0)),
    "targets of zero": (data(n=40)[0], np.zeros((40, 1))),
    "constant targets": (data(n=40)[0], np.full((40, 1), 3.0)),
    "rows that are all the same": (np.ones((60, 2)), np.random.default_rng(0).normal(size=(60, 1))),
    "every row twice": tuple(np.repeat(part, 2, axis=0) for part in data(n=50)),
    "a constant column among ten": (np.insert(data(n=60, d=9)[0], 3, 7.0, axis=1), data(n=60, d=9)[1]),
}


@kinds
@pytest.mark.parametrize("odd", ODD)
def test_odd_data(posterior, odd):
    X, y = ODD[odd]
    found = find(X, y, posterior=posterior)
    check(found, usual(X.shape[1]))
    if odd == "rows that are all the same":  # with different targets: all of it is noise
        assert 0.5 < found.kernel.k2.noise_level / np.var(y) < 2


@kinds
@pytest.mark.parametrize(("n", "q"), [(1, 1), (2, 1), (5, 2), (50, 1)])
def test_any_number_of_rows(posterior, n, q):
    X, y = data(n=n, q=q)
    kernels = default_kernels(X, y)
    check(find(X, y, *kernels, posterior=posterior), *kernels)


@kinds
def test_known_noise_is_not_found_again(posterior):
    """Rows whose noise is known, all of it, leave little for the kernel's own."""
    generator = np.random.default_rng(0)
    X, _ = data(n=120)
    alpha = np.full(120, 0.25)
    y = np.sin(2 * X[:, :1]) + 0.5 * generator.normal(size=(120, 1))
    kernel = ConstantKernel(1.0) * RBF(np.ones(2)) + WhiteKernel(0.5)
    known, unknown = (
        find(X, y, kernel, posterior=posterior, alpha=noise).kernel.k2.noise_level for noise in (alpha, None)
    )
    assert known < 0.1 < 0.15 < unknown


def test_a_sample_stands_for_very_many_rows(monkeypatch):
    monkeypatch.setattr("sodalite.hyperparameters.weave.MOST_ROWS", 60)
    X, y = data(n=100)
    rows = np.sort(np.random.default_rng(0).choice(100, 60, replace=False))
    X[np.setdiff1d(np.arange(100), rows)] = np.nan
    alpha = np.full(100, 0.01)
    check(find(X, y, alpha=alpha, posterior="sod"), usual())  # "local" has windows: test_windows.py


# The estimator


@pytest.mark.parametrize("posterior", ["local", "sod"])
def test_the_users_kernel_is_never_replaced(posterior):
    X, y = data()
    kernel = ConstantKernel(1.0) * Matern(np.ones(2), nu=0.5) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, hyperparameters=QUICK, posterior=posterior, n_active=20, random_state=0)
    model.fit(X, y[:, 0])
    assert type(model.kernel_.k1.k2) is Matern
    assert model.kernel_.k1.k2.nu == 0.5
    assert all(turn.kernel.k1.k2.nu == 0.5 for turn in model.rounds_)
    assert model.kernel_ != kernel


@pytest.mark.parametrize("hyperparameters", [QUICK, "subset"])
def test_without_a_kernel_one_of_three_families_comes_back(hyperparameters):
    X, y = data()
    model = GreedyGPRegressor(hyperparameters=hyperparameters, n_active=20, random_state=0).fit(X, y[:, 0])
    *signal, noise = leaves(model.kernel_)
    profiles = [leaf for leaf in signal if not isinstance(leaf, ConstantKernel)]
    for profile in profiles:  # of more than one, each has its own scale, and the second may be rough
        smooth = (1.5, 2.5) if profile is profiles[0] else (0.5, 1.5, 2.5)
        assert type(profile) is RBF or (type(profile) is Matern and profile.nu in smooth)
        assert profile.length_scale.shape == (2,)
    assert 1 <= len(profiles) <= (1 if hyperparameters == "subset" else 2)
    assert isinstance(noise, WhiteKernel)


def test_what_is_found_predicts_new_rows_better_than_the_start():
    X, y = data(n=500, seed=3)
    start = ConstantKernel(1.0) * RBF([5.0, 5.0]) + WhiteKernel(1.0)
    T, truth = X[200:], y[200:, 0]
    densities = []
    for hyperparameters in ("fixed", QUICK):
        model = GreedyGPRegressor(start, hyperparameters=hyperparameters, n_active=40, random_state=0)
        densities.append(nlpd(truth, *model.fit(X[:200], y[:200, 0]).predict(T, return_std=True)))
    assert densities[1] < densities[0] - 0.1


def test_what_is_found_does_not_depend_on_the_units():
    X, y = data(n=100)
    plain, stretched = (
        GreedyGPRegressor(hyperparameters=QUICK, n_active=20, random_state=0).fit(X * unit, scale * y[:, 0])
        for unit, scale in ((1.0, 1.0), (np.array([1e-3, 1e4]), 100.0))
    )
    found, expected = (model.kernel_.get_params() for model in (stretched, plain))
    lengths = [name for name in expected if name.endswith("length_scale")]
    assert lengths
    for name in lengths:
        assert_allclose(found[name] / expected[name], [1e-3, 1e4], rtol=1e-3)
    T = X[:9] + 0.1
    assert_allclose(stretched.predict(T * [1e-3, 1e4]), 100 * plain.predict(T), rtol=1e-4)


def left_out_rows(X, y, kernel):
    task = Task(X, y, posterior=POSTERIORS["local"])
    return LeftOutRows.of(task, kernel, np.random.default_rng(0), 300, 24)


def test_where_targets_are_noise_the_kernel_says_noise():
    """Not length-scales shorter than all distances, which say as much and make every place as far as any other."""
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-2, 2, (400, 4)), generator.standard_normal((400, 1))
    kernels = default_kernels(X, y)
    blind = kernels[1].theta.copy()
    blind[1:-1] = kernels[1].bounds[1:-1, 0]
    rows = left_out_rows(X, y, kernels[1])
    names = [name for name, _ in density_starts(rows, [kernels[1].clone_with_theta(blind)], kernels[1])]
    assert names.count("mostly noise") == 1
    found = find(X, y, *kernels, weave=replace(QUICK, n_start=200, n_judged=400)).kernel
    assert found.k2.noise_level > 0.8
    assert np.median(first_of(found).length_scale) > 0.3


def first_of(kernel):
    return next(part for part in leaves(kernel) if hasattr(part, "length_scale"))


@pytest.mark.parametrize("drifts", [True, False])
def test_a_length_scale_shorter_than_the_gaps_of_an_input_is_lifted_where_rows_are_then_predicted_better(drifts):
    generator = np.random.default_rng(0)
    year, place = generator.integers(0, 10, 400), generator.uniform(0, 10, 400)
    X = np.column_stack([2010 + year, place, np.ones(400)])
    phase = 0.3 * year if drifts else generator.uniform(0, 2 * np.pi, 10)[year]  # else a year says nothing of the next
    y = (np.sin(phase + 2 * place) + 0.05 * generator.normal(size=400))[:, None]
    kernel = RBF([0.1, 1.0, 0.5]) + WhiteKernel(1e-2)
    rows = left_out_rows(X, y, kernel)
    starts = dict(density_starts(rows, [kernel], kernel))
    values = {name: rows.objective(each).value(each.theta) for name, each in starts.items()}
    lifted = starts["across gaps"].k1.length_scale
    assert lifted[0] >= 2
    assert lifted[2] == pytest.approx(starts["at full density"].k1.length_scale[2])  # a constant input has no gaps
    assert (values["across gaps"] > values["at full density"]) == drifts


def test_a_richer_kernel_needs_a_gain_beyond_chance():
    generator = np.random.default_rng(1)
    X = generator.uniform(-2, 2, (500, 1))
    y = np.sin(2 * X) + 0.3 * generator.normal(size=X.shape)
    task = Task(X, y, posterior=POSTERIORS["local"], forms=True)
    found = replace(QUICK, n_judged=300).find(task, default_kernels(X, y), np.random.default_rng(0))
    richer = [turn for turn in found.rounds if len(leaves(turn.kernel)) > 3]
    assert richer
    assert len(leaves(found.kernel)) == 3
