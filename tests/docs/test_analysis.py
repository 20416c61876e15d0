"""Goal: each line of docs/analysis.md answers its question, with each of the three libraries."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/analysis.md"
QUESTIONS = re.findall(
    r"^## ([^\n]+\?)$(.+?)(?=^## )", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
LINES = [
    (question, name, line)
    for question, text in QUESTIONS
    for name, line in re.findall(r"^\| (pandas|polars|DuckDB) \| `(.+)` \|$", text, re.MULTILINE)
]


COMMANDS = [
    line.partition("  #")[0].replace(" > ", " --out ").split()
    for line in re.findall(r"^dutycycle .+$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
]
"""Those of the page; a file that the shell writes there is written by the command here."""


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("analysis")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for _, *arguments in COMMANDS:
            assert main(arguments) == 0
        yield folder


def test_each_question_has_three_answers() -> None:
    assert [name for _, name, _ in LINES] == ["pandas", "polars", "DuckDB"] * 4


@pytest.mark.parametrize(("question", "name", "line"), LINES, ids=[f"{one[1]}: {one[0]}" for one in LINES])
def test_a_line_answers(
    question: str, name: str, line: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = pytest.importorskip(name.lower(), reason=f"{name} is not installed: pip install {name.lower()}")
    monkeypatch.chdir(
        request.getfixturevalue("week")
    )  # which takes seconds, and only where there is a reader
    found = eval(line, {name.lower(): reader})  # noqa: S307 - a line of our own page
    rows = found.items() if name == "pandas" else found.rows() if name == "polars" else found.fetchall()
    answers = [float(value) for _, value in rows]
    if "idle" in question:
        assert len(answers) == 8
        assert [share for share in answers if share == 1] == [1], "the GPU of the notebook"
    elif "busy" in question:
        assert 1 <= len(answers) <= 2, "twenty minutes lie in one hour or two"
        assert all(20 < busy < 100 for busy in answers)
    elif "GPU-hours" in question:
        # Eight GPUs for twenty minutes, in the last record of each hour.
        assert sum(answers) == pytest.approx(8 * 20 / 60, rel=0.15)
        assert max(answers) == pytest.approx(2 * 20 / 60, rel=0.15), "a worker with two GPUs"
    else:
        assert len(answers) == 6
        assert min(answers) > 2**30
