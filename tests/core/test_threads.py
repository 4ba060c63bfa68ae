"""Threads follow the environment and threadpoolctl, as BLAS does."""

import os
import subprocess
import sys
from unittest.mock import patch

import pytest
from threadpoolctl import threadpool_limits

from sodalite.core.threads import n_threads, on_this_thread, one_blas_thread


@pytest.mark.parametrize(("cores", "limit", "expected"), [(8, 1, 1), (8, 3, 3), (2, 3, 2)])
def test_threads_follow_threadpoolctl_up_to_the_cores(cores, limit, expected):
    with patch("sodalite.core.threads.cores", lambda: cores), threadpool_limits(limit):
        assert n_threads() == expected
        with one_blas_thread():  # BLAS has one thread now, because there are others here
            assert n_threads() == expected
        with on_this_thread():
            assert n_threads() == 1


def test_threads_follow_the_environment():
    command = "import sodalite.core.threads as threads; "
    command += "threads.cores = lambda: 8; import numpy, scipy.linalg; print(threads.n_threads())"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == ["1"]
