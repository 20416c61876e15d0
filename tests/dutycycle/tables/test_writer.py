"""Goal: tables that are whole or not there, with typed columns, in bounded memory."""

import csv
import io
import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.contract.trace import TraceError, TraceRecord
from dutycycle.tables.columns import ColumnType
from dutycycle.tables.formats import Csv
from dutycycle.tables.writer import TableWriter
from tests.support.targets import slow_after

T = 1_700_000_000_000
HOUR_MS = 3_600_000
FORMATS = ["csv", "parquet"]


def sample(ts_ms: int | None, gpus: int = 2, topic: str = "nvml-samples") -> TraceRecord:
    gpu = {"throttle": ["heat", "power"], "util_burst": [[-500, 7]], "energy_j": 2**60}
    payload = {"v": 1, "node": "a", "collector": "c", "seq": 1, "ts_ms": T, "interval_ms": 1000,
               "gpus": [{"uuid": f'G"{index},', "index": index, **gpu} for index in range(gpus)]}  # fmt: skip
    return TraceRecord(
        topic=DEFAULT_PREFIX + topic, key="a", payload=orjson.dumps(payload), partition=0, ts_ms=ts_ms
    )


def tables(out: Path, name: str, **more: Any) -> TableWriter:
    return TableWriter(str(out), name, DEFAULT_PREFIX, **{"overwrite": False, **more})


def files(out: Path) -> list[str]:
    return sorted(str(one.relative_to(out)) for one in out.rglob("*") if one.is_file())


def content(out: Path) -> list[Any]:
    """All rows of samples, in the order of hours and parts, as text or values."""
    found: list[Any] = []
    for hour in sorted(out.glob("topic=nvml-samples/*")):
        for path in sorted(hour.iterdir(), key=lambda one: int(one.stem.removeprefix("part-"))):
            if path.suffix == ".csv":
                with path.open(newline="") as file:
                    found += csv.DictReader(file)
            else:
                found += parquet.ParquetFile(path).read().to_pylist()
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_a_topic_and_hour(name: str, tmp_path: Path) -> None:
    with tables(tmp_path / "out", name) as writer:
        for ts_ms in (T, T + HOUR_MS, T + 1, None, 2**62):
            writer.write(sample(ts_ms))
        assert files(tmp_path / "out") == []
    hours = ("2023-11-14T22", "2023-11-14T23", "__HIVE_DEFAULT_PARTITION__")
    assert files(tmp_path / "out") == [f"topic=nvml-samples/hour={one}/part-0.{name}" for one in hours]
    assert len(content(tmp_path / "out")) == 10


def test_parquet_has_types(tmp_path: Path) -> None:
    with tables(tmp_path, "parquet") as writer:
        writer.write(sample(T, gpus=1))
    (path,) = tmp_path.rglob("*.parquet")
    found = parquet.ParquetFile(path).read()
    types = {name: found.schema.field(name).type for name in ("record_ts", "index", "power_w", "throttle")}
    assert types == {
        "record_ts": pa.timestamp("ms", tz="UTC"),
        "index": pa.int64(),
        "power_w": pa.float64(),
        "throttle": pa.list_(pa.string()),
    }
    (row,) = found.to_pylist()
    assert (row["power_w"], row["throttle"], row["util_burst"]) == (None, ["heat", "power"], [[-500.0, 7.0]])
    assert row["energy_j"] == 2.0**60, "more than a float holds exactly"
    assert row["record_ts"].timestamp() * 1000 == T


def test_csv_has_iso_times_and_json(tmp_path: Path) -> None:
    with tables(tmp_path, "csv") as writer:
        writer.write(sample(T + 7, gpus=1))
    (row,) = content(tmp_path)
    assert row["record_ts"] == "2023-11-14T22:13:20.007Z"
    assert (row["uuid"], row["index"], row["power_w"]) == ('G"0,', "0", "")
    assert orjson.loads(row["throttle"]) == ["heat", "power"]


