"""The texts of gpustat and of tegrastats: their figures, and what they cannot measure."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.cli.main import main

MIB = 1024**2
AT_MS = 1795514400000
"""2026-11-24 10:00:00 UTC."""
HEADING = "node-a                    Tue Nov 24 10:00:03 2026  550.54.15"
ORIN = (
    "11-24-2026 10:00:0{} RAM 2274/6834MB (lfb 27x4MB) SWAP 542/3417MB (cached 2MB) CPU [99%@1189,off] "
    "EMC_FREQ 0% GR3D_FREQ 3{}%@[305,0] CPU@40C gpu@38.5C VDD_CPU_GPU_CV 1594mW/1594mW"
)
NANO = "RAM 506/3964MB (lfb 728x4MB) CPU [0%@102] EMC_FREQ 0% GR3D_FREQ 7%@76 GPU@31.5C POM_5V_GPU 250/240"
OFF = "RAM 506/3964MB (lfb 728x4MB) CPU [0%@102] GPU@-256C VDD_GPU 371/370"


def imported(tmp_path: Path, lines: list[str], *options: str) -> list[dict[str, Any]]:
    log, out = tmp_path / "a.log", tmp_path / "t.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines))
    assert main(["import", "nvidia-smi", str(log), "--out", str(out), *options]) == 0
    records = [orjson.loads(line) for line in out.read_bytes().splitlines()]
    samples = [orjson.loads(record["payload"]) for record in records if "nvml-samples" in record["topic"]]
    return [
        {"node": sample["node"], "at_s": (sample["ts_ms"] - AT_MS) / 1000, **gpu}
        for sample in samples for gpu in sample["gpus"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("[0] NVIDIA A40        | 60'C,  68 % |  3712 / 46068 MB | ann(3709M)",
         {"temp_c": 60, "gpu_util_pct": 68, "mem_used_bytes": 3712 * MIB, "mem_total_bytes": 46068 * MIB}),
        ("[0] NVIDIA A40 | 60°C,  30 %,  68 %,  120 / 300 W | 0 / 46068 MB |",
         {"gpu_util_pct": 68, "power_w": 120, "power_limit_w": 300, "mem_used_bytes": 0}),
        ("[0] NVIDIA A40 | 60'C,  68 % (E:   5 %  D:   9 %) | 3712 / 46068 MB",
         {"gpu_util_pct": 68, "power_w": None}),
        ("[0] NVIDIA A40 | 60'C, ?? %,  68 %,  ?? / 300 W | 3712 / 46068 MB |",
         {"gpu_util_pct": 68, "power_w": None, "power_limit_w": 300}),
        ("[0] NVIDIA A40 | 60'C,  30 %,  ?? %,  120 / ?? W | 3712 / 46068 MB |",
         {"gpu_util_pct": None, "power_w": 120, "power_limit_w": None}),
        ("[0] NVIDIA GT 710 | 41'C, ?? % | 120 /  2000 MB | X(?M)",
         {"temp_c": 41, "gpu_util_pct": None, "mem_used_bytes": 120 * MIB, "model": "NVIDIA GT 710"}),
    ],
)  # fmt: skip
def test_a_line_of_gpustat_has_figures(line: str, figures: dict[str, Any], tmp_path: Path) -> None:
    (row,) = imported(tmp_path, [HEADING, line])
    assert (row["node"], row["at_s"], row["index"]) == ("node-a", 3, 0)
    assert {name: row.get(name) for name in figures} == figures


def test_machines_and_moments_of_gpustat_are_apart(tmp_path: Path) -> None:
    lines = [
        line
        for second in range(2) for node in ("node-a", "node-b")
        for line in (f"{node}  Tue Nov 24 10:00:0{second} 2026  550.54", *(
            f"[{gpu}] NVIDIA A40 | 60'C, {10 * second + gpu} % | 3712 / 46068 MB |" for gpu in range(2)))
    ]  # fmt: skip
    rows = imported(tmp_path, lines)
    assert [(row["at_s"], row["node"], row["index"], row["gpu_util_pct"]) for row in rows] == [
        (second, node, gpu, 10 * second + gpu)
        for second in range(2) for node in ("node-a", "node-b") for gpu in range(2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "options", "figures"),
    [
        ([ORIN.format(second, second) for second in range(2)], (),
         [(second, 30 + second, 305, 38.5, None) for second in range(2)]),
        ([NANO, OFF, NANO], ("--start", "2026-11-24T10:00:00Z"),
         [(0, 7, 76, 31.5, 0.25), (1, None, None, None, 0.371), (2, 7, 76, 31.5, 0.25)]),
    ],
)  # fmt: skip
def test_a_line_of_tegrastats_has_figures(
    lines: list[str], options: tuple[str, ...], figures: list[tuple[Any, ...]],
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    names = ("at_s", "gpu_util_pct", "sm_clock_mhz", "temp_c", "power_w")
    rows = imported(tmp_path, lines, *options)
    assert [tuple(map(row.get, names)) for row in rows] == figures
    assert all("mem_used_bytes" not in row for row in rows)
    assert "RAM is that of CPUs and GPU together: not used" in capsys.readouterr().err


def test_one_time_above_a_loop_is_its_begin_where_that_is_given(tmp_path: Path) -> None:
    lines = ["Tue Nov 24 10:00:00 UTC 2026", "index, utilization.gpu [%]", "0, 5 %", "0, 6 %"]
    rows = imported(tmp_path, lines, "--start", "2026-11-24T10:00:00Z", "--interval", "1")
    assert [(row["at_s"], row["gpu_util_pct"]) for row in rows] == [(0, 5), (1, 6)]
