"""What each format's lines become, as the programs write them."""

import shlex
from datetime import UTC, tzinfo
from typing import Any
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
        0, {"index": 1, "mem_used_bytes": 900 * MIB, "power_w": 300, "nvlink_bytes_per_s": 1_024_000_000}
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


def test_dmon_of_free_memory_tells_how_much_there_is() -> None:
    (row,) = rows(dmon(0, 1000), "#Entity FBUSD FBFRE\nID\nGPU 0 1000 23000\n")
    assert row.fields == {"index": 0, "mem_used_bytes": 1000 * MIB, "mem_total_bytes": 24_000 * MIB}


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
        (
            "timestamp, memory.used [MiB]\n1605188891, 90098 MiB",
            "1605188892, 900",
            r"'900' has no unit, and those before it in memory.used \[MiB\] have",
        ),
        ("timestamp\tmemory.used [MiB]", "1605188891\t81,559", "'81,559' is no mem_used_bytes"),
        ("", "#Entity   GPUTL", "is the heading of dcgmi dmon: the format dcgm-dmon reads it"),
    ],
)
def test_what_is_wrong_with_a_line(heading: str, line: str, reason: str) -> None:
    reader = smi()
    assert len(rows(reader, heading)) == heading.count("\n")
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


NAMES = [
    ("gpu_utilization[%]", "97", {"gpu_util_pct": 97}),
    ("GPU Utilization (%)", "97.5", {"gpu_util_pct": 97.5}),
    ("GPU-Util", "97%", {"gpu_util_pct": 97}),
    ("gpu%", "97", {"gpu_util_pct": 97}),
    ("util_pct", "97", {"gpu_util_pct": 97}),
    ("gpu_load_ratio", "0.97", {"gpu_util_pct": 97}),
    ("Auslastung [%]", "97", {"gpu_util_pct": 97}),
    ("Speicher belegt [MiB]", "1024", {"mem_used_bytes": 1024 * MIB}),
    ("Leistungsaufnahme", "80.5 W", {"power_w": 80.5}),
    ("mémoire utilisée [MiB]", "1024", {"mem_used_bytes": 1024 * MIB}),
    ("puissance (W)", "80.5", {"power_w": 80.5}),
    ("memory_used", "1024", {"mem_used_bytes": 1024 * MIB}),
    ("used_gpu_memory [MiB]", "1024 MiB", {"mem_used_bytes": 1024 * MIB}),
    ("MemUsed(GB)", "1.5", {"mem_used_bytes": 1536 * MIB}),
    ("vram_used_bytes", "1024", {"mem_used_bytes": 1024}),
    ("memory.used [KiB]", "2048 KiB", {"mem_used_bytes": 2 * MIB}),
    ("memory_total_mib", "24576", {"mem_total_bytes": 24576 * MIB}),
    ("power_draw_W", "80.5", {"power_w": 80.5}),
    ("pwr", "80.5", {"power_w": 80.5}),
    ("gpu_pwr_mW", "80500", {"power_w": 80.5}),
    ("power_w", "80.5", {"power_w": 80.5}),
    ("power_mW", "80500", {"power_w": 80.5}),
    ("power_draw_milliwatts", "80500", {"power_w": 80.5}),
    ("gpu_0_memory_usage_megabytes", "1024", {"index": 0, "mem_used_bytes": 1024 * MIB}),
    ("power.draw [W]", "3 kW", {"power_w": 3000}),
    ("total_energy_consumption_mJ", "2500", {"energy_j": 2.5}),
    ("gpu_temp_c", "61", {"temp_c": 61}),
    ("clocks.sm [GHz]", "1.41", {"sm_clock_mhz": 1410}),
    ("clocks.gr", "1410 MHz", {"sm_clock_mhz": 1410}),
    ("pcie_rx_bytes_s", "2016073", {"pcie_rx_bytes_per_s": 2016073}),
    ("pcie_tx_mb_s", "2.5", {"pcie_tx_bytes_per_s": 2_500_000}),
    ("mem_clock_mhz", "1215", {"mem_clock_mhz": 1215}),
    ("utilization_memory_pct", "31", {"mem_copy_util_pct": 31}),
    ("utilization.jpeg [%]", "7 %", {"jpeg_util_pct": 7}),
    ("machine/gpu:0/gpu_utilization (%)/mean", "50", {"index": 0, "gpu_util_pct": 50}),
    ("cuda:0 (gpu:3)/memory_used (MiB)/mean", "512", {"index": 3, "mem_used_bytes": 512 * MIB}),
    ("GPU use (%)", "50", {"gpu_util_pct": 50}),
    ("card1.GPU use (%)", "50", {"index": 1, "gpu_util_pct": 50}),
    ("gpu_mem_total [TiB]", "0.25", {"mem_total_bytes": 256 * 1024 * MIB}),
    ("utilization.ofa [%]", "3 %", {"ofa_util_pct": 3}),
    ("GPU 0 [%]", "97", {"index": 0, "gpu_util_pct": 97}),
    ("devices.device_1.util", "97", {"index": 1, "gpu_util_pct": 97}),
    ("Power Consumption (W) [W]", "80.5", {"power_w": 80.5}),
    ("Board Power Draw [W]", "80.5", {"power_w": 80.5}),
    ("Average Graphics Package Power (W)", "80.5", {"power_w": 80.5}),
    ("Memory Controller Load [%]", "31", {"mem_copy_util_pct": 31}),
    ("GPU Core Temperature (Celsius Degree)", "61", {"temp_c": 61}),
    ("pcie_rx [MiB/s]", "2", {"pcie_rx_bytes_per_s": 2 * MIB}),
    ("gpu,util", "3,5", {"index": 3, "gpu_util_pct": 5}),
    ("device,util", "cuda:3,5", {"index": 3, "gpu_util_pct": 5}),
    ("gpu_id,util", "GPU 3,5", {"index": 3, "gpu_util_pct": 5}),
    ("cuda_device,util", "3,5", {"index": 3, "gpu_util_pct": 5}),
    ("gpu,util", "GPU-6f1c,5", {"uuid": "GPU-6f1c", "gpu_util_pct": 5}),
    ("gpu_uuid,util", "GPU-6f1c,5", {"uuid": "GPU-6f1c", "gpu_util_pct": 5}),
    ("gpu,util", "NVIDIA A100,5", {"model": "NVIDIA A100", "gpu_util_pct": 5}),
    ("gpu0_util,gpu1_util,gpu.1.power_w", "5,6,80", {"index": 0, "gpu_util_pct": 5},
     {"index": 1, "gpu_util_pct": 6, "power_w": 80}),
    ("memory.used,memory.free", "100,300", {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
    ("memory.total,memory.free", "400,300", {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
    ("memory.used,memory.free,memory.reserved", "100,290,10",
     {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
    ("memory_pct,memory.total", "25,400", {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 400 * MIB}),
    ("memory.used,memory.total,memory.free", "100,500,300",
     {"mem_used_bytes": 100 * MIB, "mem_total_bytes": 500 * MIB}),
    *(("index,util,power.draw", f"1,{cell},80", {"index": 1, "power_w": 80}) for cell in (
        "N/A", "[N/A]", "[Unknown Error]", "[GPU is lost]", "ERR!", "nan", "None", "-", "", "nan %", "N/A%",
        "?",
        "-- %",
    )),
    ("gpu_index,utilization_gpu_pct,utilization_memory_pct,memory_free_MiB,memory_used_MiB,temperature_gpu,"
     "temperature_memory,power_draw_W,pcie_link_width_current", "1,87.0,31,32000,510,40,38,96.7,16",
     {"index": 1, "gpu_util_pct": 87, "mem_copy_util_pct": 31, "mem_used_bytes": 510 * MIB, "power_w": 96.7,
      "mem_total_bytes": 32510 * MIB, "temp_c": 40, "mem_temp_c": 38, "pcie_width": 16}),  # of supercloud
]  # fmt: skip


@pytest.mark.parametrize("case", NAMES, ids=lambda case: f"{case[0]}={case[1]}")
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_usual_names_and_values_are_known(case: tuple[Any, ...], delimiter: str) -> None:
    names, cells, *fields = case
    text = f"timestamp,{names}\n2020-11-12T13:48:11.412Z,{cells}\n".replace(",", delimiter)
    reader = smi()
    assert rows(reader, text) == [Row(AT_MS, gpu) for gpu in fields]
    assert reader.notes.unused == ()


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
    ("columns", "text", "fields"),
    [
        ("power=GPU3[mW]", "GPU3,n\n5000,7", [{"power_w": 5, "index": 3}]),
        ("util=load,mem_used=m", "load,m\n5,7", [{"gpu_util_pct": 5, "mem_used_bytes": 7 * MIB}]),
        ("util=x[ratio],mem_used=y[GiB]", "x,y\n0.5,1", [{"gpu_util_pct": 50, "mem_used_bytes": 1024 * MIB}]),
        ("util=work[%]", "work[%],n\n5,7", [{"gpu_util_pct": 5}]),
        ("util=a b", "a b [%],n\n5 %,7", [{"gpu_util_pct": 5}]),
        ("gpu_util_pct=sm", "sm,utilization.gpu [%]\n5,7", [{"gpu_util_pct": 5}]),
        ("index=rank", "rank,util\n3,7", [{"index": 3, "gpu_util_pct": 7}]),
        ("power=GPU0,power=GPU1", "GPU0,GPU1\n199.975,256.5",
         [{"index": 0, "power_w": 199.975}, {"index": 1, "power_w": 256.5}]),
        *((f"util={first},util={second}", f"{first},{second}\n5,6",
           [{"index": 0, "gpu_util_pct": 5}, {"index": 1, "gpu_util_pct": 6}])
          for first, second in (("util[0]", "util[1]"), ("load_0 [%]", "load_1 [%]"), ("sm.0", "sm.1"))),
        *((f"mem_used={name}", "index,Mem (GB)\n1,2", [{"index": 1, "mem_used_bytes": 2048 * MIB}])
          for name in ("Mem (GB)", "Mem (GB)[GB]", "Mem[GB]", "Mem")),
        # Moments of other runs of W&B are no rows of the one that was chosen; a number in a name is no GPU.
        ("util=a - system/gpu.0.gpu", "a - system/gpu.0.gpu,b - system/gpu.0.gpu\n97,\nWHEN,,3",
         [{"index": 0, "gpu_util_pct": 97}]),
        ("sm_active_pct=gpu8-sft - system/gpu.0.smActive[ratio]", "gpu8-sft - system/gpu.0.smActive\n0.5",
         [{"index": 0, "sm_active_pct": 50}]),
    ],
)  # fmt: skip
def test_columns_are_mapped(columns: str, text: str, fields: list[dict[str, object]]) -> None:
    heading, cells = text.split("\n", 1)
    moment = "2020-11-12 13:48:11.412"
    log = f"when,{heading}\n{moment},{cells.replace('WHEN', moment)}\n"
    assert rows(smi(f"time=when,{columns}"), log) == [Row(AT_MS, gpu) for gpu in fields]


@pytest.mark.parametrize(
    ("columns", "zone", "line", "fields"),
    [
        ("timestamp,utilization.gpu,power.draw", "Europe/Berlin",
         "2020/11/12 14:48:11.412, 7 %, [Not Supported]",
         {"gpu_util_pct": 7}),
        # Of two columns for a field the more exact counts.
        ("power.draw.average,pci.bus_id,timestamp,power.draw,uuid", "UTC",
         "100.0 W, 0000:3B:00.0, 2020/11/12 13:48:11.412, 120.5 W, GPU-aa", {"power_w": 120.5,
                                                                             "uuid": "GPU-aa"}),
    ],
)  # fmt: skip
def test_nvidia_smi_without_a_heading(columns: str, zone: str, line: str, fields: dict[str, object]) -> None:
    assert rows(smi(columns, ZoneInfo(zone)), f"{line}\n") == [Row(AT_MS, fields)]


WHOLE, NO_WHOLE = 2048 * MIB, "of which no column tells how much there is"


@pytest.mark.parametrize(
    ("name", "more", "fields", "remark"),
    [
        ("GPU memory use (%)", "", {}, NO_WHOLE), ("gpu_mem_free [KiB]", "", {}, NO_WHOLE),
        ("gpu_mem_reserved [KiB]", "", {}, NO_WHOLE),
        ("memory.used [pages]", "", {}, "memory.used [pages]: expected mib, mb"),
        ("GPU memory use (%)", "2048", {"mem_used_bytes": 512 * MIB, "mem_total_bytes": WHOLE}, None),
        ("gpu_mem_free [KiB]", "2048", {"mem_used_bytes": WHOLE - 25 * 1024, "mem_total_bytes": WHOLE}, None),
        ("gpu_mem_reserved [KiB]", "2048", {"mem_total_bytes": WHOLE}, None),
    ],
)  # fmt: skip
def test_a_column_that_cannot_be_used_is_told(
    name: str, more: str, fields: dict[str, object], remark: str | None
) -> None:
    """And it is no figure that has no value."""
    reader, total = smi(), ",gpu_mem_total [MiB]" if more else ""
    text = f"timestamp,util,{name}{total}\n1605188891.412,50,25{',' * bool(more)}{more}\n"
    assert rows(reader, text) == [Row(AT_MS, {"gpu_util_pct": 50, **fields})]
    assert [remark is not None and remark in text for text in reader.notes.remarks] == [True] * bool(remark)
    assert (name in reader.notes.figures) is (remark is None)


def test_two_names_that_pandas_has_joined_are_one() -> None:
    text = "time,\"('gpu0', 'util')\",\"('gpu1', 'util')\"\n1605188891.412,5,6\n"
    assert [row.fields for row in rows(smi(), text)] == [
        {"index": 0, "gpu_util_pct": 5}, {"index": 1, "gpu_util_pct": 6},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "#timestamp,util,power\n2020-11-12T13:48:11.412Z,97,80\n",
        "# Fields: timestamp,util,power\n2020-11-12T13:48:11.412Z,97,80\n",
        "#\ttimestamp\tutil\tpower\n2020-11-12T13:48:11.412Z\t97\t80\n",
        "# timestamp util power\n2020-11-12T13:48:11.412Z 97 80\n",
        "timestamp,util,power\n2020-11-12T13:48:11,412345678Z,97,80\n",
        "timestamp,util,power\n2020-11-12T14:48:11,412345678+01:00,97,80\n",
    ],
)
def test_a_sign_of_a_comment_is_no_name_and_a_comma_before_parts_of_a_second_no_delimiter(text: str) -> None:
    assert rows(smi(), text) == [Row(AT_MS, {"gpu_util_pct": 97, "power_w": 80})]


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("epoch,timestamp", "3,{at}"), ("time,timestamp", "0.25,{at}"), ("time,datetime", "13:48:11,{at}"),
        ("elapsed,time", "0:00:03,{at}"), ("epoch,time", "3,{at}"), ("created_at,ts", "1,{at}"),
        ("elapsed,sampled_at", "0.25,{at}"), ("elapsed,wall_clock", "0.25,{at}"),
        ("time,created_at", "{at},2020-11-12 09:00:00"), ("epoch_ms,t", "1605188891412,3"),
        ("created_at,epoch", "2020-11-12 09:00:00,1605188891.412"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("start_ms", [None, 0])
def test_of_two_columns_of_time_the_one_that_tells_the_moment_counts(
    names: str, cells: str, start_ms: int | None
) -> None:
    text = f"{names},util\n{cells.format(at='2020-11-12T13:48:11.412Z')},97\n"
    assert rows(smi(start_ms=start_ms), text) == [Row(AT_MS, {"gpu_util_pct": 97})]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " | "])
@pytest.mark.parametrize("time", ["Thu Nov 12 13:48:11 2020", "Thu Nov 12 13:48:11 UTC 2020"])
def test_a_date_of_the_shell_before_other_cells_is_not_that_of_a_table(time: str, delimiter: str) -> None:
    text = f"{delimiter.join(('time', 'util'))}\n{delimiter.join((time, '97'))}\n"
    assert rows(smi(), text) == [Row(AT_MS - 412, {"gpu_util_pct": 97})]


def test_epochs_of_a_training_are_no_seconds() -> None:
    with pytest.raises(
        ValueError, match="3 is no time since 1970, but an epoch of a training, perhaps: name"
    ):
        rows(smi(start_ms=0), "epoch,util\n3,97\n")
    assert rows(smi(), "epoch,util\n1605188891.412,97\n") == [Row(AT_MS, {"gpu_util_pct": 97})]


def test_times_since_the_log_began_are_counted_from_its_start() -> None:
    text = "elapsed,util\n0:00:01,97\n25:00:00,98\n"
    assert [row.ts_ms for row in rows(smi(start_ms=AT_MS), text)] == [AT_MS + 1000, AT_MS + 90_000_000]
    assert rows(smi(start_ms=AT_MS), "t_offset_s,util\n0.5,97\n")[0].ts_ms == AT_MS + 500


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
    "names without their beginning": ("_timestamp,gpu.0.gpu,gpu.0.memory,gpu.0.temp,gpu.0.powerWatts",
                                      "1605188891.412,97,31,61,250.5",
                                      {"index": 0, "gpu_util_pct": 97, "mem_copy_util_pct": 31, "temp_c": 61,
                                       "power_w": 250.5}),
    "memory beside names that are not all of W&B": (
        "_timestamp,gpu.0.memory,gpu.0.temp", "1605188891.412,2048,61",
        {"index": 0, "mem_used_bytes": 2048 * MIB, "temp_c": 61}),
    "names that W&B does not have": (
        "timestamp,gpu.0.gpu,gpu.0.mem,gpu.0.mem__MAX,gpu.0.power", "1605188891.412,97,2048,4096,80",
        {"index": 0, "gpu_util_pct": 97, "mem_used_bytes": 2048 * MIB, "power_w": 80}),
    **{f"a time that is called {name}": (f"{name},util", "2020-11-12T13:48:11.412Z,97", {"gpu_util_pct": 97})
       for name in ("timestamp", "date_time", "DateTime", "Date Time", "asctime")},
    "a moment without a value": ("_timestamp,a - system/gpu.0.gpu,a - system/gpu.0.temp",
                                 "1605188891.412,,61", {"index": 0, "temp_c": 61}),
}  # fmt: skip


@pytest.mark.parametrize(("heading", "cells", "fields"), TABLES_OF_WANDB.values(), ids=TABLES_OF_WANDB.keys())
def test_tables_that_wandb_exports_are_read(heading: str, cells: str, fields: dict[str, object]) -> None:
    quoted = ",".join(f'"{name}"' for name in heading.split(","))
    assert rows(smi(), f"{quoted}\n{cells}\n") == [Row(AT_MS, fields)]


@pytest.mark.parametrize(
    ("columns", "cells", "nodes"),
    [
        ("run_id", ("a", "b"), ["a", "b"]), ("name", ("sweet sun 1", "b"), ["sweet-sun-1", "b"]),
        ("name,run_id", ("x,a", "x,b"), ["a", "b"]), ("run,host", ("a,h", "b,h"), ["h", "h"]),
    ],
)  # fmt: skip
def test_rows_of_several_runs_of_wandb_are_kept_apart(
    columns: str, cells: tuple[str, str], nodes: list[str]
) -> None:
    """As machines are: GPU 0 of each run is another one. The name is that of a run, and of no model."""
    text = f"{columns},_timestamp,system.gpu.0.gpu\n" + "".join(
        f"{cell},1605188891.412,7\n" for cell in cells
    )
    assert rows(smi(), text) == [Row(AT_MS, {"index": 0, "gpu_util_pct": 7}, node) for node in nodes]


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
        ("util=lod", "--columns util=lod: no such column: there are time, load"),
        ("mem_used=memory.used", r"memory.used \[pages\]: expected mib, mb"),
    ],
)
def test_a_mapping_that_cannot_be_read(columns: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        rows(smi(columns), "time,load,memory.used [pages]\n")


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
        "20201112134811,0,50,1048576000,70000,45\n",
        "#Date Time gpu pwr sm fb gtemp\n#YYYYMMDD HH:MM:SS Idx W % MB C\n"
        "20201112 13:48:11 0 70 50 1000 45\n",
        "#Date Time gpu pwr temp sm fb\n#YYYYMMDD HH:MM:SS Idx W C % MB\n"
        "20201112 13:48:11 0 70 45 50 1000\n",
        "#Date, Time, gpu, pwr, sm, fb, gtemp\n#YYYYMMDD, HH:MM:SS, Idx, W, %, MB, C\n"
        "20201112, 13:48:11, 0, 70, 50, 1000, 45\n",
    ],
    ids=[
        "bars", "spaces", "tabs and decimal commas", "French", "Spanish", "Japanese, full-width",
        "Python's logging", "Python's logging, at the end", "Chinese", "rocm-smi", "dmon with a date",
        "dmon of an old driver", "dmon as CSV",
    ],
)  # fmt: skip
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
    ("milliwatts of a small GPU", "power", ["7051", "6951"], "--columns power_w=power[mW]"),
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
