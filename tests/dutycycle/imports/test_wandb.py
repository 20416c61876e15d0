"""Runs of Weights & Biases: their file, whole and damaged, and the samples that become of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.cli.main import main
from dutycycle.imports.quantities import Notes
from dutycycle.imports.wandb.file import BLOCK_BYTES, WandbFile, read_fields
from dutycycle.imports.wandb.run import read_run
from tests.support.data.traces import read_by_topic
from tests.support.data.wandb_file import (
    environment,
    finish,
    framed,
    history,
    message,
    run,
    stats,
    varint,
    write_run,
)

START_S = 1_795_165_200
GIB = 1024**3


@given(sizes=st.lists(st.integers(0, 3 * BLOCK_BYTES) | st.integers(0, 40), min_size=1, max_size=20))
def test_messages_go_over_blocks(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    path = tmp_path_factory.mktemp("run") / "run.wandb"
    messages = [bytes([place]) * size for place, size in enumerate(sizes)]
    path.write_bytes(framed(messages))
    file = WandbFile(str(path))
    assert list(file.read_messages()) == messages
    assert (file.damaged, file.cut_off) == ([], False)


@given(
    sizes=st.lists(st.integers(0, 20_000), min_size=1, max_size=15),
    at=st.integers(0),
    flipped=st.integers(1, 255),
)
def test_a_damaged_byte_costs_at_most_what_its_block_has(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], at: int, flipped: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.wandb"
    messages = [place.to_bytes(1, "big") * (size + 1) for place, size in enumerate(sizes)]
    content = bytearray(framed(messages))
    at = 7 + at % (len(content) - 7)
    content[at] ^= flipped
    path.write_bytes(content)
    file = WandbFile(str(path))
    left = list(file.read_messages())
    assert all(text in messages for text in left)
    begins, ends = at // BLOCK_BYTES * BLOCK_BYTES, (at // BLOCK_BYTES + 1) * BLOCK_BYTES
    ends_at = [len(framed(messages[: place + 1])) for place in range(len(messages))]
    begins_at = [7, *ends_at]
    untouched = [
        text for text, begin, end in zip(messages, begins_at, ends_at, strict=False)
        if end <= begins or begin >= ends
    ]  # fmt: skip
    assert all(text in left for text in untouched)
    if content[:7] and len(left) < len(messages):
        assert file.damaged or file.cut_off


@given(sizes=st.lists(st.integers(0, 40_000), min_size=1, max_size=6), cut=st.integers(0))
def test_a_file_that_is_cut_off_gives_what_is_whole(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], cut: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.wandb"
    messages = [bytes([place]) * size for place, size in enumerate(sizes)]
    content = framed(messages)
    end = 7 + cut % (len(content) - 7)
    path.write_bytes(content[:end])
    file = WandbFile(str(path))
    ends = [len(framed(messages[: place + 1])) for place in range(len(messages))]
    whole = sum(place <= end for place in ends)
    assert list(file.read_messages()) == messages[:whole]
    last = [7, *ends][whole]
    is_padding = end // BLOCK_BYTES == last // BLOCK_BYTES and BLOCK_BYTES - last % BLOCK_BYTES < 7
    assert file.cut_off == (end not in (last, (last // BLOCK_BYTES + 1) * BLOCK_BYTES) and not is_padding)
    assert file.damaged == []


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**63) | st.binary(max_size=300)), max_size=10))
def test_fields_of_a_message_are_read(fields: list[tuple[int, int | bytes]]) -> None:
    assert list(read_fields(message(*fields))) == fields


@pytest.mark.parametrize(
    "content",
    [b"\x0a\x05abc", b"\x80", b"\x0b", varint(1 << 3 | 2) + varint(2**40), b"\xff" * 11, b"\x09abc"],
)
def test_a_message_that_is_damaged_is_said(content: bytes) -> None:
    with pytest.raises(ValueError, match="the message"):
        list(read_fields(content))


def test_other_types_of_fields_are_passed_over() -> None:
    content = b"\x09" + bytes(8) + b"\x15" + bytes(4) + message((3, 7))
    assert list(read_fields(content))[-1] == (3, 7)


def gpu_stats(index: int, util: float, **more: Any) -> dict[str, Any]:
    names = {
        "gpu": util, "memory": 20.5, "memoryAllocatedBytes": 40.0 * GIB, "memoryAllocated": 50.0,
        "temp": 60.0, "smClock": 1410.0, "graphicsClock": 1405.0, "pcieLinkGen": 4.0,
        "powerWatts": 300.5, "enforcedPowerLimitWatts": 400.0, **more,
    }  # fmt: skip
    return {f"gpu.{index}.{name}": value for name, value in names.items()}


def machine(second: int) -> dict[str, Any]:
    return {
        "cpu": 25.0, "memory_percent": 50.0, "proc.memory.rssMB": 1024.0, "proc.memory.percent": 1.0,
        "cpu.0.cpu_percent": 80.0, "cpu.1.cpu_percent": 40.0, "disk.vda.in": 10.0 * second,
        "disk.vdb.in": 2.0,
        "disk.vda.out": 1.0, "network.recv": 1000.0 * second, "network.sent": 5.0, "disk./.usageGB": 23.0,
    }  # fmt: skip


def a_run(*, nested: bool = True, exit_code: int | None = 0, own: bool = True) -> list[bytes]:
    """Forty seconds with a moment each 10 s and a step of training each 2 s."""
    messages = [
        message((21, b"")),
        run(START_S, name="sft"),
        environment(2, 8 * GIB, [("NVIDIA A100", 80 * GIB)] * 2),
    ]
    for second in range(41):
        if second and second % 2 == 0:
            step = second // 2
            values = {
                "train/loss": 1 / step,
                "train/global_step": step,
                "_step": step // 2,
                "_runtime": second,
            }
            messages.append(history(START_S + second, values, nested=nested))
        if second % 10 == 0:
            used = {"gpu.process.1.gpu": 97.0} if own else {}
            figures = gpu_stats(0, 5) | gpu_stats(1, 90 + second / 10) | used | machine(second)
            messages.append(stats(START_S + second + 0.25, figures))
    return messages if exit_code is None else [*messages, finish(exit_code)]


def imported(tmp_path: Path, messages: list[bytes], *options: str) -> dict[str, list[dict[str, Any]]]:
    path, out = write_run(tmp_path / "run-ab12cd34.wandb", messages), tmp_path / "t.jsonl"
    assert main(["import", "wandb", path, *options, "--force", "--out", str(out)]) == 0
    return read_by_topic(out)


@pytest.mark.parametrize("nested", [False, True], ids=["old", "new"])
def test_a_run_becomes_samples(tmp_path: Path, nested: bool) -> None:
    records = imported(tmp_path, a_run(nested=nested))
    ticks_ms = [1000 * (START_S + second) + 250 for second in range(0, 41, 10)]
    assert [sample["ts_ms"] for sample in records["nvml-samples"]] == ticks_ms
    assert {(sample["node"], sample["interval_ms"]) for sample in records["nvml-samples"]} == {
        ("gpu-a", 10_000)
    }
    pod = {"pod_uid": "ab12cd34", "namespace": "llm", "pod": "sft"}
    gpu: dict[str, Any] = {
        "model": "NVIDIA A100", "mem_copy_util_pct": 20.5, "mem_used_bytes": 40 * GIB,
        "mem_total_bytes": 80 * GIB, "power_w": 300.5, "power_limit_w": 400, "temp_c": 60,
        "sm_clock_mhz": 1410, "pcie_gen": 4,
    }  # fmt: skip
    assert records["nvml-samples"][1]["gpus"] == [
        {"uuid": "gpu-0", "index": 0, "gpu_util_pct": 5, **gpu},
        {"uuid": "gpu-1", "index": 1, "gpu_util_pct": 91, **gpu, "allocated": [pod]},
    ]
    host = {"cpu_util_pct": 120.0, "cpu_count": 2, "mem_used_bytes": 4 * GIB, "mem_total_bytes": 8 * GIB}
    rates = {
        "disk_read_bytes_per_s": 10 * 1024**2, "disk_write_bytes_per_s": 0, "net_rx_bytes_per_s": 1000,
        "net_tx_bytes_per_s": 0,
    }  # fmt: skip
    assert [sample["host"] for sample in records["cgroup-samples"][:2]] == [host, host | rates]
    (own,) = records["cgroup-samples"][1]["pods"]
    assert own == {
        "uid": "ab12cd34",
        "containers": [{"id": "ab12cd34-run", "cpu_util_pct": 50.0, "mem_used_bytes": GIB}],
    }


def test_steps_are_those_of_the_training(tmp_path: Path) -> None:
    loops = [sample["processes"][0]["loop"] for sample in imported(tmp_path, a_run())["processes"]]
    assert [(loop["steps"], loop["seconds"], loop["longest_s"], loop["step"]) for loop in loops] == [
        (4, 8, 2, 5), (5, 10, 2, 10), (5, 10, 2, 15), (5, 10, 2, 20)
    ]  # fmt: skip
    assert {loop["loop"] for loop in loops} == {"train/global_step"}


def test_steps_that_are_not_logged_one_by_one_have_no_longest(tmp_path: Path) -> None:
    messages = [run(START_S), stats(START_S, gpu_stats(0, 5)), stats(START_S + 60, gpu_stats(0, 5))]
    messages[2:2] = [history(START_S + 10 * row, {"global_step": 100 * row}) for row in range(1, 5)]
    (sample,) = imported(tmp_path, messages)["processes"]
    assert sample["processes"][0]["loop"] == {
        "loop": "global_step", "steps": 300, "seconds": 30.0, "step": 400
    }  # fmt: skip


@pytest.mark.parametrize(("exit_code", "phase"), [(0, "Succeeded"), (1, "Failed"), (None, "Unknown")])
def test_the_run_is_a_pod_and_its_job(tmp_path: Path, exit_code: int | None, phase: str) -> None:
    began, ended = imported(tmp_path, a_run(exit_code=exit_code))["pods"]
    assert (began["phase"], began["started_ms"], began["job"]["name"]) == ("Running", 1000 * START_S, "sft")
    assert (ended["phase"], ended["finished_ms"]) == (phase, 1000 * (START_S + 40) + 250)


def test_all_gpus_are_the_runs_where_none_is_marked(tmp_path: Path) -> None:
    records = imported(tmp_path, a_run(own=False), "--job", "mine", "--node", "n1")
    assert {gpu["allocated"][0]["pod"] for sample in records["nvml-samples"] for gpu in sample["gpus"]} == {
        "mine"
    }
    assert {sample["node"] for topic in ("nvml-samples", "cgroup-samples") for sample in records[topic]} == {
        "n1"
    }


def test_what_w_and_b_wrote_beside_the_run_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"gpu_devices": [{"name": "V100", "memory_total": 16 * GIB}], "cpu_count_logical": 4,
                "memory": {"total": 2.0}}  # fmt: skip
    (tmp_path / "files").mkdir()
    beside = tmp_path / "files/wandb-metadata.json"
    beside.write_text(json.dumps(metadata))
    messages = [
        run(START_S),
        *(stats(START_S + at, gpu_stats(0, 5) | {"cpu": 10.0, "memory": 50.0}) for at in (0, 9)),
    ]
    records = imported(tmp_path, messages)
    gpu = records["nvml-samples"][0]["gpus"][0]
    assert (gpu["model"], gpu["mem_total_bytes"]) == ("V100", 16 * GIB)
    assert records["cgroup-samples"][0]["host"] == {
        "cpu_count": 4, "mem_used_bytes": GIB, "mem_total_bytes": 2 * GIB
    }  # fmt: skip
    beside.write_text("[1, 2")
    gpu = imported(tmp_path, messages)["nvml-samples"][0]["gpus"][0]
    assert "model" not in gpu
    assert gpu["mem_total_bytes"] == 80 * GIB  # of bytes and their share
    assert "wandb-metadata.json cannot be used" in capsys.readouterr().err


def test_what_was_not_measured_is_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"gpu.0.gpu": float("nan"), "gpu.0.powerWatts": 80.0, "gpu.0.temp": 4294967295}
    records = imported(tmp_path, [run(START_S), stats(START_S, figures), stats(START_S + 5, figures)])
    assert records["nvml-samples"][0]["gpus"][0] == {
        "uuid": "gpu-0", "index": 0, "power_w": 80, "allocated": [
            {"pod_uid": "ab12cd34", "namespace": "llm", "pod": "ab12cd34"}
        ],
    }  # fmt: skip
    assert records["cgroup-samples"][0]["host"] == {}
    assert "gpu.0.temp: 2 values that no GPU has, such as 4294967295" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("odd", "absent"),
    [
        ({"cpu": -5.0}, ["cpu_util_pct of the run"]), ({"cpu": 1e12}, ["cpu_util_pct of the run"]),
        ({"cpu.0.cpu_percent": -50.0}, ["cpu_util_pct"]), ({"memory_percent": 150.0}, ["mem_used_bytes"]),
        ({"memory_percent": -1.0}, ["mem_used_bytes"]),
        ({"proc.memory.rssMB": 1e18}, ["mem_used_bytes of the run"]),
        ({"network.recv": 1e30}, ["net_rx_bytes_per_s"]),
    ],
)  # fmt: skip
def test_what_no_machine_has_is_absent_and_costs_nothing_else(
    odd: dict[str, float], absent: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def at(second: int, odd: dict[str, float]) -> bytes:
        return stats(START_S + second, {**gpu_stats(0, 50), **machine(second), **odd})

    messages = [run(START_S), environment(2, 8 * GIB), at(0, {}), at(10, {})]
    usual, found = (
        imported(tmp_path, [*messages[:-1], at(10, values)])["cgroup-samples"][1] for values in ({}, odd)
    )
    flat = [
        {
            **tick["host"],
            **{f"{name} of the run": value for name, value in tick["pods"][0]["containers"][0].items()},
        }
        for tick in (usual, found)
    ]
    assert sorted(flat[0].keys() - flat[1].keys()) == absent
    assert all(flat[0][name] == value for name, value in flat[1].items())
    (name,) = odd
    assert f"{name}: 1 value that no machine has" in capsys.readouterr().err


def test_what_is_of_no_time_is_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = 5_000_000_000
    messages = [*a_run()[:-1], stats(end_s, gpu_stats(0, 50)), history(1e30, {"_step": 9}), finish(0)]
    records = imported(tmp_path, messages)
    assert max(sample["ts_ms"] for sample in records["nvml-samples"]) < end_s * 1000
    assert "2 messages cannot be read, or are of no time: left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "util", "percent"),
    [((0.12, 0.97), 100.0, (12, 97)), ((0.9, 64.0), 100.0, (0.9, 64)), ((0.8,), 1.0, (0.8,))],
)
def test_activity_is_percent_or_a_share_of_1_as_the_whole_run_shows(
    written: tuple[float, ...], util: float, percent: tuple[float, ...], tmp_path: Path
) -> None:
    """W&B has two ways to it, which write one name in two units; of an idle GPU it is in percent."""
    figures = ({"gpu.0.smActive": value, "gpu.0.gpu": util} for value in written)
    moments = [stats(START_S + 5 * number, values) for number, values in enumerate(figures)]
    samples = imported(tmp_path, [run(START_S), *moments])["nvml-samples"]
    assert [sample["gpus"][0]["sm_active_pct"] for sample in samples] == pytest.approx(percent)


def test_damage_is_said_and_the_rest_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = [message((13, b"x" * 20_000))] * 12
    whole = a_run()
    content = bytearray(framed([*whole[:20], *output, *whole[20:]]))
    content[4 * BLOCK_BYTES + 100] ^= 1
    path, out = tmp_path / "run-ab12cd34.wandb", tmp_path / "t.jsonl"
    path.write_bytes(content[:-3])
    assert main(["import", "wandb", str(path), "--out", str(out)]) == 0
    output_text = capsys.readouterr().err
    assert "1 blocks of 32 KiB are damaged (number 4): left out" in output_text
    assert "the last message is cut off: left out" in output_text
    assert "imported: 5 nvml-samples, 5 cgroup-samples, 4 processes from 10 measurements" in output_text


@pytest.mark.slow
def test_a_cut_at_any_byte_is_said(tmp_path: Path) -> None:
    """Between two messages nothing is cut off, but the end of the run is missing."""
    messages = [*a_run()[:20], message((13, b"x" * (BLOCK_BYTES - 3000))), *a_run()[20:]]
    content = framed(messages)
    path = tmp_path / "run-ab12cd34.wandb"
    ends = [len(framed(messages[:count])) for count in range(len(messages))]
    for end in (*ends, *range(12, len(content), 197)):
        path.write_bytes(content[:end])
        run = read_run(str(path), Notes())
        assert "has no end of the run: it goes on, or was killed, or the file is cut off" in run.damage
        assert ("the last message is cut off: left out" in run.damage) == (end not in ends)
    path.write_bytes(content)
    assert read_run(str(path), Notes()).damage == []


RANKS = [stats(START_S + 15 * at, {f"gpu.0.gpu/l:rank-{at % 2}": 50}) for at in range(4)]
EXPORTS = "exports is read by dutycycle import nvidia-smi"


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        (b"", ("run.wandb: is empty: expected run-<id>.wandb", EXPORTS)),
        (b"Step,a", ("run.wandb: is no run file of W&B: expected run-<id>.wandb", EXPORTS)),
        (framed([run(START_S), history(START_S, {"_step": 1}), finish(0)]),
         ("the run has no system metrics of a GPU",)),
        (framed([run(START_S), *RANKS, finish(0)]),
         ("has the figures of several machines (rank-0, rank-1)",)),
    ],
    ids=["empty", "a table", "without system metrics", "several machines"],
)  # fmt: skip
def test_what_cannot_be_imported_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, reasons: tuple[str, ...]
) -> None:
    (tmp_path / "run.wandb").write_bytes(content)
    assert main(["import", "wandb", str(tmp_path / "run.wandb"), "--out", str(tmp_path / "t.jsonl")]) == 1
    errors = capsys.readouterr().err
    assert all(reason in errors for reason in reasons), errors
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize("name", ["{}/l:rank-0", "system.{}", "system/{}", "{}"])
@pytest.mark.parametrize("value", [50, "50"])
def test_figures_are_known_by_the_names_and_texts_of_other_versions(
    name: str, value: object, tmp_path: Path
) -> None:
    messages = [stats(START_S + 15 * at, {name.format("gpu.0.gpu"): value}) for at in range(3)]
    records = imported(tmp_path, [run(START_S), *messages, finish(0)])
    assert [gpu["gpu_util_pct"] for sample in records["nvml-samples"] for gpu in sample["gpus"]] == [50] * 3


def test_a_figure_that_is_no_number_costs_itself_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = ({"gpu.0.gpu": value, "gpu.0.powerWatts": 250} for value in ("high", "low", {"a": 1}, True, 50))
    messages = [stats(START_S + 15 * at, of) for at, of in enumerate(figures)]
    records = imported(tmp_path, [run(START_S), *messages, finish(0)])
    gpus = [gpu for sample in records["nvml-samples"] for gpu in sample["gpus"]]
    assert [gpu.get("gpu_util_pct") for gpu in gpus] == [None] * 4 + [50]
    assert [gpu["power_w"] for gpu in gpus] == [250] * 5
    assert "gpu.0.gpu: 4 values" in capsys.readouterr().err


def test_a_run_has_a_report_of_its_job(tmp_path: Path) -> None:
    path, trace, derived = (
        write_run(tmp_path / "run.wandb", a_run()),
        tmp_path / "t.jsonl",
        tmp_path / "d.jsonl",
    )
    assert main(["import", "wandb", path, "--out", str(trace)]) == 0
    assert main(["replay", str(trace), "--out", str(derived)]) == 0
    peaks = read_by_topic(derived)["job-peaks"]
    assert peaks[-1]["job"]["name"] == "sft"
    assert peaks[-1]["final"]
    assert peaks[-1]["metrics"]["gpu_util_pct"]["max"] == 94
    assert peaks[-1]["metrics"]["cpu_util_pct"]["max"] == 50
