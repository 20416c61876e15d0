"""What each format's lines become, as the programs write them."""

import shlex
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import pytest

from dutycycle.imports.dmon import DcgmDmonReader
from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.nvidia_smi import SmiReader
from dutycycle.imports.quantities import Reader, Row
from dutycycle.imports.table.heading import read_column_choice

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
    return [row for line in text.splitlines(keepends=True) for row in reader.read_rows(line)]


def smi(columns: str | None = None, zone: tzinfo = UTC, start_ms: int | None = None) -> SmiReader:
    choice = None if columns is None else read_column_choice(columns)
    return SmiReader(Clock(zone, start_ms), Ticks(start_ms, 1000), choice)


def dmon(start_ms: int, interval_ms: int) -> DcgmDmonReader:
    return DcgmDmonReader(Ticks(start_ms, interval_ms))


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
    reader = smi()
    assert rows(reader, f"{SMI}\n{line}\n") == [Row(AT_MS, FIELDS)]
    assert reader.notes.unused == ("fan.speed",)
    assert rows(reader, f"{SMI}\n{line}\n") == [Row(AT_MS, FIELDS)]  # the log was continued


def test_nvidia_smi_without_a_heading_in_a_zone() -> None:
    reader = smi("timestamp,utilization.gpu,power.draw", ZoneInfo("Europe/Berlin"))
    assert rows(reader, "2020/11/12 14:48:11.412, 7 %, [Not Supported]\n") == [
        Row(AT_MS, {"gpu_util_pct": 7})
    ]


def test_of_two_columns_for_a_field_the_more_exact_counts() -> None:
    reader = smi("power.draw.average,pci.bus_id,timestamp,power.draw,uuid")
    (row,) = rows(reader, "100.0 W, 0000:3B:00.0, 2020/11/12 13:48:11.412, 120.5 W, GPU-aa")
    assert row.fields == {"power_w": 120.5, "uuid": "GPU-aa"}


def test_supercloud() -> None:
    heading = (
        "timestamp,gpu_index,utilization_gpu_pct,utilization_memory_pct,memory_free_MiB,memory_used_MiB,"
        "temperature_gpu,temperature_memory,power_draw_W,pcie_link_width_current"
    )
    reader = smi()
    assert rows(reader, f"{heading}\n1605188891.412,1,87.0,31,32000,510,40,38,96.7,16\n") == [
        Row(AT_MS, {
            "index": 1, "gpu_util_pct": 87, "mem_copy_util_pct": 31, "mem_used_bytes": 510 * MIB,
            "mem_total_bytes": 32510 * MIB, "temp_c": 40, "mem_temp_c": 38, "power_w": 96.7, "pcie_width": 16,
        })
    ]  # fmt: skip
    assert reader.notes.unused == ()


def test_dmon_has_a_tick_when_a_gpu_comes_again() -> None:
    reader = dmon(AT_MS, 500)
    assert rows(reader, DMON) == [
        Row(AT_MS, {"index": 1, "gpu_util_pct": 37, "mem_used_bytes": 1024 * MIB, "power_w": 92.1,
                    "energy_j": 123.456}),
        Row(AT_MS, {"index": 0, "gpu_util_pct": 0, "power_w": 61, "energy_j": 7}),
        Row(AT_MS + 500, {"index": 1, "gpu_util_pct": 38, "mem_used_bytes": 1025 * MIB, "power_w": 92.2,
                          "energy_j": 123.556}),
    ]  # fmt: skip
    assert reader.notes.unused == ("GRACT",)


def test_dmon_of_mig_slices_and_of_what_held_the_clocks_down() -> None:
    log = """#Entity   SMACT   GRACT   FBUSD   POWER     PVIOL       TVIOL      SBVIO   NBWLT
ID                        MB      W         ns          ns         ns      MBPS
GPU 1     N/A     N/A     900     300.000   5000000000  0          0       1000
GPU-I 0   0.250   0.500   512     N/A       N/A         N/A        N/A     N/A
GPU-I 8   0.120   1.000   700     N/A       N/A         N/A        N/A     N/A
GPU 1     N/A     N/A     900     300.000   5250000000  1000000000 0       0
GPU-I 0   0.260   0.500   512     N/A       N/A         N/A        N/A     N/A
"""
    reader = dmon(0, 1000)
    first, slice_0, slice_8, second, again = rows(reader, log)
    assert first == Row(
        0,
        {"index": 1, "mem_used_bytes": 900 * MIB, "power_w": 300, "nvlink_bytes_per_s": 1_024_000_000},
    )
    assert second.fields["sw_power_cap_pct"] == 25
    assert second.fields["thermal_pct"] == 100
    assert (second.fields["sync_boost_pct"], second.fields["nvlink_bytes_per_s"]) == (0, 0)
    measured = {"gpu_util_pct": 50, "sm_active_pct": 25, "mem_used_bytes": 512 * MIB}
    assert slice_0 == Row(0, {"index": 0, "mig": [{"uuid": "MIG-0/0/0"} | measured]})
    assert slice_8.fields["index"] == 1, "DCGM numbers the slices of a GPU from 7 times its own number on"
    assert slice_8.fields["mig"][0]["gpu_util_pct"] == 100
    assert (again.ts_ms, again.fields["mig"][0]["sm_active_pct"]) == (1000, 26)
    assert reader.notes.unused == ()
    (remark,) = reader.notes.remarks
    assert "A30" in remark
    with pytest.raises(ValueError, match="is of no GPU and no MIG slice"):
        reader.read_rows("GPU-CI 0   0.250   0.500   512     N/A       N/A         N/A    0     1")


