"""``dutycycle import`` as a user runs it: a trace that a replay reads, wrong lines named, clear errors."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest

from dutycycle.cli.main import main
from dutycycle.imports.quantities import Row
from dutycycle.imports.samples import Samples
from tests.support.data.traces import read_trace

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
START_MS = 1000 * int(START.timestamp())
HEADING = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]"
PERIOD_S = 12
ADDRESSES = ("10.0.0.1", "10.0.0.2")


def smi_line(at_ms: int, gpu: int, util: int) -> str:
    moment = START + timedelta(milliseconds=at_ms)
    return (
        f"{moment:%Y/%m/%d %H:%M:%S}.{at_ms % 1000:03d}, {gpu}, {util} %, {1000 + gpu} MiB, {50 + util}.25 W"
    )


def busy(second: int) -> int:
    return 90 if second % PERIOD_S < 8 else 5


def smi_log(seconds: int) -> Iterator[str]:
    yield HEADING
    for second in range(seconds):
        for gpu in range(2):
            yield smi_line(1000 * second + 3 * gpu + second % 3, gpu, busy(second))


def write(path: Path, lines: Iterator[str] | list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def records(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(one.payload or b"") for one in read_trace(str(path))]


def test_an_imported_log_has_its_cycle_and_its_peaks(tmp_path: Path) -> None:
    log = write(tmp_path / "gpu-a.csv", smi_log(300))
    trace, derived = str(tmp_path / "t.jsonl.zst"), tmp_path / "derived.jsonl"
    assert main(["import", "nvidia-smi", log, "--out", trace]) == 0
    assert main(["replay", trace, "--out", str(derived)]) == 0
    of_gpu = [one for one in records(derived) if one.get("subject", {}).get("gpu") == "gpu-1"]
    cycles = [one["metrics"] for one in of_gpu if "gpu_util_pct" in one["metrics"]
              and "cyclic" in one["metrics"]["gpu_util_pct"]]  # fmt: skip
    assert cycles[-1]["gpu_util_pct"]["period_s"] == pytest.approx(PERIOD_S, rel=0.01)
    assert cycles[-1]["power_w"]["cyclic"]
    windows = [one["metrics"] for one in of_gpu if one.get("size_ms") == 60_000]
    assert {one["power_w"]["max"] for one in windows} == {140.25}
    assert {one["mem_used_bytes"]["max"] for one in windows} == {1001 * 1024 * 1024}
    assert all("temp_c" not in one for one in windows)  # the log has none


def test_a_job_has_its_peaks(tmp_path: Path) -> None:
    logs = [write(tmp_path / f"{node}.csv", smi_log(30)) for node in ("a", "b")]
    trace, derived = str(tmp_path / "t.jsonl.zst"), tmp_path / "derived.jsonl"
    assert main(["import", "nvidia-smi", *logs, "--job", "bert", "--out", trace]) == 0
    assert main(["replay", trace, "--out", str(derived)]) == 0
    by_topic = {one.topic.removeprefix("dutycycle."): orjson.loads(one.payload or b"") for one in
                read_trace(str(derived))}  # fmt: skip
    job = by_topic["job-peaks"]
    assert (job["job"]["name"], job["final"]) == ("bert", True)
    assert job["metrics"]["gpu_util_pct"]["max"] == 90
    assert job["metrics"]["gpu_util_pct"]["mean"] == pytest.approx(sum(map(busy, range(30))) / 30, abs=2)
    assert by_topic["pod-peaks"]["final"]


def test_each_tick_is_a_record_and_a_pause_stays_one(tmp_path: Path) -> None:
    ticks_ms = [0, 1002, 1999, 3001, 4000, 64_000, 65_001]
    lines = [HEADING, *(smi_line(at_ms + gpu, gpu, 5) for at_ms in ticks_ms for gpu in range(2))]
    out = tmp_path / "t.jsonl"
    assert (
        main(["import", "nvidia-smi", write(tmp_path / "x.csv", lines), "--node", "b", "--out", str(out)])
        == 0
    )
    found = records(out)
    assert [one["ts_ms"] - START_MS for one in found] == [at_ms + 1 for at_ms in ticks_ms]
    assert [one["seq"] for one in found] == list(range(7))
    assert {(one["node"], one["interval_ms"], len(one["gpus"])) for one in found} == {("b", 1000, 2)}
    assert found[0]["gpus"][1] == {
        "uuid": "gpu-1", "index": 1, "gpu_util_pct": 5, "mem_used_bytes": 1001 * 1024 * 1024, "power_w": 55.25
    }  # fmt: skip


def test_wrong_lines_are_named_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [smi_line(1000 * second, 0, 5) for second in range(3)]
    garbled = smi_line(4000, 0, 7).replace("7 %", "7 PS").replace("1000 MiB", "much").replace(" W", " PS")
    bad = [garbled, "2026/11/20 10:0", *["?"] * 5]
    log = write(tmp_path / "a.csv", [HEADING, good[0], *bad, *good[1:]])
    out = tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", log, "--out", str(out)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"{log}:3: '7 PS' is no gpu_util_pct: expected %")
    assert said[1] == f"{log}:4: 1 values for 5 columns"
    assert sum(line.startswith(f"{log}:") for line in said) == 5
    assert said[-1] == "imported: 3 nvml-samples from 3 lines; left out: 7 wrong lines"
    assert len(records(out)) == 3


UNREADABLE = {
    "clocks_throttle_reasons.active": ("Not Active", "0x0000000000000004", "throttle", "sw_power_cap"),
    "remapped_rows.failure": ("perhaps", "Yes", None, None),
    "retired_pages.double_bit.count": ("some", "2", None, None),
    "utilization.gpu [%]": ("7 PS", "93 %", "gpu_util_pct", 93),
    "temperature.gpu": ("warm", "40", "temp_c", 40),
    "power.draw [W]": ("55", "55.25 W", "power_w", 55.25),
}


@pytest.mark.parametrize(("name", "cells"), UNREADABLE.items(), ids=UNREADABLE.keys())
def test_a_cell_that_cannot_be_read_leaves_the_others_of_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, cells: tuple[str, str, str | None, Any]
) -> None:
    odd, usual, field, value = cells
    lines = [f"timestamp, index, memory.used [MiB], {name}"] + [
        f"2026/11/20 10:00:0{second}.000, 0, {9 + second} MiB, {odd if second % 2 else usual}"
        for second in range(6)
    ]
    samples = [one for one in imported(tmp_path, lines) if "gpus" in one]
    gpus = [sample["gpus"][0] for sample in samples]
    assert [gpu["mem_used_bytes"] for gpu in gpus] == [(9 + second) * 1024**2 for second in range(6)]
    assert {sample["interval_ms"] for sample in samples} == {1000}
    if field is not None:
        text = [value] if field == "throttle" else value
        assert [gpu.get(field) for gpu in gpus] == [text, None] * 3
    assert f"{name}: 3 cells that cannot be read, the first: {odd!r} " in capsys.readouterr().err


def test_files_of_several_nodes_are_in_order_of_time(tmp_path: Path) -> None:
    heading = "timestamp,gpu_index,utilization_gpu_pct"
    logs = []
    for name, first in (("b", 20), ("a", 0)):
        by_gpu = [f"{tenth / 10},{gpu},5" for gpu in range(2) for tenth in range(first, first + 40)]
        logs.append(write(tmp_path / f"{name}.csv", [heading, *by_gpu]))
    out = tmp_path / "t.jsonl"
    assert main(["import", "supercloud", *logs, "--out", str(out)]) == 0
    found = records(out)
    of_node = {node: [one["ts_ms"] for one in found if one["node"] == node] for node in ("a", "b")}
    assert of_node == {"a": list(range(0, 4000, 100)), "b": list(range(2000, 6000, 100))}
    latest_ms = [max(one["ts_ms"] for one in found[: place + 1]) for place in range(80)]
    assert all(latest - one["ts_ms"] <= 1000 for latest, one in zip(latest_ms, found, strict=True))
    assert {(one["interval_ms"], len(one["gpus"])) for one in found} == {(100, 2)}
    assert len({one["seq"] for one in found}) == 80


def test_it_is_the_same_however_it_is_cut_into_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "a.csv", smi_log(50))
    outs = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for out, run_bytes in zip(outs, (10**9, 500), strict=True):
        monkeypatch.setattr("dutycycle.imports.samples._RUN_BYTES", run_bytes)
        assert main(["import", "nvidia-smi", log, "--out", str(out)]) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert len(records(outs[0])) == 50


def test_gpus_without_a_number_are_counted(tmp_path: Path) -> None:
    samples = Samples(tmp_path, "t.")
    for at_ms, uuid in ((0, "GPU-b"), (1, "GPU-a"), (1000, "GPU-b")):
        samples.add("n", Row(at_ms, {"uuid": uuid}))
    found = [orjson.loads(one.payload or b"") for one in samples.records(lambda: None)]
    assert [[(gpu["uuid"], gpu["index"]) for gpu in one["gpus"]] for one in found] == [
        [("GPU-b", 0), ("GPU-a", 1)], [("GPU-b", 0)]
    ]  # fmt: skip


def test_dmon_begins_where_it_is_told(tmp_path: Path) -> None:
    log = write(tmp_path / "gpu-b.txt", ["#Entity   GPUTL", "ID", "GPU 0     5", "GPU 1     6"] * 3)
    out = tmp_path / "t.jsonl"
    assert (
        main(
            ["import", "dcgm-dmon", log, "--start", START.isoformat(), "--interval", "2s", "--out", str(out)]
        )
        == 0
    )
    found = records(out)
    assert [
        (one["node"], one["ts_ms"] - START_MS, one["interval_ms"], len(one["gpus"])) for one in found
    ] == [("gpu-b", at_ms, 2000, 2) for at_ms in (0, 2000, 4000)]


def imported(
    tmp_path: Path, content: str | bytes | list[str] | dict[str, Any], *options: str
) -> list[dict[str, Any]]:
    """Give the samples that a log becomes: lines, all of a file, or an object of JSON."""
    log, out = tmp_path / ("all.json" if isinstance(content, dict) else "n.csv"), tmp_path / "t.jsonl"
    if isinstance(content, dict):
        content = [orjson.dumps(content).decode()]
    if isinstance(content, list):
        content = "".join(f"{line}\n" for line in content)
    log.write_bytes(content.encode() if isinstance(content, str) else content)
    assert main(["import", "nvidia-smi", str(log), *options, "--force", "--out", str(out)]) == 0
    return records(out)


WHOLE = "".join(f"{line}\n" for line in [HEADING, smi_line(0, 0, 5), smi_line(1000, 0, 6)])


@pytest.mark.parametrize(
    "encoded",
    [
        WHOLE.encode("utf-8-sig"), WHOLE.encode("utf-16"), WHOLE.encode("utf-16-le"),
        WHOLE.encode("utf-16-be"), "\ufeff".encode("utf-16-be") + WHOLE.encode("utf-16-be"),
        WHOLE.replace("\n", "\r\n").encode("utf-16"),
        WHOLE.replace("\n", "\r\n").encode(),
    ],
    ids=["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-16-be with a mark", "utf-16 crlf", "crlf"],
)  # fmt: skip
def test_a_log_of_windows_is_read(tmp_path: Path, encoded: bytes) -> None:
    assert imported(tmp_path, encoded) == imported(tmp_path, WHOLE)


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_line_that_is_cut_off_has_what_is_before_the_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    last = "2026/11/20 10:00:02.000, 0, 97 %, 90098 MiB, 55.25 W"
    content = WHOLE + last[: len(last) - cut + 1]
    for text, how in ((content, "end of the file"), (f"{content}\n{smi_line(3000, 0, 7)}\n", "continued")):
        if cut in (1, 8, 9) and how == "continued":
            continue  # nothing is missing, or a value that was never there
        samples = imported(tmp_path, text)
        is_kept = how == "continued" and cut < 8  # only the cell of its power was cut
        assert [sample["ts_ms"] - START_MS for sample in samples] == [
            0, 1000, *[2000] * is_kept, *[3000] * (how == "continued")
        ]  # fmt: skip
        output_text = capsys.readouterr().err
        if is_kept:
            gpu = samples[2]["gpus"][0]
            assert (gpu["mem_used_bytes"], gpu.get("power_w")) == (90098 * 1024**2, None)
            assert "has no unit, and those before it in power.draw [W] have: it was cut off" in output_text
        else:
            assert "left out: 1 wrong line" in output_text


def test_a_row_of_an_unknown_gpu_invents_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading = "timestamp, index, uuid, utilization.gpu [%]\n"
    rows = [("0, GPU-a, 90 %", "1, GPU-b, 80 %"), ("0, GPU-a, 91 %", "1, [Unknown Error], [Unknown Error]"),
            ("0, GPU-a, 92 %", "[N/A], [Unknown Error], ERR!"),
            ("0, GPU-a, 93 %", "[N/A], GPU-b, 81 %")]  # fmt: skip
    lines = [f"2026/11/20 10:00:0{at}.000, {gpu}\n" for at, gpus in enumerate(rows) for gpu in gpus]
    samples = imported(tmp_path, heading + "".join(lines))
    assert [[(gpu["uuid"], gpu.get("gpu_util_pct")) for gpu in sample["gpus"]] for sample in samples] == [
        [("GPU-a", 90), ("GPU-b", 80)], [("GPU-a", 91), ("GPU-b", None)], [("GPU-a", 92)],
        [("GPU-a", 93), ("GPU-b", 81)],
    ]  # fmt: skip
    assert "n.csv:7: is of no known GPU: index '[N/A]', uuid '[Unknown Error]'" in capsys.readouterr().err


def test_a_uuid_that_comes_late_is_of_the_same_gpu(tmp_path: Path) -> None:
    heading = "timestamp, index, uuid, utilization.gpu [%]\n"
    lines = ["2026/11/20 10:00:00.000, 3, [Unknown Error], 5 %\n", "2026/11/20 10:00:01.000, 3, GPU-d, 6 %\n"]
    samples = imported(tmp_path, heading + "".join(lines))
    assert [sample["gpus"][0]["uuid"] for sample in samples] == ["GPU-d", "GPU-d"]


def test_rows_without_an_index_are_dealt_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["timestamp, power.draw [W]\n"]
    for second in range(6):
        gpus = range(3) if second != 3 else range(2)  # whose row is missing is not known
        lines += [f"2026/11/20 10:00:0{second}.10{gpu}, {100 * (gpu + 1) + second} W\n" for gpu in gpus]
    samples = imported(tmp_path, "".join(lines[:-1]))  # and the last moment is cut off after two rows
    powers = [[gpu["power_w"] for gpu in sample["gpus"]] for sample in samples]
    assert powers == [[100 + at, 200 + at, 300 + at] for at in (0, 1, 2, 4)] + [[105, 205]]
    output = capsys.readouterr().err
    assert "n: no column says which GPU: rows of one moment are dealt out to 3 GPUs" in output
    assert "left out: 2 lines of moments that have not a line of each GPU" in output


def test_values_out_of_range_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [HEADING, smi_line(0, 0, 5), smi_line(1000, 0, 187431), smi_line(2000, 0, 4294967295)]
    samples = imported(tmp_path, lines)
    assert [sample["gpus"][0].get("gpu_util_pct") for sample in samples] == [5, None, None]
    assert all("mem_used_bytes" in sample["gpus"][0] for sample in samples)
    assert (
        "utilization.gpu [%]: 2 values that no GPU has, such as 187431 %: left absent"
        in capsys.readouterr().err
    )


SHARES = [
    ("shares of 1", "gpu_util", ["0", "0.5", "1"], [0, 50, 100], True),
    ("of an idle GPU", "gpu_util", ["0", "1", "0"], [0, 1, 0], False),
    ("percentages that are not whole", "gpu_util", ["0.5", "97.5", "1"], [0.5, 97.5, 1], False),
    ("the heading says it", "gpu_util [%]", ["0.1", "0.5", "0.2"], [0.1, 0.5, 0.2], False),
    ("the cells say it", "gpu_util", ["0.1 %", "0.5 %", "0.2 %"], [0.1, 0.5, 0.2], False),
    ("the heading says that they are", "gpu_util_ratio", ["0.1", "0.5", "0.2"], [10, 50, 20], False),
    ("of a quiet GPU that reads much", "util,utilization.memory", ["0.5,7", "1,9"], [0.5, 1], False),
    ("beside another share", "load,mem_util", ["0,0.5", "1,0.25"], [0, 100], True),
    ("with commas", '"load"', ['"0,5"', '"0,25"'], [50, 25], True),
]


@pytest.mark.parametrize(
    ("goal", "names", "cells", "utils", "is_said"), SHARES, ids=[row[0] for row in SHARES]
)
def test_percentages_of_which_none_is_above_one_are_shares_of_one(
    goal: str, names: str, cells: list[str], utils: list[float], is_said: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    lines = [f"2026-11-20 10:00:0{at},0,{cell}\n" for at, cell in enumerate(cells)]
    samples = imported(tmp_path, "".join([f"time,index,{names}\n", *lines]))
    assert [sample["gpus"][0]["gpu_util_pct"] for sample in samples] == utils, goal
    assert ("if it is in percent, give it: --columns gpu_util_pct=" in capsys.readouterr().err) is is_said


MEMORY_SHARES = [
    ("GPUtil", "load,memoryUtil", ["0.0,0.25", "1.0,0.5"], None),
    ("GPUtil, times 100", "load,memoryUtil", ["0.0,25.0", "100.0,50.0"], None),
    ("GPUtil, though all is free", "load,memoryUtil", ["0.0,0.3", "1.0,0.7"], None),
    ("the memory in use", "util,mem_util", ["0,25", "100,50"], None),
    ("the memory in use, dotted", "util,memory.util", ["0,25", "100,50"], None),
    ("VRAM", "util,vram_utilization", ["0,26", "100,51"], None),
    ("not the memory in use", "util,memory_util", ["0,25", "100,7"], [25, 7]),
    ("of nvitop", "util,memory_utilization", ["0,0", "100,51"], [0, 51]),
    ("of nvidia-smi, whatever it is", "util,utilization.memory [%]", ["0,25", "100,50"], [25, 50]),
]


@pytest.mark.parametrize(
    ("goal", "names", "cells", "copies"), MEMORY_SHARES, ids=[row[0] for row in MEMORY_SHARES]
)
def test_a_share_of_the_memory_in_use_is_no_utilization_of_it(
    goal: str, names: str, cells: list[str], copies: list[float] | None, tmp_path: Path
) -> None:
    memory = ["10240,40960", "20480,40960"]
    lines = [f"2026-11-20 10:00:0{at},0,{cell},{memory[at]}\n" for at, cell in enumerate(cells)]
    samples = imported(tmp_path, "".join([f"time,index,{names},memoryUsed,memoryTotal\n", *lines]))
    gpus = [sample["gpus"][0] for sample in samples]
    assert [gpu["gpu_util_pct"] for gpu in gpus] == [0, 100]
    assert [gpu.get("mem_copy_util_pct") for gpu in gpus] == (copies or 2 * [None]), goal
    assert [gpu["mem_used_bytes"] >> 30 for gpu in gpus] == [10, 20]


@pytest.mark.parametrize(("heading", "indexes"), [("load,memoryUtil", [2, 3]), ("util,mem_used", [0])])
def test_the_id_of_gputil_is_the_number_of_the_gpu(heading: str, indexes: list[int], tmp_path: Path) -> None:
    """In other logs it is the row's as often."""
    lines = [f"2026-11-20 10:00:00,{at},0.5,0.25\n" for at in (2, 3)]
    samples = imported(tmp_path, "".join([f"timestamp,id,{heading}\n", *lines[: len(indexes)]]))
    assert [[gpu["index"] for gpu in sample["gpus"]] for sample in samples] == [indexes]


