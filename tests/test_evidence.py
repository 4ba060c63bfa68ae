"""Numbers about accuracy and speed in README and docs are those of docs/evidence.json, or of code that runs."""

from __future__ import annotations

import re
from itertools import takewhile
from math import copysign
from pathlib import Path

import pytest
from benchmarks.evidence import numbers

from benchmarks import evidence
from test_package import ROOT

RECORDS = evidence.read()


def flat(text: str) -> str:
    """A text with every run of spaces and line breaks as one space."""
    return " ".join(text.split())


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# Records


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_how_it_was_measured(name):
    record = RECORDS[name]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert record["cores"] >= 1
    assert record["machine"]
    assert "sodalite" in record["versions"]
    assert "numpy" in record["versions"] or "not recorded" in record["note"]
    assert record["tables"] or record["values"]
    benchmark = re.fullmatch(r"python -m benchmarks (\w+)(?: .*)?", record["command"])
    assert benchmark is None or (ROOT / "benchmarks" / f"{benchmark[1]}.py").is_file()


def test_recording_replaces_a_run_and_writes_its_table(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "DOCS", tmp_path)
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence.json")
    evidence.record("one", "python -m benchmarks one", {"one.txt": ["set  RMSE ", "a    0.5"]})
    evidence.record("two", "python -m benchmarks two", values={"seconds": 3.0})
    evidence.record("one", "python -m benchmarks one", {"one.txt": ["set  RMSE", "a   -0.25 ± 0.1"]})
    records = evidence.read()
    assert list(records) == ["one", "two"]
    assert (tmp_path / "one.txt").read_text(encoding="utf-8") == "set  RMSE\na   -0.25 ± 0.1\n"
    assert numbers(records, "one", "a") == [-0.25, 0.1]
    assert records["two"]["values"] == {"seconds": 3.0}
    assert {"python", "numpy"} <= set(records["two"]["versions"])
    assert (tmp_path / "evidence_runs.rst").read_text(encoding="utf-8").count("``python -m benchmarks") == 2


# Tables


@pytest.mark.parametrize("file", evidence.pages(RECORDS))
def test_the_tables_are_made_from_the_evidence(file):
    made = evidence.pages(RECORDS)[file]
    assert page(f"docs/{file}") == made, "write it by `python -m benchmarks evidence`"


def test_no_table_of_results_is_without_evidence():
    texts = {path.name for path in (ROOT / "docs").glob("*.txt")} | {"study_table.rst"}
    assert texts <= set(evidence.pages(RECORDS))


