"""``dutycycle report`` as a user runs it, and the page in a real browser."""

from pathlib import Path

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import report_of, write_report
from dutycycle.report.gather import Gathered
from tests.support.processes.commands import run_to_end
from tests.support.tab import tab


def test_a_report_of_a_trace(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "bert.html"
    done = run_to_end("report", trace, "--job", "bert", "--price-gpu-hour", "2.5", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}: the report; pictures and tables are in {tmp_path / 'bert.files'}\n"
    text = out.read_text()
    assert "<title>ml/bert – Dutycycle report</title>" in text
    assert "<dt>Cost</dt>" in text
    assert (tmp_path / "bert.files" / "gpu-util.png").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["{trace}", "--job", "gpt"], 1, "no job 'gpt' in the trace; there are jobs: ml/bert"),
        (["{trace}", "--job", ""], 1, "no job '' in the trace; there are jobs: ml/bert"),
        (["{folder}/none.jsonl"], 1, "none.jsonl: No such file or directory; for a job or pod of this name"),
        ([], 2, "give a trace, or --since 2h with the name of a job or pod"),
        (["{trace}", "--until", "1h"], 2, "--until needs --since"),
        (["{trace}", "--from-prometheus", "http://h:1"], 2, "--from-prometheus needs --since"),
        (["bert", "--since", "1h"], 2, "give --broker kafka://host:9092 (or DUTYCYCLE_BROKER), or --from-"),
        (["bert", "gpt", "--since", "1h"], 2, "--since goes with one name, not 2: bert, gpt"),
        (["--since", "1h", "--job", "bert"], 2, "--job and --pod go with a trace"),
        (
            ["--since", "1h", "--until", "2h", "--broker", "kafka://h:1"],
            2,
            "the end is not after the beginning",
        ),
        (["--since", "1h", "--step", "1m", "--broker", "kafka://h:1"], 2, "--step needs --from-prometheus"),
        (
            ["--since", "1h", "--timeout", "1s", "--broker", "kafka://127.0.0.1:9"],
            1,
            "no broker answered within",
        ),
        (["{folder}/empty.jsonl"], 1, "no samples to replay"),
        (["{trace}", "--out", "{folder}/x.pdf"], 2, "expected a name that ends with .html"),
        (["{trace}", "--out", "{folder}/there.html"], 2, "is there already; --force replaces it"),
        (["{trace}", "--out", "{folder}/no/x.html"], 2, "expected a file in a folder that is there"),
        (["{trace}", "--job", "bert", "--pod", "x"], 2, "not allowed with argument --job"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    trace: Path, tmp_path: Path, arguments: list[str], status: int, message: str
) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "there.html").write_text("mine")
    given = [one.format(trace=trace, folder=tmp_path) for one in arguments]
    if "--out" not in given:
        given += ["--out", str(tmp_path / "new.html")]
    done = run_to_end("report", *given)
    assert done.returncode == status
    assert message in "".join(done.stderr.splitlines()[-2:])
    assert "Traceback" not in done.stderr
    assert (tmp_path / "there.html").read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} == {"empty.jsonl", "there.html"}


def test_a_trace_that_is_cut_off_gives_no_report_of_a_part(trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.zst"
    cut.write_bytes(trace.read_bytes()[:-200])
    done = run_to_end("report", cut, "--out", tmp_path / "x.html")
    assert done.returncode == 1
    assert "damaged or cut off" in done.stderr
    assert not (tmp_path / "x.html").exists()


async def test_a_browser_draws_every_chart_in_every_window_and_zooms_them_together(
    gathered: Gathered, tmp_path: Path
) -> None:
    page = tmp_path / "bert.html"
    write_report(report_of(gathered, Settings(), "job", job="bert"), page)
    shown = """[...document.querySelectorAll('.plot[data-time]')].map((plot) =>
      plot._fullLayout.xaxis.range.map((at) => plot._fullLayout.xaxis.r2l(at)))"""
    async with tab(tmp_path / "profile") as browser:
        await browser.open(page.as_uri())
        charts = await browser.value("document.querySelectorAll('.plot').length")
        for width, scheme in ((1280, "light"), (1280, "dark"), (600, "light")):
            await browser.look(width, scheme)
            await browser.open(page.as_uri())
            await browser.wait_for(f"document.documentElement.dataset.drawn === '{charts}'")
            assert await browser.value("document.documentElement.scrollWidth <= innerWidth"), (width, scheme)
        assert await browser.value("document.querySelectorAll('.main-svg').length") >= 2 * charts
        assert await browser.value("document.querySelectorAll('[class*=scatterlayer]').length") >= charts - 1
        before = await browser.value(shown)
        await browser.value("""document.querySelector('.plot[data-time]').dispatchEvent(
          new KeyboardEvent('keydown', {key: '+', bubbles: true}))""")
        await browser.wait_for(f"{shown}.every(([first]) => first !== {before[0][0]})")
        (first, last), *others = await browser.value(shown)
        assert others == [[first, last]] * len(others)
        assert last - first == pytest.approx(719_000 / 2, rel=0.01)
        assert 4 <= await browser.printed_pages() <= 20
        assert browser.said == []