def test_a_share_of_the_memory_tells_what_is_used(tmp_path: Path) -> None:
    lines = ["timestamp,load,memoryUtil,memoryTotal\n", "2026-11-20 10:00:00,0.5,0.25,40960.0\n"]
    ((gpu,),) = [sample["gpus"] for sample in imported(tmp_path, "".join(lines))]
    assert (gpu["gpu_util_pct"], gpu["mem_used_bytes"]) == (50, 10 << 30)


def test_a_counter_that_stands_still_under_load_is_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    energies = [(100, 80), (180, 80), (180, 80), (180, 80), (420, 80), (420, 0)]
    lines = [f"2026-11-20 10:00:0{at},0,{energy},{power}\n" for at, (energy, power) in enumerate(energies)]
    samples = imported(tmp_path, "".join(["time,index,energy_j,power_w\n", *lines]))
    assert [sample["gpus"][0].get("energy_j") for sample in samples] == [100, 180, None, None, 420, 420]
    assert "energy stood still 2 times while power was drawn" in capsys.readouterr().err


def test_processes_are_of_their_gpu(tmp_path: Path) -> None:
    heading = "timestamp, gpu_name, gpu_bus_id, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    lines = [
        f"2026/11/20 10:00:0{second}.12{row}, NVIDIA A30, 0:01:00.0, GPU-a, {pid}, python, {memory}\n"
        for second in range(2)
        for row, (pid, memory) in enumerate([(7, "12000 MiB"), (8, "11000 MiB" if second else "[N/A]")])
    ]
    samples = imported(tmp_path, heading + "".join(lines))
    gpus = [gpu for sample in samples for gpu in sample["gpus"]]
    assert [[process["pid"] for process in gpu["processes"]] for gpu in gpus] == [[7, 8], [7, 8]]
    assert [gpu.get("mem_used_bytes") for gpu in gpus] == [
        None,
        23000 * 1024 * 1024,
    ]  # a sum of what is known


