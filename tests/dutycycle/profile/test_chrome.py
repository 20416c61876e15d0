"""Traces of PyTorch's profiler: forms, damage, size."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.contract.errors import DutycycleError
from dutycycle.profile.profile import read
from tests.support.data.profiled import asks_for_results, events, waits_for_data, write_export, write_trace

RECORDED = Path(__file__).parents[2] / "support/data/recorded/pytorch-2.15-cpu.pt.trace.json.gz"
"""Four steps of a small network, written by PyTorch 2.15 on a CPU."""
KEY_AVERAGES_US = {
    "aten::mm": (12, 74573.8),
    "AddmmBackward0": (8, 74810.1),
    "aten::linear": (8, 26800.7),
    "Optimizer.step#SGD.step": (4, 792.3),
    "aten::select": (256, 411.1),
    "aten::relu": (4, 181.9),
}
"""Calls, and microseconds with what they call: what PyTorch itself printed of that recording."""


def trace(path: Path, value: Any) -> Path:
    return trace_of(path, orjson.dumps(value))


def trace_of(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_real_recording_says_what_pytorch_says_of_it() -> None:
    found = read(RECORDED)
    assert found.product == "PyTorch profiler"
    assert not found.gpus
    (table,) = (one for one in found.tables if one.title == "Annotations and operators")
    rows = {row[-1]: (row[2], round(float(row[1]) / 1000, 1)) for row in table.rows}
    assert {name: rows[name] for name in KEY_AVERAGES_US} == KEY_AVERAGES_US
    assert sum(str(name).startswith("ProfilerStep#") for name in rows) == 4


def test_old_names_of_categories_and_a_bare_list_are_known(tmp_path: Path) -> None:
    new = read(write_trace(waits_for_data(), tmp_path / "new.json"))
    old = read(write_trace(waits_for_data(), tmp_path / "old.json", year=2021))
    bare = read(trace(tmp_path / "bare.json", events(waits_for_data())))
    assert new.evidence == old.evidence == bare.evidence
    assert new.evidence["wait_input_pct"] > 30
    assert new.product == "PyTorch profiler"
    assert new.notes == ["no memory sets"]


def test_nanoseconds_are_kept_at_times_of_today(tmp_path: Path) -> None:
    """1.7e15 microseconds with three digits behind the point are more than a double holds."""
    base = 1_712_195_495_505_583
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": ['
        + ", ".join(
            f'{{"ph": "X", "cat": "kernel", "name": "k", "ts": {base}.{start}, "dur": 0.1, "args": {{}}}}'
            for start in (100, 250)
        )
        + "]}"
    )
    gpu = read(path).gpus["0"]
    assert (gpu["span_ns"], gpu["busy_ns"]) == (250, 200)


def test_the_names_of_copies_say_their_kind_and_memory(tmp_path: Path) -> None:
    found = read(write_trace(asks_for_results(), tmp_path / "trace.json"))
    rows = {one.title: one.rows for one in found.tables}["CUDA GPU MemOps Summary (by Size)"]
    assert rows[0][1:2] + rows[0][-1:] == (200, "[CUDA memcpy DtoH]")
    assert "pageable_pct" not in found.evidence


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.97])
def test_a_trace_that_is_cut_off_is_shown_as_far_as_it_goes(tmp_path: Path, suffix: str, part: float) -> None:
    path = write_trace(asks_for_results(), tmp_path / f"trace{suffix}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    found = read(path)
    assert found.notes[0].startswith("the file is cut off or damaged after ")
    assert 0 < found.gpus["0"]["activities"] <= 400
    assert found.headline() == "no verdict, since the file is cut off"
    assert (found.finding.bottleneck, found.evidence, found.advice) == ("unknown", {}, None)
    assert "CUDA GPU Kernel Summary" in {one.title for one in found.tables}


@pytest.mark.parametrize("at", [0.5, 0.9])
def test_a_trace_that_is_packed_in_parts_is_whole(tmp_path: Path, at: float) -> None:
    content = write_trace(asks_for_results(), tmp_path / "trace.json").read_bytes()
    cut = int(len(content) * at)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(content[:cut]) + gzip.compress(content[cut:]) + b"\0" * 512)
    assert read(path).evidence == read(tmp_path / "trace.json").evidence
    assert read(path).whole


@pytest.mark.parametrize("behind", [b"\0" * 70_000, b"\x1a", b'{"traceEvents": []}', b"<html>"])
@pytest.mark.parametrize("form", ["object", "list", "cut"])
def test_what_stands_behind_all_events_does_no_harm(tmp_path: Path, form: str, behind: bytes) -> None:
    """A file system that was down leaves zeros, an editor its mark, and a copy may lack the end alone."""
    content = write_trace(asks_for_results(), tmp_path / "trace.json").read_bytes()
    if form == "list":
        content = orjson.dumps(orjson.loads(content)["traceEvents"])
    if form == "cut":
        content = content[: content.rindex(b"]") + 1] + b', "traceName": "/tmp/tr'
    found = read(trace_of(tmp_path / "more.json", content + behind))
    assert found.evidence == read(tmp_path / "trace.json").evidence
    assert found.whole
    assert (
        found.notes[0] == "what stands in the file behind its list of events cannot be read, and is left out"
    )


def test_a_trace_that_is_damaged_is_shown_to_there(tmp_path: Path) -> None:
    content = write_trace(asks_for_results(), tmp_path / "trace.json").read_bytes()
    half = content.index(b'{"', len(content) // 2)
    for damaged in (content[:half] + b"%%" + content[half:], content[:half] + b"}}" + content[half:]):
        path = trace_of(tmp_path / "damaged.json", damaged)
        found = read(path)
        assert found.notes[0].startswith("the file is cut off or damaged after ")
        assert found.gpus["0"]["activities"] > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is neither an SQLite export of Nsight Systems"),
        (b"PK\3\4rest", "is packed, and not by gzip: unpack it"),
        (b"{", "is no whole trace"),
        (b'{"a": 1}', "has no events"),
        (b"[]", "has no events"),
        (b'{"traceEvents": [}', "is no whole trace"),
        (gzip.compress(b"hello", mtime=0), "is no whole trace"),  # a time would be in the test's name
        (gzip.compress(b"[1, 2", mtime=0)[:-6], "cut off"),
        (b"\x1f\x8bnonsense", "is no whole trace"),
    ],
)
def test_what_is_no_trace_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content)
    if message == "cut off":
        assert message in read(path).notes[0]
        return
    with pytest.raises(DutycycleError, match=message) as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_events_that_make_no_sense_do_no_harm(tmp_path: Path) -> None:
    good: dict[str, Any] = {"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 2, "args": {"device": 0}}
    bad: list[Any] = [
        None, 7, "x", [], {}, {"ph": "X"}, good | {"ts": "soon"}, good | {"ts": -1}, good | {"dur": None},
        good | {"ts": 1e300}, good | {"ts": True}, {name: good[name] for name in good if name != "dur"},
    ]  # fmt: skip
    odd = [
        good | {"args": None, "ts": 6},
        good | {"args": {"device": "many", "correlation": 2.5, "bytes": []}},
    ]
    found = read(trace(tmp_path / "trace.json", {"traceEvents": [*bad, good, *odd]}))
    assert found.gpus["0"]["activities"] == 3
    assert found.notes[0] == "6 events have no time, and are left out"


def test_a_trace_of_another_program_is_refused(tmp_path: Path) -> None:
    """As JAX writes it: streams of GPUs are named by metadata, and events have no category."""
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
        {"ph": "X", "pid": 1, "tid": 13, "ts": 5, "dur": 2, "name": "loop_fusion"},
    ]
    with pytest.raises(DutycycleError, match="none of its 2 events is of a category that PyTorch's"):
        read(trace(tmp_path / "host.trace.json", {"traceEvents": events}))


def test_a_trace_and_an_export_of_a_cpu_alone_say_so(tmp_path: Path) -> None:
    one = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 5, "dur": 2, "pid": 1, "tid": 1}
    found = read(trace(tmp_path / "trace.json", {"traceEvents": [one]}))
    assert found.headline() == "no GPU was traced"
    assert found.tables[0].title == "Annotations and operators"
    assert found.tables[0].rows[0][-1] == "aten::add"


_MEASURED = """
import resource, sys
from pathlib import Path
from dutycycle.profile.profile import read
read(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert read(Path(sys.argv[2])).gpus["0"]["activities"] == 120_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """Of 35 MB of events a third is held, by the sorter of SQLite: two millions need no more."""
    small = write_trace(waits_for_data(), tmp_path / "small.json")
    event = (
        b'{"ph":"X","cat":"kernel","name":"k%d","ts":%d,"dur":3,'
        b'"args":{"device":0,"correlation":%d,"pad":"%s"}}'
    )
    large = tmp_path / "large.json.gz"
    with gzip.open(large, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [')
        file.write(b",".join(event % (n % 50, 9 * n, n, b"x" * 200) for n in range(120_000)))
        file.write(b"]}")
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, small, large], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 12_000, "kB"


def test_nothing_is_left_in_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    read(write_trace(waits_for_data(), tmp_path / "trace.json"))
    with pytest.raises(DutycycleError):
        read(trace(tmp_path / "none.json", {}))
    assert list(folder.iterdir()) == []
    assert write_export(waits_for_data(), tmp_path / "e.sqlite").exists()


@pytest.mark.parametrize("order", [1, -1])
def test_an_event_that_comes_again_counts_once(order: int, tmp_path: Path) -> None:
    """In another stream an equal one is another one. What has a begin and no end is said."""
    of_profile = events(waits_for_data())
    once = read(trace(tmp_path / "once.json", of_profile))
    again = read(trace(tmp_path / "again.json", [*of_profile, *of_profile][::order]))
    assert again.evidence == once.evidence
    assert [table.rows for table in again.tables] == [table.rows for table in once.tables]
    assert [note for note in again.notes if note not in once.notes] == [
        f"{sum(event.get('ph') == 'X' for event in of_profile)} events stand in it again, and count once"
    ]
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 2, "args": {"device": 0}}
    streams = read(
        trace(tmp_path / "s.json", [kernel | {"tid": 7}, kernel | {"tid": 8}, kernel | {"ph": "B"}])
    )
    assert streams.gpus["0"]["activities"] == 2
    assert streams.notes[0] == "1 events have a begin and no end (ph: B), and are left out"


def test_an_event_may_have_its_begin_and_its_end_apart(tmp_path: Path) -> None:
    """Within it others may begin and end, of kinds that do not count too; an end without a begin is none."""
    whole = events(waits_for_data())
    apart: list[dict[str, Any]] = [{"ph": "E", "pid": 1, "tid": 2, "ts": 0}]
    for event in whole:
        if event.get("ph") != "X":
            apart.append(event)
            continue
        begin = {name: value for name, value in event.items() if name != "dur"} | {"ph": "B"}
        track = {"pid": event.get("pid"), "tid": event.get("tid")}
        inner = track | {"cat": "python_function", "ts": event["ts"]}
        end_us = event["ts"] + event["dur"]
        apart += [begin, inner | {"ph": "B"}, inner | {"ph": "E"}, track | {"ph": "E", "ts": end_us}]
    of_whole, of_apart = (
        read(trace(tmp_path / f"{name}.json", part)) for name, part in (("whole", whole), ("apart", apart))
    )
    assert of_apart.evidence == of_whole.evidence
    assert of_apart.notes == of_whole.notes
    assert [table.rows for table in of_apart.tables] == [table.rows for table in of_whole.tables]
