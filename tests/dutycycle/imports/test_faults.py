"""Faults that logs tell of: counters of nvidia-smi and dcgmi become events, and what is none stays none."""

from pathlib import Path
from typing import Any

import pytest

from dutycycle.cli.main import main
from tests.support.data.traces import read_by_topic, read_trace

SMI = (
    "ecc.errors.corrected.volatile.total", "ecc.errors.uncorrected.volatile.total",
    "retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count", "retired_pages.pending",
    "remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.pending",
    "remapped_rows.failure",
)  # fmt: skip
GOOD = "4, 0, 0, 0, No, 0, 0, No, No"


def imported(folder: Path, form: str, text: str, *flags: str) -> list[dict[str, Any]]:
    """The events that a log becomes."""
    log, out = folder / "log", folder / "trace.jsonl"
    log.write_text(text)
    assert main(["import", form, str(log), "--node", "a", "--out", str(out), *flags]) == 0
    times_ms = [one.ts_ms or 0 for one in read_trace(str(out)) if one.topic != "dutycycle.pods"]
    assert times_ms == sorted(times_ms)
    return read_by_topic(out).get("gpu-events", [])


def smi(*rows: str, head: str = "timestamp, index, utilization.gpu [%], " + ", ".join(SMI)) -> str:
    lines = [f"2026/11/20 10:00:{10 * at:02d}.000, {row}" for at, row in enumerate(rows)]
    return "\n".join([head, *lines, ""])


