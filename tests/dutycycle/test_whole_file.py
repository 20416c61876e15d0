"""Goal: a file is there as a whole or not at all, and what was begun does not keep a full disk full."""

import errno
import hashlib
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.whole_file import whole_file


@pytest.fixture
def room(request: pytest.FixtureRequest) -> Iterator[None]:
    """Files may hold a thousand bytes, as if the disk had no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_it_gets_its_name_at_the_end(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.html") as path:
        path.write_text("new")
        assert not (tmp_path / "a.html").exists()
        assert path.suffix == ".html"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.html", "new")]


def test_without_room_the_old_one_stays_and_nothing_else(tmp_path: Path, room: None) -> None:
    (tmp_path / "a.html").write_text("old")
    with (
        pytest.raises(DutycycleError, match=r"a\.html: File too large$"),
        whole_file(tmp_path / "a.html") as path,
    ):
        path.write_text("x" * 2000)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.html", "old")]


def test_another_error_leaves_nothing_either(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "a.html") as path:
        path.write_text(str(1 // 0))
    with pytest.raises(DutycycleError, match="Not a directory"), whole_file(Path("/dev/null/a.html")) as path:
        path.write_text("x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_a_trace_without_room_leaves_nothing(tmp_path: Path, room: None, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    payloads = (hashlib.sha512(str(number).encode()).hexdigest().encode() for number in range(20_000))
    with pytest.raises(DutycycleError, match=r"cannot write the trace .*: File too large"):
        _write(path, payloads)
    assert list(tmp_path.iterdir()) == []


def _write(path: Path, payloads: Iterable[bytes]) -> None:
    with TraceWriter(str(path)) as trace:
        for payload in payloads:
            trace.write(TraceRecord(topic="t", key="k", payload=payload))


def test_a_folder_that_cannot_be_written_is_said_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    with (
        pytest.raises(DutycycleError, match=rf"^{path}: Read-only file system$"),
        whole_file(path) as partial,
    ):
        raise OSError(errno.EROFS, "Read-only file system", str(partial))