def test_a_log_without_times_begins_where_it_is_told(tmp_path: Path) -> None:
    content = "power.draw [W], utilization.gpu [%]\n23.10 W, 0 %\n310.40 W, 98 %\n312.00 W, 99 %\n"
    samples = imported(tmp_path, content, "--start", START.isoformat(), "--interval", "5s")
    assert [(sample["ts_ms"] - START_MS, sample["interval_ms"]) for sample in samples] == [
        (0, 5000), (5000, 5000), (10_000, 5000)
    ]  # fmt: skip


def test_ticks_of_one_second_are_spread_over_it(tmp_path: Path) -> None:
    lines = [f"2026-11-20 10:00:0{tick // 4},0,{tick}\n" for tick in range(12)]
    samples = imported(tmp_path, "".join(["time,index,util\n", *lines]))
    assert [sample["ts_ms"] - START_MS for sample in samples] == list(range(0, 3000, 250))
    assert [sample["gpus"][0]["gpu_util_pct"] for sample in samples] == list(range(12))
    assert samples[0]["interval_ms"] in range(240, 285)


def test_a_log_of_several_nodes_keeps_them_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = "time,hostname,index,util\n" + "".join(
        f"2026-11-20 10:00:00,{node},0,{util}\n" for node, util in (("a", 5), ("b", 6))
    )
    assert sorted(sample["node"] for sample in imported(tmp_path, content)) == ["a", "b"]
    assert "machines" not in capsys.readouterr().err
    assert {sample["node"] for sample in imported(tmp_path, content, "--node", "c")} == {"c"}
    assert "names 2 machines (a, b), which --node makes one" in capsys.readouterr().err


