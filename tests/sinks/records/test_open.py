"""Databases that cannot be used are refused with the fix; a password is shown nowhere."""

import resource
import sqlite3
import stat
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from dutycycle.cli.main import main
from dutycycle.contract.codec import encode
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.folders import state_folder
from sinks.records.location import default_records_path, default_records_url
from sinks.records.query import pod_peaks
from sinks.records.rows import pod_row
from sinks.records.store import RecordsAwayError, RecordsRefusedError, RecordsStore, RecordsUnreachableError
from sinks.records.tables.schema import VERSION
from sinks.records.url import parse_records_url, redacted, require_folder
from sinks.records.writer import RecordsWriter
from tests.support.servers.postgres import Postgres
from tests.support.sinks import made
from tests.support.sinks.recording import open_store

BAD_URLS = {
    "no-url": "no SQLAlchemy URL",
    "sqlite://": "in memory",
    "sqlite:///:memory:": "in memory",
    "mysql://me:s3cret@host/db": "mysql is not supported",
    "postgresql://me:s3cret@host:port/db": "no SQLAlchemy URL",
}


@pytest.mark.parametrize(("url", "words"), BAD_URLS.items(), ids=BAD_URLS.keys())
def test_urls_that_cannot_be_meant(url: str, words: str) -> None:
    with pytest.raises(DutycycleError, match="DUTYCYCLE_RECORDS") as caught:
        RecordsWriter(url)
    assert words in str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def _not_writable(folder: Path) -> str:
    return "sqlite:////proc/dutycycle/records.db"


def _not_a_database(folder: Path) -> str:
    (folder / "records.db").write_bytes(b"this is a text, and no database at all" * 100)
    return f"sqlite:///{folder}/records.db"


def _a_folder(folder: Path) -> str:
    (folder / "records.db").mkdir()
    return f"sqlite:///{folder}/records.db"


def _of_the_future(folder: Path) -> str:
    with RecordsWriter(f"sqlite:///{folder}/records.db"):
        pass
    with sqlite3.connect(folder / "records.db") as connection:
        connection.execute("UPDATE dutycycle_schema SET version = ?", (VERSION + 1,))
    connection.close()
    return f"sqlite:///{folder}/records.db"


REFUSED = {
    "not writable": (_not_writable, "make it writable"),
    "not a database": (_not_a_database, "file is not a database"),
    "a folder": (_a_folder, "unable to open database file"),
    "of the future": (_of_the_future, f"schema has version {VERSION + 1}, this Dutycycle knows {VERSION}"),
    "nobody listens": (lambda _: "postgresql://me:s3cret@127.0.0.1:1/db", "Connection refused"),
    "secret as an option": (
        lambda _: "postgresql://me@127.0.0.1:1/db?sslmode=disable&password=s3cret",
        "refused",
    ),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_database_that_cannot_be_used_is_refused_at_start(
    make: Callable[[Path], str], words: str, tmp_path: Path
) -> None:
    url = make(tmp_path)
    with pytest.raises(RecordsRefusedError, match="DUTYCYCLE_RECORDS") as caught:
        RecordsStore(url).open()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "reason", "remedy"),
    [
        ("sqlite:///x.db", "database or disk is full", "make room there"),
        ("sqlite:///x.db", "attempt to write a readonly database", "make it writable"),
        ("sqlite:///x.db", "database is locked", "end the program that writes to it, or wait for it"),
        (
            "sqlite:///x.db",
            "disk I/O error",
            "see whether there is room, a quota that is used up or a fault of the disk",
        ),
        ("postgresql://me@db/d", "could not extend file: No space left on device", "make room there"),
        ("postgresql://me@db/d", "Connection refused", "check that it runs and lets us write"),
    ],
)
def test_the_remedy_is_one_of_its_reason(url: str, reason: str, remedy: str) -> None:
    assert RecordsStore(url).find_remedy(reason) == f"{remedy}, or change DUTYCYCLE_RECORDS"


