"""``dutycycle profile`` as a user types it."""

from pathlib import Path

import orjson
import pytest

from dutycycle.cli.main import main
from tests.support.data.profiled import waits_for_data, write_export, write_trace
from tests.support.fakes.nsys import install


def test_the_verdict_comes_first_and_then_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_export(waits_for_data(), tmp_path / "report1.sqlite")
    assert main(["profile", str(path), "--rows", "1"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == ("report1.sqlite, NVIDIA Nsight Systems 2024.2.1.31: held back by: input (98% sure)")
    assert "The GPU waits for data 37.5 % of the time" in out
    assert "Note: no memory sets: the export has no table CUPTI_ACTIVITY_KIND_MEMSET" in out
    row = next(line for line in lines if "cutlass" in line and "2,000,000.0" in line)
    assert row.split()[:3] == ["100.0", "80,000,000", "40"]
    assert "… and 2 more; --rows shows more" in out
    assert "idle: the host loads data" in out, "where the time went is shown whole"


def test_json_has_the_fields_of_an_insight_and_every_row(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = write_trace(waits_for_data(), tmp_path / "rank0.pt.trace.json.gz")
    assert main(["profile", str(path), "--format", "json", "--rows", "1"]) == 0
    found = orjson.loads(capsysbinary.readouterr().out)
    assert (found["bottleneck"], found["bottleneck_confidence"]) == ("input", 0.98)
    assert found["evidence"]["pageable_pct"] == 100
    assert "pin_memory" in found["advice"]
    assert found["gpus"]["0"]["wait_input_ns"] == 9 * 6_000_000 + 9 * 7_000
    assert len(found["tables"]["CUDA API Summary"]) == 3


@pytest.mark.parametrize("width", ["60", "100", "160"])
def test_a_terminal_of_any_width_has_whole_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    path = write_export(waits_for_data(), tmp_path / "report1.sqlite")
    assert main(["profile", str(path)]) == 0
    out = capsys.readouterr().out
    assert "80,000,000" in out
    assert ("Med (ns)" in out) == (width == "160")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["none.sqlite"], 1, "none.sqlite: No such file or directory"),
        (["."], 1, ".: Is a directory"),
        (["--rows", "0", "x"], 2, "expected a whole number from 1 on"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    try:
        got = main(["profile", *arguments])
    except SystemExit as end:
        got = int(end.code or 0)
    assert got == status
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1 if status == 1 else -2]  # after a wrong flag comes where help is


def test_a_report_itself_is_exported_by_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report1.nsys-rep"
    report.write_text("a report")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert main(["profile", str(report)]) == 1
    assert capsys.readouterr().err == (
        f"dutycycle: {report}: nsys is not on PATH: install NVIDIA Nsight Systems, or export it where nsys "
        "is: nsys export --type sqlite\n"
    )
    install(tmp_path / "bin")
    assert main(["profile", str(report)]) == 0
    assert "report1.sqlite, " in capsys.readouterr().out
    assert {one.name for one in tmp_path.iterdir()} == {"report1.nsys-rep", "bin"}
    report.write_text("of a newer version")
    assert main(["profile", str(report)]) == 1
    assert capsys.readouterr().err.endswith("report1.nsys-rep: the report is of a newer version\n")
