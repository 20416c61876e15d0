"""``dutycycle up`` without its broker or its database: it goes on trying, and names it at the end."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from dutycycle.contract.settings.groups import Settings
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.kafka import all_topics
from tests.support.processes.commands import STOP_S, environ, mortal
from tests.support.servers.postgres import Postgres
from tests.support.waiting import wait_until

MINE = ["--kubernetes", "off", "--node", "a"]


class Up:
    """A running ``dutycycle up``, and what it has said."""

    def __init__(self, process: subprocess.Popen[bytes], shown: Path) -> None:
        self.process, self._shown = process, shown

    def text(self) -> str:
        return self._shown.read_text()

    def wait_for(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.text().count(words) >= times or not self._runs(), self.text)
        assert self._runs(), self.text()

    def _runs(self) -> bool:
        return self.process.poll() is None

    def end(self) -> tuple[int, str]:
        """Ctrl-C; the exit status and the last line."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(3 * STOP_S)
        return status, self.text().splitlines()[-1]


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Up]:
    """Runs until the block ends."""
    env = environ() | {"XDG_STATE_HOME": str(folder), "PYTHONUNBUFFERED": "1"}
    with mortal("up", *MINE, *arguments, env=env, log=folder / "shown") as process:
        yield Up(process, folder / "shown")


AWAY = [
    ("--broker", "kafka://127.0.0.1:9", "broker_unreachable", "start it, or give another --broker"),
    ("--records", "postgresql+psycopg://u:p@127.0.0.1:9/d", "sink_away", "or change DUTYCYCLE_RECORDS"),
    ("--records", "sqlite:////proc/no/x.db", "sink ended with status 1", "or change DUTYCYCLE_RECORDS"),
]


@pytest.mark.parametrize(("setting", "value", "begins", "mend"), AWAY, ids=["broker", "postgres", "sqlite"])
def test_what_was_never_there_is_named_at_the_end(
    setting: str, value: str, begins: str, mend: str, tmp_path: Path
) -> None:
    with up(tmp_path, setting, value) as running:
        running.wait_for(begins)
        status, last = running.end()
    assert status == 1, running.text()
    assert last.startswith("dutycycle: "), running.text()
    assert mend in last
    assert value.removeprefix("sqlite:///").replace(":p@", ":***@") in last


@pytest.fixture
def broker() -> Iterator[InterruptibleBroker]:
    with InterruptibleBroker(all_topics(Settings().partitions)) as running:
        yield running


def all_say(answers: str, logs: Path) -> bool:
    """Whether the collector said so, and every other service whose last word was that it tries again."""
    texts = {log.stem: log.read_text() for log in logs.glob("*.log")}
    return answers in texts["collect"] and all(
        text.rfind(answers) >= text.rfind("trying again") for text in texts.values()
    )


def test_a_broker_that_dies_is_named_and_one_that_comes_back_is_not(
    broker: InterruptibleBroker, tmp_path: Path
) -> None:
    answers = f"{broker.bootstrap} answers"
    # The broker may keep a member that it cut off. One of the next run has to have the same protocol: the
    # embedded broker ends by another. So both have the same database.
    records = f"sqlite:///{tmp_path / 'records.db'}"
    for back in (True, False):
        folder = tmp_path / str(back)
        folder.mkdir()
        with up(folder, "--broker", broker.url, "--records", records) as running:
            running.wait_for("node a")
            broker.set_down()
            running.wait_for("collect broker_unreachable")
            if back:
                broker.set_up()
                logs = folder / "dutycycle" / "log"
                wait_until(lambda logs=logs: all_say(answers, logs), running.text)  # type: ignore[misc]
            status, last = running.end()
        assert status == (0 if back else 1), running.text()
        assert last.startswith("dutycycle: the broker is away") != back, running.text()


def test_a_database_that_goes_away_is_named(postgres: Postgres, postgres_url: str, tmp_path: Path) -> None:
    with up(tmp_path, "--records", postgres_url, "--containers", "all") as running:
        running.wait_for("node a")
        engine = create_engine(postgres_url)
        wait_until(lambda: bool(inspect(engine).get_table_names()), running.text)
        engine.dispose()
        postgres.stop()
        running.wait_for("sink_away")
        status, last = running.end()
    assert status == 1, running.text()
    assert last.startswith("dutycycle: cannot keep peak records in postgresql+psycopg://"), running.text()
    assert "check that it runs" in last


def test_a_time_too_short_for_any_sample(tmp_path: Path) -> None:
    """It is counted from when the streams are ready; on a busy machine the collector may be later."""
    with up(tmp_path, "--duration", "1ms") as running:
        status = running.process.wait(3 * STOP_S)
    last = running.text().splitlines()[-1]
    says = {0: "peak records are in", 1: "no sample came in this time: give a longer --duration"}
    assert says[status] in last
