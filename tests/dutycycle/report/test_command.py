"""``dutycycle report`` as a user runs it, and the page in a real browser."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import report_of, write_report
from dutycycle.report.gather import Gathered
from tests.support.browser import dump, print_pages, screenshot
from tests.support.processes.warm import command


def dutycycle(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DUTYCYCLE_")}
    return subprocess.run(
        [*command(), *map(str, arguments)],
        capture_output=True, check=False, timeout=240, env=environ, text=True,
    )  # fmt: skip


def test_a_report_of_a_trace(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "bert.html"
    done = dutycycle("report", trace, "--job", "bert", "--price-gpu-hour", "2.5", "--out", out)
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
        (
            ["{folder}/none.jsonl"],
            1,
            "none.jsonl: No such file or directory; for a job or pod of this name add",
        ),
        ([], 2, "give a trace, or --since 2h with the name of a job or pod"),
        (["{trace}", "--until", "1h"], 2, "--until needs --since"),
        (["{trace}", "--from-prometheus", "http://h:1"], 2, "--from-prometheus needs --since"),
        (
            ["bert", "--since", "1h"],
            2,
            "give --broker kafka://host:9092 (or DUTYCYCLE_BROKER), or --from-prom",
        ),
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
    done = dutycycle("report", *given)
    assert done.returncode == status
    assert message in "".join(done.stderr.splitlines()[-2:])
    assert "Traceback" not in done.stderr
    assert (tmp_path / "there.html").read_text() == "mine"
    assert {one.name for one in tmp_path.iterdir()} == {"empty.jsonl", "there.html"}


def test_a_trace_that_is_cut_off_gives_no_report_of_a_part(trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.zst"
    cut.write_bytes(trace.read_bytes()[:-200])
    done = dutycycle("report", cut, "--out", tmp_path / "x.html")
    assert done.returncode == 1
    assert "damaged or cut off" in done.stderr
    assert not (tmp_path / "x.html").exists()


@pytest.fixture(scope="module")
def page(gathered: Gathered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "bert.html"
    write_report(report_of(gathered, Settings(), "job", job="bert"), out)
    return out


def test_a_browser_draws_every_chart_without_a_complaint(page: Path, tmp_path: Path) -> None:
    charts = page.read_text().count('class="plot"')
    document = dump(page, tmp_path / "profile", "--window-size=1280,1000")
    assert f'data-drawn="{charts}"' in document
    assert document.count('class="main-svg"') >= 2 * charts
    assert len(re.findall(r'class="[^"]*scatterlayer', document)) >= charts - 1


def test_zooming_by_the_keyboard_moves_all_charts_together(page: Path, tmp_path: Path) -> None:
    """A script presses "+" in the first chart, as a person would, and says what each chart shows."""
    probe = """<script>window.addEventListener('load', () => setTimeout(() => {
      const plots = [...document.querySelectorAll('.plot[data-time]')];
      plots[0].dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: true}));
      setTimeout(() => { document.title = plots.map((one) =>
        one._fullLayout.xaxis.range.map((at) => one._fullLayout.xaxis.r2l(at)).join('-')).join(' '); }, 500);
    }, 500));</script></body>"""
    page_with = tmp_path / "probe.html"
    page_with.write_text(page.read_text().replace("</body>", probe))
    title = re.search(r"<title>(.*?)</title>", dump(page_with, tmp_path / "profile"))
    assert title is not None
    ranges = set(title[1].split())
    assert len(ranges) == 1
    first, last = map(float, ranges.pop().split("-"))
    assert last - first == pytest.approx(719_000 / 2, rel=0.01)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (600, False)])
def test_it_fits_its_window(page: Path, tmp_path: Path, width: int, *, dark: bool) -> None:
    flags = ["--blink-settings=preferredColorScheme=0"] if dark else []
    out = tmp_path / "page.png"
    assert screenshot(page, tmp_path / "profile", out, width, 1500, *flags) == (width, 1500)
    script = f"<script>document.title = document.documentElement.scrollWidth + ' {width}'</script></body>"
    wide = tmp_path / "wide.html"
    wide.write_text(page.read_text().replace("</body>", script))
    document = dump(wide, tmp_path / "profile", f"--window-size={width},1500", *flags)
    title = re.search(r"<title>(\d+) ", document)
    assert title is not None
    assert int(title[1]) <= width


def test_it_can_be_printed(page: Path, tmp_path: Path) -> None:
    assert 4 <= print_pages(page, tmp_path / "profile", tmp_path / "page.pdf") <= 20