def test_dmon_of_what_holds_the_clocks_down_since_dcgm_4_and_of_faults() -> None:
    names = (
        "DVCCTR CLKPCNS CLKSWTHNS CLKHWTHNS CLKEPBSNS CLKBSTNS MMTMP RPCTR EDVDV EDVSRM RRAL RRAN GPURECOV"
        " FMHSUM"
    )
    log = f"""#Entity {names}
ID C
GPU 0 4 0 N/A 0 7 0 88 2 0 0 3 0 0 1
GPU 0 0x44 250000000 N/A 500000000 7 1000000000 N/A 3 1 2 4 1 1 2
GPU 0 N/A N/A N/A N/A N/A N/A N/A N/A N/A N/A N/A N/A N/A N/A
"""
    reader = dmon(0, 1000)
    first, second, third = (row.fields for row in rows(reader, log))
    assert (first["throttle"], first["mem_temp_c"]) == (("sw_power_cap",), 88)
    assert second == {
        "index": 0, "throttle": ("sw_power_cap", "hw_thermal_slowdown"), "sw_power_cap_pct": 25,
        "hw_thermal_pct": 50, "power_brake_pct": 0, "sync_boost_pct": 100, "pcie_replays": 3,
        "ecc_uncorrected_dram": 1, "ecc_uncorrected_sram": 2, "banks_low": 4, "banks_exhausted": 1,
        "recovery_action": 1, "fabric_health": 2,
    }  # fmt: skip
    assert third == {"index": 0}
    assert reader.notes.unused == ()


def test_a_wrong_line_of_dmon_takes_its_time() -> None:
    reader = dmon(0, 1000)
    assert len(rows(reader, "# Entity  GPUTL\n  Id\n    GPU 0   5\n")) == 1  # before DCGM 2
    with pytest.raises(ValueError, match="0 values for 1 columns"):
        reader.read_rows("GPU 0")
    assert reader.read_rows("GPU 0  7") == [Row(2000, {"index": 0, "gpu_util_pct": 7})]


@pytest.mark.parametrize(
    ("heading", "line", "reason"),
    [
        (SMI, "0, 2020/11/12 13:4", "2 values for 13 columns"),
        ("timestamp, power.draw [W]", "2020/11/12 13:48:11.412, 3 PS", "'3 PS' is no power_w: expected w,"),
        ("timestamp, power.draw [W]", "2020/11/12 13:48:11.412, much", "'much' is no power_w"),
        ("timestamp, power.draw [W]", "yesterday, 3 W", "yesterday"),
        ("", "2020/11/12 13:48:11.412, 3 W", "before a heading with columns such as timestamp"),
        ("", "step, loss", "no column is known of step, loss: say which is which: --columns"),
        ("", "utilization.gpu [%], step", "no column of time: .* there are utilization.gpu"),
        (
            "timestamp, index, utilization.gpu [%]",
            "2020/11/12 13:48:11, ERR!, 5 %",
            "no known GPU: index 'ERR!'",
        ),
        ("timestamp, gpu_uuid, pid, used_memory", "1605188891, GPU-a, [N/A], 5 MiB", "no known process: pid"),
        ("timestamp, host, util", "1605188891, .., 5", "'..' cannot name a node"),
        ("", "#Entity   GPUTL", "is the heading of dcgmi dmon: the format dcgm-dmon reads it"),
    ],
)
def test_what_is_wrong_with_a_line(heading: str, line: str, reason: str) -> None:
    reader = smi()
    assert rows(reader, heading) == []
    with pytest.raises(ValueError, match=reason):
        reader.read_rows(line)


APPS = "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
NAMED = "timestamp,index,name,utilization.gpu [%],memory.used [MiB]"


