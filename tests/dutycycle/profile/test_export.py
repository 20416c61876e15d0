"""Exports of several versions of Nsight Systems, and files that are none."""

import sqlite3
from pathlib import Path

import pytest

from dutycycle.contract.errors import DutycycleError
from dutycycle.profile.profile import read
from dutycycle.report.profiled import Profile
from tests.support.data.profiled import (
    GEMM,
    MS,
    Program,
    asks_for_results,
    computes,
    waits_for_data,
    write_export,
)


def table(profile: Profile, title: str) -> list[tuple[str | int | float, ...]]:
    return next((one.rows for one in profile.tables if one.title == title), [])


def test_old_and_new_schemas_say_the_same(tmp_path: Path) -> None:
    old = read(write_export(asks_for_results(), tmp_path / "2022.sqlite", year=2022))
    new = read(write_export(asks_for_results(), tmp_path / "2024.sqlite", year=2024))
    assert old.evidence == new.evidence
    assert (old.product, new.product) == (
        "NVIDIA Nsight Systems 2022.2.1.31",
        "NVIDIA Nsight Systems 2024.2.1.31",
    )
    assert (list(old.gpus), list(new.gpus)) == (["0"], ["0 NVIDIA H200"])
    name = "CUDA GPU MemOps Summary (by Time)"
    assert table(old, name)[0][-1] == "[CUDA memcpy DtoH]"
    assert table(new, name)[0][-1] == "[CUDA memcpy Device-to-Host]"


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "CUDA GPU Kernel Summary"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUDA GPU MemOps Summary (by Size)"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA API Summary"),
        ("NVTX_EVENTS", "NVTX Range Summary"),
    ],
)
def test_a_table_that_is_missing_is_named_and_the_others_are_shown(
    tmp_path: Path, missing: str, gone: str
) -> None:
    whole = read(write_export(waits_for_data(), tmp_path / "whole.sqlite"))
    found = read(write_export(waits_for_data(), tmp_path / "less.sqlite", without=(missing,)))
    assert any(missing in note for note in found.notes)
    titles = {one.title for one in found.tables}
    assert gone not in titles
    assert titles >= {one.title for one in whole.tables} - {gone, *_OF_THESE}


ODD = {
    "an end that is no number": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'x' WHERE rowid = 3",
    "an endless one": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9e999 WHERE rowid = 3",
    "an end before the start": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5 WHERE rowid = 3",
    "no GPU": "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 'x' WHERE rowid = 3",
    "a call without a start": "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'x' WHERE rowid = 3",
    "a range without a start": "UPDATE NVTX_EVENTS SET start = 'x' WHERE rowid = 3",
    "a process without a number": "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, NULL)",
}


@pytest.mark.parametrize("sql", ODD.values(), ids=ODD.keys())
def test_rows_that_make_no_sense_do_no_harm(tmp_path: Path, sql: str) -> None:
    path = write_export(waits_for_data(), tmp_path / "a.sqlite")
    whole = read(path)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE IF NOT EXISTS TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid)")
        assert db.execute(sql).rowcount == 1
    db.close()
    found = read(path)
    (name,) = whole.gpus
    of_kernels = "KERNEL" in sql
    assert found.gpus[name]["activities"] == whole.gpus[name]["activities"] - of_kernels
    assert found.finding.bottleneck == whole.finding.bottleneck
    note = "1 rows of CUPTI_ACTIVITY_KIND_KERNEL have no time or no GPU, and are left out"
    assert (note in found.notes) is of_kernels


@pytest.mark.parametrize("program", [waits_for_data(), asks_for_results()], ids=["data", "results"])
def test_names_that_are_no_utf8_are_read_on(tmp_path: Path, program: Program) -> None:
    """As of a range whose name a program cut within a letter: the export itself is whole."""
    whole = read(write_export(program, tmp_path / "whole.sqlite"))
    path = change(
        write_export(program, tmp_path / "export.sqlite"),
        "UPDATE StringIds SET value = CAST(CAST(value AS BLOB) || x'ff' AS TEXT)",
        "UPDATE TARGET_INFO_GPU SET name = CAST(CAST(name AS BLOB) || x'ff' AS TEXT)",
    )
    found = read(path)
    assert (found.evidence, found.finding) == (whole.evidence, whole.finding)
    assert list(found.gpus) == [f"{name}\N{REPLACEMENT CHARACTER}" for name in whole.gpus]
    rows = table(found, "CUDA API Summary")
    assert len(rows) == len(table(whole, "CUDA API Summary"))
    assert all(str(row[-1]).endswith("\N{REPLACEMENT CHARACTER}") for row in rows)


