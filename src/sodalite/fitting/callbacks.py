"""Scikit-learn's own callbacks (version 1.9 and later), set by ``estimator.set_callbacks``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..stopping import Callback, Stage

if TYPE_CHECKING or find_spec("sklearn.callback") is None:

    class CallbackSupportMixin:
        """An empty class: scikit-learn has no callbacks before version 1.9."""

else:
    from sklearn.callback import CallbackSupportMixin

__all__ = ["CallbackSupportMixin", "scikit_learn_callbacks"]


@contextmanager
def scikit_learn_callbacks(estimator: Any, n_active: int) -> Iterator[Callback | None]:
    """Yield a callback of ours that reports every stage to the callbacks of ``estimator.set_callbacks``.

    It is None if the estimator has no callbacks. To scikit-learn, a fit is one task, and every active row one of its
    subtasks. If a callback wishes to stop at the end of a subtask, no more rows are chosen. The callbacks are torn down
    at the end, also if the fit fails.

    Parameters
    ----------
    estimator : scikit-learn estimator
        With `CallbackSupportMixin`.
    n_active : int
        The most subtasks.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        yield None
        return
    managed = import_module("sklearn.callback._callback_support").callback_management_context
    with managed(estimator):
        context = estimator._init_callback_context(max_subtasks=n_active)
        context.call_on_fit_task_begin(estimator=estimator)

        def report(stage: Stage) -> None:
            if stage.t:  # a stage without active rows only announces a step of the fit
                subtask = context.subcontext(task_name="active row")
                subtask.call_on_fit_task_begin(estimator=estimator)
                if subtask.call_on_fit_task_end(estimator=estimator, metadata={"rmse": float(stage.rmse[-1])}):
                    raise StopIteration

        yield report
        context.call_on_fit_task_end(estimator=estimator)