@pytest.mark.parametrize(
    ("heading", "line", "text"),
    [
        (APPS, "1605188891, GPU-a, 7, python, train.py, 512 MiB", "python, train.py"),
        (APPS, "1605188891, GPU-a, 7, python --gpus=0,1,2, 512 MiB", "python --gpus=0,1,2"),
        (APPS, "1605188891, GPU-a, 7, python -c a,b, [N/A]", "python -c a,b"),
        (NAMED, "1605188891,0,NVIDIA A100,SXM,5 %,7 MiB", "NVIDIA A100,SXM"),
        (NAMED, "1605188891, 0, NVIDIA A100, SXM, 5 %, 7 MiB", "NVIDIA A100, SXM"),
    ],
)
def test_a_text_with_commas_is_whole(heading: str, line: str, text: str) -> None:
    (row,) = rows(smi(), f"{heading}\n{line}\n")
    is_process = heading == APPS
    assert (row.fields["processes"][0]["name"] if is_process else row.fields["model"]) == text
    if not is_process:
        assert (row.fields["gpu_util_pct"], row.fields["mem_used_bytes"]) == (5, 7 * MIB)


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        (NAMED, "1605188891,0,NVIDIA A100,5,25 %,7 MiB"),
        (NAMED, "1605188891, 0, NVIDIA A100, 5,25 %, 7 MiB"),
        (NAMED, "1605188891, 0, NVIDIA A100, SXM, 5 %, 7 MiB, P0"),
        (APPS, "1605188891, GPU-a, 7, python, 1,5 MiB"),
        ("timestamp, index, utilization.gpu [%]", "1605188891, 0, 5,25 %"),
    ],
)
def test_a_comma_that_may_be_of_a_number_is_of_no_text(heading: str, line: str) -> None:
    with pytest.raises(ValueError, match=r"\d values for \d columns"):
        rows(smi(), f"{heading}\n{line}\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("GPU 0  5", "before a heading"),
        ("GPU-I 0/0  5", "no MIG slice"),
        ("Error getting values", "no MIG slice"),
    ],
)
def test_what_is_wrong_with_a_line_of_dmon(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        dmon(0, 1000).read_rows(line)


SPELLINGS = {
    "gpu_utilization[%]": ("97", {"gpu_util_pct": 97}),
    "GPU Utilization (%)": ("97.5", {"gpu_util_pct": 97.5}),
    "GPU-Util": ("97%", {"gpu_util_pct": 97}),
    "gpu%": ("97", {"gpu_util_pct": 97}),
    "util_pct": ("97", {"gpu_util_pct": 97}),
    "gpu_load_ratio": ("0.97", {"gpu_util_pct": 97}),
    "Auslastung [%]": ("97", {"gpu_util_pct": 97}),
    "Speicher belegt [MiB]": ("1024", {"mem_used_bytes": 1024 * MIB}),
    "Leistungsaufnahme": ("80.5 W", {"power_w": 80.5}),
    "mémoire utilisée [MiB]": ("1024", {"mem_used_bytes": 1024 * MIB}),
    "puissance (W)": ("80.5", {"power_w": 80.5}),
    "memory_used": ("1024", {"mem_used_bytes": 1024 * MIB}),
    "used_gpu_memory [MiB]": ("1024 MiB", {"mem_used_bytes": 1024 * MIB}),
    "MemUsed(GB)": ("1.5", {"mem_used_bytes": 1536 * MIB}),
    "vram_used_bytes": ("1024", {"mem_used_bytes": 1024}),
    "memory.used [KiB]": ("2048 KiB", {"mem_used_bytes": 2 * MIB}),
    "memory_total_mib": ("24576", {"mem_total_bytes": 24576 * MIB}),
    "power_draw_W": ("80.5", {"power_w": 80.5}),
    "pwr": ("80.5", {"power_w": 80.5}),
    "gpu_pwr_mW": ("80500", {"power_w": 80.5}),
    "power_w": ("80.5", {"power_w": 80.5}),
    "power_mW": ("80500", {"power_w": 80.5}),
    "power.draw [W]": ("3 kW", {"power_w": 3000}),
    "total_energy_consumption_mJ": ("2500", {"energy_j": 2.5}),
    "gpu_temp_c": ("61", {"temp_c": 61}),
    "clocks.sm [GHz]": ("1.41", {"sm_clock_mhz": 1410}),
    "clocks.gr": ("1410 MHz", {"sm_clock_mhz": 1410}),
    "pcie_rx_bytes_s": ("2016073", {"pcie_rx_bytes_per_s": 2016073}),
    "pcie_tx_mb_s": ("2.5", {"pcie_tx_bytes_per_s": 2_500_000}),
    "mem_clock_mhz": ("1215", {"mem_clock_mhz": 1215}),
    "utilization_memory_pct": ("31", {"mem_copy_util_pct": 31}),
    "utilization.jpeg [%]": ("7 %", {"jpeg_util_pct": 7}),
    "machine/gpu:0/gpu_utilization (%)/mean": ("50", {"index": 0, "gpu_util_pct": 50}),
    "cuda:0 (gpu:3)/memory_used (MiB)/mean": ("512", {"index": 3, "mem_used_bytes": 512 * MIB}),
    "GPU use (%)": ("50", {"gpu_util_pct": 50}),
    "card1.GPU use (%)": ("50", {"index": 1, "gpu_util_pct": 50}),
    "gpu_mem_total [TiB]": ("0.25", {"mem_total_bytes": 256 * 1024 * MIB}),
    "utilization.ofa [%]": ("3 %", {"ofa_util_pct": 3}),
}


@pytest.mark.parametrize(("name", "cell", "fields"), [(name, *case) for name, case in SPELLINGS.items()])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_usual_spellings_are_known(name: str, cell: str, fields: dict[str, object], delimiter: str) -> None:
    text = f"timestamp{delimiter}{name}\n2020-11-12T13:48:11.412Z{delimiter}{cell}\n"
    assert rows(smi(), text) == [Row(AT_MS, fields)]


@pytest.mark.parametrize(
    "name",
    [
        "cpu_util", "cpu_memory_used", "ram_used", "temperature.gpu.max", "clocks.max.sm [MHz]",
        "fan.speed [%]",
        "gpu:0/gpu_utilization (%)/max", "power.max_limit [W]", "loss", "train_time", "pcie.link.gen.max",
        "count",
    ],
)  # fmt: skip
def test_what_is_of_something_else_is_not_used(name: str) -> None:
    reader = smi()
    assert rows(reader, f"timestamp,{name},util\n1605188891.412,7,5\n") == [Row(AT_MS, {"gpu_util_pct": 5})]
    assert reader.notes.unused == (name.split(" [")[0],)


@pytest.mark.parametrize(
    ("name", "cell", "identity"),
    [
        ("gpu", "3", {"index": 3}), ("device", "cuda:3", {"index": 3}), ("gpu_id", "GPU 3", {"index": 3}),
        ("cuda_device", "3", {"index": 3}), ("gpu", "GPU-6f1c", {"uuid": "GPU-6f1c"}),
        ("gpu", "NVIDIA A100", {"model": "NVIDIA A100"}), ("gpu_uuid", "GPU-6f1c", {"uuid": "GPU-6f1c"}),
    ],
)  # fmt: skip
def test_a_gpu_is_told_by_its_number_or_by_a_text(name: str, cell: str, identity: dict[str, object]) -> None:
    assert rows(smi(), f"timestamp,{name},util\n1605188891.412,{cell},5\n") == [
        Row(AT_MS, {**identity, "gpu_util_pct": 5})
    ]


def test_a_name_with_a_number_is_of_that_gpu() -> None:
    text = "time,gpu0_util,gpu1_util,gpu.1.power_w\n1605188891.412,5,6,80\n"
    assert rows(smi(), text) == [
        Row(AT_MS, {"index": 0, "gpu_util_pct": 5}),
        Row(AT_MS, {"index": 1, "gpu_util_pct": 6, "power_w": 80})
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "heading", "cells", "fields"),
    [
        ("power=GPU3[mW]", "GPU3,n", "5000,7", {"power_w": 5, "index": 3}),
        ("util=load,mem_used=m", "load,m", "5,7", {"gpu_util_pct": 5, "mem_used_bytes": 7 * MIB}),
        ("util=x[ratio],mem_used=y[GiB]", "x,y", "0.5,1", {"gpu_util_pct": 50, "mem_used_bytes": 1024 * MIB}),
        ("util=work[%]", "work[%],n", "5,7", {"gpu_util_pct": 5}),
        ("util=a b", "a b [%],n", "5 %,7", {"gpu_util_pct": 5}),
        ("gpu_util_pct=sm", "sm,utilization.gpu [%]", "5,7", {"gpu_util_pct": 5}),
        ("index=rank", "rank,util", "3,7", {"index": 3, "gpu_util_pct": 7}),
    ],
)
def test_columns_are_mapped(columns: str, heading: str, cells: str, fields: dict[str, object]) -> None:
    text = f"when,{heading}\n2020-11-12 13:48:11.412,{cells}\n"
    assert rows(smi(f"time=when,{columns}"), text) == [Row(AT_MS, fields)]