@pytest.mark.parametrize(
    ("most", "says"),
    [(20_000, "database or disk is full; make room there"), (0, "disk I/O error; see whether there is room")],
    ids=["for the file beside the log", "for anything"],
)
def test_a_disk_without_room_is_said(most: int, says: str, tmp_path: Path) -> None:
    """By a limit of files: a full disk and a quota that is used up say the same to SQLite."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(RecordsRefusedError, match=says):
            RecordsStore(f"sqlite:///{tmp_path}/x.db").open()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_new", [True, False], ids=["a new file", "one with records"])
def test_a_command_without_room_leaves_no_file_that_it_made(is_new: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    if not is_new:
        with RecordsWriter(f"sqlite:///{path}"):
            pass
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def run_out_of_room() -> None:
        with RecordsWriter(f"sqlite:///{path}") as writer:
            room = sum(file.stat().st_size for file in tmp_path.iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
            for number in range(1000):
                writer.write("pod-peaks", encode(made.pod_peaks(f"pod-{number}")))

    try:
        with pytest.raises(RecordsAwayError, match=f"{path}: "):
            run_out_of_room()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file.name for file in tmp_path.iterdir()] == ([] if is_new else ["x.db"])
    assert is_new or pod_peaks(f"sqlite:///{path}") == []


def test_reading_where_nothing_was_written(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with pytest.raises(RecordsRefusedError, match=r"no peak records in .* yet: run `dutycycle up`"):
        pod_peaks(f"sqlite:///{path}")
    assert not path.exists()
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(RecordsRefusedError, match="there are no peak records"):
        pod_peaks(f"sqlite:///{path}")


def test_a_wrong_password_is_not_repeated(postgres_url: str) -> None:
    wrong = parse_records_url(postgres_url).set(password="s3cret/@:%").render_as_string(hide_password=False)
    with pytest.raises(RecordsRefusedError, match="password authentication failed") as caught:
        RecordsStore(wrong).open()
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_user_who_may_not_write_is_refused_at_start(postgres_url: str) -> None:
    with RecordsWriter(postgres_url):
        pass
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS reader"))
        connection.execute(text("CREATE ROLE reader LOGIN PASSWORD 's3cret'"))
        connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"))
    reader = parse_records_url(postgres_url).set(username="reader", password="s3cret")
    url = reader.render_as_string(hide_password=False)
    assert pod_peaks(url) == []
    with pytest.raises(RecordsRefusedError, match=r"permission denied .*lets us write"):
        RecordsStore(url).open()
    with engine.begin() as connection:
        connection.execute(text("DROP OWNED BY reader"))
        connection.execute(text("DROP ROLE reader"))
    engine.dispose()


def test_a_file_that_another_program_writes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.records.engine._BUSY_S", 0.05)
    store = open_store(url := f"sqlite:///{tmp_path}/records.db")
    store.close()
    with closing(sqlite3.connect(tmp_path / "records.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordsUnreachableError, match="locked; end the program"):
            RecordsStore(url).open()
    open_store(url).close()


def test_many_may_start_at_once(records_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.records.engine._BUSY_S", 240.0)  # on a busy machine the last waits for long

    def start(number: int) -> None:
        with RecordsWriter(records_url) as writer:
            writer.write("pod-peaks", encode(made.pod_peaks(f"uid-{number}")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(16)))
    assert len(pod_peaks(records_url)) == 16


def test_a_database_that_went_away_takes_the_same_batch_when_it_is_back(postgres: Postgres) -> None:
    url = postgres.new_database()
    store = open_store(url)
    rows = [pod_row(made.pod_peaks(f"uid-{i}")) for i in range(3)]
    store.put(rows[:1])
    postgres.stop()
    with pytest.raises(RecordsAwayError):
        store.put(rows)
    with pytest.raises(RecordsAwayError):
        store.put(rows)
    postgres.start()
    try:
        store.put(rows)
    except RecordsAwayError:  # the pool may have one dead connection left to find out about
        store.put(rows)
    store.close()
    assert len(pod_peaks(url)) == 3


def test_a_locked_file_is_away_and_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.records.engine._BUSY_S", 0.1)
    store = open_store(f"sqlite:///{tmp_path}/records.db")
    other = sqlite3.connect(tmp_path / "records.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RecordsAwayError, match="locked"):
        store.put([pod_row(made.pod_peaks())])
    other.close()
    assert store.put([pod_row(made.pod_peaks())]) == []
    store.close()


DEFAULTS = {
    "as XDG says": ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/dutycycle/records.db"),
    "relative, to be ignored": (
        {"XDG_STATE_HOME": "x", "HOME": "/h"},
        "/h/.local/state/dutycycle/records.db",
    ),
    "empty": ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/dutycycle/records.db"),
    "not set": ({"HOME": "/h"}, "/h/.local/state/dutycycle/records.db"),
}


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(user: int) -> NoReturn:
        raise KeyError(user)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(DutycycleError, match="no home directory to keep files in: set HOME"):
        state_folder({})


@pytest.mark.parametrize(("environ", "path"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_where_records_are_by_default(environ: dict[str, str], path: str) -> None:
    assert str(default_records_path(environ)) == path


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1))
def test_the_default_url_names_its_file(name: str) -> None:
    environ = {"XDG_STATE_HOME": f"/{name}"}
    assert parse_records_url(default_records_url(environ)).database == str(default_records_path(environ))


def test_a_folder_that_is_not_there_is_a_mistake_of_who_typed_it(tmp_path: Path) -> None:
    with pytest.raises(DutycycleError, match=f"there is no folder {tmp_path}/nodir: make it"):
        require_folder(f"sqlite:///{tmp_path}/nodir/x.db")
    require_folder(f"sqlite:///{tmp_path}/x.db")
    require_folder("postgresql://host/db")
    trace = tmp_path / "t.jsonl"
    trace.write_text("")
    assert main(["replay", str(trace), "--records", f"sqlite:///{tmp_path}/nodir/x.db"]) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["t.jsonl"]


def test_records_in_a_folder_that_nobody_may_write_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only mount: the reader makes no file beside the database."""
    url = f"sqlite:///{tmp_path}/a%20b.db"
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(made.pod_peaks()))
    names: list[str] = []
    real = sqlite3.connect

    def connect(name: str, *more: Any, **named: Any) -> sqlite3.Connection:
        names.append(name)
        connection: sqlite3.Connection = real(name, *more, **named)
        return connection

    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", connect)
    assert len(pod_peaks(url)) == 1
    assert any("immutable=1" in name for name in names)
    assert [one.name for one in tmp_path.iterdir()] == ["a b.db"]


def test_the_folder_of_the_records_is_private(tmp_path: Path) -> None:
    with RecordsWriter(default_records_url({"XDG_STATE_HOME": str(tmp_path)})):
        pass
    assert stat.S_IMODE((tmp_path / "dutycycle").stat().st_mode) == 0o700


def test_an_echoed_secret_is_blotted_out() -> None:
    url = parse_records_url("postgresql://me:s3%2Fcret@host/db?sslpassword=other")
    assert redacted("user me, password s3/cret, key other", url) == "user me, password …, key …"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql://me:se@cret@host/db", "special characters percent-encoded"),
        ("postgresql://me:secret@a:1,b:2/db", r"several hosts as \?host=a:5432&host=b:5432"),
        ("sqlite:///~/records.db", "~/records.db begins with ~, which only a shell knows"),
    ],
)
def test_a_url_that_means_something_else_is_refused(text: str, message: str) -> None:
    """And nothing of its password is said."""
    with pytest.raises(DutycycleError, match=message) as error:
        parse_records_url(text)
    assert "cret" not in str(error.value)