@pytest.mark.parametrize(
    "name", [name for name in RECORDS if any("shown in" in file for file in RECORDS[name]["tables"])]
)
def test_the_outputs_that_pages_show_are_on_file(name):
    """A page shows an output with every line as it was, indented or not."""
    ((where, lines),) = RECORDS[name]["tables"].items()
    path = evidence.where(where.removeprefix(evidence.SHOWN))
    found = "\n".join(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    assert "\n".join(line.strip() for line in lines) in found, f"{path} should show:\n" + "\n".join(lines)


def test_a_new_output_takes_the_place_of_the_old_one_on_its_page(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "DOCS", tmp_path)
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence.json")
    (tmp_path / "guide.rst").write_text("Words\n\n   $ fit\n   RMSE 1\n   kept 2\n\nMore words\n", encoding="utf-8")
    evidence.record("fit", "sodalite fit", {"shown in guide.rst": ["RMSE 1", "kept 2"]})
    evidence.record("fit", "sodalite fit", {"shown in guide.rst": ["RMSE 3", "", "kept 4"]})
    changed = (tmp_path / "guide.rst").read_text(encoding="utf-8")
    assert changed == "Words\n\n   $ fit\n   RMSE 3\n\n   kept 4\n\nMore words\n"
    (tmp_path / "guide.rst").write_text("Words\n", encoding="utf-8")
    with pytest.raises(ValueError, match="Mend the page first"):
        evidence.record("fit", "sodalite fit", {"shown in guide.rst": ["RMSE 5"]})


# Sentences

SCALING, REPRODUCE = RECORDS["scaling"]["values"], RECORDS["reproduce"]["values"]
SUBSETS = (10, 20, 30, 40)
INSIDE = [REPRODUCE[f"inside, --draws 60 --subset {rows}"] for rows in SUBSETS]
TWO_ROWS = [REPRODUCE[f"% that end with two rows, --draws 60 --subset {rows}"] for rows in SUBSETS]
CONCRETE = numbers(RECORDS, "study", "concrete")
LOCAL, SOD = ("NLPD of local", "NLPD of sod")


def weave(name: str, section: str, place: int) -> float:
    return numbers(RECORDS, "weave", name, section)[place]


def held(column: int) -> list[float]:
    """A column of the table of intervals, for all sets, each of which has a thousand test rows or more."""
    lines = [line.split() for line in RECORDS["calibration"]["tables"]["calibration.txt"][1:]]
    assert all(int(line[2]) >= 1000 for line in lines)
    return [float(line[column]) for line in lines]


ORDINARY = RECORDS["ordinary"]["tables"]["ordinary.txt"]
N_ORDINARY = next(int(line.split()[1]) for line in ORDINARY if line.startswith("of "))
N_WORSE = next(line.split()[-1] for line in ORDINARY if "simple way by more than chance:" in line)

BAND = held(8)
assert len(BAND) == 14
KIN40K = numbers(RECORDS, "calibration", "kin40k")[2]


def kin40k_of(peer: str) -> float:
    """The least RMSE of a peer, whatever its limit."""
    lines = RECORDS["peers"]["tables"]["peers.txt"]
    begin = next(place for place, line in enumerate(lines) if line.startswith("kin40k, 36000"))
    rows = takewhile(lambda line: line.startswith(" "), lines[begin + 1 :])
    found = (re.findall(r"-?\d+\.\d+", row) for row in rows if row.strip().startswith(peer))
    return min(float(each[0]) for each in found if each)


GAPS = numbers(RECORDS, "gaps", "mean")
WIDEST = [numbers(RECORDS, "gaps", line.split()[0])[4] for line in RECORDS["gaps"]["tables"]["gaps.txt"][2:-1]]

SENTENCES = {
    "README.md": [
        f"In gaps as wide as 128 rows, Sodalite's 90 % intervals hold {100 * GAPS[3]:.0f} % on average",
        f"**{N_WORSE} of {N_ORDINARY}** ordinary series",
        f"**{100 * min(BAND):.1f} to {100 * max(BAND):.1f} %** of new rows are in the 95 % interval, on each of "
        "fourteen real sets",
        f"**RMSE {KIN40K:.4f}** on kin40k, 36 000 rows of a robot arm, with the defaults; boosted trees have "
        f"{kin40k_of('boosted trees'):.4f}, and GPBoost's best after ten minutes {kin40k_of('GPBoost'):.4f}",
        f"Ten million rows take {SCALING['seconds']:.0f} s, or {SCALING['seconds in O(n) memory']:.0f} s in O(n) "
        f"memory; in float32 {SCALING['seconds in float32']:.0f} s, with a peak of "
        f"{SCALING['peak GB in float32']:.2f} GB where the data alone have {SCALING['GB of data in float32']:.2f}.",
    ],
    "docs/evidence.rst": [
        f"a factor of {numbers(RECORDS, 'ordinary', 'rain_forecasts')[8]:.3f} on ``rain_forecasts`` and "
        f"{numbers(RECORDS, 'ordinary', 'movies')[8]:.3f} on ``movies``",
    ],
    "docs/limits.rst": [
        f"over {len(WIDEST)} sets, the 90 % interval holds {100 * GAPS[1]:.0f}, {100 * GAPS[2]:.0f} and "
        f"{100 * GAPS[3]:.0f} % of the rows in gaps of 8, 32 and 128 rows",
    ],
    "docs/user_guide/defaults.rst": [
        f"({CONCRETE[5]:.3f} against {CONCRETE[6]:.3f})",
        f"and loses {weave('mauna_loa_weekly', SOD, 2):.3f} on ``mauna_loa_weekly``",
        "loses at most 0.010",
    ],
    "docs/user_guide/paper.rst": [
        f"median RMSE is {REPRODUCE['full GP of x sin x, RMSE']:.2f}, far from the paper's 2.36",
        f"finds a noise variance of {REPRODUCE['noise variance of x sin x by likelihood']:.1f}",
        f"has {INSIDE[0]}, {INSIDE[1]}, {INSIDE[2]} and {INSIDE[3]} of the 12 numbers inside the range",
        f"{TWO_ROWS[0]}, {TWO_ROWS[1]}, {TWO_ROWS[2]} and {TWO_ROWS[3]} % of its selections end with two rows",
    ],
}


@pytest.mark.parametrize(("name", "sentence"), [(name, each) for name, some in SENTENCES.items() for each in some])
def test_a_sentence_has_the_numbers_of_the_evidence(name, sentence):
    assert flat(sentence) in flat(page(name)), f"{name} should say: {sentence}"


SETS = [line.split()[0] for line in RECORDS["weave"]["tables"]["weave.txt"][2:17]]


def gains(section: str) -> int:
    return sum(copysign(1, weave(name, section, 2)) < 0 for name in SETS)  # also -0.000


OURS, GPBOOST = (
    numbers(RECORDS, "peers", way, "mauna_loa_weekly, 1983 rows") for way in ("sodalite", "GPBoost Vecchia")
)
PEERS_AHEAD = "\n".join(RECORDS["peers"]["tables"]["peers.txt"]).partition("in time:")[0]
TABLES = [numbers(RECORDS, "tables", line[:24].strip()) for line in RECORDS["tables"]["tables"]["tables.txt"][2:33]]
FACTS = [
    (
        "docs/user_guide/tables.rst",
        "Trees have the smaller error on 11 of the 31 tables, on most of them by little, and the smaller NLPD on one.",
        (sum(row[3] > row[4] for row in TABLES), sum(row[5] > row[6] for row in TABLES)) == (11, 1),
    ),
    (
        "docs/evidence.rst",
        "**GPBoost** has the smaller RMSE on ``protein``, after some minutes, and by a hair on ``airfoil``. On "
        "``mauna_loa_weekly`` its RMSE is the same within 1 %, in less time",
        "protein 0.48" in PEERS_AHEAD
        and "airfoil 0.1631" in PEERS_AHEAD
        and abs(GPBOOST[0] / OURS[0] - 1) < 0.01
        and GPBOOST[3] < OURS[3],
    ),
    (
        "README.md",
        "in about twice the time",
        all(1.5 <= ratio < 2.6 for ratio in RECORDS["speed"]["values"].values()),
    ),
    ("docs/limits.rst", "on one little more than half", sorted(WIDEST)[0] < 0.6 < sorted(WIDEST)[1]),
    ("docs/limits.rst", "on five more 60 to 80 %", all(0.6 < share < 0.8 for share in sorted(WIDEST)[1:6])),
    ("README.md", "and far less on a few sets", min(WIDEST) < 0.7),
    ("README.md", "Ten million rows", SCALING["rows"] == 10_000_000),
    (
        "docs/user_guide/defaults.rst",
        "the weave gains on thirteen of the fifteen sets",
        (gains(LOCAL), len(SETS)) == (13, 15),
    ),
    ("docs/user_guide/defaults.rst", "gains on fourteen", gains(SOD) == 14),
    ("docs/user_guide/defaults.rst", "loses at most 0.010", max(weave(name, LOCAL, 2) for name in SETS) == 0.010),
    (
        "docs/evidence.rst",
        "on none of them by more than chance",
        numbers(RECORDS, "ordinary", "worse than 1.1 x the best simple way by more")[-1] == 0,
    ),
]


@pytest.mark.parametrize(("name", "words", "holds"), FACTS, ids=[words for _, words, _ in FACTS])
def test_what_is_said_in_words_holds(name, words, holds):
    assert flat(words) in flat(page(name))
    assert holds, f"{name} says {words!r}, and the evidence does not"


# Completeness: no other number looks like a result

SETTINGS = {
    "README.md": {"3.11"},
    "docs/stability.rst": {"1.0"},
    "docs/limits.rst": {"0.74"},
    "docs/user_guide/clusters.rst": {"5 minutes"},
    "docs/user_guide/defaults.rst": {"1.7"},  # million rows of a data set
    "docs/user_guide/files.rst": {"1 MB"},
    "docs/user_guide/getting_started.rst": {"3.11"},
    "docs/user_guide/intervals.rst": {"0.75", "1.96"},
    "docs/user_guide/kernels.rst": {"0.5", "0.9", "1.5", "2.5"},
    "docs/user_guide/large_data.rst": {"1.9"},
    "docs/user_guide/larger_than_memory.rst": {"200 MB"},  # `benchmarks.store.LEAST`
    "docs/user_guide/ordinary.rst": {"1.1", "1.4"},
    "docs/user_guide/paper.rst": {"1.96", "2.36", "1.4", "0.01", "0.02", "0.05", "1.14"},  # the paper's own
    "docs/user_guide/report.rst": {"5 MB"},
    "docs/user_guide/peers.rst": {"20 GB", "30 seconds", "60 seconds", "90 seconds", "1 s", "4 s", "60 s"},
}
"""Numbers that are settings, versions, units or the paper's, by page."""


def prose(path: Path) -> str:
    """A page without code, literals, tables from files and links."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    blocks = (
        r"^( *)\.\. (?:code-block|literalinclude|image|figure|include|toctree|autosummary)::.*\n((?:\1 +.*\n|\s*\n)*)"
    )
    text = re.sub(blocks, "", text, flags=re.MULTILINE)
    text = re.sub(r"^>>> .*(?:\n.+)*", "", text, flags=re.MULTILINE)
    return re.sub(r"``[^`]*``|:\w+:`[^`]*`|`[^`]*`_?", "", text)


def results(text: str) -> list[str]:
    """The numbers of a text that look like results: decimals, and times and sizes with their unit."""
    return re.findall(r"(?<![\w.])\d+\.\d+(?!\.?\w)|\b\d[\d ]*(?:s|ms|GB|MB|kB|seconds|minutes)\b", text)


def test_results_are_found_in_a_text():
    assert results("It took 12 s, or 3.5 of them. Version 1.2.3, 95 %, 40 rows, 7 GB.") == ["12 s", "3.5", "7 GB"]


MADE = {"method.rst", "study_table.rst", "evidence_runs.rst"}  # test_maps compares the method's constants with the code
PROSE = [ROOT / "README.md", *(ROOT / "docs").glob("*.rst"), *(ROOT / "docs").glob("[!_]*/*.rst")]


@pytest.mark.parametrize(
    "path",
    [path for path in PROSE if path.name not in MADE and path.parent.name != "gallery"],
    ids=lambda path: path.stem,
)
def test_every_number_that_looks_like_a_result_has_evidence(path):
    name = path.relative_to(ROOT).as_posix()
    text = flat(prose(path))
    for sentence in SENTENCES.get(name, ()):
        text = text.replace(flat(re.sub(r"``[^`]*``", "", sentence)), "")
    left = [each for each in results(text) if each not in SETTINGS.get(name, set())]
    assert not left, f"{name} has {left}: put them into SENTENCES with their evidence, or into SETTINGS"
