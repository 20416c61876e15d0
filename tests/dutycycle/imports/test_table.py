"""The table that nvidia-smi shows without a query, of old and new drivers, whole and damaged."""

from typing import Any

import pytest

from dutycycle.imports.quantities import Row
from tests.dutycycle.imports.test_formats import rows, smi

MIB = 1024 * 1024
AT_MS = 1_767_607_200_000
OLD = """Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                   On |
| N/A   38C    P0    66W / 400W |     45MiB / 40536MiB |     N/A      Default |
|                               |                      |              Enabled |
+-------------------------------+----------------------+----------------------+
|   1  Tesla V100-PCIE...  Off  | 00000000:0F:00.0 Off |                    0 |
| 45%   61C    P2   193W / 250W |  21802MiB / 32510MiB |     74%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  0    1   0   0  |     22MiB / 19968MiB | 60      0 |  4   0    3    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
|  0    2   0   1  |     23MiB / 19968MiB | 60      0 |  4   0    3    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0    1    0      41160      C   python                             19MiB |
|    1   N/A  N/A      4711      C   ...envs/x/bin/python a b        21799MiB |
+-----------------------------------------------------------------------------+
"""
NEW = """Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |
|  0%   42C    P8             22W /  450W |      12MiB /  24564MiB |      3%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:02:00.0 Off |                    0 |
|ERR!  ERR! ERR!             N/A  /  N/A  |     512MiB /  81559MiB |    ERR!      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
OLDEST = """Mon Jan  5 10:00:00 2026
+------------------------------------------------------+
| NVIDIA-SMI 352.68     Driver Version: 352.68         |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX TIT...  Off  | 0000:05:00.0     Off |                  N/A |
| 22%   58C    P2    78W / 250W |    114MiB / 12287MiB |     31%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|    0     24129    C   python                                          91MiB |
+-----------------------------------------------------------------------------+
"""
WINDOWS = NEW.replace("        Off |   00000000:01", "      WDDM  |   00000000:01").replace(
    "Persistence-M", "Driver-Model "
)


def gpu(index: int, uuid: str, model: str, **fields: Any) -> dict[str, Any]:
    return {"index": index, "uuid": uuid, "model": model, **fields}


A100 = gpu(0, "00000000:07:00.0", "NVIDIA A100-SXM...", temp_c=38, power_w=66, power_limit_w=400,
           mem_used_bytes=45 * MIB, mem_total_bytes=40536 * MIB)  # fmt: skip
V100 = gpu(1, "00000000:0F:00.0", "Tesla V100-PCIE...", temp_c=61, power_w=193, power_limit_w=250,
           mem_used_bytes=21802 * MIB, mem_total_bytes=32510 * MIB, gpu_util_pct=74)  # fmt: skip
RTX = gpu(0, "00000000:01:00.0", "NVIDIA GeForce RTX 4090", temp_c=42, power_w=22, power_limit_w=450,
          mem_used_bytes=12 * MIB, mem_total_bytes=24564 * MIB, gpu_util_pct=3)  # fmt: skip
H100 = gpu(1, "00000000:02:00.0", "NVIDIA H100 80GB HBM3", mem_used_bytes=512 * MIB,
           mem_total_bytes=81559 * MIB)  # fmt: skip
TITAN = gpu(0, "00000000:05:00.0", "GeForce GTX TIT...", temp_c=58, power_w=78, power_limit_w=250,
            mem_used_bytes=114 * MIB, mem_total_bytes=12287 * MIB, gpu_util_pct=31)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "gpus"),
    [(OLD, [A100, V100]), (NEW, [RTX, H100]), (OLDEST, [TITAN]), (WINDOWS, [RTX, H100])],
    ids=["old", "new", "oldest", "windows"],
)
def test_gpus_of_a_table(text: str, gpus: list[dict[str, Any]]) -> None:
    measured = rows(smi(), text)
    assert {row.ts_ms for row in measured} == {AT_MS}
    assert [row.fields for row in measured if not row.fields.keys() & {"mig", "processes"}] == gpus


@pytest.mark.parametrize("memory", ["N/A", "Not Supported"])
def test_a_gpu_without_memory_of_its_own_has_its_other_figures(memory: str) -> None:
    """As of a GB10, whose memory is the host's."""
    text = OLD.replace(" 21802MiB / 32510MiB", memory.center(20))
    without = {name: value for name, value in V100.items() if not name.startswith("mem_")}
    assert without in [row.fields for row in rows(smi(), text)]


