"""What a profile adds to a report."""

from pathlib import Path

import pytest

from dutycycle.cli.main import main
from dutycycle.contract.settings.groups import Settings
from dutycycle.profile.profile import read
from dutycycle.report.build import report_of
from dutycycle.report.gather import Gathered
from dutycycle.report.page import html_of
from tests.support.data.profiled import Program, launches_slowly, waits_for_data, write_export, write_trace


def test_the_verdict_from_inside_stands_beside_the_one_from_outside(
    gathered: Gathered, tmp_path: Path
) -> None:
    profiles = [
        read(write_trace(launches_slowly(), tmp_path / "rank0.pt.trace.json")),
        read(write_export(waits_for_data(), tmp_path / "report1.sqlite")),
    ]
    page = html_of(report_of(gathered, Settings(), "trace", profiles=profiles))
    verdict = page[page.index('aria-label="Verdict"') : page.index('aria-label="Key figures"')]
    assert "Training (99% sure); held back by: input" in verdict
    assert "From inside (rank0.pt.trace.json): held back by: launch (98% sure)" in verdict
    assert "From inside (report1.sqlite): held back by: input (98% sure)" in verdict
    assert "<h2>From inside: report1.sqlite</h2>" in page
    assert "<h3>CUDA GPU MemOps Summary (by Size)</h3>" in page
    assert "37.5 %" in page
    assert "<h2>From inside" not in html_of(report_of(gathered, Settings(), "trace"))


def test_names_in_a_profile_are_text_and_not_markup(gathered: Gathered, tmp_path: Path) -> None:
    program = Program()
    program.launch("void k<script>alert(1)</script>" + "x" * 500, 1000)
    found = read(write_export(program, tmp_path / "a<b>.sqlite"))
    page = html_of(report_of(gathered, Settings(), "trace", profiles=[found]))
    assert "k&lt;script&gt;" in page
    assert "k<script>" not in page
    assert "From inside: a&lt;b&gt;.sqlite" in page
    assert "x" * 200 not in page.split("<script")[0]


@pytest.mark.slow
def test_report_takes_profiles(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile, out = write_export(waits_for_data(), tmp_path / "report1.sqlite"), tmp_path / "job.html"
    assert main(["report", str(trace), "--profile", str(profile), "--out", str(out)]) == 0
    assert "From inside (report1.sqlite): held back by: input" in out.read_text()
    assert main(["report", str(trace), "--profile", "none.sqlite", "--out", str(tmp_path / "x.html")]) == 1
    assert capsys.readouterr().err == "dutycycle: none.sqlite: No such file or directory\n"
    assert not (tmp_path / "x.html").exists()
