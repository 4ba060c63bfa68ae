"""Ctrl-C at any moment: the process goes on, and the next fit is as good as the first."""

import _thread
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from helpers import campaign
from sodalite import GreedyGPRegressor
from sodalite.core import threads
from sodalite.core.threads import one_blas_thread, one_openmp_thread, threaded_map
from sodalite.hyperparameters import climb
from sodalite.kernels import compile_kernel
from sodalite.kernels.neighbours import Neighbours
from sodalite.posteriors import Neighbors

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that interrupts")


@pytest.fixture
def interrupt(monkeypatch):
    """A function: raise KeyboardInterrupt in the main thread after so many seconds."""
    monkeypatch.setattr(threads, "cores", lambda: 2)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.01)
    model = GreedyGPRegressor(
        kernel, n_active=6, criterion="delta", hyperparameters="fixed", posterior=Neighbors(4), random_state=0
    )
    return np.concatenate(model.fit(X, y).predict(X, return_std=True))


def interrupted_fits(count):
    """Interrupt fits at random moments, every fourth a second time; then fit once more, and print what happened."""
    threads.cores = lambda: 2
    counts = [library.num_threads for library in threads._libraries()]
    rng = np.random.default_rng(0)
    took, interrupts, longest, left = 0.05, 0, 0.0, 0

    def interrupt(number, frame):
        nonlocal left
        if left:
            left -= 1
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    while interrupts < count:
        delay, began = rng.uniform(1e-4, took), time.perf_counter()
        try:
            try:
                left = 1 + (interrupts % 4 == 0)
                signal.setitimer(signal.ITIMER_REAL, delay, 1e-3)
                fit()
            finally:
                left = 0  # no more from here on
            took = time.perf_counter() - began
        except KeyboardInterrupt:
            interrupts += 1
            longest = max(longest, time.perf_counter() - began - delay)
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert threads_left(0, 10) == 0
    assert not threads._open
    assert counts == [library.num_threads for library in threads._libraries()]
    assert longest < 5
    print(fit().tobytes().hex())


def threads_left(expected, seconds):
    """The number of threads besides the main one, once it is as low as expected, or after a while."""
    until = time.perf_counter() + seconds
    while _thread._count() > expected and time.perf_counter() < until:
        time.sleep(0.01)
    return _thread._count()


@pytest.mark.parametrize("count", [50, campaign(300)])
def test_many_interrupted_fits_and_the_next_is_as_good_as_the_first(count):
    """SciPy's threads once went on writing into freed arrays: a crash after some ten interrupts."""
    code = f"import test_interrupts; test_interrupts.interrupted_fits({count})"
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    np.testing.assert_array_equal(np.frombuffer(bytes.fromhex(run.stdout.decode().strip())), fit())


@pytest.mark.parametrize("d", [2, 8])
def test_no_thread_outlives_an_interrupted_query(interrupt, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, d))
    near = Neighbours(compile_kernel(RBF(1.0), X), X)
    queries = rng.normal(size=(200_000, d))
    before = _thread._count()
    began = time.perf_counter()
    interrupt(0.05)
    with pytest.raises(KeyboardInterrupt):
        near.query(queries, 32)
    assert time.perf_counter() - began < 2
    assert threads_left(before, 0.5) <= before


def test_work_of_many_steps_ends_soon_after_an_interrupt(interrupt):
    """An optimisation notices an interrupt after at most one step."""

    def slow(theta):
        time.sleep(0.02)
        return -(float(theta @ theta) ** 2), -4 * float(theta @ theta) * theta

    bounds = np.array([[-1e3, 1e3]] * 2)
    began = time.perf_counter()
    interrupt(0.1)
    with pytest.raises(KeyboardInterrupt):
        threaded_map(lambda start: [climb(slow, start, bounds, 500) for _ in range(50)], [np.full(2, 99.0)] * 4)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("block", [one_blas_thread, one_openmp_thread])
def test_thread_counts_are_restored_whenever_an_interrupt_comes(block):
    """An interrupt is raised at each of the places in turn where Python looks for one: calls, and returns from C."""
    libraries = [*threads._libraries(), *threads._openmp()]
    before = [library.num_threads for library in libraries]
    for library in libraries:
        library.set_num_threads(2)
    counts = [library.num_threads for library in libraries]

    def interrupted(place):
        left = place

        def watch(frame, event, argument):
            nonlocal left
            if event in ("call", "c_return") and frame.f_code.co_filename in (threads.__file__, contextlib.__file__):
                left -= 1
                if not left:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        try:
            sys.setprofile(watch)
            with block():
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return left <= 0  # or it came where a deletion swallowed it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda argument: None)
        place = 1
        while interrupted(place):
            assert counts == [library.num_threads for library in libraries], place
            assert not threads._open
            assert not threads._before
            place += 1
    for library, count in zip(libraries, before, strict=True):
        library.set_num_threads(count)
    assert place > 10
