"""Scikit-learn's own callbacks (version 1.9 and later), which follow a fit as a callback of the user's own does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..stopping import Callback, Stage

if TYPE_CHECKING or find_spec("sklearn.callback") is None:

    class CallbackSupportMixin:
        """Nothing: scikit-learn has no callbacks before its version 1.9."""

else:
    from sklearn.callback import CallbackSupportMixin

__all__ = ["CallbackSupportMixin", "scikit_learn_callbacks"]


@contextmanager
def scikit_learn_callbacks(estimator: Any, n_active: int) -> Iterator[Callback | None]:
    """What tells the callbacks of ``estimator.set_callbacks`` how a fit goes on; None if there are none.

    A fit is one task, and every row that is chosen one of its subtasks. They are torn down at the end, however it ends.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        yield None
        return
    managed = import_module("sklearn.callback._callback_support").callback_management_context
    with managed(estimator):
        context = estimator._init_callback_context(max_subtasks=n_active)
        context.call_on_fit_task_begin(estimator=estimator)

        def tell(stage: Stage) -> None:
            if stage.t:
                row = context.subcontext(task_name="active row")
                row.call_on_fit_task_begin(estimator=estimator)
                row.call_on_fit_task_end(estimator=estimator, metadata={"rmse": float(stage.rmse[-1])})

        yield tell
        context.call_on_fit_task_end(estimator=estimator)
