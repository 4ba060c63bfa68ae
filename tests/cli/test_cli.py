"""The command line, and what is said where an extra is not installed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import sodalite
from commands import done, run
from sodalite import cli
from sodalite.cli._common import as_options
from sodalite.cli.app import app
from sodalite.core import optional
from sodalite.datasets import load_mauna_loa
from sodalite.experiments import demo, paper

FIT = "fit -t y -n 10 --mean none --set hyperparameters=fixed"
PREDICT = "predict model.sodalite rows.csv"


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_commands(option):
    result = done(option)
    for name, command in app.commands.items():
        summary = command.get_short_help_str(80)
        (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [name]]
        assert " ".join(summary.split()[:4]) in line
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", app.commands)
def test_every_command_has_help_with_an_example(name):
    result = done(name, "--help")
    assert f"Usage: app {name}" in result.stdout
    assert f"Example: sodalite {name}" in result.stdout
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 60


def test_the_demo_compares_four_models_of_the_same_rows(monkeypatch):
    """What it prints is what it compared: the default, and models with its kernel."""
    seen, made = [], []

    class Spy(demo.GreedyGPRegressor):
        def fit(self, X, y):
            made.append(self.get_params())
            return super().fit(X, y)

    compare = demo.compare
    monkeypatch.setattr(demo, "GreedyGPRegressor", Spy)
    monkeypatch.setattr(demo, "load_mauna_loa", lambda: tuple(part[::3] for part in load_mauna_loa()))
    monkeypatch.setattr(demo, "compare", lambda **options: seen.append(compare(**options)) or seen[-1])
    result = done("demo", "--n-active", "20", "--seed", "3")
    (comparison,) = seen
    default, sod, random, full = comparison.results
    assert [model.n_rows for model in comparison.results] == [20, 20, 20, comparison.n_train]
    assert ("default" in default.name, "full GP" in full.name) == (True, True)
    assert (comparison.n_train, comparison.n_test, comparison.stop_reason) == (594, 148, "n_active")
    assert max(default.rmse, full.rmse) < sod.rmse < random.rmse
    assert made[0] == {**sodalite.GreedyGPRegressor().get_params(), "n_active": 20, "random_state": 3}
    assert {str(parameters["kernel"]) for parameters in made[1:]} == {comparison.kernel}
    lines = result.stdout.splitlines()
    assert result.stderr == ""
    assert max(map(len, lines)) <= 80
    for name, *numbers in comparison.results:
        (row,) = [line for line in lines if name in line and "│" in line]
        texts = ["{}", "{:.3f}", "{:.3f}", "{:.1%}", "{:.2f} s"]
        expected = [text.format(number) for text, number in zip(texts, numbers, strict=True)]
        assert [cell.strip() for cell in row.strip("│ ").split("│")] == [name, *expected]


def test_a_wide_comparison_is_shown_within_the_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    results = tuple(demo.ModelResult(name, 10**6, 123.4567, -12.3456, 0.95, 1234.5) for name in ("greedy", "full GP"))
    kernel = " + ".join(["12.3**2 * RBF(length_scale=[0.123, 4.56])"] * 3)
    demo.show(demo.ModelComparison(10**6, 10**5, kernel, "n_active", results))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["demo", "reproduce"])
def test_an_interrupt_has_an_exit_code_of_its_own(name, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "compare", interrupt)
    monkeypatch.setattr(paper, "experiment", interrupt)
    result = run(name)
    assert result.exit_code == 130
    assert result.stderr.strip() == "Interrupted."


def test_arguments_of_python_are_options_in_messages():
    with click.Context(app.commands["fit"]):
        assert (
            as_options('mean="trees", noise="a b", exclude=\'a b,c\'')
            == "--mean trees, noise=\"a b\", --exclude 'a b,c'"
        )
        assert as_options("`n_active`, `sep`, `kernel`") == "--n-active, --set sep=..., `kernel`"
        assert as_options('missing="drop"') == "--set missing=drop"
        assert as_options("na_values=['-999']") == "--set na_values=-999"
    assert as_options('mean="trees"') == 'mean="trees"'


def test_an_interrupt_during_start_up_ends_in_the_same_way(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    def interrupt_of_a_class(*_):  # Python raises a RuntimeError of it while it makes a class
        try:
            interrupt()
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error

    for raised in (interrupt, interrupt_of_a_class):
        monkeypatch.setattr("sodalite.cli.app.import_module", raised)
        result = run("fit", "houses.csv")
        assert (result.exit_code, result.stderr.strip()) == (130, "Interrupted: model.sodalite was not written.")
    monkeypatch.setattr(click.Group, "make_context", interrupt)  # before click can turn it into its own error
    result = run("fit", "houses.csv")
    assert (result.exit_code, result.stderr.strip()) == (130, "Interrupted.")
    for name in ("sodalite.cli.app.app", "sodalite.core.optional.import_module"):  # as the latter loads click
        monkeypatch.setattr(name, interrupt)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert (ended.value.code, capsys.readouterr().err.strip()) == (130, "Interrupted.")


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes streams")
@pytest.mark.parametrize(
    ("arguments", "closed", "status", "words"),
    [
        (FIT, "<&- >&- 2>&-", 0, ""),
        (FIT, ">&-", 0, ""),
        (FIT, "2>&-", 0, ""),
        (f"{PREDICT} -o out.csv", "<&- >&- 2>&-", 0, ""),
        (PREDICT, "2>&-", 0, ""),
        (PREDICT, ">&-", 2, "--output is to go to standard output, which is closed: give a file, or a pipe."),
        (f"{FIT} - ", "<&-", 2, "DATA is to be read from standard input, which is closed: give a file, or a pipe."),
        ("inspect model.sodalite", "<&- 2>&-", 0, ""),
    ],
)
def test_closed_streams(arguments, closed, status, words, one_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text((one_model / "rows.csv").read_text())
    if not arguments.startswith("fit"):
        shutil.copy(one_model / "model.sodalite", "model.sodalite")
    data = "" if arguments.endswith("- ") else "rows.csv" * arguments.startswith("fit")
    command = f"{shlex.quote(sys.executable)} -m sodalite {arguments} {data} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert words in done.stderr
    if status:
        assert "Traceback" not in done.stderr
    else:
        model = sodalite.load("model.sodalite")
        assert model.n_features_in_ == 1  # no message was written into the file
        assert "-o" not in arguments or len(Path("out.csv").read_text().splitlines()) == 31


@pytest.fixture(scope="module")
def one_model(tmp_path_factory):
    """A folder with a small table and a model of it."""
    folder = tmp_path_factory.mktemp("closed")
    x = np.linspace(0, 1, 30)
    np.savetxt(folder / "rows.csv", np.column_stack([x, np.sin(6 * x)]), delimiter=",", header="x,y", comments="")
    model = sodalite.GreedyGPRegressor(hyperparameters="fixed", n_active=10)
    encoder = sodalite.TableEncoder()
    table = pd.read_csv(folder / "rows.csv")
    sodalite.save(make_pipeline(encoder, model).fit(table[["x"]], table["y"]), folder / "model.sodalite")
    return folder


# Extras


@pytest.mark.parametrize(("module", "extra"), [("click", "cli"), ("rich", "cli"), ("matplotlib.pyplot", "plot")])
def test_what_is_not_installed_says_how_to_install_it(module, extra, monkeypatch):
    package = module.partition(".")[0]

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(optional, "import_module", missing)
    with pytest.raises(ModuleNotFoundError) as caught:
        optional.require(module, extra)
    assert str(caught.value) == (
        f"This needs {package}, which is not installed. Install it with: pip install 'sodalite[{extra}]'"
    )
    assert caught.value.name == package


def test_a_package_that_nobody_has_is_called_missing():
    with pytest.raises(ModuleNotFoundError, match=r"This needs a_package_that_nobody_has, .* 'sodalite\[plot\]'$"):
        optional.require("a_package_that_nobody_has.part", "plot")


def test_a_module_that_is_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import a_module_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'a_module_that_nobody_has'$"):
        optional.require("half_installed", "cli")


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_the_command_without_its_extra_ends_with_one_line(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from sodalite.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert "pip install 'sodalite[cli]'" in line


def test_the_module_is_the_command():
    ended = subprocess.run([sys.executable, "-m", "sodalite", "--version"], capture_output=True, text=True)
    assert ended.stdout == f"sodalite, version {sodalite.__version__}\n"


# What scikit-learn 1.9 and its dependencies may import for themselves, where they find it.
THEIRS = "sklearn.gaussian_process, sklearn.utils, scipy.linalg, scipy.optimize, scipy.special, joblib"


def test_importing_the_package_imports_no_extra():
    code = f"import sys, {THEIRS}; before = set(sys.modules); import sodalite; print(*set(sys.modules) - before)"
    loaded = {name.partition(".")[0] for name in python(code).split()}
    assert "sodalite" in loaded
    assert not loaded & {"matplotlib", "click", "rich", "pandas", "polars"}


def test_the_package_works_without_any_extra():
    code = """