@pytest.mark.parametrize(
    ("then", "kind", "count"),
    [
        ("9, 2, 0, 0, No, 0, 0, No, No", "ecc_uncorrected", 2),
        ("4, 0, 1, 2, No, 0, 0, No, No", "pages_retired", 3),
        ("4, 0, 0, 0, Yes, 0, 0, No, No", "pages_pending", 1),
        ("4, 0, 0, 0, No, 2, 1, No, No", "rows_remapped", 1),
        ("4, 0, 0, 0, No, 0, 0, Yes, No", "remap_pending", 1),
        ("4, 0, 0, 0, No, 0, 0, No, Yes", "remap_failed", 1),
        ("900, 0, 0, 0, No, 3, 0, No, No", None, 0),
        ("[N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]", None, 0),
    ],
)
def test_what_changed_between_two_rows_is_an_event(
    tmp_path: Path, then: str, kind: str | None, count: int
) -> None:
    state, *events = imported(
        tmp_path, "nvidia-smi", smi(f"3, 90 %, {GOOD}", f"3, 90 %, {then}"), "--job", "bert"
    )
    assert (state["kind"], state["index"], state["counters"]["ecc_corrected"]) == ("state", 3, 4)
    assert state["counters"]["remap_failed"] is False
    if kind is None:
        assert events == []
        return
    (event,) = events
    assert (event["kind"], event["count"], event["ts_ms"] - state["ts_ms"]) == (kind, count, 10_000)
    assert [pod["name"] for pod in event["pods"]] == ["bert-a"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_faults_of_files_in_any_order_are_those_of_their_times(tmp_path: Path, newest_first: bool) -> None:
    rows = [
        f"0, 90 %, {row}" for row in (GOOD, "4, 2, 0, 0, No, 0, 0, No, No", "4, 2, 0, 0, No, 0, 0, Yes, No")
    ]
    old, new, out = tmp_path / "gpu.log.1", tmp_path / "gpu.log", tmp_path / "trace.jsonl"
    head, *lines = smi(*rows).splitlines()
    old.write_text("\n".join([head, lines[0], ""]))
    new.write_text("\n".join([head, *lines[1:], ""]))
    files = [str(new), str(old)] if newest_first else [str(old), str(new)]
    assert main(["import", "nvidia-smi", *files, "--node", "a", "--out", str(out)]) == 0
    kinds = [event["kind"] for event in read_by_topic(out)["gpu-events"]]
    assert kinds == ["state", "ecc_uncorrected", "remap_pending"]


SPARE = (
    "ecc.errors.uncorrected.volatile.total, ecc.errors.uncorrected.volatile.dram, "
    "ecc.errors.uncorrected.volatile.sram, remapped_rows.histogram.low, remapped_rows.histogram.none"
)
COUNTED = {"ecc_uncorrected": 3, "ecc_uncorrected_dram": 2, "ecc_uncorrected_sram": 1, "banks_low": 4,
           "banks_exhausted": 1}  # fmt: skip
LOGS: dict[str, tuple[str, list[str], list[tuple[int, str]], dict[str, int], str]] = {
    "two GPUs, and counters of a lifetime": (
        "index, utilization.gpu [%], remapped_rows.failure, ecc.errors.uncorrected.aggregate.total",
        ["0, 9 %, No, 7", "1, 9 %, Yes, 0", "0, 9 %, Yes, 8", "1, 9 %, Yes, 0"],
        [(0, "state"), (1, "state"), (0, "remap_failed")], {},
        "not used: ecc.errors.uncorrected.aggregate.total",
    ),
    "where errors were, and which rows are spare": (
        f"index, utilization.gpu [%], {SPARE}", ["0, 9, 0, 0, 0, 0, 0", "0, 9, 3, 2, 1, 4, 1"],
        [(0, "state"), (0, "ecc_uncorrected"), (0, "banks_exhausted")], COUNTED, "",
    ),
    "of no GPU": ("utilization.gpu [%], remapped_rows.failure", ["9 %, No", "9 %, Yes"], [], {},
                  "2 lines tell of faults, and not of which GPU"),
    "a flag that is none": (
        "index, utilization.gpu [%], remapped_rows.failure", ["0, 9 %, No", "0, 9 %, perhaps"], [(0,
                                                                                                  "state")],
        {}, "'perhaps' is no remap_failed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("head", "rows", "expected", "counters", "says"), LOGS.values(), ids=LOGS)
def test_what_columns_tell_of_faults(
    head: str, rows: list[str], expected: list[tuple[int, str]], counters: dict[str, int], says: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    events = imported(tmp_path, "nvidia-smi", smi(*rows, head=f"timestamp, {head}"))
    assert [(event["index"], event["kind"]) for event in events] == expected
    assert not counters or events[-1]["counters"] == counters
    assert says in capsys.readouterr().err


def test_dcgmi_tells_its_last_xid_and_counters(tmp_path: Path) -> None:
    heading = "#Entity   GPUTL  XIDER  EDVTL  URMPS  RRP  RRF\nID\n"
    rows = ["97 31 0 0 0 0", "97 31 0 0 0 0", "95 48 1 1 1 0", "94 48 1 1 1 0", "0 79 1 1 1 0"]
    text = heading + "".join(f"GPU 0     {row}\n" for row in rows)
    events = imported(tmp_path, "dcgm-dmon", text, "--start", "2026-11-20T10:00:00Z")
    found = [
        (one["kind"], one.get("code"), one["ts_ms"] // 1000 % 60) for one in events if one["kind"] != "state"
    ]
    assert found == [
        ("xid", 48, 2), ("ecc_uncorrected", None, 2), ("rows_remapped", None, 2), ("remap_pending", None, 2),
        ("xid", 79, 4),
    ]  # fmt: skip


@pytest.mark.parametrize("util", ["90", ""])
def test_dmon_of_nvidia_smi_counts_replays(util: str, tmp_path: Path) -> None:
    """Of ``-s ue``, or of ``-s e`` alone."""
    sm, pct = ("sm", "%") if util else ("", "")
    text = f"# gpu   {sm}  sbecc  dbecc  pci\n# Idx    {pct}   errs   errs  errs\n"
    text += f"    0   {util}   5   1   0\n    0   {util}   5   1   3\n"
    events = imported(tmp_path, "nvidia-smi", text, "--start", "2026-11-20T10:00:00Z")
    assert [(one["kind"], one["counters"]) for one in events] == [("state", {"pcie_replays": 0})]


def test_of_two_limits_of_power_the_enforced_one_counts(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    for order in (("PMLMT", "EPLMT"), ("EPLMT", "PMLMT")):
        cells = {"PMLMT": "700.000", "EPLMT": "550.000"}
        values = "  ".join(cells[name] for name in order)
        (tmp_path / "log").write_text(f"#Entity   {'  '.join(order)}  ECUTL\nID\nGPU 0     {values}  4\n")
        start = ("--start", "2026-11-20T10:00:00Z", "--node", "a", "--force")
        assert main(["import", "dcgm-dmon", str(tmp_path / "log"), "--out", str(out), *start]) == 0
        (sample,) = read_by_topic(out)["nvml-samples"]
        (gpu,) = sample["gpus"]
        assert (gpu["power_limit_w"], gpu["enc_util_pct"]) == (550, 4)