@pytest.mark.parametrize("name", ["team", "a,b", 'of "us"', "=1+1", "Käse 🧀"])
def test_names_and_values_of_csv_are_read_back(name: str) -> None:
    """A label may be called as it likes, as in usage by labels."""
    columns, file, form = {name: ColumnType("text"), "gpu_s": ColumnType("number")}, io.BytesIO(), Csv()
    rows: list[dict[str, Any]] = [{name: name, "gpu_s": 1.5}, {name: "b"}]
    form.write(file, columns, [form.pack(columns, rows)])
    lines = csv.DictReader(io.StringIO(file.getvalue().decode()))
    assert list(lines) == [{name: name, "gpu_s": "1.5"}, {name: "b", "gpu_s": ""}]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_little_memory_gives_the_same_rows_in_more_files(name: str, tmp_path: Path) -> None:
    for out, most_bytes in (("one", 2**30), ("many", 100_000)):
        with tables(tmp_path / out, name, most_bytes=most_bytes) as writer:
            for number in range(3000):
                writer.write(sample(T + number, gpus=8))
            held = writer._sizes.total()
            assert held <= most_bytes
    assert len(files(tmp_path / "one")) == 1
    assert len(files(tmp_path / "many")) > 2
    assert content(tmp_path / "many") == content(tmp_path / "one")


@pytest.mark.parametrize("failure", slow_after(1, [KeyboardInterrupt, SystemExit, DutycycleError]))
def test_after_a_failure_nothing_is_there(failure: type[BaseException], tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen = []

    def fail() -> None:
        with tables(out, "csv", most_bytes=0) as writer:
            for _ in range(3000):
                writer.write(sample(T))
            seen.extend(files(out))
            raise failure

    with pytest.raises(failure):
        fail()
    assert seen[0].startswith(".partial/")
    assert not out.exists()


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    with tables(tmp_path, "csv") as writer:
        writer.write(sample(T))
    before = content(tmp_path)
    with pytest.raises(KeyboardInterrupt), tables(tmp_path, "csv", overwrite=True) as writer:
        raise KeyboardInterrupt
    assert content(tmp_path) == before
    assert not (tmp_path / ".partial").exists()


def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    with pytest.raises(DutycycleError, match="No space left"), tables(tmp_path / "out", "parquet") as writer:
        writer.write(sample(T))
    assert not (tmp_path / "out").exists()


def test_a_damaged_trace_gives_what_came_before(tmp_path: Path) -> None:
    def fail() -> None:
        with tables(tmp_path, "csv") as writer:
            writer.write(sample(T))
            raise TraceError("t", 2, "not JSON")

    with pytest.raises(TraceError):
        fail()
    assert len(content(tmp_path)) == 2


def test_tables_are_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "topic=cycles").mkdir()
    with pytest.raises(DutycycleError, match="--force"), tables(tmp_path, "csv"):
        pytest.fail("it was opened")
    (tmp_path / ".partial/topic=trends").mkdir(parents=True)  # of a run that was killed
    with tables(tmp_path, "csv", overwrite=True) as writer:
        writer.write(sample(T))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine", "topic=nvml-samples"]


def test_what_cannot_be_read_is_told_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tables(tmp_path, "csv") as writer:
        for payload in (b"{}", b"?", None):
            writer.write(TraceRecord(topic=DEFAULT_PREFIX + "pods", key="u", payload=payload))
        writer.write(sample(T))
    assert files(tmp_path) == ["topic=nvml-samples/hour=2023-11-14T22/part-0.csv"]
    said = capsys.readouterr().err
    assert "pods: v: missing" in said
    assert "2 of pods are not in the tables" in said


def test_without_pyarrow_there_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DutycycleError, match=r"pip install 'dutycycle\[parquet\]'"):
        tables(tmp_path / "out", "parquet")
    assert not (tmp_path / "out").exists()
    with tables(tmp_path / "out", "csv") as writer:
        writer.write(sample(T))
