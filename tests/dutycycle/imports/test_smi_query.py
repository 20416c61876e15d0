"""``nvidia-smi -q``: figures, slices, processes and faults, by the names of old and new drivers."""

from pathlib import Path
from typing import Any

import pytest

from dutycycle.cli.main import main
from tests.support.data.traces import read_by_topic

BUS = "00000000:18:00.0"
HEAD = """
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 20 10:00:{second:02d} 2026
Driver Version                            : 580.65.06

Attached GPUs                             : 2
"""
NEW = """GPU {bus}
    Product Name                          : NVIDIA H200
    MIG Mode
        Current                           : Disabled
    GPU UUID                              : {uuid}
    GPU Recovery Action                   : {action}
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 6
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 8x
        Replays Since Reset               : 7
        Tx Throughput                     : 727 KB/s
        Rx Throughput                     : 525 KB/s
    Clocks Event Reasons
        Idle                              : Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
        SW Thermal Slowdown               : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : {capped_us} us
        Sync Boost                        : {capped_us} us
        HW Thermal Slowdown               : 900 us
    FB Memory Usage
        Total                             : 143771 MiB
        Used                              : 1024 MiB
    BAR1 Memory Usage
        Total                             : 262144 MiB
        Used                              : 1 MiB
    Utilization
        GPU                               : 83 %
        Memory                            : 40 %
        Encoder                           : 0 %
        JPEG                              : N/A
    ECC Errors
        Volatile
            SRAM Correctable              : 1
            SRAM Uncorrectable Parity     : 2
            SRAM Uncorrectable SEC-DED    : 1
            DRAM Correctable              : 4
            DRAM Uncorrectable            : {dram}
        Aggregate
            DRAM Uncorrectable            : 99
    Retired Pages
        Single Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : {pending}
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 2558 bank(s)
            Low                           : 2 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : 61 C
        GPU T.Limit Temp                  : 26 C
        Memory Current Temp               : 70 C
        GPU Slowdown T.Limit Temp         : -2 C
    GPU Power Readings
        Average Power Draw                : 610.50 W
        Current Power Limit               : 650.00 W
        Default Power Limit               : 700.00 W
    Module Power Readings
        Average Power Draw                : 900.00 W
    Clocks
        SM                                : 1755 MHz
        Memory                            : 3201 MHz
    Max Clocks
        SM                                : 1980 MHz
    Fabric
        State                             : Completed
        Status                            : Success
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4711
            Type                          : C
            Name                          : python train.py
            Used GPU Memory               : 1000 MiB
"""
OLD = """GPU 0000:06:00.0
    Product Name                    : Tesla P100
    Utilization
        Gpu                         : 12 %
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 3
                Total               : 3
            Double Bit
                Device Memory       : 1
                Total               : 1
    Retired Pages
        Single Bit ECC              : 2
        Double Bit ECC              : 1
        Pending                     : Yes
    Power Readings
        Power Draw                  : 31.5 W
        Power Limit                 : 250.00 W
        Enforced Power Limit        : 200.00 W
    Processes                       : None
"""
SLICED = """GPU 00000000:3B:00.0
    GPU UUID                              : GPU-sliced
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 9
        Compute Instance ID               : 1
        FB Memory Usage
            Total                         : 18000 MiB
            Used                          : 25 MiB
        BAR1 Memory Usage
            Used                          : 3 MiB
    FB Memory Usage
        Total                             : 143771 MiB
        Used                              : 700 MiB
    Utilization
        GPU                               : N/A
"""


def new(uuid: str = "GPU-a", *, capped_us: int = 0, dram: int = 0, pending: str = "No",
        action: str = "None") -> str:  # fmt: skip
    return NEW.format(bus=BUS, uuid=uuid, capped_us=capped_us, dram=dram, pending=pending, action=action)


def log(*gpus: str, second: int = 0) -> str:
    return HEAD.format(second=second) + "\n".join(gpus)