def test_a_night_in_which_clocks_go_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime(2026, 10, 25, 0, 59, 58, tzinfo=UTC)
    moments = [(before + timedelta(seconds=second)) for second in range(5)]
    local = [moment.astimezone(ZoneInfo("Europe/Berlin")) for moment in moments]
    content = "timestamp,index,util\n" + "".join(f"{moment:%Y/%m/%d %H:%M:%S},0,5\n" for moment in local)
    samples = imported(tmp_path, content, "--zone", "Europe/Berlin")
    assert [sample["ts_ms"] for sample in samples] == [round(1000 * moment.timestamp()) for moment in moments]
    assert "goes back" not in capsys.readouterr().err
    imported(tmp_path, content)
    assert "the time goes back by an hour at 2026/10/25 02:00:00" in capsys.readouterr().err


def test_a_log_of_each_hour_and_of_two_gpus_over_that_night(tmp_path: Path) -> None:
    moments = [datetime(2026, 10, 24, 22, 0, tzinfo=UTC) + timedelta(hours=hour) for hour in range(6)]
    content = "timestamp,index,util\n" + "".join(
        f"{moment.astimezone(ZoneInfo('Europe/Berlin')):%Y/%m/%d %H:%M:%S},{gpu},{10 * hour}\n"
        for hour, moment in enumerate(moments)
        for gpu in (0, 1)
    )
    samples = imported(tmp_path, content, "--zone", "Europe/Berlin")
    assert [sample["ts_ms"] for sample in samples] == [round(1000 * moment.timestamp()) for moment in moments]
    for hour, sample in enumerate(samples):
        assert [gpu["gpu_util_pct"] for gpu in sample["gpus"]] == [10 * hour] * 2