def test_slices_and_processes_of_a_table() -> None:
    slices = [row.fields for row in rows(smi(), OLD) if "mig" in row.fields]
    assert [(part["index"], part["mig"][0]["uuid"], part["mig"][0]["mem_used_bytes"]) for part in slices] == [
        (0, "gpu-0/gi-1/ci-0", 22 * MIB), (0, "gpu-0/gi-2/ci-0", 23 * MIB)
    ]  # fmt: skip
    tables = [row.fields for text in (OLD, OLDEST, NEW) for row in rows(smi(), text)]
    processes = [fields for fields in tables if "processes" in fields]
    assert processes == [
        {"index": 0, "processes": [{"pid": 41160, "name": "python", "mem_used_bytes": 19 * MIB}]},
        {"index": 1, "processes": [{"pid": 4711, "name": "...envs/x/bin/python a b",
                                    "mem_used_bytes": 21799 * MIB}]},
        {"index": 0, "processes": [{"pid": 24129, "name": "python", "mem_used_bytes": 91 * MIB}]},
    ]  # fmt: skip


def test_tables_without_a_date_follow_the_start() -> None:
    table = OLDEST.split("\n", 1)[1]
    measured = [row for row in rows(smi(start_ms=5000), table * 3) if "processes" not in row.fields]
    assert [row.ts_ms for row in measured] == [5000, 6000, 7000]
    with pytest.raises(ValueError, match="has no times: give --start"):
        rows(smi(), table)


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(0, len(OLDEST), 7))
def test_a_table_that_is_cut_off_gives_no_wrong_figure(cut: int) -> None:
    """What follows a cut is the next table, on a line of its own."""
    reader = smi()
    measured = []
    for line in f"{OLDEST[:cut]}\n{OLDEST}".splitlines(keepends=True):
        try:
            measured += reader.read_rows(line)
        except ValueError:
            continue
    whole = rows(smi(), OLDEST)
    assert measured[-len(whole) :] == whole
    assert all(row.fields.items() <= TITAN.items() or row in whole for row in measured)


@pytest.mark.parametrize(
    "first", ["| N/A   38C", "|                               |                      |              Enabled"]
)
def test_a_table_whose_beginning_is_lost_is_that_of_nvidia_smi(first: str) -> None:
    parts = rows(smi(start_ms=AT_MS), OLD[OLD.index(first) :])
    assert [row.fields["index"] for row in parts] == [1, 0, 0, 0, 1]  # a GPU, two slices, two processes


def test_lines_between_tables_are_said_and_a_log_of_values_may_follow() -> None:
    reader = smi()
    assert len(rows(reader, OLDEST)) == 2
    with pytest.raises(ValueError, match="is no part of a table of nvidia-smi"):
        reader.read_rows("&\n")
    assert rows(reader, OLDEST) == rows(smi(), OLDEST)
    assert rows(reader, "timestamp, index, utilization.gpu [%]\n2026/01/05 10:00:01, 0, 5 %\n") == [
        Row(AT_MS + 1000, {"index": 0, "gpu_util_pct": 5})
    ]


@pytest.mark.parametrize("line", ["| timestamp | index | util |", "| 2026/01/05 | 0 | 5 |"])
def test_a_table_of_another_program_is_named_with_its_mend(line: str) -> None:
    with pytest.raises(ValueError, match="of another program: take the bars at the ends of its lines away"):
        smi().read_rows(f"{line}\n")


def test_a_gpu_without_its_second_line_is_wrong() -> None:
    first, _, rest = OLD.partition("| 45%   61C")
    lines = f"{first}{rest.partition(chr(10))[2]}".splitlines(keepends=True)
    reader = smi()
    wrong, measured = [], []
    for line in lines:
        try:
            measured += reader.read_rows(line)
        except ValueError as error:
            wrong.append(str(error))
    assert wrong == ["the line before it, of GPU 1, has no second one with figures"]
    assert measured[0].fields == A100
    reader.read_rows("|   0  GeForce GTX TIT...  Off  | 0000:05:00.0     Off |                  N/A |\n")
    for line in OLDEST.splitlines(keepends=True)[:8]:
        reader.read_rows(line)
    assert reader.notes.unfinished == "the second line of GPU 0 is missing at the end"