def test_columns_of_several_gpus_are_mapped() -> None:
    text = "timestamp,GPU0,GPU1\n1605188891.412,199.975,256.5\n"
    assert rows(smi("power=GPU0,power=GPU1"), text) == [
        Row(AT_MS, {"index": 0, "power_w": 199.975}), Row(AT_MS, {"index": 1, "power_w": 256.5})
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "used", "is_told"), [("", None, True), (",gpu_mem_total [MiB]", 512 * MIB, False)]
)
def test_a_share_of_memory_without_the_whole_is_told(more: str, used: int | None, is_told: bool) -> None:
    reader = smi()
    cells = "50,25" + (",2048" if more else "")
    ((row),) = rows(reader, f"timestamp,util,GPU memory use (%){more}\n1605188891.412,{cells}\n")
    assert row.fields.get("mem_used_bytes") == used
    told = [
        remark for remark in reader.notes.remarks if "of which no column tells how much there is" in remark
    ]
    assert bool(told) is is_told


TABLES_OF_WANDB = {
    "the API": ("_runtime,_timestamp,system.gpu.0.gpu,system.gpu.0.memory,system.cpu,system.memory",
                "7.5,1605188891.412,97,31,5,50", {"index": 0, "gpu_util_pct": 97, "mem_copy_util_pct": 31}),
    "a chart": ("Wall Time,a-1 - system/gpu.3.powerWatts,a-1 - system/gpu.3.powerWatts__MIN,"
                "a-1 - system/gpu.3.powerWatts__MAX", "1605188891412,250.5,1,900",
                {"index": 3, "power_w": 250.5}),
    "one over steps": ("Step,a - b - _timestamp,a - b - system/gpu.0.temp", "3,1605188891.412,61",
                       {"index": 0, "temp_c": 61}),
    "two clocks of one field": ("_timestamp,system.gpu.0.graphicsClock,system.gpu.0.smClock",
                                "1605188891.412,1200,1410", {"index": 0, "sm_clock_mhz": 1410}),
    "a run that begins with a digit": ("_timestamp,7b-sft - system/gpu.0.gpu", "1605188891.412,97",
                                       {"index": 0, "gpu_util_pct": 97}),
    "a moment without a value": ("_timestamp,a - system/gpu.0.gpu,a - system/gpu.0.temp",
                                 "1605188891.412,,61", {"index": 0, "temp_c": 61}),
}  # fmt: skip