import sys

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("matplotlib", "click", "rich", "pandas", "plotly", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
from sodalite import GreedyGPRegressor

model = GreedyGPRegressor(n_active=3, hyperparameters="fixed")
print(*model.fit([[0.0], [1.0], [2.0]], [5.0, 5.0, 5.0]).predict([[0.5]]))
"""
    assert python(code) == "5.0\n"


LEVEL = "Invalid value for '--(interval|quantiles)': .* is not a number between 0 and 1, both excluded"
TRUTH = "is neither true nor false"
NAMES = "'mising' is not a setting. Did you mean missing\\? There are: .*missing.*tol"
REFUSED = {  # what a command is given, and what is said
    "fit t.csv -t y --n-active 0": "Invalid value for '-n' / '--n-active'",
    "fit t.csv -t y --time-limit soon": "Invalid value for '--time-limit'",
    "fit t.csv -t y --time-limit 0s": "Invalid value for '--time-limit'",
    "fit t.csv -t y --test-fraction 1": "Invalid value for '--test-fraction'",
    "fit t.csv -t y --set mising=drop": NAMES,
    "fit t.csv -t y --set missing": "'missing' is not of the form name=value",
    "fit t.csv -t y --set missing=some": "missing: 'some' is not one of indicator, median, drop, error",
    "fit t.csv -t y --set n_active=5": "n_active has an option of its own: --n-active",
    "fit t.csv -t y --set tol=x": "tol must be a number; got 'x'",
    "fit t.csv -t y --set hyperparameters=no": "hyperparameters must be .*'no'",
    "fit t.csv -t y --set keep_outliers=perhaps": f"keep_outliers: 'perhaps' {TRUTH}",
    "fit t.csv -t y --set sep=, --set sep=,": "sep is set 2 times",
    "fit t.csv -t y --set tol=0.1 --set tol=0.1": "tol is set 2 times",
    "fit t.csv -t y --set sep=||": "Invalid value for '--set'.*not a single character",
    "fit t.csv -t y --set order=cut": "Invalid value for '--set'.*not of the form column=first,second",
    "fit t.csv -t y --set latlon=lat": "Invalid value for '--set'.*not of the form latitude,longitude",
    "fit t.csv -t y --set date_format=day": "Invalid value for '--set'.*has no directives",
    "fit t.csv -t y --set encoding=x": "not an encoding that is known",
    "fit t.csv -t y --set latlon=lat,lon": "no column 'lat'",
    "fit t.csv -t y --set thousands=, --decimal ,": "thousands and decimal are the same mark",
    "select t.csv -t y -n 2 --set tol=x": "tol must be a number; got 'x'",
    **{
        f"predict m t.csv --set samples={value}": f"samples: '{value}' is not a whole number from 0 to 10000"
        for value in ("-1", "10001", "99999999999999999999", "9" * 5000)
    },
    "predict m t.csv --set missing=drop": "'missing' is not a setting",
    **{f"predict m t.csv --interval {value}": LEVEL for value in ("0", "1", "95", "-0.1", "nan", "x", "''")},
    **{f"predict m t.csv --quantiles {value}": LEVEL for value in ("0.5,1", "nan", "5%", "'0.1;.9'", ".1,,.9", "''")},
    "predict m t.csv --quantiles 0.5,0.50": "'--quantiles'.*0.5 is there twice",
    "report m --set samples=1": "'samples' is not a setting",
    **{f"demo --n-active {value}": f"'--n-active': .*{value}" for value in ("0", "-5", "many")},
    "demo --seed x": "'--seed': .*x",
    **{f"reproduce --draws {value}": "Invalid value for '--draws'" for value in ("0", "-3", "many")},
    "reproduce --seed -1": "Invalid value for '--seed'",
    **{f"reproduce --subset {value}": "Invalid value for '--subset'" for value in ("1", "41")},
    "demos": "No such command 'demos'",
}


@pytest.mark.parametrize("line", REFUSED)
def test_bad_values_are_refused_by_name_before_any_work(line, tmp_path, monkeypatch):
    for name in ("demo.compare", "paper.experiment"):  # other commands would find no model, or write one
        monkeypatch.setattr(f"sodalite.experiments.{name}", lambda *given, **options: pytest.fail("the work began"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,3\n3,5\n")
    result = run(*shlex.split(line))
    assert result.exit_code == 2
    assert re.search(REFUSED[line], " ".join(result.stderr.split())), result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(("name", "most"), [("fit", 16), *((name, 10) for name in app.commands if name != "fit")])
def test_a_command_has_few_options(name, most):
    assert sum(isinstance(part, click.Option) for part in app.commands[name].params) <= most
