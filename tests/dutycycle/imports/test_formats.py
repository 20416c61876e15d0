"""What each format's lines become, as the programs write them."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from dutycycle.imports import nvidia_smi, supercloud
from dutycycle.imports.columns import Reader, Row
from dutycycle.imports.dcgm_dmon import DmonReader

MIB = 1024 * 1024
AT_MS = 1_605_188_891_412
SMI = (
    "index, timestamp, uuid, name, utilization.gpu [%], utilization.memory [%], memory.total [MiB], "
    "memory.used [MiB], power.draw [W], temperature.gpu, clocks.current.sm [MHz], fan.speed [%], "
    "clocks_event_reasons.active"
)
FIELDS = {
    "index": 0, "uuid": "GPU-aa", "model": "Tesla V100", "gpu_util_pct": 99, "mem_copy_util_pct": 52,
    "mem_total_bytes": 32480 * MIB, "mem_used_bytes": 30994 * MIB, "power_w": 228.82, "temp_c": 45,
    "sm_clock_mhz": 1410, "throttle": ("sw_power_cap",),
}  # fmt: skip
DMON = """#Entity   GPUTL       FBUSD       POWER           TOTEC                 GRACT
ID                                W               mJ
GPU 1     37          1024        92.100          123456                N/A
GPU 0     0           N/A         61.000          7000                  0.000
GPU 1     38          1025        92.200          123556                0.500
dmon was stopped do to receiving a signal
"""


def rows(reader: Reader, text: str) -> list[Row]:
    return [row for line in text.splitlines(keepends=True) if (row := reader.row(line)) is not None]


@pytest.mark.parametrize(
    "line",
    [
        "0, 2020/11/12 13:48:11.412, GPU-aa, Tesla V100, 99 %, 52 %, 32480 MiB, 30994 MiB, 228.82 W, 45, "
        "1410 MHz, [N/A], 0x0000000000000004",
        "0, 2020/11/12 13:48:11.412, GPU-aa, Tesla V100, 99, 52, 32480, 30994, 228.82, 45, 1410, [N/A], 0x4",
    ],
    ids=["units", "nounits"],
)
def test_nvidia_smi(line: str) -> None:
    reader = nvidia_smi.reader(UTC, None)
    assert rows(reader, f"{SMI}\n{line}\n") == [Row(AT_MS, FIELDS)]
    assert reader.unused == ("fan.speed",)
    assert rows(reader, f"{SMI}\n{line}\n") == [Row(AT_MS, FIELDS)]  # the log was continued


def test_nvidia_smi_without_a_heading_in_a_zone() -> None:
    reader = nvidia_smi.reader(ZoneInfo("Europe/Berlin"), "timestamp,utilization.gpu,power.draw")
    assert rows(reader, "2020/11/12 14:48:11.412, 7 %, [Not Supported]\n") == [
        Row(AT_MS, {"gpu_util_pct": 7})
    ]


def test_of_two_columns_for_a_field_the_more_exact_counts() -> None:
    reader = nvidia_smi.reader(UTC, "power.draw.average,pci.bus_id,timestamp,power.draw,uuid")
    (row,) = rows(reader, "100.0 W, 0000:3B:00.0, 2020/11/12 13:48:11.412, 120.5 W, GPU-aa")
    assert row.fields == {"power_w": 120.5, "uuid": "GPU-aa"}


def test_supercloud() -> None:
    heading = (
        "timestamp,gpu_index,utilization_gpu_pct,utilization_memory_pct,memory_free_MiB,memory_used_MiB,"
        "temperature_gpu,temperature_memory,power_draw_W,pcie_link_width_current"
    )
    reader = supercloud.reader()
    assert rows(reader, f"{heading}\n1605188891.412,1,87.0,31,32000,510,40,38,96.7,16\n") == [
        Row(AT_MS, {
            "index": 1, "gpu_util_pct": 87, "mem_copy_util_pct": 31, "mem_used_bytes": 510 * MIB,
            "temp_c": 40, "power_w": 96.7, "pcie_width": 16,
        })
    ]  # fmt: skip
    assert reader.unused == ("memory_free_MiB", "temperature_memory")


def test_dmon_has_a_tick_when_a_gpu_comes_again() -> None:
    reader = DmonReader(AT_MS, 500)
    assert rows(reader, DMON) == [
        Row(AT_MS, {"index": 1, "gpu_util_pct": 37, "mem_used_bytes": 1024 * MIB, "power_w": 92.1,
                    "energy_j": 123.456}),
        Row(AT_MS, {"index": 0, "gpu_util_pct": 0, "power_w": 61, "energy_j": 7}),
        Row(AT_MS + 500, {"index": 1, "gpu_util_pct": 38, "mem_used_bytes": 1025 * MIB, "power_w": 92.2,
                          "energy_j": 123.556}),
    ]  # fmt: skip
    assert reader.unused == ("GRACT",)


def test_a_wrong_line_of_dmon_takes_its_time() -> None:
    reader = DmonReader(0, 1000)
    assert len(rows(reader, "# Entity  GPUTL\n  Id\n    GPU 0   5\n")) == 1  # before DCGM 2
    with pytest.raises(ValueError, match="0 values for 1 columns"):
        reader.row("GPU 0")
    assert reader.row("GPU 0  7") == Row(2000, {"index": 0, "gpu_util_pct": 7})


@pytest.mark.parametrize(
    ("heading", "line", "reason"),
    [
        (SMI, "0, 2020/11/12 13:4", "2 values for 13 columns"),
        ("timestamp, power.draw [W]", "2020/11/12 13:48:11.412, 3 kW", "'3 kW' is no power_w"),
        ("timestamp, power.draw [W]", "2020/11/12 13:48:11.412, nan", "'nan' is no power_w"),
        ("timestamp, power.draw [W]", "yesterday, 3 W", "yesterday"),
        ("", "2020/11/12 13:48:11.412, 3 W", "before a heading with the column timestamp"),
        ("", "timestamp, memory.used [KiB]", r"memory.used \[KiB\]: expected MiB"),
    ],
)
def test_what_is_wrong_with_a_line(heading: str, line: str, reason: str) -> None:
    reader = nvidia_smi.reader(UTC, None)
    assert rows(reader, heading) == []
    with pytest.raises(ValueError, match=reason):
        reader.row(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("GPU 0  5", "before a heading"),
        ("GPU-I 0/0  5", "whole GPU"),
        ("Error getting values", "whole GPU"),
    ],
)
def test_what_is_wrong_with_a_line_of_dmon(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        DmonReader(0, 1000).row(line)