@pytest.mark.parametrize(("heading", "cells", "fields"), TABLES_OF_WANDB.values(), ids=TABLES_OF_WANDB.keys())
def test_tables_that_wandb_exports_are_read(heading: str, cells: str, fields: dict[str, object]) -> None:
    quoted = ",".join(f'"{name}"' for name in heading.split(","))
    assert rows(smi(), f"{quoted}\n{cells}\n") == [Row(AT_MS, fields)]


def test_of_a_table_with_several_runs_one_is_to_be_chosen() -> None:
    figures = ("gpu", "powerWatts", "graphicsClock", "smClock")
    names = [f"{run} - system/gpu.{gpu}.{figure}{bound}" for run in ("a,b - 1", "c") for gpu in (0, 1)
             for figure in figures for bound in ("", "__MIN", "__MAX")]  # fmt: skip
    heading = ",".join(f'"{name}"' for name in ("_timestamp", *names))
    text = f"{heading}\n1605188891.412,{','.join(map(str, range(len(names))))}\n"
    with pytest.raises(
        ValueError, match="its columns are of 2 runs, a,b - 1, c: choose those of one"
    ) as info:
        rows(smi(), text)
    (columns,) = shlex.split(str(info.value).partition("--columns ")[2])
    assert rows(smi(columns), text) == [
        Row(AT_MS, {"index": 0, "gpu_util_pct": 0, "power_w": 3, "sm_clock_mhz": 9}),
        Row(AT_MS, {"index": 1, "gpu_util_pct": 12, "power_w": 15, "sm_clock_mhz": 21}),
    ]
    assert rows(smi("power=c - system/gpu.1.powerWatts"), text) == [
        Row(AT_MS, {"index": 1, "gpu_util_pct": 36, "power_w": 39, "sm_clock_mhz": 45}),
        Row(AT_MS, {"index": 0, "gpu_util_pct": 24, "sm_clock_mhz": 33}),
    ]  # what is not chosen is of the same run


def test_moments_of_other_runs_are_no_rows_of_the_one_that_was_chosen() -> None:
    heading = '"_timestamp","a - system/gpu.0.gpu","b - system/gpu.0.gpu"'
    text = f"{heading}\n1605188891.412,97,\n1605188892.412,,3\n"
    assert rows(smi("util=a - system/gpu.0.gpu"), text) == [Row(AT_MS, {"index": 0, "gpu_util_pct": 97})]


def test_a_number_in_the_name_of_a_run_is_no_gpu() -> None:
    text = '"_timestamp","gpu8-sft - system/gpu.0.smActive"\n1605188891.412,0.5\n'
    chosen = smi("sm_active_pct=gpu8-sft - system/gpu.0.smActive[ratio]")
    assert rows(chosen, text) == [Row(AT_MS, {"index": 0, "sm_active_pct": 50})]


