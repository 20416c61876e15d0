"""The spool keeps records in order and within its bound, through restarts, kills, full and broken disks."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.publish.spool import (
    Appended,
    Spool,
    SpoolBusyError,
    SpoolError,
    SpoolWriteError,
    record_bytes,
)
from dutycycle.contract.log import ProducerRecord

MIB = 1024**2
NOISE = random.Random(1).randbytes(MIB)  # noqa: S311 - not a secret


def record(number: int, size: int = 100) -> ProducerRecord:
    """A record that its ``ts_ms`` names; its payload cannot be compressed."""
    return ProducerRecord(topic="pods", key="a", value=NOISE[:size], ts_ms=number)


def records(*numbers: int, size: int = 100) -> list[ProducerRecord]:
    return [record(number, size) for number in numbers]


def stored(spool: Spool) -> list[int]:
    return [one.record.ts_ms for one in spool.oldest(10**6, 10**12)]


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    given_in = [*records(1, 2), ProducerRecord(topic="pods", key="ü", value=None, ts_ms=3)]
    with Spool(tmp_path, MIB) as spool:
        assert spool.append(given_in) == Appended(1, 0)
        assert [one.record for one in spool.oldest(10, MIB)] == given_in
        assert len(spool) == 3


@pytest.mark.parametrize(
    ("most", "most_bytes", "expected"),
    [(10, MIB, [1, 2, 3, 4]), (2, MIB, [1, 2]), (10, 1, [1]), (10, 2 * record_bytes(record(1)), [1, 2])],
)
def test_head_is_bounded_but_never_stuck(
    tmp_path: Path, most: int, most_bytes: int, expected: list[int]
) -> None:
    with Spool(tmp_path, MIB) as spool:
        spool.append(records(1, 2, 3, 4))
        assert [one.record.ts_ms for one in spool.oldest(most, most_bytes)] == expected


def test_only_what_was_acknowledged_goes(tmp_path: Path) -> None:
    with Spool(tmp_path, MIB) as spool:
        spool.append(records(1, 2, 3, 4))
        spool.acknowledge(spool.oldest(2, MIB)[-1].id)
        assert stored(spool) == [3, 4]
        spool.append(records(5))
        assert stored(spool) == [3, 4, 5]


def test_a_restart_finds_it_all_and_goes_on(tmp_path: Path) -> None:
    with Spool(tmp_path, MIB) as spool:
        spool.append(records(1, 2, 3))
        spool.acknowledge(spool.oldest(1, MIB)[-1].id)
    with Spool(tmp_path, MIB) as spool:
        assert len(spool) == 2
        spool.append(records(4))
        assert stored(spool) == [2, 3, 4]


@pytest.mark.parametrize("size", [300, 900, 2100, 6000, 100_000])
def test_the_oldest_go_first_and_not_many_more_than_needed(tmp_path: Path, size: int) -> None:
    bound = MIB // 2
    count = 2 * bound // size
    with Spool(tmp_path, bound) as spool:
        dropped = sum(spool.append(records(n, size=size)).dropped for n in range(count))
        left = stored(spool)
    assert left == list(range(count - len(left), count))
    assert dropped == count - len(left)
    assert len(left) * size > bound / 3  # of a page of 4096 bytes, a record of 2100 leaves a half unused


def test_what_is_being_sent_is_not_forced_out(tmp_path: Path) -> None:
    with Spool(tmp_path, MIB) as spool:
        spool.append(records(1, 2, size=1000))
        through = spool.oldest(2, MIB)[-1].id
        for n in range(3, 1500):
            spool.append(records(n, size=1000), keep_through=through)
        left = stored(spool)
    assert left[:2] == [1, 2]
    assert left[2:] == list(range(1500 - len(left) + 2, 1500))


def test_one_append_of_more_than_the_bound_keeps_the_newest(tmp_path: Path) -> None:
    with Spool(tmp_path, MIB) as spool:
        appended = spool.append(records(*range(5000), size=1000))
        left = stored(spool)
        assert appended == Appended(1, 5000 - len(left))
    assert left == list(range(5000 - len(left), 5000))
    assert (tmp_path / "spool.db").stat().st_size < 1.2 * MIB


@given(steps=st.lists(st.tuples(st.sampled_from(["append", "acknowledge", "reopen"]), st.integers(1, 30))))
def test_like_a_list(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]) -> None:
    folder = tmp_path_factory.mktemp("spool")
    model: list[int] = []
    count = 0
    spool = Spool(folder, 64 * MIB)
    for what, amount in steps:
        if what == "append":
            new = list(range(count, count + amount))
            count += amount
            assert spool.append(records(*new)).dropped == 0
            model += new
        elif what == "acknowledge":
            if head := spool.oldest(amount, MIB):
                spool.acknowledge(head[-1].id)
            model = model[amount:]
        else:
            spool.close()
            spool = Spool(folder, 64 * MIB)
        assert stored(spool) == model
        assert len(spool) == len(model)
    spool.close()


def test_the_files_stay_near_the_bound_and_shrink_when_drained(tmp_path: Path) -> None:
    def on_disk() -> int:
        return sum(path.stat().st_size for path in tmp_path.iterdir())

    bound = 8 * MIB
    with Spool(tmp_path, bound) as spool:
        for n in range(40):
            spool.append([record(n * 100 + k, 6000) for k in range(100)])
            assert on_disk() < bound + 3 * MIB
        assert on_disk() > bound
        spool.acknowledge(spool.oldest(10**6, 10**12)[-1].id)
        spool.append(records(1))
    assert on_disk() < MIB


def test_sigkill_loses_nothing_that_was_appended(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys; from pathlib import Path; from collectors.publish.spool import Spool\n"
            "from dutycycle.contract.log import ProducerRecord\n"
            f"spool = Spool(Path(sys.argv[1]), {64 * MIB})\n"
            "for n in range(10**9):\n"
            "    spool.append([ProducerRecord(topic='pods', key='a', value=b'x' * 500, ts_ms=n)])\n"
            "    print(n, flush=True)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert writer.stdout
    said = [int(writer.stdout.readline()) for _ in range(200)]
    writer.send_signal(signal.SIGKILL)
    said += [int(line) for line in writer.stdout.read().split()]
    writer.wait()
    writer.stdout.close()
    with Spool(tmp_path, 64 * MIB) as spool:
        found = stored(spool)
    assert found == list(range(len(found)))
    assert len(found) >= len(said)


def test_one_collector_at_a_time(tmp_path: Path) -> None:
    with Spool(tmp_path, MIB), pytest.raises(SpoolBusyError, match="DUTYCYCLE_SPOOL"):
        Spool(tmp_path, MIB)
    Spool(tmp_path, MIB).close()


@pytest.mark.parametrize("kind", ["file", "below a file", "database is a folder"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    folder = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "x"}.get(kind, tmp_path)
    if kind == "database is a folder":
        (tmp_path / "spool.db").mkdir()
    with pytest.raises(SpoolError, match=f"{folder}.*DUTYCYCLE_SPOOL"):
        Spool(folder, MIB)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SpoolError, match="Permission denied"):
        Spool(tmp_path, MIB)


def test_a_full_disk_is_said_and_loses_nothing_stored(tmp_path: Path) -> None:
    with Spool(tmp_path, 64 * MIB) as spool:
        spool.append(records(1, 2))
        spool._file.database.execute(
            "PRAGMA max_page_count = 20"
        )  # SQLite then says what it says of a full disk
        with pytest.raises(SpoolWriteError, match="full"):
            spool.append([record(3, 200_000)])
        assert stored(spool) == [1, 2]
        assert len(spool) == 2
        spool.append(records(4))
        assert stored(spool) == [1, 2, 4]


def test_what_was_acknowledged_on_a_failing_disk_is_not_sent_again(tmp_path: Path) -> None:
    with Spool(tmp_path, MIB) as spool:
        spool.append(records(1, 2, 3))
        spool._file.database.execute("PRAGMA query_only = ON")
        with pytest.raises(SpoolWriteError):
            spool.acknowledge(spool.oldest(2, MIB)[-1].id)
        assert stored(spool) == [3]
        assert len(spool) == 1
        spool._file.database.execute("PRAGMA query_only = OFF")
        spool.acknowledge(spool.oldest(1, MIB)[-1].id)
        assert (stored(spool), len(spool)) == ([], 0)
    with Spool(tmp_path, MIB) as spool:
        assert len(spool) == 0


@pytest.mark.parametrize("damage", [b"no database at all", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_spool_is_put_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "spool.db").write_bytes(damage)
    with Spool(tmp_path, MIB) as spool:
        assert spool.was_damaged
        spool.append(records(1))
        assert stored(spool) == [1]
    assert (tmp_path / "spool.damaged").read_bytes() == damage


def test_damage_within_is_found_at_the_start(tmp_path: Path) -> None:
    with Spool(tmp_path, 8 * MIB) as spool:
        spool.append([record(n, 6000) for n in range(200)])
    with (tmp_path / "spool.db").open("r+b") as file:
        file.seek(400_000)
        file.write(os.urandom(200_000))
    with Spool(tmp_path, 8 * MIB) as spool:
        assert spool.was_damaged
        assert len(spool) == 0


def test_a_payload_with_a_flipped_bit_costs_itself_alone(tmp_path: Path) -> None:
    """SQLite's check does not look into values: such a file opens, and one of its records is no zstd."""
    with Spool(tmp_path, MIB) as spool:
        spool.append(records(*range(10)))
    with sqlite3.connect(tmp_path / "spool.db") as database:
        database.execute("UPDATE record SET payload = zeroblob(40) WHERE id IN (1, 2, 5)")
    database.close()
    with Spool(tmp_path, MIB) as spool:
        assert [one.record.ts_ms for one in spool.oldest(2, MIB)] == [2, 3]
        assert stored(spool) == [2, 3, 5, 6, 7, 8, 9]
        assert (spool.unreadable, len(spool)) == (3, 7)
        spool.acknowledge(6)
        assert (stored(spool), len(spool)) == ([6, 7, 8, 9], 4)


def test_a_file_that_breaks_under_way_is_put_aside_and_ids_go_on(tmp_path: Path) -> None:
    with Spool(tmp_path, 16 * MIB) as spool:
        spool.append([record(n, 6000) for n in range(1000)])
        sent = spool.oldest(3, MIB)
        with (tmp_path / "spool.db").open("r+b") as file:
            file.seek(8192)
            file.write(os.urandom(5 * MIB))
        with pytest.raises(sqlite3.DatabaseError, match="malformed"):
            spool.oldest(10**6, 10**12)
        assert spool.renew() == 1000
        assert spool.append(records(7)).first_id == 1001
        spool.acknowledge(sent[-1].id)
        assert (stored(spool), len(spool)) == ([7], 1)
    assert (tmp_path / "spool.damaged").exists()
    with Spool(tmp_path, 16 * MIB) as spool:
        assert stored(spool) == [7]