def imported(folder: Path, text: str, status: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The records that a log becomes, by topic."""
    file, out = folder / "smi.log", folder / "trace.jsonl"
    file.write_text(text)
    assert main(["import", "nvidia-smi", str(file), "--node", "a", "--out", str(out)]) == status
    return read_by_topic(out)


def test_figures_of_a_new_driver(tmp_path: Path) -> None:
    two = [log(new(capped_us=5000, dram=0), second=0), log(new(capped_us=1_005_000), second=2)]
    first, second = (sample["gpus"][0] for sample in imported(tmp_path, "".join(two))["nvml-samples"])
    assert first == {
        "uuid": "GPU-a", "index": 0, "model": "NVIDIA H200", "gpu_util_pct": 83, "mem_copy_util_pct": 40,
        "enc_util_pct": 0, "mem_used_bytes": 2**30, "mem_total_bytes": 143771 * 2**20, "power_w": 610.5,
        "power_limit_w": 650, "temp_c": 61, "temp_margin_c": 26, "mem_temp_c": 70, "sm_clock_mhz": 1755,
        "mem_clock_mhz": 3201, "pcie_gen": 5, "pcie_width": 8, "pcie_rx_bytes_per_s": 525_000,
        "pcie_tx_bytes_per_s": 727_000,
        "throttle": ["sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"],
        "processes": [{"pid": 4711, "name": "python train.py", "mem_used_bytes": 1000 * 2**20}],
    }  # fmt: skip
    assert (second["sw_power_cap_pct"], second["hw_thermal_pct"]) == (50, 0)
    assert second["sync_boost_pct"] == 50


def test_faults_are_events_and_the_first_log_is_none(tmp_path: Path) -> None:
    text = log(new()) + log(new(dram=2, pending="Yes", action="Drain and Reset"), second=5)
    state, *events = imported(tmp_path, text)["gpu-events"]
    assert state["kind"] == "state"
    assert state["counters"] == {
        "ecc_corrected": 5, "ecc_uncorrected": 3, "ecc_uncorrected_sram": 3, "pcie_replays": 7,
        "rows_remapped_corrected": 1, "rows_remapped_uncorrected": 0, "remap_pending": False,
        "remap_failed": False, "banks_low": 2, "banks_exhausted": 0, "recovery_action": 0, "fabric_state": 3,
    }  # fmt: skip
    assert {(event["kind"], event.get("code")) for event in events} == {
        ("ecc_uncorrected", None), ("remap_pending", None), ("recovery_action", 4),
    }  # fmt: skip
    assert events[0]["counters"]["ecc_uncorrected_dram"] == 2


def test_an_old_driver_a_sliced_gpu_and_several_in_one_log(tmp_path: Path) -> None:
    records = imported(tmp_path, log(new(), OLD, SLICED).rstrip("\n") + "\n")
    (sample,) = records["nvml-samples"]
    new_one, old, sliced = sample["gpus"]
    assert [gpu["uuid"] for gpu in sample["gpus"]] == ["GPU-a", "00000000:06:00.0", "GPU-sliced"]
    assert new_one["index"] == 0
    assert (old["gpu_util_pct"], old["power_w"], old["power_limit_w"]) == (12, 31.5, 200)
    assert "gpu_util_pct" not in sliced
    assert sliced["mem_used_bytes"] == 700 * 2**20
    assert sliced["mig"] == [
        {"uuid": "MIG-GPU-sliced/9/1", "mem_used_bytes": 25 * 2**20, "mem_total_bytes": 18000 * 2**20}
    ]
    faults = {event["gpu"]: event["counters"] for event in records["gpu-events"]}["00000000:06:00.0"]
    assert faults == {"ecc_corrected": 3, "ecc_uncorrected": 1, "pages_retired": 3, "pages_pending": True}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("        GPU                               : 83 %", ""),
        ("        GPU                               : many", "'many' is no gpu_util_pct"),
        ("Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.", "GPU is lost"),
    ],
)
def test_a_line_that_is_wrong_is_said_and_the_rest_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    text = log(new()).replace("        GPU                               : 83 %", line)
    (sample,) = imported(tmp_path, text)["nvml-samples"]
    assert sample["gpus"][0]["power_w"] == 610.5
    assert said in capsys.readouterr().err


XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
{t}<timestamp>Fri Nov 20 10:00:0{second} 2026</timestamp>
{t}<attached_gpus>2</attached_gpus>
{gpus}</nvidia_smi_log>
"""
GPU_OF_XML = """{t}<gpu id="{bus}">
{t}{t}<product_name>NVIDIA H200</product_name>
{t}{t}<ibmnpu />
{t}{t}<mig_devices>
{t}{t}{t}<mig_device>
{t}{t}{t}{t}<gpu_instance_id>3</gpu_instance_id>
{t}{t}{t}{t}<compute_instance_id>0</compute_instance_id>
{t}{t}{t}{t}<fb_memory_usage>
{t}{t}{t}{t}{t}<used>12 MiB</used>
{t}{t}{t}{t}</fb_memory_usage>
{t}{t}{t}</mig_device>
{t}{t}{t}None
{t}{t}</mig_devices>
{t}{t}<pci>
{t}{t}{t}<pci_gpu_link_info>
{t}{t}{t}{t}<link_widths>
{t}{t}{t}{t}{t}<current_link_width>8x</current_link_width>
{t}{t}{t}{t}</link_widths>
{t}{t}{t}</pci_gpu_link_info>
{t}{t}{t}<rx_util>525 KB/s</rx_util>
{t}{t}</pci>
{t}{t}<clocks_event_reasons>
{t}{t}{t}<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
{t}{t}{t}<clocks_event_reason_sync_boost>Not Active</clocks_event_reason_sync_boost>
{t}{t}</clocks_event_reasons>
{t}{t}<clocks_event_reasons_counters>
{t}{t}{t}<clocks_event_reasons_counters_sw_power_cap>{held} us</clocks_event_reasons_counters_sw_power_cap>
{t}{t}</clocks_event_reasons_counters>
{t}{t}<fb_memory_usage>
{t}{t}{t}<total>81559 MiB</total>
{t}{t}{t}<used>40536 MiB</used>
{t}{t}</fb_memory_usage>
{t}{t}<utilization>
{t}{t}{t}<gpu_util>{util} %</gpu_util>
{t}{t}{t}<memory_util>N/A</memory_util>
{t}{t}</utilization>
{t}{t}<temperature>
{t}{t}{t}<gpu_temp>41 C</gpu_temp>
{t}{t}</temperature>
{t}{t}<gpu_power_readings>
{t}{t}{t}<instant_power_draw>391.20 W</instant_power_draw>
{t}{t}{t}<current_power_limit>700.00 W</current_power_limit>
{t}{t}</gpu_power_readings>
{t}{t}<module_power_readings>
{t}{t}{t}<instant_power_draw>900.00 W</instant_power_draw>
{t}{t}</module_power_readings>
{t}{t}<processes>
{t}{t}{t}<process_info>
{t}{t}{t}{t}<gpu_instance_id>3</gpu_instance_id>
{t}{t}{t}{t}<pid>77</pid>
{t}{t}{t}{t}<process_name>python &lt;a&gt;</process_name>
{t}{t}{t}{t}<used_memory>12 MiB</used_memory>
{t}{t}{t}</process_info>
{t}{t}</processes>
{t}</gpu>
"""


@pytest.mark.parametrize("indent", ["\t", "    "])
def test_xml_is_read_as_the_text_is(indent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    buses = ("00000000:18:00.0", "00000000:2A:00.0")
    documents = [
        XML.format(t=indent, second=second, gpus="".join(
            GPU_OF_XML.format(t=indent, bus=bus, util=10 * second + at, held=500_000 * second)
            for at, bus in enumerate(buses)
        ))
        for second in range(3)
    ]  # fmt: skip
    cut = documents[2].rindex("<temperature>")
    samples = imported(tmp_path, "".join([*documents[:2], documents[2][:cut]]))["nvml-samples"]
    assert "its last GPU is not whole" in capsys.readouterr().err
    assert [[gpu["gpu_util_pct"] for gpu in sample["gpus"]] for sample in samples] == [[0, 1], [10, 11], [20]]
    assert samples[1]["gpus"][1] == {
        "uuid": buses[1], "index": 1, "model": "NVIDIA H200", "gpu_util_pct": 11,
        "mem_used_bytes": 40536 * 2**20, "mem_total_bytes": 81559 * 2**20, "power_w": 391.2,
        "power_limit_w": 700, "temp_c": 41, "pcie_width": 8, "pcie_rx_bytes_per_s": 525_000,
        "throttle": ["sw_power_cap"], "sw_power_cap_pct": 50,
        "processes": [{"pid": 77, "name": "python <a>", "mem_used_bytes": 12 * 2**20}],
        "mig": [{"uuid": f"MIG-{buses[1]}/3/0", "mem_used_bytes": 12 * 2**20}],
    }  # fmt: skip