@pytest.mark.parametrize("names", [("util[0]", "util[1]"), ("load_0 [%]", "load_1 [%]"), ("sm.0", "sm.1")])
def test_columns_that_end_with_a_number_can_be_told_to_be_of_gpus(names: tuple[str, str]) -> None:
    text = f"timestamp,{','.join(names)}\n1605188891.412,5,6\n"
    assert rows(smi(",".join(f"util={name}" for name in names)), text) == [
        Row(AT_MS, {"index": 0, "gpu_util_pct": 5}), Row(AT_MS, {"index": 1, "gpu_util_pct": 6})
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ("gpu_memory_mb", "total_memory_mb", "used_memory_mb", "gpu_usage_percent", "usage_percent"),
        ("usage", "memory_percent", "gpu_memory_mb", "gpu_usage_percent", "load"),
    ],
)
def test_beside_what_names_a_gpu_plain_names_are_of_the_machine(names: tuple[str, ...]) -> None:
    cells = {"gpu_memory_mb": "3", "gpu_usage_percent": "5"}
    text = ",".join(names) + "\n" + ",".join(cells.get(name, "77") for name in names) + "\n"
    assert rows(smi(start_ms=AT_MS), text) == [Row(AT_MS, {"mem_used_bytes": 3 * MIB, "gpu_util_pct": 5})]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("utl=load", "'utl' is no key: expected one of time,"),
        ("util=load,power", "'power': expected KEY=NAME"),
        ("util=", "'util=': expected KEY=NAME"),
        ("util=a,util=b", "util is given twice"),
        ("util=gpu0,power=gpu0,util=gpu0_x", "util is given twice"),
    ],
)
def test_a_mapping_that_cannot_be_read(columns: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_column_choice(columns)


@pytest.mark.parametrize("name", ["Mem (GB)", "Mem (GB)[GB]", "Mem[GB]", "Mem"])
def test_a_mapping_names_a_column_with_its_unit_or_without(name: str) -> None:
    text = "timestamp,index,Mem (GB)\n1605188891.412,1,2\n"
    assert rows(smi(f"mem_used={name}"), text) == [Row(AT_MS, {"index": 1, "mem_used_bytes": 2048 * MIB})]


def test_a_mapping_names_what_the_log_has() -> None:
    with pytest.raises(ValueError, match="--columns util=lod: no such column: there are time, load"):
        smi("util=lod").read_rows("time,load\n")


@pytest.mark.parametrize(
    "cell",
    [
        "N/A",
        "[N/A]",
        "[Unknown Error]",
        "[GPU is lost]",
        "ERR!",
        "nan",
        "None",
        "-",
        "",
        "nan %",
        "N/A%",
        "?",
        "-- %",
    ],
)
def test_what_was_not_measured_is_absent(cell: str) -> None:
    text = f"timestamp,index,util,power.draw\n1605188891.412,1,{cell},80\n"
    assert rows(smi(), text) == [Row(AT_MS, {"index": 1, "power_w": 80})]


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("utilization.gpu [%]", "inf"), ("power.draw [W]", "-Infinity"), ("power.draw [W]", "+inf W"),
        ("utilization.gpu [%]", "inf%"), ("enforced.power.limit [W]", "0.00 W"),
        ("utilization.gpu [%]", "4294967295 %"), ("utilization.gpu [%]", "187431"),
        ("utilization.gpu [%]", "-1"),
        ("memory.used [MiB]", "18446744073709551615 MiB"), ("power.draw [W]", "4294967.29 W"),
        ("temperature.gpu", "2147483632"), ("clocks.sm", "4294967295 MHz"), ("power.draw [W]", "1e999"),
    ],
)  # fmt: skip
def test_what_no_gpu_has_is_absent_and_counted(name: str, cell: str) -> None:
    reader = smi()
    text = f"timestamp, index, pcie.link.gen.current, {name}\n1605188891.412, 0, 4, {cell}\n"
    assert rows(reader, text) == [Row(AT_MS, {"index": 0, "pcie_gen": 4})]
    assert reader.notes.out_of_range == {name: (1, cell)}


def test_a_value_without_its_unit_was_cut_off() -> None:
    reader = smi()
    assert len(rows(reader, "timestamp, memory.used [MiB]\n1605188891, 90098 MiB\n")) == 1
    with pytest.raises(
        ValueError, match=r"'900' has no unit, and those before it in memory.used \[MiB\] have"
    ):
        reader.read_rows("1605188892, 900\n")


