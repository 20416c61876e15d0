"""Goal: each line of docs/analysis.md answers its question, with each of the three libraries."""

import re
from pathlib import Path

import pytest

from dutycycle.cli.main import main
from dutycycle.contract.trace import TraceWriter
from tests.support.data.training_job import training_job

PAGE = Path(__file__).parents[2] / "docs/analysis.md"
QUESTIONS = re.findall(
    r"^## ([^\n]+\?)$(.+?)(?=^## )", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
LINES = [
    (question, name, line)
    for question, text in QUESTIONS
    for name, line in re.findall(r"^\| (pandas|polars|DuckDB) \| `(.+)` \|$", text, re.MULTILINE)
]


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    with TraceWriter(str(folder / "week.jsonl.zst")) as trace:
        for one in training_job(300):
            trace.write(one)
    out = str(folder / "week")
    assert main(["replay", str(folder / "week.jsonl.zst"), "--out", out, "--format", "parquet"]) == 0
    return folder


def test_each_question_has_three_answers() -> None:
    assert [name for _, name, _ in LINES] == ["pandas", "polars", "DuckDB"] * 4


@pytest.mark.parametrize(("question", "name", "line"), LINES, ids=[f"{one[1]}: {one[0]}" for one in LINES])
def test_a_line_answers(
    question: str, name: str, line: str, week: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = pytest.importorskip(name.lower(), reason=f"{name} is not installed: pip install {name.lower()}")
    monkeypatch.chdir(week)
    found = eval(line, {name.lower(): reader})  # noqa: S307 - a line of our own page
    rows = found.items() if name == "pandas" else found.rows() if name == "polars" else found.fetchall()
    answers = [float(value) for _, value in rows]
    if "idle" in question:
        assert len(answers) == 2
        assert all(0 <= share < 1 for share in answers)
    elif "busy" in question:
        assert len(answers) == 1
        assert 10 < answers[0] < 100
    elif "GPU-hours" in question:
        # Two GPUs for 300 s, in the last record of each hour.
        assert sum(answers) == pytest.approx(2 * 300 / 3600, rel=0.25)
        assert max(answers) > 0.1
    else:
        assert len(answers) == 1
        assert answers[0] > 2**30
