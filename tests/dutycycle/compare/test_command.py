"""``dutycycle compare`` as a user runs it, and its page in a real browser."""

from pathlib import Path

import orjson
import pytest

from dutycycle.cli.main import main
from dutycycle.compare.comparison import NamedRun
from dutycycle.compare.page import html_of
from tests.support.tab import tab


def test_folders_and_traces_are_compared(
    traces: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "trace.jsonl.zst").write_bytes(traces["once"].read_bytes())
    out = tmp_path / "page.html"
    assert main(["compare", str(before), str(traces["slow"]), "--format", "json", "--out", str(out)]) == 0
    plain = orjson.loads(capsys.readouterr().out)
    assert [one["name"] for one in plain["runs"]] == ["before", "slow"]
    assert [one["of"] for one in plain["runs"]] == ["ml/bert-0"] * 2  # the only one in it
    assert plain["verdicts"][0].startswith("Better in time: before (up to 7.")
    assert "<title>before, slow – Dutycycle comparison</title>" in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["{once}"], 2, "give two runs or more, such as: dutycycle compare before after"),
        (["{once}", "{folder}/none"], 1, "none: No such file or directory"),
        (["{once}", "{folder}"], 1, "is a folder without a trace.jsonl.zst: dutycycle run writes one"),
        (["{once}", "{again}", "--job", "x"], 1, "{once}: no job 'x' in the trace; there are jobs: none"),
        (["{once}", "{again}", "--out", "{folder}/x.pdf"], 2, "expected a name that ends with .html"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    traces: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    arguments: list[str], status: int, message: str,
) -> None:  # fmt: skip
    names = {**{name: str(path) for name, path in traces.items()}, "folder": str(tmp_path)}
    assert main(["compare", *(one.format(**names) for one in arguments)]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert message.format(**names) in line
    assert list(tmp_path.iterdir()) == []


async def test_a_browser_draws_the_charts_and_the_page_fits(
    runs: dict[str, NamedRun], tmp_path: Path
) -> None:
    page = tmp_path / "compare.html"
    page.write_text(html_of([runs["once"], runs["slow"], runs["hungry"]]))
    async with tab(tmp_path / "profile") as browser:
        for width in (1280, 600):
            await browser.look(width, "light")
            await browser.open(page.as_uri())
            await browser.wait_for("document.documentElement.dataset.drawn === '4'")
            assert await browser.value("document.documentElement.scrollWidth <= innerWidth"), width
        assert 1 <= await browser.printed_pages() <= 5
        assert browser.said == []