def test_without_names_kernels_are_still_counted(tmp_path: Path) -> None:
    found = read(write_export(computes(), tmp_path / "export.sqlite", without=("StringIds",)))
    assert found.evidence["compute_pct"] == 100
    assert any("StringIds" in note for note in found.notes)


def test_an_export_without_a_gpu_says_so(tmp_path: Path) -> None:
    program = Program()
    program.works(MS, "step")
    found = read(write_export(program, tmp_path / "export.sqlite"))
    assert found.headline() == "no GPU was traced"
    assert (found.finding.bottleneck, found.evidence, found.advice) == ("unknown", {}, None)
    assert table(found, "NVTX Range Summary")[0][-1] == "step"


_OF_THESE = ("Kernel families", "GPU time", "GPUs", "CUDA GPU MemOps Summary (by Time)")


def change(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as db:
        for one in statements:
            db.execute(one)
    db.close()
    return path


def test_a_graph_that_was_traced_as_one_is_work_of_the_gpu(tmp_path: Path) -> None:
    path = change(
        write_export(waits_for_data(), tmp_path / "export.sqlite", without=("CUPTI_ACTIVITY_KIND_KERNEL",)),
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, "
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 5000000, 0, 7, 1, 0, 3)",
    )
    assert table(read(path), "CUDA GPU Kernel Summary")[0][-1] == "CUDA graph"


def test_ranges_have_their_domain_and_style_and_those_without_end_are_left_out(tmp_path: Path) -> None:
    program = Program()
    program.works(MS, "step")
    path = change(
        write_export(program, tmp_path / "export.sqlite"),
        "INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 'NCCL', 1, NULL, 5)",
        "INSERT INTO NVTX_EVENTS VALUES (10, 30, 60, 'reduce', 1, NULL, 5)",
        "INSERT INTO NVTX_EVENTS VALUES (10, NULL, 59, 'never ends', 1, NULL, NULL)",
    )
    assert [row[-2:] for row in table(read(path), "NVTX Range Summary")] == [
        ("PushPop", "step"),
        ("StartEnd", "NCCL:reduce"),
    ]


def test_a_process_that_sees_one_gpu_calls_it_0_whichever_it_is(tmp_path: Path) -> None:
    path = change(
        write_export(computes(3), tmp_path / "export.sqlite"),
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)",
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (5, 0, 4711)",
    )
    assert list(read(path).gpus) == ["5"]


def test_a_file_that_is_cut_off_is_not_read(tmp_path: Path) -> None:
    path = write_export(waits_for_data(), tmp_path / "export.sqlite")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        DutycycleError, match=rf"is cut off: {len(whole) // 2} of {len(whole)} bytes are there"
    ):
        read(path)


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = write_export(waits_for_data(), tmp_path / "export.sqlite")
    whole = bytearray(path.read_bytes())
    whole[4096:12288] = b"\xff" * 8192
    path.write_bytes(whole)
    with pytest.raises(DutycycleError, match=r"export\.sqlite: cannot be read: "):
        read(path)


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    report, other = tmp_path / "report1.nsys-rep", tmp_path / "other.sqlite"
    report.write_bytes(b"NVIDIA report" * 100)
    change(other, "CREATE TABLE things (id INTEGER)")
    with pytest.raises(DutycycleError, match=r"nsys export --type sqlite report1\.nsys-rep"):
        read(report)
    with pytest.raises(DutycycleError, match="is a database, but not an export of Nsight Systems"):
        read(other)
    with pytest.raises(DutycycleError, match="No such file"):
        read(tmp_path / "none.sqlite")


def test_reading_changes_and_leaves_nothing(tmp_path: Path) -> None:
    path = write_export(computes(), tmp_path / "export.sqlite")
    before = path.read_bytes()
    path.chmod(0o400)
    assert read(path).evidence["kernel_mean_us"] == 2000
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["export.sqlite"]
    assert GEMM in str(table(read(path), "CUDA GPU Kernel Summary"))