@pytest.mark.parametrize(
    ("names", "cells", "memory"),
    [
        ("memory.used,memory.free", "100,300", {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
        ("memory.total,memory.free", "400,300", {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
        ("memory.used,memory.free,memory.reserved", "100,290,10",
         {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
        ("memory_pct,memory.total", "25,400", {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
        ("memory.used,memory.total,memory.free", "100,500,300",
         {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 500 * MIB}),
    ],
)  # fmt: skip
def test_free_memory_tells_the_rest(names: str, cells: str, memory: dict[str, int]) -> None:
    assert rows(smi(), f"timestamp,{names}\n1605188891.412,{cells}\n") == [Row(AT_MS, memory)]


SMI_DMON = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb  rxpci
# Idx      W      C      C      %      %      %      %    MHz    MHz     MB   MB/s
    0     43     35      -     97     12      0      0   9501   1410   1024      3
    1     22     30      -      0      0      0      0    405      -      1      0
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb  rxpci
# Idx      W      C      C      %      %      %      %    MHz    MHz     MB   MB/s
    0     44     36     71     98     13      0      0   9501   1410   1024      3
"""
FIRST = {"index": 0, "power_w": 43, "temp_c": 35, "gpu_util_pct": 97, "mem_copy_util_pct": 12,
         "mem_clock_mhz": 9501, "sm_clock_mhz": 1410, "mem_used_bytes": 1024 * MIB,
         "enc_util_pct": 0, "dec_util_pct": 0, "pcie_rx_bytes_per_s": 3_000_000}  # fmt: skip


def test_dmon_of_nvidia_smi() -> None:
    reader = smi(start_ms=AT_MS)
    found = rows(reader, SMI_DMON)
    assert [(row.ts_ms - AT_MS, row.fields["index"]) for row in found] == [(0, 0), (0, 1), (1000, 0)]
    assert found[0].fields == FIRST
    assert "sm_clock_mhz" not in found[1].fields
    assert [row.fields.get("mem_temp_c") for row in found] == [None, None, 71]
    assert reader.notes.unused == ()
    with pytest.raises(ValueError, match="3 values for 12 columns"):
        reader.read_rows("    0     44     36")
    with pytest.raises(ValueError, match="has no times: give --start"):
        rows(smi(), SMI_DMON)


@pytest.mark.parametrize("separator", [" ", ", "])
def test_dmon_with_date_and_time(separator: str) -> None:
    lines = ["#Date Time gpu pwr sm", "#YYYYMMDD HH:MM:SS Idx W %", "20201112 13:48:11 1 43 97"]
    text = "".join(f"{line.replace(' ', separator)}\n" for line in lines)
    assert rows(smi(), text) == [
        Row(AT_MS - 412, {"index": 1, "power_w": 43, "gpu_util_pct": 97})
    ]  # fmt: skip


PMON = """#Date       Time        gpu         pid   type     sm    mem     fb   command
#YYYYMMDD   HH:MM:SS    Idx           #    C/G      %      %     MB   name
 20201112   13:48:11      0        4711     C     50     10   1000   python -m x
 20201112   13:48:11      0        4712     C      -      -      -   python
 20201112   13:48:11      1           -     -      -      -      -   -
"""


def test_a_row_of_pmon_is_of_a_process() -> None:
    reader = smi()
    first = {"pid": 4711, "name": "python -m x", "gpu_util_pct": 50, "mem_copy_util_pct": 10,
             "mem_used_bytes": 1000 * MIB}  # fmt: skip
    assert rows(reader, PMON) == [
        Row(AT_MS - 412, {"index": 0, "processes": [first]}),
        Row(AT_MS - 412, {"index": 0, "processes": [{"pid": 4712, "name": "python"}]}),
        Row(AT_MS - 412, {"index": 1, "processes": []}),
    ]
    with pytest.raises(ValueError, match="is of no known process: pid 'x'"):
        reader.read_rows("20201112   13:48:12      0      x   C    50   10   1000   python")


def test_processes_of_one_gpu_are_of_one_tick() -> None:
    text = "# gpu   pid  type  sm  mem  command\n# Idx   #   C/G   %   %   name\n" + 2 * (
        "  0   1   C   50   10   a\n  0   2   C   40   10   b\n"
    )
    assert [row.ts_ms for row in rows(smi(start_ms=0), text)] == [0, 0, 1000, 1000]


def test_a_column_with_a_unit_that_its_quantity_has_not_is_left_out() -> None:
    text = "timestamp, index, memory.used [pages], power.draw [W]\n1605188891.412, 0, 5, 70\n"
    reader = smi()
    assert rows(reader, text) == [Row(AT_MS, {"index": 0, "power_w": 70})]
    (remark,) = reader.notes.remarks
    assert remark.startswith("memory.used [pages]: expected mib, mb")
    with pytest.raises(ValueError, match=r"memory.used \[pages\]: expected mib, mb"):
        rows(smi("mem_used=memory.used"), text)


MEASURED = {"index": 0, "gpu_util_pct": 50, "mem_used_bytes": 1000 * MIB, "power_w": 70, "temp_c": 45}


@pytest.mark.parametrize(
    "text",
    [
        "timestamp|index|util|memory.used|power|temp\n1605188891.412|0|50 %|1000 MiB|70 W|45\n",
        "timestamp index util memory.used power temp\n1605188891.412 0 50 1000 70 45\n",
        "timestamp\tindex\tutil\tmemory.used\tpower\ttemp\n1605188891.412\t0\t50,0\t1000\t70,00\t45\n",
        "Horodatage;Indice;Utilisation GPU (%);Mémoire utilisée (Mio);Puissance (W);Température (°C)\n"
        "2020-11-12 13:48:11,412;0;50,0;1000;70,0;45\n",
        "fecha;hora;índice;uso de gpu (%);memoria usada (MiB);potencia;temperatura\n"
        "2020-11-12;13:48:11,412;0;50;1000;70,0;45\n",
        "時刻，番号，使用率（％），使用メモリ（ＭｉＢ），消費電力（Ｗ），温度（℃）\n"
        "２０２０-１１-１２ １３：４８：１１.４１２，０，５０，１０００，７０，４５\n",
        "timestamp,index,util,memory.used,power,temp\n2020-11-12 13:48:11,412,0,50,1000,70,45\n",
        "index,util,memory.used,power,temp,time\n0,50,1000,70,45,2020-11-12 13:48:11,412\n",
        "时间,GPU编号,GPU利用率(%),GPU显存(MiB),GPU功耗(W),GPU温度(C)\n"
        "2020-11-12 13:48:11.412,0,50,1000,70,45\n",
        "timestamp,index,GPU use (%),VRAM Total Used Memory (B),power_mw,temp\n"
        "20201112134811.412,0,50,1048576000,70000,45\n".replace("34811.412", "34811"),
    ],
    ids=[
        "bars",
        "spaces",
        "tabs and decimal commas",
        "French",
        "Spanish",
        "Japanese, full-width",
        "Python's logging",
        "Python's logging, at the end",
        "Chinese",
        "rocm-smi",
    ],
)
def test_a_log_is_read_however_it_is_written(text: str) -> None:
    (row,) = rows(smi(), text)
    assert (row.ts_ms // 1000, row.fields) == (AT_MS // 1000, MEASURED)


@pytest.mark.parametrize("name", ["GPU噪音", "GPU風扇", "GPUшум"])
def test_a_word_that_is_not_known_is_not_left_out_of_a_name(name: str) -> None:
    reader = smi()
    assert rows(reader, f"timestamp,util,{name}\n1605188891.412,5,45\n") == [Row(AT_MS, {"gpu_util_pct": 5})]
    assert reader.notes.unused == (name,)


def test_a_sentence_between_rows_is_no_heading() -> None:
    reader = smi()
    with pytest.raises(ValueError, match="before a heading"):
        reader.read_rows("GPU memory is used with some optimization\n")
    assert len(rows(reader, "time, index, util\n1605188891, 0, 5\n")) == 1
    with pytest.raises(ValueError, match="1 values for 3 columns"):
        reader.read_rows("GPU power\n")
    assert len(rows(reader, "1605188892, 0, 5\n")) == 1


BARE = [
    ("bytes", "memory_used", ["1610612736", "1610612737"], "--columns mem_used_bytes=memory_used[B]"),
    ("milliwatts", "power", ["100500", "101500", "99"], "--columns power_w=power[mW]"),
    ("a slip of the counter", "power", ["100", "101500", "99"], None),
    ("GB", "memory_total", ["80", "80"], "--columns mem_total_bytes=memory_total[GiB]"),
    ("KiB", "memory_used", ["10485760", "10485761"], "--columns mem_used_bytes=memory_used[KiB]"),
    ("parts of GB", "memory_used", ["1.5", "2"], "--columns mem_used_bytes=memory_used[GiB]"),
    ("an idle GPU", "memory_used", ["0", "4"], None),
    ("MiB", "memory_total", ["81920", "81920"], None),
    ("the heading says it", "memory_total [GB]", ["80", "80"], None),
    ("shares of the memory", "mem_pct", ["0.5", "0.7"], None),
    ("shares of memory", "memory usage pct", ["50", "70"], None),
]


@pytest.mark.parametrize(("goal", "name", "cells", "fix"), BARE, ids=[row[0] for row in BARE])
def test_a_unit_that_is_doubtful_is_said_with_its_mend(
    goal: str, name: str, cells: list[str], fix: str | None
) -> None:
    reader = smi()
    text = f"timestamp,index,{name}\n" + "".join(
        f"{1605188891 + at},0,{cell}\n" for at, cell in enumerate(cells)
    )
    rows(reader, text)
    remarks = reader.notes.doubtful_units()
    assert [remark[-len(fix or "") :] for remark in remarks] == ([fix] if fix else []), goal
    if fix:
        again = smi(fix.removeprefix("--columns "))
        rows(again, text)
        assert again.notes.doubtful_units() == []


def test_a_comma_that_may_part_thousands_is_not_read() -> None:
    with pytest.raises(ValueError, match="'81,559' is no mem_used_bytes"):
        rows(smi(), "timestamp\tmemory.used [MiB]\n1605188891\t81,559\n")


def test_counters_of_what_held_the_clocks_down_and_words_of_nvidia_smi_are_read() -> None:
    counters = ("sw_power_cap", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown",
                "hw_power_brake_slowdown")  # fmt: skip
    names = ["timestamp", "index", *(f"clocks_event_reasons_counters.{name} [us]" for name in counters)]
    names += ["gpu_recovery_action", "fabric.state"]
    log = f"""{", ".join(names)}
2026/11/28 10:00:00.000, 0, 1000 us, 0 us, 5 us, 0 us, [N/A], None, Completed
2026/11/28 10:00:00.000, 1, 9000 us, 0 us, 5 us, 0 us, [N/A], N/A, N/A
2026/11/28 10:00:02.000, 0, 501000 us, 0 us, 5 us, 2000010 us, [N/A], Drain and Reset, In Progress
2026/11/28 10:00:02.000, 1, 8000 us, 0 us, 5 us, 0 us, [N/A], Reset, Later Words
2026/11/28 10:00:02.000, 2, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], state  Completed
"""
    reader = smi()
    first, other, second, began_anew, with_name = (row.fields for row in rows(reader, log))
    assert first == {"index": 0, "recovery_action": 0, "fabric_state": 3}
    assert other == {"index": 1}
    assert second == {
        "index": 0, "sw_power_cap_pct": 25, "sync_boost_pct": 0, "sw_thermal_pct": 0, "hw_thermal_pct": 100,
        "recovery_action": 4, "fabric_state": 2,
    }  # fmt: skip
    zero = {"sync_boost_pct": 0, "sw_thermal_pct": 0, "hw_thermal_pct": 0}
    assert began_anew == {"index": 1, "recovery_action": 1} | zero
    assert with_name == {"index": 2, "fabric_state": 3}, "as nvidia-smi writes it on a GB200"
    assert reader.notes.unused == ()
    assert reader.notes.unreadable == {"fabric.state": (1, "'Later Words' is no fabric_state")}
