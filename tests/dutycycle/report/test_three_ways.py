"""Goal: a report is the same, whether it is made of a Prometheus, of a trace, or of the topics on Kafka."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.cli.main import main
from dutycycle.contract.trace_reader import TraceReader
from tests.support.data.profiled import waits_for_data, write_export
from tests.support.data.prometheus_history import HOUR_S, history
from tests.support.processes.commands import environ
from tests.support.processes.warm import command
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.waiting import wait_until

START_S = int(time.time()) // 60 * 60 - 4 * HOUR_S
HOURS = 0.75
SINCE, UNTIL = (str(1000 * second) for second in (START_S - 60, int(START_S + HOURS * HOUR_S) + 60))
PAST = ("--since", SINCE, "--until", UNTIL)


def report(out: Path, *arguments: str | Path) -> int:
    return main(["report", *map(str, arguments), "--out", str(out)])


@pytest.fixture(scope="module")
def of_prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page that is made of a Prometheus; the trace lies in its folder."""
    folder = tmp_path_factory.mktemp("prometheus")
    server = Prometheus(folder, scrape([]), history=history(START_S, HOURS))
    try:
        assert report(folder / "one.html", "team/bert", *PAST, "--from-prometheus", server.url) == 0
        yield folder / "one.html"
    finally:
        server.stop()


@pytest.fixture
def on_kafka(kafka: RunningBroker, topic_prefix: str, of_prometheus: Path) -> tuple[str, ...]:
    """The flags for a broker with the records of that trace, in several partitions."""
    kafka.create_topics(
        {topic_prefix + name: 4 for name in ("nvml-samples", "cgroup-samples", "cuda-samples", "pods")}
    )
    flags = ("--broker", kafka.url, "--topic-prefix", topic_prefix)
    assert main(["replay", str(trace_of(of_prometheus)), *flags]) == 0
    return flags


def trace_of(page: Path) -> Path:
    return page.with_suffix(".files") / "trace.jsonl.zst"


def said(page: Path) -> dict[str, str]:
    """The tables, and the page without the line that says where it is from."""
    folder = page.with_suffix(".files")
    tables = {one.name: one.read_text() for one in folder.glob("*.csv")}
    return {**tables, "page": re.sub(r"<li>Made from .*?</li>", "", page.read_text())}


def test_the_three_agree(of_prometheus: Path, on_kafka: tuple[str, ...], tmp_path: Path) -> None:
    first, two, three = said(of_prometheus), tmp_path / "two.html", tmp_path / "three.html"
    assert report(two, trace_of(of_prometheus), "--job", "bert") == 0
    assert said(two) == first
    assert report(three, "team/bert", *PAST, *on_kafka) == 0
    assert said(three) == first
    records = [one for _, one in TraceReader(str(trace_of(three)))]
    times = [one.ts_ms or 0 for one in records]
    assert times == sorted(times)  # the insights of an hour and more depend on it
    nodes = {one.key for one in records if "-samples" in one.topic}
    assert nodes == {"gpu-a"}  # of the other node nothing is kept
    assert "Made from" in three.read_text()
    export, four = write_export(waits_for_data(), tmp_path / "report1.sqlite"), tmp_path / "four.html"
    assert main(["profile", str(export), "--pod", "team/bert-0", *on_kafka]) == 0
    assert report(four, "team/bert", *PAST, *on_kafka) == 0
    assert "From inside (report1.sqlite of team/bert-0): held back by: input (98% sure)" in four.read_text()
    told = len(list(TraceReader(str(trace_of(four))))) - len(records)
    assert told == 2  # for the pod and for its job


def test_a_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    """It comes while a broker is waited for."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    flags = (
        "--since", "1h", "--broker", "kafka://127.0.0.1:9", "--timeout", "5m", "--out", tmp_path / "x.html",
    )  # fmt: skip
    process = subprocess.Popen(
        [*command(), "report", "bert", *map(str, flags)],
        env=environ() | {"TMPDIR": str(temporary)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: any(temporary.iterdir()), lambda: "its temporary files")
    process.terminate()
    assert process.wait(240) == 128 + signal.SIGTERM
    assert list(temporary.iterdir()) == []


def test_what_is_said_where_there_is_nothing_to_report(
    on_kafka: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.html"

    def error(*arguments: str) -> str:
        assert report(out, *arguments, *on_kafka) == 1
        assert list(tmp_path.iterdir()) == []
        return capsys.readouterr().err.splitlines()[-1]

    unknown = error("gpt", *PAST)
    assert unknown.startswith("dutycycle: no job or pod 'gpt' in the topics from 20")
    assert unknown.endswith("UTC; there are jobs: team/bert; pods: team/bert-0")
    after = [str(int(UNTIL) + 60_000 * minute) for minute in (10, 20)]
    nothing = error("bert", "--since", after[0], "--until", after[1])
    assert nothing.startswith("dutycycle: nothing of bert was measured from 20")
    (tmp_path / "x.files").mkdir()
    (tmp_path / "x.files" / "trace.jsonl.zst").write_text("mine")
    assert report(out, "bert", *PAST, *on_kafka) == 2
    assert "trace.jsonl.zst: is there already: make the report of it" in capsys.readouterr().err