LINES = [HEADING, smi_line(0, 0, 5)]
FAILED = "has no line that can be read; the first: a:1: is a failure of nvidia-smi, and no measurement:"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running."
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
LIBRARY = "NVML library version: 535.161"
REFUSED = {
    "no line of the format": (["nvidia-smi", "a"], ["hello"], 1, "a:1: comes before a heading"),
    "an empty file": (["nvidia-smi", "a"], [], 1, "a has no lines: it is empty"),
    "a file that is not there": (["nvidia-smi", "b"], LINES, 1, "b: No such file"),
    "no start": (["dcgm-dmon", "a"], LINES, 2, "give --start"),
    "no GPU": (["nvidia-smi", "a"], ["No devices were found"], 1, f"a {FAILED} 'No devices were found'"),
    "no driver": (["nvidia-smi", "a"], [NO_DRIVER, ""], 1, f'a {FAILED} "{NO_DRIVER}"'),
    "another driver": (["nvidia-smi", "a"], [MISMATCH, LIBRARY], 1, f"a {FAILED} {MISMATCH!r}"),
    "no program": (["nvidia-smi", "a"], ["sh: 1: nvidia-smi: not found"], 1, f"{FAILED} 'sh: 1: nv"),
    "a failure of each second": (["nvidia-smi", "a"], [HEADING, "No devices were found"], 1,
                                 "a:2: is a failure of nvidia-smi, and no measurement"),
    "a wrong start": (["dcgm-dmon", "a", "--start", "noon"], LINES, 2, "--start 'noon'"),
    "a start of supercloud": (["supercloud", "a", "--start", "2026-11-20"], LINES, 2,
                              "--start is for nvidia-smi and dcgm-dmon only"),
    "no column that is known": (["nvidia-smi", "a"], ["step,loss", "1,2"], 1, "known of step, loss: say"),
    "nothing measured": (["nvidia-smi", "a"], ["timestamp,foo,bar", "2026-11-20 10:00:00,1,2"], 1,
                         "a: not one figure of a GPU in 1 lines; its columns are timestamp, foo, bar: say"),
    "known, never measured": (["nvidia-smi", "a"], [HEADING, "2026/11/20 10:00:00, 0, [N/A], N/A, ERR!"], 1,
                              "in 1 lines: utilization.gpu [%], memory.used [MiB], power.draw [W] have no"),
    "no heading": (["nvidia-smi", "a"], LINES[1:], 1, "for a log that has none, give --columns"),
    "a mapping to nothing": (["nvidia-smi", "a", "--columns", "util=lod"], LINES, 1,
                             "--columns util=lod: no such column: there are timestamp, index"),
    "a mapping without a key": (["nvidia-smi", "a", "--columns", "a=b"], LINES, 2, "'a' is no key"),
    "no time and no start": (["nvidia-smi", "a"], ["power.draw [W]", "5 W"], 1, "or give --start"),
    "a flag of another format": (["supercloud", "a", "--zone", "UTC"], LINES, 2, "--zone is for nvidia-smi"),
    "two of a name": (["nvidia-smi", "a", "./a"], LINES, 2, "several files are named a"),
    "two of dmon": (["dcgm-dmon", "a", "./a", "--node", "n"], LINES, 2, "one by one"),
    "a node that is no name": (["nvidia-smi", "a", "--node", "a b"], LINES, 2, "'a b' cannot name a node"),
    "a job that is no name": (["nvidia-smi", "a", "--job", "a/b"], LINES, 2, "--job 'a/b'"),
    "columns without a time": (["nvidia-smi", "a", "--columns", "index"], LINES, 2, "--columns: no column"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "lines", "status", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], lines: list[str], status: int, reason: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(Path("a"), lines)
    try:
        found = main(["import", *words, "--out", "t.jsonl"])
    except SystemExit as error:  # argparse
        found = int(error.code or 0)
    assert found == status
    assert reason in capsys.readouterr().err
    assert not Path("t.jsonl").exists()


SEMICOLONS = "timestamp;index;utilization.gpu [%];memory.used [MiB];power.draw [W]"


def _cells(path: Path, cells: str, *, heading: str = SEMICOLONS) -> str:
    """Write a log of three lines with these cells."""
    mark = ";" if ";" in heading else ","
    moments = [f"2026/11/20 10:00:0{second}.000" for second in range(3)]
    return write(path, [heading, *(mark.join((moment, "0", cells)) for moment in moments)])


@pytest.mark.parametrize(
    ("cells", "mib", "power_w"),
    [
        ("50,5;1.234,5;300,25", 1234.5, 300.25),
        ("50.5;1,234.5;300.25", 1234.5, 300.25),
        ("50;1.234;300,2", 1234, 300.2),
        ("50;1,234;300.2", 1234, 300.2),
        ("50;1.234.567;300", 1_234_567, 300),
        ("50;0,5;1.234", 0.5, 1234),
        ("50;1234,567;300", 1234.567, 300),
        ("50;1'234.5;300", 1234.5, 300),
        ("50;1 234,5;300,25 W", 1234.5, 300.25),
        ("50;1.234,5 MiB;300,25 W", 1234.5, 300.25),
        ("50.5;12,5;300", 12.5, 300),  # both are before decimals
    ],
)  # fmt: skip
def test_thousands_are_parted_as_the_file_does_it(
    tmp_path: Path, cells: str, mib: float, power_w: float
) -> None:
    log, out = _cells(tmp_path / "gpu-a.csv", cells), tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", log, "--out", str(out)]) == 0
    gpus = [record["gpus"][0] for record in records(out)]
    assert [gpu["mem_used_bytes"] for gpu in gpus] == [round(mib * 1024**2)] * 3
    assert [gpu["power_w"] for gpu in gpus] == [power_w] * 3


@pytest.mark.parametrize("at", ["first", "last"])
def test_one_line_tells_the_decimal_mark_of_all(tmp_path: Path, at: str) -> None:
    log, out = tmp_path / "gpu-a.csv", tmp_path / "t.jsonl"
    lines = [f"2026/11/20 10:00:0{second}.000;0;50;1.234;300" for second in range(3)]
    telling = "2026/11/20 10:00:05.000;0;50;1.234;300,5"
    write(log, [SEMICOLONS, *([telling, *lines] if at == "first" else [*lines, telling])])
    assert main(["import", "nvidia-smi", str(log), "--out", str(out)]) == 0
    assert {record["gpus"][0]["mem_used_bytes"] for record in records(out)} == {1234 * 1024**2}


@pytest.mark.parametrize(
    ("heading", "cells"),
    [(SEMICOLONS, "50;1.234;300"), (SEMICOLONS, "50;1,234;300"), (HEADING, '50,"1,234",300')],
)
def test_what_may_be_a_thousand_is_refused_until_it_is_said(
    heading: str, cells: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = _cells(tmp_path / "gpu-a.csv", cells, heading=heading), tmp_path / "t.jsonl"
    command = ["import", "nvidia-smi", log, "--out", str(out)]
    assert main(command) == 1
    number = "1.234" if "1.234" in cells else "1,234"
    assert f"{log}: {number} may be 1234 or 1.234, and nothing in the file tells which: give --decimal" in (
        capsys.readouterr().err
    )
    assert not out.exists()
    for decimal, mib in (("point", "1,234" in cells), ("comma", "1.234" in cells)):
        assert main([*command, "--decimal", decimal, "--force"]) == 0
        used = records(out)[0]["gpus"][0]["mem_used_bytes"]
        assert used == round((1234 if mib else 1.234) * 1024**2)


@pytest.mark.parametrize(
    ("power_w", "says"), [("1.234", "1.234 and the like were not taken for 1234"), ("1.5", None)]
)
def test_what_may_be_a_thousand_between_tabs_is_told(
    power_w: str, says: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = f"timestamp\tindex\tpower [W]\n1605188891\t0\t1.234\n1605188892\t0\t{power_w}\n"
    assert imported(tmp_path, cells)[0]["gpus"][0]["power_w"] == 1.234
    assert ("--decimal" in capsys.readouterr().err) is (says is not None)
    assert imported(tmp_path, cells, "--decimal", "comma")[0]["gpus"][0]["power_w"] == 1234


@pytest.mark.parametrize(("mib", "used"), [("12,5", 12.5), ("1.234,5", 1234.5)])
def test_a_pipe_gives_its_lines_once_and_is_read_as_a_file(mib: str, used: float, tmp_path: Path) -> None:
    log, out = _cells(tmp_path / "gpu-a.csv", f"50;{mib};300"), tmp_path / "t.jsonl"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[Path(log).read_bytes()])
    writer.start()
    assert main(["import", "nvidia-smi", str(pipe), "--out", str(out)]) == 0
    writer.join()
    assert records(out)[0]["gpus"][0]["mem_used_bytes"] == round(used * 1024**2)


def test_points_between_commas_are_before_decimals(tmp_path: Path) -> None:
    log, out = _cells(tmp_path / "gpu-a.csv", "50.125,1.234,300.125", heading=HEADING), tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", log, "--out", str(out)]) == 0
    assert records(out)[0]["gpus"][0]["power_w"] == 300.125


def test_rows_that_two_files_have_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that was copied while it grew, and its copy: equal rows of one second in one file stay."""

    def row(second: int, util: int = 50) -> str:
        return f"2026/11/20 10:00:{second:02d}, 0, {util} %, 1000 MiB, 300 W"

    lines = [row(second) for second in range(20) for _ in range(2)]
    first = write(tmp_path / "a.csv", [HEADING, *lines])
    second = write(tmp_path / "b.csv", [HEADING, *lines[20:], *(row(second, 70) for second in range(20, 25))])
    out = tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", first, second, "--node", "gpu-a", "--out", str(out)]) == 0
    assert "45 nvml-samples from 65 lines; left out: 20 lines that another of the files has, too" in (
        capsys.readouterr().err
    )
    assert [record["gpus"][0]["gpu_util_pct"] for record in records(out)] == [50] * 40 + [70] * 5


def test_rows_that_two_files_have_are_no_shorter_ticks(tmp_path: Path) -> None:
    rows = [smi_line(1000 * second, 0, 50) for second in range(3)]
    first, second = (
        write(tmp_path / "a.csv", [HEADING, *rows[:2]]),
        write(tmp_path / "b.csv", [HEADING, *rows[1:]]),
    )
    out = tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", first, second, "--node", "gpu-a", "--out", str(out)]) == 0
    assert [record["interval_ms"] for record in records(out)] == [1000] * 3


def test_equal_rows_of_two_gpus_are_both_kept(tmp_path: Path) -> None:
    """Two files of one machine, each of a GPU that its rows do not name."""
    heading = "timestamp, utilization.gpu [%], power.draw [W]"
    lines = [f"2026/11/20 10:00:{second:02d}.000, 0 %, 60 W" for second in range(30)]
    files = [write(tmp_path / name, [heading, *lines]) for name in ("a.csv", "b.csv")]
    out = tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", *files, "--node", "gpu-a", "--out", str(out)]) == 0
    assert [len(record["gpus"]) for record in records(out)] == [2] * 30


def test_rows_of_two_programs_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two machines that write into one log: each GPU has two rows in each tick, and these are no gap."""
    lines = [f"2026/11/20 10:00:{second:02d}.{at}{gpu}0, {gpu}, {50 * at} %, 1000 MiB, 300 W\n"
             for second in range(0, 20, 2) for at in (1, 2) for gpu in (0, 1)]  # fmt: skip
    samples = imported(tmp_path, "".join([f"{HEADING}\n", *lines]))
    assert {sample["interval_ms"] for sample in samples} == {1000}
    assert (
        "n: in each tick there are 2 rows of gpu-0, gpu-1, as where several programs write into one log"
        in (capsys.readouterr().err)
    )


def test_more_memory_than_there_is_is_absent_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ["90000, 80000", "0, 0", "80000, 80000"]
    lines = ["timestamp, index, util, memory.used [MiB], memory.total [MiB]"]
    lines += [f"{1605188891 + second}, 0, 5, {memory}" for second, memory in enumerate(cells)]
    samples = imported(tmp_path, lines)
    gpus = [sample["gpus"][0] for sample in samples]
    assert [(gpu.get("mem_used_bytes"), gpu.get("mem_total_bytes")) for gpu in gpus] == [
        (None, 80000 * 1024**2), (None, None), (80000 * 1024**2, 80000 * 1024**2)
    ]  # fmt: skip
    assert "more memory was in use than there is, or there was none, 2 times" in capsys.readouterr().err


def test_zeros_of_activity_that_power_contradicts_are_absent(tmp_path: Path) -> None:
    heading = (
        "timestamp, index, power.draw [W], enforced.power.limit [W], sm_active, tensor_active, dram_active"
    )
    figures = ((90, 0), (600, 0), (90, 0), (300, 0), (500, 12), (90, 0))
    lines = [f"2026/11/20 10:00:0{at}.000, 0, {watts}, 700, {pct}, {pct}, {pct}"
             for at, (watts, pct) in enumerate(figures)]  # fmt: skip
    found = imported(tmp_path, "\n".join([heading, *lines, ""]))
    assert [one["gpus"][0].get("tensor_active_pct") for one in found] == [0, None, None, None, 12, 0]


def wandb_json(**more: Any) -> list[dict[str, Any]]:
    times = [{"_timestamp": START_MS / 1000 + 15 * at, "_runtime": 15.0 * at} for at in range(3)]
    return [{**time, "system.gpu.0.gpu": 50, **more, "_wandb": True} for time in times]


@pytest.mark.parametrize(
    ("objects", "utils"),
    [
        (wandb_json(), {0: [50] * 3}),
        (wandb_json(**{"system.gpu.1.gpu": "NaN"}), {0: [50] * 3}),
        (wandb_json() + wandb_json(**{"system.gpu.1.gpu": 7})[1:], {0: [50] * 5, 1: [7] * 2}),
        ([{"_timestamp": 1.7951e9, "loss": 1.5}, *wandb_json()], {0: [50] * 3}),
        ([{"_timestamp": 1.7951e9, "system": {"gpu": {"0": {"gpu": 5}, "1": {"gpu": 6}}}}],
         {0: [5], 1: [6]}),
        ([{"time": "2026-11-20T10:00:00Z", "gpus": [{"id": 0, "util": 0.5}, {"id": 1, "util": 0.25}]}],
         {0: [50], 1: [25]}),
        ([{"time": "2026-11-20T10:00:00Z", "devices": [{"util": 5}, {"util": 6}]}], {0: [5], 1: [6]}),
        ([{"query_time": "2026-11-20T10:00:00.1", "hostname": "h", "gpus": [
            {"index": 1, "utilization.gpu": 9, "memory.used": 1.234, "processes": [{"pid": 1}]}]}], {1: [9]}),
    ],
)  # fmt: skip
def test_logs_of_json(
    objects: list[dict[str, Any]], utils: dict[int, list[float]], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """As Weights & Biases exports them, gpustat and scripts; the last line is cut off."""
    log, out = tmp_path / "gpu-a.jsonl", tmp_path / "t.jsonl"
    lines = [orjson.dumps(part).decode() for part in objects]
    log.write_text("\n".join([*lines, lines[-1][:-9]]))
    assert main(["import", "nvidia-smi", str(log), "--out", str(out)]) == 0
    errors = capsys.readouterr().err
    assert f"gpu-a.jsonl:{len(lines) + 1}: is no JSON: " in errors
    assert "left out: 1 wrong line" in errors
    assert "thousand" not in errors
    measured = defaultdict(list)
    for record in records(out):
        for gpu in record["gpus"]:
            measured[gpu["index"]].append(gpu["gpu_util_pct"])
    assert measured == utils


def test_a_log_that_begins_with_its_newest_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [smi_line(15_000 * at, gpu, 50) + "," for at in range(9, 0, -1) for gpu in (1, 0)]
    samples = imported(tmp_path, [HEADING, *lines])
    assert "n: a tick each 15 s" in capsys.readouterr().err
    assert [record["interval_ms"] for record in samples] == [15_000] * 9


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("uuid", ["GPU-0a1b2c3d-0000-0000-0000-00000000000f", "GPU-0A1B2C3D-0000-0000-0000-00000000000F"]),
        ("gpu", ["GPU-0a1b2c3d-0000-0000-0000-00000000000f", "gpu-0A1B2C3D-0000-0000-0000-00000000000f"]),
        ("pci.bus_id", ["00000000:0A:00.0", "0000:0a:00.0"]),
    ],
)
def test_a_gpu_is_the_same_however_programs_write_its_name(
    name: str, written: list[str], tmp_path: Path
) -> None:
    rows = [f"2026-11-20 10:00:0{at}, {written[at % 2]}, %, 5{at}" for at in range(4)]
    samples = imported(tmp_path, [f"timestamp, {name}, mem_util [%], util", *rows])
    gpus = [gpu for record in samples for gpu in record["gpus"]]
    assert [(gpu["uuid"], gpu["index"], gpu["gpu_util_pct"]) for gpu in gpus] == [
        (written[0], 0, 50 + at) for at in range(4)
    ]
    assert not any("mem_copy_util_pct" in gpu for gpu in gpus)  # a unit without a value is no value


@pytest.mark.parametrize(
    ("heading", "factor", "said"),
    [
        ("energy [kWh]", 1 / 3.6e6, None),
        ("energy_mj", 1000, None),
        ("energy", 1, None),
        ("energy", 1 / 3.6e6, "kWh fits, so give --columns energy=NAME[kWh]"),
        ("energy", 1 / 3600, "Wh fits, so give"),
        ("energy", 1000, "mJ fits, so give"),
        ("energy", 1e7, "give its own, as in --columns energy=NAME[kWh]"),
        ("energy [mJ]", 1, "J fits, so give --columns energy=NAME[J]"),
        ("energy [kWh]", 1, "J fits, so give --columns energy=NAME[J]"),
        ("energy [kWh]", 1 / 3600, "Wh fits, so give --columns energy=NAME[Wh]"),
    ],
)
@pytest.mark.parametrize("power", [True, False])
def test_energy_in_another_unit_is_absent_and_told(
    heading: str, factor: float, said: str | None, power: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    watts = (300, 100)
    lines = [
        f"{START_MS / 1000 + at},{gpu},50,{factor * (7e6 + at * watts[gpu]):.9f}" + f",{watts[gpu]}" * power
        for at in range(20) for gpu in (0, 1)
    ]  # fmt: skip
    samples = imported(tmp_path, [f"time,index,util,{heading}" + ",power" * power, *lines])
    errors = capsys.readouterr().err
    has_energy = {"energy_j" in gpu for record in samples for gpu in record["gpus"]}
    assert has_energy == {said is None}
    if said is None:
        assert "in another unit" not in errors
    elif power:
        assert said in errors
    else:
        assert "which no GPU draws, so it is in another unit: give its own" in errors


@pytest.mark.parametrize(("factor", "unit"), [(1000, " mJ,"), (1 / 1000, " kJ,"), (1e7, "")])
def test_of_a_gpu_whose_energy_is_odd_the_others_keep_theirs(
    factor: float, unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"{START_MS / 1000 + at},{gpu},{100 * at * (factor if gpu == 2 else 1):.4f},100"
        for at in range(20) for gpu in range(8)
    ]  # fmt: skip
    samples = imported(tmp_path, ["time,index,energy,power", *lines])
    errors = capsys.readouterr().err
    assert "n: gpu-2: the energy grows by" in errors
    assert f"it is in another unit than that of other GPUs{',' * bool(unit)}{unit} and is absent" in errors
    gpus = [gpu for record in samples for gpu in record["gpus"]]
    assert {gpu["index"] for gpu in gpus if "energy_j" in gpu} == {0, 1, 3, 4, 5, 6, 7}


_AT = {"timestamp": "2026-03-04T10:00:00Z"}
HOSTS: dict[str, Any] = {
    "lists under names": {**_AT, "a": {"gpus": [{"util": 10}]}, "b": {"gpus": [{"util": 90}]}},
    "lists deep under names": {
        **_AT, "racks": {"r1": {"a": {"gpus": [{"util": 10}]}, "b": {"gpus": [{"util": 90}]}}},
    },
    "GPUs by number": {**_AT, "a": {"gpus": {"0": {"util": 10}}}, "b": {"gpus": {"0": {"util": 90}}}},
    "hosts by name": {**_AT, "hosts": {"a": {"gpu0": {"util": 10}}, "b": {"gpu0": {"util": 90}}}},
    "a list of nodes": {
        **_AT, "nodes": [{"name": "a", "gpus": [{"util": 10}]}, {"name": "b", "gpus": [{"util": 90}]}],
    },
    "workers that say it": {
        **_AT, "workers": {"0": {"hostname": "a", "gpu_util": 10}, "1": {"hostname": "b", "gpu_util": 90}},
    },
    "rows by host": {"a": [{**_AT, "util": 10, "index": 0}], "b": [{**_AT, "util": 90, "index": 0}]},
}  # fmt: skip


def test_a_host_beside_gpus_of_no_host_is_another(tmp_path: Path) -> None:
    content = {**_AT, "gpus": [{"util": 10}], "b": {"gpus": [{"util": 90}]}}
    samples = imported(tmp_path, content)
    assert {one["node"] for one in samples} == {"gpus", "b.gpus"}


@pytest.mark.parametrize("content", HOSTS.values(), ids=HOSTS)
def test_hosts_that_json_nests_are_several(content: Any, tmp_path: Path) -> None:
    samples = imported(tmp_path, content)
    assert {(one["node"], *(gpu["gpu_util_pct"] for gpu in one["gpus"])) for one in samples} == {
        ("a", 10), ("b", 90)
    }  # fmt: skip
    assert not any("model" in gpu for one in samples for gpu in one["gpus"])


@pytest.mark.parametrize(
    ("heading", "row", "mend"),
    [
        ('Time,"DCGM_FI_DEV_GPU_UTIL{gpu=""0"", UUID=""GPU-1""}"', "5", "dutycycle record --from-prometheus"),
        ("_time,_field,_value", "gpu_util,5", "give each figure a column, as a pivot table has it"),
        ("timestamp,foo", "5", "say which is which: --columns util=NAME,mem_used=NAME[MiB],power=NAME"),
    ],
)
def test_columns_that_mean_nothing_are_named_with_their_mend(
    heading: str, row: str, mend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "a.csv", [heading, f"2026-03-04T10:00:00Z,{row}"])
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "t.jsonl")]) == 1
    errors = capsys.readouterr().err
    assert "not one figure of a GPU in 1 lines; its columns are" in errors
    assert mend in errors


