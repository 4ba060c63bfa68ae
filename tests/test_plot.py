"""Pictures in Python: displays on matplotlib's axes, the notebook's summary, and progress in a notebook."""

from __future__ import annotations

import re
from itertools import product

import matplotlib as mpl
import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor
from sodalite.fitting.progress import ProgressLine, progress_display
from sodalite.metrics import interval_coverage
from sodalite.plot import KINDS, plot
from sodalite.report import make_report
from sodalite.stopping import Stage


@pytest.fixture(autouse=True)
def pyplot():
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def fitted(d=1, n=150, **options):
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (n, d))
    y = 20 + 3 * np.sin(X[:, 0]) + random.normal(scale=0.3, size=n)
    options = {"n_active": 25, "hyperparameters": "fixed", "random_state": 0, **options}
    return GreedyGPRegressor(RBF(np.arange(1, d + 1.0)) + WhiteKernel(0.02), **options).fit(X, y), X, y


OF_SEVERAL = {("posterior", 2), ("posterior", 4), ("importance", 4), ("dependence", 4)}


@pytest.mark.parametrize(
    ("kind", "d"),
    [case if case[1] == 1 or case in OF_SEVERAL else campaign(*case) for case in product(KINDS, [1, 2, 4])],
)
def test_every_display_draws_and_says_where(kind, d):
    model, _, _ = fitted(d)
    if kind == "posterior" and d > 2:
        with pytest.raises(ValueError, match="one or two inputs"):
            model.plot(kind)
        return
    display = model.plot(kind)
    assert model.plot().kind == ("posterior" if d <= 2 else "dependence")
    axes = np.ravel(display.ax_)
    assert len(axes) == (d if kind == "dependence" else 1)
    assert all(ax.get_xlabel() for ax in axes)
    assert all(ax.figure is display.figure_ for ax in axes)
    display.figure_.canvas.draw()


def test_the_band_is_the_learnt_interval_and_need_not_be_symmetric():
    random = np.random.default_rng(0)
    X = random.uniform(0, 10, (400, 1))
    model = GreedyGPRegressor(RBF(1.5) + WhiteKernel(0.1), n_active=25, hyperparameters="fixed", random_state=0)
    model.fit(X, np.sin(X[:, 0]) + random.exponential(0.5, 400) ** 1.5)
    display = plot(model)
    (band,) = display.ax_.collections
    lower, upper = model.predict_interval(display.data.axes[0][:, None])
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx(lower.min())
    assert edges.max() == pytest.approx(upper.max())
    mean = display.data.mean[-1]
    assert np.median((upper - mean) / (mean - lower)) > 1.5
    (effect,) = plot(model, "dependence").data
    assert np.all(effect.upper - effect.mean > effect.mean - effect.lower)


def test_a_stage_shows_its_rows_alone():
    model = fitted()[0]
    display = model.plot("posterior")
    lines = {line.get_label(): line for line in display.ax_.get_lines()}
    x, y = lines["prediction"].get_data()
    np.testing.assert_allclose(y, model.predict(np.asarray(x)[:, None]))
    assert len(lines["rows kept"].get_xdata()) == 25
    display.plot(stage=4)
    lines = {line.get_label(): line for line in display.ax_.get_lines()}
    assert len(lines["rows kept"].get_xdata()) == 4
    np.testing.assert_array_equal(lines["prediction"].get_ydata(), display.data.mean[3])
    with pytest.raises(ValueError, match="stage must be one of"):
        display.plot(stage=26)


def test_axes_that_are_given_are_drawn_on(pyplot):
    model, X, y = fitted(2)
    _, axes = pyplot.subplots(1, 3)
    for ax, kind in zip(axes, ("learning", "calibration", "importance"), strict=True):
        assert plot(model, kind, X, y, ax=ax).ax_ is ax
    assert len(pyplot.get_fignums()) == 1
    assert [len(ax.get_lines()) > 0 or len(ax.patches) > 0 for ax in axes] == [True] * 3
    with pytest.raises(ValueError, match="ax must be 2 axes"):
        plot(model, "dependence", ax=axes[0])


