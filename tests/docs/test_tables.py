"""Goal: docs/tables.md says what the code writes, and its lines read that back."""

import glob
import re
from pathlib import Path

import pytest

from docs.generate_tables import PAGE, page
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.contract.trace import TraceRecord
from dutycycle.tables.writer import TableWriter

_LINE = re.compile(r"^\| (pandas|polars|DuckDB) \| `(.+)` \| `(.+)` \|$", re.MULTILINE)
LINES = [
    (name.lower(), form, line)
    for name, *both in _LINE.findall(PAGE.read_text(encoding="utf-8"))
    for form, line in zip(("parquet", "csv"), both, strict=True)
]
WINDOW = (
    b'{"v":1,"subject":{"kind":"gpu","node":"a","gpu":"G"},"source":"nvml","size_ms":10000,'
    b'"start_ms":1700000000000,"end_ms":1700000010000,'
    b'"metrics":{"power_w":{"count":2,"mean":3,"p99":4.5},"temp_c":{"count":1,"mean":7}}}'
)


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.generate_tables"


def test_the_page_has_all_lines() -> None:
    assert len(LINES) == 6


@pytest.mark.parametrize(("name", "form", "line"), LINES, ids=[f"{one[0]}-{one[1]}" for one in LINES])
def test_one_line_reads_them_back(
    name: str, form: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = pytest.importorskip(name, reason=f"{name} is not installed: pip install {name}")
    monkeypatch.chdir(tmp_path)
    with TableWriter("tables", form, DEFAULT_PREFIX, overwrite=False) as writer:
        for ts_ms in (1_700_000_010_000, 1_700_003_610_000):
            topic = DEFAULT_PREFIX + "window-aggregates"
            writer.write(TraceRecord(topic=topic, key="gpu/a/G", payload=WINDOW, ts_ms=ts_ms))
    found = eval(line, {name: reader, "glob": glob})  # noqa: S307 - a line of our own page
    frame = found.df() if name == "duckdb" else found
    assert sorted(zip(frame["metric"], frame["mean"], frame["count"], strict=True)) == [
        ("power_w", 3.0, 2),
        ("power_w", 3.0, 2),
        ("temp_c", 7.0, 1),
        ("temp_c", 7.0, 1),
    ]
    if (name, form) != ("pandas", "csv"):  # which has no types
        assert {one.timestamp() for one in frame["start_ts"]} == {1_700_000_000}