GPUS: dict[str, Any] = {
    "figures in lists": {**_AT, "gpu_util": [10, 90], "gpu_mem_used_mb": [1, 2], "loss": 0.5},
    "figures in lists beside numbers": {**_AT, "index": [0, 1], "gpu_util": [10, 90]},
    "names that are numbers": {**_AT, "0": {"util": 10}, "1": {"util": 90}},
    "cards": {**_AT, "card0": {"GPU use (%)": "10"}, "card1": {"GPU use (%)": "90"}},
}  # fmt: skip


@pytest.mark.parametrize("content", GPUS.values(), ids=GPUS)
def test_gpus_of_a_moment_in_one_object_are_several(content: Any, tmp_path: Path) -> None:
    samples = imported(tmp_path, content)
    ((first, second),) = (one["gpus"] for one in samples)
    assert [(gpu["index"], gpu["gpu_util_pct"]) for gpu in (first, second)] == [(0, 10), (1, 90)]


def test_one_figure_beside_lists_of_gpus_is_of_none_of_them(tmp_path: Path) -> None:
    content = {**_AT, "power_draw": [50, 60], "gpu_util": 75, "memory_total": 24576}
    samples = imported(tmp_path, content)
    ((first, second),) = (one["gpus"] for one in samples)
    assert (first["power_w"], second["power_w"], first["mem_total_bytes"]) == (
        50,
        60,
        second["mem_total_bytes"],
    )
    assert "gpu_util_pct" not in first | second