def test_the_numbers_are_those_of_the_report():
    model, X, y = fitted(2)
    made = make_report(model)
    curve = plot(model, "learning")
    assert {line.get_label() for line in curve.ax_.get_lines()} == {
        "chosen rows",
        "random rows",
        "noise",
    }
    np.testing.assert_array_equal(curve.data.rmse, made.curve.rmse)
    drawn = plot(model, "importance").data
    assert [effect.name for effect in drawn.effects] == [name for name, _ in made.target.importance]
    X_new, y_new = X + 0.1, y
    shown = plot(model, "calibration", X_new, y_new).data
    assert shown.coverage == interval_coverage(y_new, *model.predict_interval(X_new))


def test_unknown_kinds_and_unfitted_models_are_refused():
    model, _, _ = fitted()
    with pytest.raises(ValueError, match=r"kind must be one of .* Did you mean 'posterior'"):
        model.plot("posteriors")
    with pytest.raises(NotFittedError):
        plot(GreedyGPRegressor())
    with pytest.raises(ValueError, match="y must be given with X"):
        model.plot("calibration", [[0.0]])


def test_a_loaded_model_without_its_rows_is_drawn(tmp_path):
    sodalite.save(fitted(posterior="sod")[0], tmp_path / "m")
    display = sodalite.load(tmp_path / "m").plot("learning")
    assert next(line.get_label() for line in display.ax_.get_lines()) == "rows not chosen yet"


# Notebooks


def test_a_fitted_model_has_a_summary_below_the_diagram():
    model, _, _ = fitted(2)
    html = model._repr_html_()
    assert "<b>rows kept:</b> 25 rows of 150" in html
    assert "<b>function:</b> " in html
    bundle = model._repr_mimebundle_()
    assert "25 rows of 150" in bundle["text/html"]
    assert bundle["text/plain"] == repr(model)
    plain = GreedyGPRegressor()._repr_html_()
    assert "rows kept" not in plain
    assert "sk-" in plain
    assert plain[:200].partition("sk-container-id")[0] == html[:200].partition("sk-container-id")[0]


def test_the_display_setting_is_heeded():
    model, _, _ = fitted()
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    assert "text/html" in model._repr_mimebundle_()
    assert make_pipeline(StandardScaler(), model)._repr_html_()


def test_names_in_the_summary_are_escaped():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    frame = pandas.DataFrame({"<b>": random.normal(size=40), "x": random.normal(size=40)})
    model = GreedyGPRegressor(n_active=5, hyperparameters="fixed").fit(frame, frame["x"])
    html = model._repr_html_()
    assert "<b> (" not in html
    assert "&lt;b&gt;" in html


def test_outside_a_notebook_progress_is_a_line():
    assert type(progress_display()) is ProgressLine


NOTEBOOK = """
import numpy as np
from sodalite import GreedyGPRegressor

X = np.linspace(0, 10, 300)[:, None]
model = GreedyGPRegressor(n_active=30, hyperparameters="fixed", random_state=0, verbose=True)
model.fit(X, np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=300))
"""


def test_a_real_notebook_shows_progress_in_one_place_and_a_summary(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    (cell,) = notebook.cells
    shown = [output for output in cell.outputs if output.output_type == "display_data"]
    assert len(shown) == 1
    assert re.match(r"active rows 30 of at most 30, RMSE ", shown[0].data["text/plain"])
    assert '<progress max="30" value="30"' in shown[0].data["text/html"]
    (result,) = [output for output in cell.outputs if output.output_type == "execute_result"]
    assert "30 rows of 300" in result.data["text/html"]
    assert not [output for output in cell.outputs if output.output_type == "stream"]


def test_a_notebooks_bar_is_replaced_and_ends_where_the_choice_ended():
    from sodalite.fitting.progress import NotebookProgress

    shown = []

    class Handle:
        def update(self, content, raw):
            shown.append(content["text/plain"])

    def display(content, raw, display_id):
        shown.append(content["text/plain"])
        return Handle()

    bar = NotebookProgress(display)
    bar.last = 0.0
    bar(Stage([3.0], seconds=1.0, n_rows=9, n_active=9))
    bar(Stage([3.0, 2.0], seconds=1.0, n_rows=9, n_active=9))  # too soon after the first
    assert len(shown) == 1
    bar.close()
    assert [text.partition(",")[0] for text in shown] == ["active rows 1 of at most 9", "active rows 2 of at most 9"]
