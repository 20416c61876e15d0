"""``dutycycle import`` as a user runs it: a trace that a replay reads, wrong lines named, clear errors."""

import os
import shlex
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from dutycycle.cli.main import main
from dutycycle.imports.quantities import Row
from dutycycle.imports.samples import Samples
from tests.support.data.traces import read_trace

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
START_MS = 1000 * int(START.timestamp())
HEADING = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]"
SEMICOLONS = "timestamp;index;utilization.gpu [%];memory.used [MiB];power.draw [W]"
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


def rows_of(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give what each GPU of each sample has, beside its machine and the milliseconds since ``START``."""
    return [
        {"node": sample["node"], "at_ms": sample["ts_ms"] - START_MS, "every_ms": sample["interval_ms"],
         **gpu}
        for sample in samples for gpu in sample["gpus"]
    ]  # fmt: skip


def each_s(seconds: Iterable[int], *cells: str) -> list[str]:
    """Give a line of each second and of each of the texts, which stand behind the time."""
    return [f"2026-11-20 10:00:{second:02d},{text}" for second in seconds for text in cells]


def at_s(*texts: str, each: int = 1) -> list[str]:
    """Give the texts behind their times, so many in each second."""
    return [f"2026-11-20 10:00:{place // each:02d},{text}" for place, text in enumerate(texts)]


SMI_3 = "timestamp, index, uuid, utilization.gpu [%]"
UUIDS = [f"GPU-{at:08x}-0000-0000-0000-000000000000" for at in range(30)]
UUID, UUID_UPPER = "GPU-0a1b2c3d-0000-0000-0000-00000000000f", "GPU-0A1B2C3D-0000-0000-0000-00000000000F"
MIB, GIB = 1024**2, 1024**3
NIGHT_MS = round(1000 * datetime(2026, 10, 25, 0, 59, 58, tzinfo=UTC).timestamp()) - START_MS
NIGHT = [
    "timestamp,index,util",
    *(f"2026/10/25 02:{time},0,5" for time in ("59:58", "59:59", "00:00", "00:01")),
]
TWO_NODES = ["time,hostname,index,util", *at_s("a,0,5", "b,0,6", each=2)]
ACTIVE = "timestamp, index, power.draw [W], enforced.power.limit [W], sm_active, tensor_active, dram_active"
AT = {"timestamp": "2026-11-20T10:00:00Z"}
TWO_PROGRAMS = [f"2026/11/20 10:00:{second:02d}.{at}{gpu}0, {gpu}, {50 * at} %, 1000 MiB, 300 W"
                for second in range(0, 20, 2) for at in (1, 2) for gpu in (0, 1)]  # fmt: skip
MODELS = {1: " #1", 2: " (12)", 3: ":3", 0: " 0"}
ALL_BUT_ONE = [(at, gpu) for at in range(9) for gpu in MODELS if at != 2 * gpu]
TABS = ["timestamp\tindex\tpower [W]", "1605188891\t0\t1.234"]


class Log(NamedTuple):
    """A log, the columns that its GPUs have, what is said beside and what is not."""

    content: Any
    figures: dict[str, list[Any]]
    says: str = ""
    hides: str | None = None
    options: str = ""


LOGS = {
    "a row of an unknown GPU invents none": Log(
        [SMI_3, *at_s("0,GPU-a,90 %", "1,GPU-b,80 %", "0,GPU-a,91 %", "1,[Unknown Error],[Unknown Error]",
                      "0,GPU-a,92 %", "[N/A],[Unknown Error],ERR!", "0,GPU-a,93 %", "[N/A],GPU-b,81 %",
                      each=2)],
        {"at_ms": [0, 0, 1000, 1000, 2000, 3000, 3000], "gpu_util_pct": [90, 80, 91, None, 92, 93, 81],
         "uuid": ["GPU-a", "GPU-b"] * 2 + ["GPU-a", "GPU-a", "GPU-b"]},
        says="n.csv:7: is of no known GPU: index '[N/A]', uuid '[Unknown Error]'",
    ),
    "a uuid that comes late": Log(
        [SMI_3, *at_s("3,[Unknown Error],5 %", "3,GPU-d,6 %")], {"uuid": ["GPU-d", "GPU-d"]}
    ),
    "rows without an index, of which one is missing": Log(
        ["timestamp, power.draw [W]",
         *(f"2026/11/20 10:00:0{at}.10{gpu}, {100 * (gpu + 1) + at} W" for at in range(6) for gpu in range(3)
           if (at, gpu) not in ((3, 2), (5, 2)))],
        {"power_w": [100 * (gpu + 1) + at for at in (0, 1, 2, 4) for gpu in range(3)] + [105, 205]},
        says="left out: 2 lines of moments that have not a line of each GPU",
    ),
    "values that no GPU has": Log(
        [HEADING, *(smi_line(1000 * at, 0, util) for at, util in enumerate((5, 187431, 4294967295)))],
        {"gpu_util_pct": [5, None, None], "mem_used_bytes": [1000 * MIB] * 3},
        says="utilization.gpu [%]: 2 values that no GPU has, such as 187431 %: left absent",
    ),
    "the id of GPUtil is the GPU's number": Log(
        ["timestamp,id,load,memoryUtil", *each_s([0], "2,0.5,0.25", "3,0.5,0.25")], {"index": [2, 3]}
    ),
    "an id of another log is the row's": Log(
        ["timestamp,id,util,mem_used", *each_s([0], "2,0.5,0.25")], {"index": [0]}
    ),
    "a share of the memory and the whole": Log(
        ["timestamp,load,memoryUtil,memoryTotal", *at_s("0.5,0.25,40960.0")],
        {"gpu_util_pct": [50], "mem_used_bytes": [10 * GIB]},
    ),
    "a counter that stands still under load": Log(
        ["time,index,energy_j,power_w",
         *at_s("0,100,80", "0,180,80", "0,180,80", "0,180,80", "0,420,80", "0,420,0")],
        {"energy_j": [100, 180, None, None, 420, 420]},
        says="energy stood still 2 times while power was drawn",
    ),
    "processes, of one of which the memory is not known": Log(
        ["timestamp, gpu_name, gpu_bus_id, gpu_uuid, pid, process_name, used_gpu_memory [MiB]",
         *at_s(*(f"NVIDIA A30,0:01:00.0,GPU-a,{process}" for process in (
             "7,python,12000 MiB", "8,python,[N/A]", "7,python,12000 MiB", "8,python,11000 MiB")), each=2)],
        {"mem_used_bytes": [None, 23000 * MIB], "processes": [
            [{"pid": 7, "name": "python", "mem_used_bytes": 12000 * MIB},
             {"pid": 8, "name": "python", **memory}]
            for memory in ({}, {"mem_used_bytes": 11000 * MIB})
        ]},
    ),
    "no times": Log(
        ["power.draw [W], utilization.gpu [%]", "23.10 W, 0 %", "310.40 W, 98 %", "312.00 W, 99 %"],
        {"at_ms": [0, 5000, 10_000], "every_ms": [5000] * 3},
        options=f"--start {START.isoformat()} --interval 5s",
    ),
    "four ticks in each second": Log(
        ["time,index,util", *at_s(*(f"0,{tick}" for tick in range(12)), each=4)],
        {"at_ms": list(range(0, 3000, 250)), "gpu_util_pct": list(range(12)), "every_ms": [250] * 12},
    ),
    **{
        f"four ticks in each minute, whose seconds a spreadsheet has cut off: {heading}": Log(
            [heading, *(f"11/20/2026 10:0{tick // 4},0,{tick}" for tick in range(12))],
            {"index": [0] * 12, "at_ms": list(range(0, 180_000, 15_000)), "every_ms": [15_000] * 12},
            says="have the same time, each a whole minute",
        )
        for heading in ("time,index,util", "time,place,util")
    },
    **{
        f"two unnamed GPUs in each minute: {time}": Log(
            ["time,util", *(f"{time.format(tick, 60 * tick)},{gpu}" for tick in range(3) for gpu in (1, 2))],
            {"index": [0, 1] * 3, "every_ms": [60_000] * 6}, says="dealt out to 2 GPUs", hides="whole minute",
        )
        for time in ("2026-11-20 10:0{}:00", "1795168{1:03}")
    },
    **{
        f"an epoch since 1970 beside what is no moment: {names}": Log(
            [f"{names},index,util", *(f"{cells.format(1795168800 + at, at)},0,5" for at in range(3))],
            {"at_ms": [0, 1000, 2000]},
        )
        for names, cells in (
            ("epoch,elapsed", "{},{}"), ("runtime,epoch", "{1},{0}"), ("epoch,time", "{},10:00:0{}"),
        )
    },
    "a list of a GPU that is named": Log(
        [f'{{"ts": 179516880{at}, "gpu": 3, "util": 9, "gpu_fans": [{{"temp": 30}}]}}' for at in (0, 1)],
        {"index": [3, 3], "gpu_util_pct": [9, 9]}, says="not used: gpu_fans",
    ),
    "a tick in each minute": Log(
        ["time,index,util", *(f"11/20/2026 10:0{tick},0,{tick}" for tick in range(3))],
        {"at_ms": [0, 60_000, 120_000], "every_ms": [60_000] * 3}, hides="whole minute",
    ),
    "a column that tells rows of no named GPU apart": Log(
        ["time,rank,util", *at_s(*(f"{rank},5" for _ in range(9) for rank in (0, 1)), each=2)], {},
        says="rows of one moment have another rank, which is not used: if it tells the GPU, give --columns "
        "index=rank, and if it is the machine, node=rank",
    ),
    "two machines": Log(TWO_NODES, {"node": ["a", "b"], "gpu_util_pct": [5, 6]}, hides="machines"),
    "two machines made one": Log(
        TWO_NODES, {"node": ["c"] * 2}, says="names 2 machines (a, b), which --node makes one",
        options="--node c",
    ),
    "a night in which clocks go back": Log(
        NIGHT, {"at_ms": [NIGHT_MS + 1000 * at for at in range(4)]}, hides="goes back",
        options="--zone Europe/Berlin",
    ),
    "that night without a zone": Log(NIGHT, {}, says="the time goes back by an hour at 2026/10/25 02:00:00"),
    "that night with a row an hour of two GPUs": Log(
        ["timestamp,index,util", *(f"2026/10/25 0{hour}:00:00,{gpu},{10 * row}"
                                   for row, hour in enumerate((0, 1, 2, 2, 3, 4)) for gpu in (0, 1))],
        {"at_ms": [NIGHT_MS + 2000 + 3_600_000 * (row - 3) for row in range(6) for _ in (0, 1)],
         "gpu_util_pct": [10 * row for row in range(6) for _ in (0, 1)]},
        options="--zone Europe/Berlin",
    ),
    "points between commas are before decimals": Log(
        [HEADING, *(f"2026/11/20 10:00:0{at}.000,0,50.125,1.234,300.125" for at in range(3))],
        {"power_w": [300.125] * 3},
    ),
    "the first line tells the decimal mark of all": Log(
        [SEMICOLONS, "2026/11/20 10:00:00.000;0;50;1.234;300,5", "2026/11/20 10:00:01.000;0;50;1.234;300"],
        {"mem_used_bytes": [1234 * MIB] * 2},
    ),
    "the last line tells the decimal mark of all": Log(
        [SEMICOLONS, "2026/11/20 10:00:00.000;0;50;1.234;300", "2026/11/20 10:00:01.000;0;50;1.234;300,5"],
        {"mem_used_bytes": [1234 * MIB] * 2},
    ),
    "what may be a thousand between tabs": Log(TABS, {"power_w": [1.234]}, says="--decimal"),
    "a decimal between tabs": Log(
        [*TABS, "1605188892\t0\t1.5"], {"power_w": [1.234, 1.5]}, hides="--decimal"
    ),
    "a thousand between tabs": Log(TABS, {"power_w": [1234]}, options="--decimal comma"),
    "a pause is no half of a tick": Log(
        [HEADING, *(smi_line(at_ms, 0, 50) for at_ms in (0, 1000, 300_000))], {"every_ms": [1000] * 3},
    ),
    "two programs that write into one log": Log(
        [HEADING, *TWO_PROGRAMS], {"every_ms": [1000] * 40},
        says="n: in each tick there are 2 rows of gpu-0, gpu-1, as where several programs write into one",
    ),
    "more memory than there is": Log(
        ["timestamp, index, util, memory.used [MiB], memory.total [MiB]",
         *at_s("0, 5, 90000, 80000", "0, 5, 0, 0", "0, 5, 80000, 80000")],
        {"mem_used_bytes": [None, None, 80000 * MIB], "mem_total_bytes": [80000 * MIB, None, 80000 * MIB]},
        says="more memory was in use than there is, or there was none, 2 times",
    ),
    "zeros of activity that power contradicts": Log(
        [ACTIVE, *at_s(*(f"0,{watts},700,{pct},{pct},{pct}" for watts, pct in (
            (90, 0), (600, 0), (90, 0), (300, 0), (500, 12), (90, 0))))],
        {"tensor_active_pct": [0, None, None, None, 12, 0]},
    ),
    "the newest row first": Log(
        [HEADING, *(f"{smi_line(15_000 * at, gpu, 50)}," for at in range(9, 0, -1) for gpu in (1, 0))],
        {"at_ms": [15_000 * at for at in range(1, 10) for _ in (0, 1)], "every_ms": [15_000] * 18},
        says="n: a tick each 15 s",
    ),
    **{
        f"one GPU under two spellings of its {name}; a unit without a value is no value": Log(
            [f"timestamp, {name}, mem_util [%], util",
             *at_s(f"{first}, %, 50", f"{second}, %, 51", f"{first}, %, 52")],
            {"uuid": [first] * 3, "index": [0] * 3, "gpu_util_pct": [50, 51, 52],
             "mem_copy_util_pct": [None] * 3},
        )
        for name, first, second in (
            ("uuid", UUID, UUID_UPPER), ("gpu", UUID, UUID_UPPER.replace("GPU", "gpu")),
            ("pci.bus_id", "00000000:0A:00.0", "0000:0a:00.0"),
        )
    },
    "a row of all GPUs": Log(
        ["time,gpu,util", *each_s(range(3), "0,50", "1,50", "all,50", "AVG,50")],
        {"uuid": ["gpu-0", "gpu-1"] * 3}, says="n.csv:4: is of no GPU, but of several: gpu is all",
    ),
    "GPUs told by their model": Log(
        ["time,gpu,util", *each_s(range(9), "NVIDIA H200 NVL,10", "NVIDIA H200 NVL,11")],
        {"index": [0, 1] * 9, "model": ["NVIDIA H200 NVL"] * 18, "gpu_util_pct": [10, 11] * 9},
        says="n: no column says which GPU: rows of one moment are dealt out to 2 GPUs",
    ),
    "a number behind the model, and a tick that each misses": Log(
        ["time,gpu,util",
         *(f"2026-11-20 10:00:0{at},Tesla V100{MODELS[gpu]},{gpu}" for at, gpu in ALL_BUT_ONE)],
        {"uuid": [f"Tesla V100{MODELS[gpu]}" for _, gpu in ALL_BUT_ONE],
         "gpu_util_pct": [gpu for _, gpu in ALL_BUT_ONE]},
    ),
    **{
        f"a card that is a model beside {column}": Log(
            [f"time,card,{column},util", *each_s(range(9), "A100,0,10", "A100,1,11")],
            {"index": [0, 1] * 9, "gpu_util_pct": [10, 11] * 9},
        )
        for column in ("gpu", "index", "gpu_id")
    },
    **{
        f"machines by {column}: {names[0]}": Log(
            [f"time,{column},gpu,util", *each_s(range(3), *(f"{name},0,5" for name in names))],
            {"node": list(nodes) * 3},
        )
        for column, names, nodes in (
            ("server", ("10.0.0.1:9400", "10.0.0.2:9400"), ("10.0.0.1-9400", "10.0.0.2-9400")),
            ("server", ("Server 1", "Server 2"), ("Server-1", "Server-2")),
            ("server", ("DGX A100 (8x)", "fe80::1"), ("DGX-A100-8x", "fe80-1")),
            *((column, ("10.0.0.1", "10.0.0.2"), ("10.0.0.1", "10.0.0.2"))
              for column in ("machine", "server", "host_ip")),
        )
    },
    "the energy of a row each five minutes": Log(
        ["time,index,energy,power",
         *(f"{START_MS / 1000 + 300.1 * at:.1f},0,{3e5 * 300.1 * at:.0f},300" for at in range(10))],
        {"energy_j": [None] * 10}, says="mJ fits, so give --columns energy=NAME[mJ]",
    ),
    "a counter of a tenth of a kWh, which seldom grows": Log(
        ["time,index,energy [kWh],power",
         *at_s(*(f"0,{1.1 + 0.1 * (at > 10):.1f},300" for at in range(20)))], {},
        says="energy stood still", hides="in another unit",
    ),
    "a counter that grows while no power is told": Log(
        ["time,index,energy [J],power",
         *(f"{START_MS / 1000 + at},0,{at // 10 * 3000},{300 if at % 10 == 5 else 'N/A'}"
           for at in range(120))],
        {"energy_j": [None if at % 10 == 5 else at // 10 * 3000 for at in range(120)]},
        hides="in another unit",
    ),
    "a uuid of each row is of a GPU": Log(
        ["time,uuid,util", *(f"{START_MS / 1000 + 10 * at},{uuid},50" for at, uuid in enumerate(UUIDS))],
        {"uuid": UUIDS},
    ),
    "a list of GPUs beside hosts": Log(
        {**AT, "gpus": [{"util": 10}], "b": {"gpus": [{"util": 90}]}},
        {"node": ["gpus", "b.gpus"], "gpu_util_pct": [10, 90]},
    ),
    "one figure beside lists of GPUs is of none of them": Log(
        {**AT, "power_draw": [50, 60], "gpu_util": 75, "memory_total": 24576},
        {"power_w": [50, 60], "mem_total_bytes": [24 * GIB] * 2, "gpu_util_pct": [None, None]},
    ),
    "lists of figures beside a list of times": Log(
        {"run": "a", "time": [START_MS / 1000 + at for at in range(3)], "gpu_util": [10, 20, 30]},
        {"at_ms": [0, 1000, 2000], "gpu_util_pct": [10, 20, 30]},
    ),
    **{
        f"hosts that JSON nests: {name}": Log(
            content, {"node": ["a", "b"], "gpu_util_pct": [10, 90], "model": [None, None]}
        )
        for name, content in {
            "lists under names": {**AT, "a": {"gpus": [{"util": 10}]}, "b": {"gpus": [{"util": 90}]}},
            "lists deep under names": {
                **AT, "racks": {"r1": {"a": {"gpus": [{"util": 10}]}, "b": {"gpus": [{"util": 90}]}}}},
            "GPUs by number": {**AT, "a": {"gpus": {"0": {"util": 10}}}, "b": {"gpus": {"0": {"util": 90}}}},
            "hosts by name": {**AT, "hosts": {"a": {"gpu0": {"util": 10}}, "b": {"gpu0": {"util": 90}}}},
            "a list of nodes": {**AT, "nodes": [{"name": "a", "gpus": [{"util": 10}]},
                                                 {"name": "b", "gpus": [{"util": 90}]}]},
            "workers that say it": {**AT, "workers": {"0": {"hostname": "a", "gpu_util": 10},
                                                       "1": {"hostname": "b", "gpu_util": 90}}},
            "rows by host": {"a": [{**AT, "util": 10, "index": 0}], "b": [{**AT, "util": 90, "index": 0}]},
        }.items()
    },
    **{
        f"GPUs of one object: {name}": Log(content, {"index": [0, 1], "gpu_util_pct": [10, 90], "at_ms": [0,
                                                                                                          0]})
        for name, content in {
            "figures in lists": {**AT, "gpu_util": [10, 90], "gpu_mem_used_mb": [1, 2], "loss": 0.5},
            "figures in lists beside numbers": {**AT, "index": [0, 1], "gpu_util": [10, 90]},
            "a list of another name": {**AT, "gpu_stats": [{"gpu_id": 0, "util": 10}, {"gpu_id": 1,
                                                                                       "util": 90}]},
            "lists that tell less": {
                **AT, "gpuProcesses": [{"gpu": 0, "pid": 7, "gpu_memory": 5, "util": 1, "power": 2}],
                "gpuStats": [{"free_mb": 1, "util": 10}, {"free_mb": 1, "util": 90}],
                "per_gpu_limits": [{"free_mb": 1, "is_free": True}, {"free_mb": 1}],
                "gpu_history": [{"util": 1, "power": 2}, {"util": 3, "power": 4}]},
            "rows by number": {"0": [{**AT, "util": 10}], "1": [{**AT, "util": 90}]},
            "devices by number": {**AT, "devices": {"device_0": {"util": 10}, "device_1": {"util": 90}}},
            "names that are numbers": {**AT, "0": {"util": 10}, "1": {"util": 90}},
            "cards": {**AT, "card0": {"GPU use (%)": "10"}, "card1": {"GPU use (%)": "90"}},
        }.items()
    },
    "a row of JSON of another length is a wrong line": Log(
        ['[["time", "gpu", "util"], [1764403200, 0, 5], [1764403201, 0]]'], {"gpu_util_pct": [5]},
        says="left out: 1 wrong line",
    ),
    "what a node does beside its GPUs": Log(
        {**AT, "node": {"cpu": {"util": 3}, "mem": {"used": 5}}, "gpus": [{"util": 10}]}, {"node": ["all"]},
    ),
    "NUMA nodes are no hosts": Log(
        {**AT, "nodes": [{"id": 0, "cpus": 8}, {"id": 1, "cpus": 8}], "gpus": [{"util": 10}]},
        {"node": ["all"]},
    ),
    "GPUs of two makers are of one host": Log(
        {**AT, "nvidia": {"gpus": [{"uuid": "a", "util": 1}]}, "amd": {"gpus": [{"uuid": "b", "util": 9}]}},
        {"node": ["all", "all"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_log_becomes_samples_and_remarks(
    log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(imported(tmp_path, log.content, *log.options.split()))
    assert {name: [row.get(name) for row in rows] for name in log.figures} == log.figures
    errors = capsys.readouterr().err
    assert log.says in errors
    assert log.hides is None or log.hides not in errors


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


LINES = [HEADING, smi_line(0, 0, 5)]
FAILED = "has no line that can be read; the first: a:1: is a failure of nvidia-smi, and no measurement:"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running."
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
LIBRARY = "NVML library version: 535.161"
REFUSED = {
    "no line of the format": ("nvidia-smi a", ["hello"], 1, "a:1: comes before a heading"),
    "an empty file": ("nvidia-smi a", [], 1, "a has no lines: it is empty"),
    "a file that is not there": ("nvidia-smi b", LINES, 1, "b: No such file"),
    "no start": ("dcgm-dmon a", LINES, 2, "give --start"),
    "no GPU": ("nvidia-smi a", ["No devices were found"], 1, f"a {FAILED} 'No devices were found'"),
    "no driver": ("nvidia-smi a", [NO_DRIVER, ""], 1, f'a {FAILED} "{NO_DRIVER}"'),
    "another driver": ("nvidia-smi a", [MISMATCH, LIBRARY], 1, f"a {FAILED} {MISMATCH!r}"),
    "no such field": ("nvidia-smi a", ['Field "gpu.util" is not a valid field to query.', ""], 1,
                      f"a {FAILED} 'Field \"gpu.util\" is not a valid field to query.'"),
    "no program": ("nvidia-smi a", ["sh: 1: nvidia-smi: not found"], 1, f"{FAILED} 'sh: 1: nv"),
    "a failure of each second": ("nvidia-smi a", [HEADING, "No devices were found"], 1,
                                 "a:2: is a failure of nvidia-smi, and no measurement"),
    "a wrong start": ("dcgm-dmon a --start noon", LINES, 2, "--start 'noon'"),
    "a start of supercloud": ("supercloud a --start 2026-11-20", LINES, 2,
                              "--start is for nvidia-smi and dcgm-dmon only"),
    "no column that is known": ("nvidia-smi a", ["step,loss", "1,2"], 1, "known of step, loss: say"),
    "nothing measured": ("nvidia-smi a", ["timestamp,foo,bar", "2026-11-20 10:00:00,1,2"], 1,
                         "a: not one figure of a GPU in 1 lines; its columns are timestamp, foo, bar: say"),
    "known, never measured": ("nvidia-smi a", [HEADING, "2026/11/20 10:00:00, 0, [N/A], N/A, ERR!"], 1,
                              "in 1 lines: utilization.gpu [%], memory.used [MiB], power.draw [W] have no"),
    **{
        f"nothing measured, {name}": ("nvidia-smi a", [heading, f"2026-03-04T10:00:00Z,{cells}"], 1, mend)
        for name, heading, cells, mend in (
            ("an answer of Prometheus", 'Time,"DCGM_FI_DEV_GPU_UTIL{gpu=""0"", UUID=""GPU-1""}"', "5",
             "which dutycycle record --from-prometheus reads from there"),
            ("a row of each field", "_time,_field,_value", "gpu_util,5",
             "give each figure a column, as a pivot table has it"),
            ("other names", "timestamp,foo", "5",
             "say which is which: --columns util=NAME,mem_used=NAME[MiB],power=NAME"),
        )
    },
    "a number of the row": (
        "nvidia-smi a", ["index,time,util", *(f"{at},{START_MS / 1000 + at},50" for at in range(30))], 1,
        "each of its 30 rows is of another GPU, so its column of the GPU's number counts rows",
    ),
    "values of JSON without names": (
        "nvidia-smi a", ["[[1764403200, 0, 50], [1764403201, 0, 51]]"], 1,
        "is no object of JSON, and so its values have no names: [[1764"),
    "many names": ("nvidia-smi a", [orjson.dumps({f"x{at}": at for at in range(500)}).decode()], 1,
                   "x19, and 480 more"),
    "a heading alone": ("nvidia-smi a", [HEADING], 1, "and no line of values"),
    "a frame alone": ("nvidia-smi a", ["+---+---+", "|---|---|"], 1, "has no line of this format"),
    "a table of another program": ("nvidia-smi a", ["| time | util |", "|---|---|"], 1,
                                   "a:1: is of a table of another program: take the bars"),
    "no heading": ("nvidia-smi a", LINES[1:], 1, "for a log that has none, give --columns"),
    "a mapping to nothing": ("nvidia-smi a --columns util=lod", LINES, 1,
                             "--columns util=lod: no such column: there are timestamp, index"),
    "a mapping without a key": ("nvidia-smi a --columns a=b", LINES, 2, "'a' is no key"),
    "no time and no start": ("nvidia-smi a", ["power.draw [W]", "5 W"], 1, "or give --start"),
    "a flag of another format": ("supercloud a --zone UTC", LINES, 2, "--zone is for nvidia-smi"),
    "two of a name": ("nvidia-smi a ./a", LINES, 2, "several files are named a"),
    "two of dmon": ("dcgm-dmon a ./a --node n", LINES, 2, "one by one"),
    "a node that is no name": ("nvidia-smi a --node 'a b'", LINES, 2, "'a b' cannot name a node"),
    "a job that is no name": ("nvidia-smi a --job a/b", LINES, 2, "--job 'a/b'"),
    "columns without a time": ("nvidia-smi a --columns index", LINES, 2, "--columns: no column"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "lines", "status", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: str, lines: list[str], status: int, reason: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(Path("a"), lines)
    try:
        found = main(["import", *shlex.split(words), "--out", "t.jsonl"])
    except SystemExit as error:  # argparse
        found = int(error.code or 0)
    assert found == status
    assert reason in capsys.readouterr().err
    assert not Path("t.jsonl").exists()


LOOP = "utilization.gpu [%], memory.used [MiB]"


@pytest.mark.parametrize(
    ("lines", "options", "figures"),
    [
        (  # date; nvidia-smi --query-gpu=… --format=csv, of two GPUs, from cron
            [line for minute in range(3) for line in
             (f"Fri Nov 20 10:0{minute}:00 UTC 2026", LOOP, f"{minute} %, 7 MiB", "50 %, 9 MiB")],
            (),
            [(60_000 * at, f"gpu-{gpu}", util) for at in range(3) for gpu, util in ((0, at), (1, 50))],
        ),
        (  # noheader, the heading once
            [LOOP, *(line for second in (0, 2) for line in
                     (f"=== 2026-11-20 10:00:0{second} ===", f"{second} %, 7 MiB"))],
            (),
            [(0, "gpu-0", 0), (2000, "gpu-0", 2)],
        ),
        (
            ["10:00:05", "3, 7", "[2026-11-20 10:00:07]", "4, 7"],
            ("--start", START.isoformat(), "--columns", "utilization.gpu,memory.used"),
            [(5000, "gpu-0", 3), (7000, "gpu-0", 4)],
        ),
        (  # a row's own time is its time
            ["timestamp, index, util", "Time: 2026-11-20 12:00:00", "2026-11-20 10:00:01, 0, 6"],
            (),
            [(1000, "gpu-0", 6)],
        ),
    ],
)  # fmt: skip
def test_a_time_on_a_line_of_its_own_is_that_of_the_rows_below(
    lines: list[str], options: tuple[str, ...], figures: list[tuple[int, str, int]], tmp_path: Path
) -> None:
    rows = rows_of(imported(tmp_path, lines, *options))
    assert [(row["at_ms"], row["uuid"], row["gpu_util_pct"]) for row in rows] == figures


def test_a_row_that_a_loop_wrote_later_has_not_the_time_above_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["index, util", "Fri Nov 20 10:00:00 UTC 2026", "0, 5", "1, 6", "0, 7"]
    assert {(row["at_ms"], row["gpu_util_pct"]) for row in rows_of(imported(tmp_path, lines))} == {
        (0, 5),
        (0, 6),
    }
    output = capsys.readouterr().err
    assert "a GPU comes again below one time, Fri Nov 20 10:00:00 UTC 2026" in output
    assert "left out: 1 wrong line\n" in output


def test_below_one_time_are_no_more_rows_than_a_machine_has_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [LOOP, "Fri Nov 20 10:00:00 UTC 2026", *(f"{at} %, 7 MiB" for at in range(30))]
    log = write(tmp_path / "a.csv", lines)
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "a.jsonl")]) == 1
    assert "no column of time" in capsys.readouterr().err
    rows = rows_of(imported(tmp_path, lines, "--start", START.isoformat(), "--interval", "2s"))
    assert [(row["at_ms"], row["gpu_util_pct"]) for row in rows] == [(2000 * at, at) for at in range(30)]


@pytest.mark.parametrize(("power", "is_doubtful"), [("4939.0", True), ("493.9", False)])
def test_watts_that_no_gpu_draws_may_be_milliwatts(
    power: str, is_doubtful: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["timestamp,gpu_power_w", *at_s(power, power)]
    assert [row["power_w"] for row in rows_of(imported(tmp_path, lines))] == [float(power)] * 2
    remark = "give it: --columns power_w=gpu_power_w[mW]"
    assert (remark in capsys.readouterr().err) == is_doubtful
    if is_doubtful:
        rows = rows_of(imported(tmp_path, lines, "--columns", "power_w=gpu_power_w[mW]"))
        assert [row["power_w"] for row in rows] == [4.939] * 2


def test_processes_without_a_figure_are_no_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "a.csv", ["timestamp,pid", *(f"17726184{at:02d},{at}" for at in range(3))])
    assert main(["import", "nvidia-smi", log, "--out", str(tmp_path / "t.jsonl")]) == 1
    assert "not one figure of a GPU in 3 lines" in capsys.readouterr().err


def cells_of(cells: str, heading: str = SEMICOLONS) -> list[str]:
    """Give the lines of a log with three rows of these cells."""
    mark = ";" if ";" in heading else ","
    return [heading, *(f"2026/11/20 10:00:0{second}.000{mark}0{mark}{cells}" for second in range(3))]


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
    gpus = rows_of(imported(tmp_path, cells_of(cells)))
    assert [gpu["mem_used_bytes"] for gpu in gpus] == [round(mib * 1024**2)] * 3
    assert [gpu["power_w"] for gpu in gpus] == [power_w] * 3


@pytest.mark.parametrize(
    ("heading", "cells"),
    [(SEMICOLONS, "50;1.234;300"), (SEMICOLONS, "50;1,234;300"), (HEADING, '50,"1,234",300')],
)
def test_what_may_be_a_thousand_is_refused_until_it_is_said(
    heading: str, cells: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = write(tmp_path / "a.csv", cells_of(cells, heading)), tmp_path / "t.jsonl"
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


@pytest.mark.parametrize(("mib", "used"), [("12,5", 12.5), ("1.234,5", 1234.5)])
def test_a_pipe_gives_its_lines_once_and_is_read_as_a_file(mib: str, used: float, tmp_path: Path) -> None:
    pipe, out = tmp_path / "pipe", tmp_path / "t.jsonl"
    os.mkfifo(pipe)
    content = "".join(f"{line}\n" for line in cells_of(f"50;{mib};300"))
    writer = threading.Thread(target=pipe.write_text, args=[content])
    writer.start()
    assert main(["import", "nvidia-smi", str(pipe), "--out", str(out)]) == 0
    writer.join()
    assert records(out)[0]["gpus"][0]["mem_used_bytes"] == round(used * 1024**2)


def utils_at(seconds: Iterable[int], util: int = 50) -> list[str]:
    return [f"2026/11/20 10:00:{second:02d}, 0, {util} %, 1000 MiB, 300 W" for second in seconds]


HEADING_2 = "timestamp, power.draw [W]"
NAMELESS = ["timestamp, utilization.gpu [%], power.draw [W]", *each_s(range(30), "0 %,60 W")]
TWO_FILES: dict[str, tuple[list[str], list[str], dict[str, list[Any]], str]] = {
    "a log and its copy, which has grown, with equal rows of one second": (
        [HEADING, *utils_at(at // 2 for at in range(40))],
        [HEADING, *utils_at(at // 2 for at in range(20, 40)), *utils_at(range(20, 25), 70)],
        {"gpu_util_pct": [50] * 40 + [70] * 5},
        "45 nvml-samples from 65 lines; left out: 20 lines that another of the files has, too",
    ),
    "rows that both have are no shorter ticks": (
        [HEADING, *utils_at((0, 1))],
        [HEADING, *utils_at((1, 2))],
        {"every_ms": [1000] * 3},
        "",
    ),
    "equal rows of two GPUs, which they do not name": (
        NAMELESS,
        NAMELESS,
        {"at_ms": [1000 * second for second in range(30) for _ in (0, 1)]},
        "",
    ),
    "GPUs that neither names, and whose ticks drift apart": (
        [HEADING_2, *(f"2026/11/20 10:00:{at:02d}.{100 + 7 * at:03d}, {100 + at} W" for at in range(20))],
        [HEADING_2, *(f"2026/11/20 10:00:{at:02d}.{120 - 3 * at:03d}, {200 + at} W" for at in range(20))],
        {"index": [0, 1] * 20, "power_w": [100 * gpu + at for at in range(20) for gpu in (1, 2)]},
        "",
    ),
}


@pytest.mark.parametrize(("first", "second", "figures", "says"), TWO_FILES.values(), ids=TWO_FILES)
def test_two_files_of_one_machine(
    first: list[str], second: list[str], figures: dict[str, list[Any]], says: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    files, out = [write(tmp_path / "a.csv", first), write(tmp_path / "b.csv", second)], tmp_path / "t.jsonl"
    assert main(["import", "nvidia-smi", *files, "--node", "gpu-a", "--out", str(out)]) == 0
    rows = rows_of(records(out))
    assert {name: [row.get(name) for row in rows] for name in figures} == figures
    assert says in capsys.readouterr().err


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


@pytest.mark.parametrize("heading", ["time,gpu,place,util", "time,other,place,gpu0_util"])
@pytest.mark.parametrize(
    ("cells", "mend"),
    [
        (("rack-1", "rack-2"), "it is the machine, give --columns node=place"),
        (("1", "2"), "it is the machine, give --columns node=place"),
        (("MIG-6f1c", "MIG-6f1d"), "it tells the GPU, or its slice, give --columns uuid=place"),
        (("same", "same"), None), (("step {}", "step {}"), None), (("{}", "{}"), None), (("30", "{}"), None),
    ],
)  # fmt: skip
def test_a_column_that_sets_rows_of_one_gpu_apart_is_told(
    cells: tuple[str, str], mend: str | None, heading: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One of machines has the same names again and again; figures and texts of each row have not."""
    lines = [f"{START_MS / 1000 + at},0,{cells[n].format(2 * at + n)},{n}" for at in range(9) for n in (0, 1)]
    imported(tmp_path, [heading, *lines])
    told = "rows of one GPU and moment have another place, which is not used: they count as one GPU; if "
    errors = capsys.readouterr().err
    assert (told in errors) == (mend is not None)
    assert mend is None or f"{told}{mend}" in errors


@pytest.mark.parametrize(
    ("values", "pct"),
    [
        (["7", "95", "7"], [7, 95, 7]), (["7.5", "0", "9.5"], [7.5, 0, 9.5]), (["3 %", "5 %"], [3, 5]),
        (["0.07", "1", "0"], [7, 100, 0]), (["0", "1", "2"], None), (["0", "64", "101"], None),
        (["rtx", "95"], None), ([str(number) for number in range(72)] * 2, None),
        ([str(number) for number in range(1, 73)] * 2, None), (["0", "1", "2", "70"], [0, 1, 2, 70]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_column_of_the_gpu_may_be_its_utilization(
    values: list[str], pct: list[float] | None, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As jtop writes it, beside ``Temp GPU``; else each value would be a GPU of its own."""
    heading = ["time", "CPU", "GPU", "Temp GPU"]
    table = [[f"{START_MS / 1000 + 2 * at}", "9", value, "45"] for at, value in enumerate(values)]
    content = [",".join(row) for row in [heading, *table]]
    if form == "json":
        content = [orjson.dumps(dict(zip(heading, row, strict=True))).decode() for row in table]
    gpus = [gpu for sample in imported(tmp_path, content) for gpu in sample["gpus"]]
    is_told = "taken for the utilization: if it is not, give --columns index=GPU" in capsys.readouterr().err
    assert is_told is (pct is not None)
    if pct is None:
        assert not any("gpu_util_pct" in gpu for gpu in gpus)
        return
    assert [gpu["gpu_util_pct"] for gpu in gpus] == pytest.approx(pct)
    assert {gpu["uuid"] for gpu in gpus} == {"gpu-0"}
    if values[0] == "7":
        kept = imported(tmp_path, content, "--columns", "index=GPU")
        assert {gpu["index"] for sample in kept for gpu in sample["gpus"]} == {7, 95}