def test_lists_of_figures_beside_a_list_of_times_are_of_these(tmp_path: Path) -> None:
    times = [START_MS / 1000 + at for at in range(3)]
    content = {"run": "a", "time": times, "gpu_util": [10, 20, 30]}
    samples = imported(tmp_path, content)
    assert [[gpu["gpu_util_pct"] for gpu in one["gpus"]] for one in samples] == [[10], [20], [30]]


def test_a_row_of_all_gpus_is_of_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{START_MS / 1000 + at},{gpu},50" for at in range(3) for gpu in ("0", "1", "all", "AVG")]
    samples = imported(tmp_path, ["time,gpu,util", *lines])
    assert "n.csv:4: is of no GPU, but of several: gpu is all" in capsys.readouterr().err
    assert {gpu["uuid"] for one in samples for gpu in one["gpus"]} == {"gpu-0", "gpu-1"}


def test_gpus_that_are_told_by_their_model_are_dealt_out(tmp_path: Path) -> None:
    lines = [f"{START_MS / 1000 + at},NVIDIA H200 NVL,{10 + gpu}" for at in range(9) for gpu in range(2)]
    samples = imported(tmp_path, ["time,gpu,util", *lines])
    gpus = [gpu for one in samples for gpu in one["gpus"]]
    assert {(gpu["index"], gpu["model"], gpu["gpu_util_pct"]) for gpu in gpus} == {
        (0, "NVIDIA H200 NVL", 10), (1, "NVIDIA H200 NVL", 11)
    }  # fmt: skip


def test_gpus_that_have_a_number_behind_their_model_are_told_by_it(tmp_path: Path) -> None:
    """Also where one misses a tick."""
    lines = [
        f"{START_MS / 1000 + at},Tesla V100{behind},{use}"
        for at in range(9) for use, behind in enumerate((" 0", " #1", " (12)", ":3")) if at != 2 * use
    ]  # fmt: skip
    samples = imported(tmp_path, ["time,gpu,util", *lines])
    gpus = [gpu for one in samples for gpu in one["gpus"]]
    assert {(gpu["uuid"], gpu["gpu_util_pct"]) for gpu in gpus} == {
        ("Tesla V100 0", 0), ("Tesla V100 #1", 1), ("Tesla V100 (12)", 2), ("Tesla V100:3", 3)
    }  # fmt: skip


@pytest.mark.parametrize("heading", ["time,card,gpu,util", "time,card,index,util", "time,card,gpu_id,util"])
def test_a_card_that_is_a_model_does_not_take_the_place_of_the_number(heading: str, tmp_path: Path) -> None:
    lines = [f"{START_MS / 1000 + at},A100,{gpu},{10 + gpu}" for at in range(9) for gpu in range(2)]
    samples = imported(tmp_path, [heading, *lines])
    gpus = [gpu for one in samples for gpu in one["gpus"]]
    assert {(gpu["index"], gpu["gpu_util_pct"]) for gpu in gpus} == {(0, 10), (1, 11)}


@pytest.mark.parametrize(
    ("column", "machines", "nodes"),
    [
        ("server", ("10.0.0.1:9400", "10.0.0.2:9400"), {"10.0.0.1-9400", "10.0.0.2-9400"}),
        ("server", ("Server 1", "Server 2"), {"Server-1", "Server-2"}),
        ("server", ("DGX A100 (8x)", "fe80::1"), {"DGX-A100-8x", "fe80-1"}),
        *((word, ADDRESSES, set(ADDRESSES)) for word in ("machine", "server", "host_ip")),
    ],
)
def test_a_machine_is_told_by_other_words_and_gets_the_name_of_a_host(
    column: str, machines: tuple[str, str], nodes: set[str], tmp_path: Path
) -> None:
    lines = [f"{START_MS / 1000 + at},{name},0,{at}" for at in range(3) for name in machines]
    samples = imported(tmp_path, [f"time,{column},gpu,util", *lines])
    assert {one["node"] for one in samples} == nodes


@pytest.mark.parametrize(
    ("cells", "is_told"),
    [(("rack-1", "rack-2"), True), (("same", "same"), False), (("1", "2"), False), (None, False)],
)
def test_a_column_that_sets_rows_of_one_gpu_apart_is_told(
    cells: tuple[str, str] | None, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of machines has the same names again and again; numbers and texts of each row have not."""
    lines = [
        f"{START_MS / 1000 + at},0,{(cells or (f'step {2 * at}', f'step {2 * at + 1}'))[n]},{n}"
        for at in range(9) for n in (0, 1)
    ]  # fmt: skip
    imported(tmp_path, ["time,gpu,place,util", *lines])
    told = (
        "rows of one GPU and moment have another place, which is not used: they count as one GPU; if it is "
    )
    assert (f"{told}the machine, give --columns node=place" in capsys.readouterr().err) == is_told


NO_HOSTS: dict[str, Any] = {
    "what a node does": {**_AT, "node": {"cpu": {"util": 3}, "mem": {"used": 5}}, "gpus": [{"util": 10}]},
    "NUMA nodes": {**_AT, "nodes": [{"id": 0, "cpus": 8}, {"id": 1, "cpus": 8}], "gpus": [{"util": 10}]},
    "GPUs of two makers": {
        **_AT, "nvidia": {"gpus": [{"uuid": "GPU-1", "util": 1}]},
        "amd": {"gpus": [{"uuid": "2", "util": 9}]},
    },
}  # fmt: skip


@pytest.mark.parametrize("content", NO_HOSTS.values(), ids=NO_HOSTS)
def test_what_json_nests_beside_gpus_is_no_host(content: Any, tmp_path: Path) -> None:
    samples = imported(tmp_path, content)
    assert {one["node"] for one in samples} == {"all"}


def test_the_energy_of_a_row_each_five_minutes_is_compared_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times_s = [300.1 * at for at in range(10)]
    lines = [f"{START_MS / 1000 + at:.1f},0,{3e5 * at:.0f},300" for at in times_s]
    imported(tmp_path, ["time,index,energy,power", *lines])
    assert "mJ fits, so give --columns energy=NAME[mJ]" in capsys.readouterr().err


def test_a_counter_that_seldom_grows_is_not_doubted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of a tenth of a kWh grows at none of these rows, or at one."""
    lines = [f"{START_MS / 1000 + at},0,{1.1 + 0.1 * (at > 10):.1f},300" for at in range(20)]
    imported(tmp_path, ["time,index,energy [kWh],power", *lines])
    errors = capsys.readouterr().err
    assert "in another unit" not in errors
    assert "energy stood still" in errors


def test_a_counter_that_grows_while_no_power_is_told_is_not_doubted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"{START_MS / 1000 + at},0,{at // 10 * 3000},{300 if at % 10 == 5 else 'N/A'}" for at in range(120)
    ]
    samples = imported(tmp_path, ["time,index,energy [J],power", *lines])
    assert "in another unit" not in capsys.readouterr().err
    energies = [gpu.get("energy_j") for record in samples for gpu in record["gpus"]]
    assert (energies[0], energies[-1]) == (0, 33000)


def test_a_number_of_the_row_is_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{at},{START_MS / 1000 + at},50" for at in range(30)]
    log = write(tmp_path / "gpu-a.csv", ["index,time,util", *lines])
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "t.jsonl")]) == 1
    assert (
        "each of its 30 rows is of another GPU, so its column of the GPU's number counts rows"
        in capsys.readouterr().err
    )


def test_uuids_are_of_gpus_also_where_each_has_one_row(tmp_path: Path) -> None:
    lines = [f"{START_MS / 1000 + 10 * at},GPU-{at:08x}-0000-0000-0000-000000000000,50" for at in range(30)]
    samples = imported(tmp_path, ["time,uuid,util", *lines])
    assert len({record["gpus"][0]["uuid"] for record in samples}) == 30


def test_values_of_json_without_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "a.json", ["[[1764403200, 0, 50], [1764403201, 0, 51]]"])
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "t.jsonl")]) == 1
    assert "is no object of JSON, and so its values have no names: [[1764" in capsys.readouterr().err


def test_a_row_of_json_of_another_length_is_a_wrong_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "a.json", ['[["time", "gpu", "util"], [1764403200, 0, 5], [1764403201, 0]]'])
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "t.jsonl")]) == 0
    assert "left out: 1 wrong line" in capsys.readouterr().err
    assert [record["gpus"][0]["gpu_util_pct"] for record in records(tmp_path / "t.jsonl")] == [5]


def test_names_in_a_message_are_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "a.json", [str({f"x{at}": at for at in range(500)}).replace("'", '"')])
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "t.jsonl")]) == 1
    assert "x19, and 480 more" in capsys.readouterr().err
