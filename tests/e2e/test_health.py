"""A worker that says how it is: waiting, ready, standing by, cut off; it counts just what it was given."""

import asyncio
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.cluster_trace import Shape, records
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS, full_name
from dutycycle.kafka.embedded import EmbeddedBroker
from streams.names import SOURCES
from streams.topology import stages
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.kafka import all_topics, send, settings_of
from tests.support.processes.commands import ANEW, STOP_S, dutycycle, environ, run_to_end, running
from tests.support.processes.figures import Figures, Process
from tests.support.servers.kafka.broker import OwnBroker, RunningBroker
from tests.support.servers.postgres import Postgres
from tests.support.servers.prometheus import Prometheus, check, scrape
from tests.support.waiting import wait_until

GOOD = list(records(Shape(nodes=1, gpus=1, seconds=120)))
NODE = "gpu-000"
SAMPLES = "nvml-samples"
Line = tuple[str, str | None, bytes, int]


def good() -> list[Line]:
    return [
        (one.topic.removeprefix(DEFAULT_PREFIX), one.key, one.payload or b"", one.ts_ms or 0) for one in GOOD
    ]


def bad() -> list[Line]:
    """A sample that is too late for any window, one that was there before, one that is none."""
    first, *_, last = (one for one in good() if one[0] == SAMPLES)
    late = orjson.dumps(orjson.loads(first[2]) | {"seq": 90_000})
    return [(SAMPLES, NODE, late, first[3]), last, (SAMPLES, NODE, b"garbage", last[3])]


def expected() -> Figures:
    """What a worker has to say that was given ``good`` and ``bad``, once."""
    sent = Counter(topic for topic, *_ in good() + bad())
    found: Figures = {}
    for topic in [one for one in SAMPLE_TOPICS if one in SOURCES.values()]:
        found[f'records_taken_total{{topic="{topic}"}}'] = sent[topic]
        found[f'records_used_total{{topic="{topic}"}}'] = sent[topic] - (2 if topic == SAMPLES else 0)
        found[f'consumer_lag_records{{topic="{topic}"}}'] = 0
        found[f'consumer_lag_max_records{{topic="{topic}"}}'] = 0
        found[f'dead_letter_total{{reason="decode",topic="{topic}"}}'] = float(topic == SAMPLES)
        found[f'dead_letter_total{{reason="schema",topic="{topic}"}}'] = 0
    for topic in (SAMPLES, "cgroup-samples"):
        for event in ("late", "duplicate"):
            found[f'sample_{event}_total{{topic="{topic}"}}'] = float(topic == SAMPLES)
        found[f'clock_jump_total{{topic="{topic}"}}'] = 0
    return found


def test_a_stream_worker_says_how_it_is(kafka: RunningBroker, topic_prefix: str, tmp_path: Path) -> None:
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, partitions="1", snapshot_interval="0.5s")
    kafka.stop()
    with running("stream", env=env, log=tmp_path / "first.log", start=ANEW) as process:
        first = Process(tmp_path / "first.log")
        wait_until(lambda: "the broker" in first.readyz()[1], lambda: str(first.readyz()))
        assert first.healthz() == (200, "healthy\n"), "waiting is no illness"
        assert first.readyz() == (503, f"waiting for the broker at {kafka.url}\n")
        assert first.figures()["ready"] == 0
        kafka.start()
        first.wait_ready()

        asyncio.run(send(settings_of(env), good() + bad()))
        wanted = expected()

        def told() -> Figures:
            return {name: value for name, value in first.figures().items() if name in wanted}

        wait_until(lambda: told() == wanted, lambda: str(Counter(wanted) - Counter(told())))
        snapshots = 'snapshots_total{stage="nvml"}'
        wait_until(lambda: first.figures()[snapshots] > 0, lambda: "a snapshot of a node")
        checks(first, tmp_path)
        assert listening(process.pid) == [str(first.address)], "and Faust's own web server is off"
        figures = first.figures()
        assert figures["ready"] == 1
        assert figures['assigned_partitions{topic="nvml-samples"}'] == 1
        assert figures["rebalances_total"] >= 1
        assert figures["commits_total"] > 0
        assert figures["snapshot_age_seconds"] < 30
        assert figures['snapshot_bytes_total{stage="nvml"}'] > 1000
        assert figures['live_keys{stage="nvml"}'] == 1
        newest_s = max(ts for topic, *_, ts in good() if topic == SAMPLES) / 1000
        delay_s = figures['watermark_delay_seconds{topic="nvml-samples"}']
        assert delay_s == pytest.approx(time.time() - newest_s, abs=10)

        with running("stream", env=env, log=tmp_path / "second.log"):
            second = Process(tmp_path / "second.log")
            second.wait_ready()
            wait_until(
                lambda: sum(partitions(first, second)) == len(stages(Settings())),
                lambda: str(partitions(first, second)),
            )
            assert first.is_ready(), "there are fewer partitions than workers: one stands by"
            dutycycle("healthy", "--ready", str(second.address), env=env)
        first.wait_ready()
        assert counted(told()) == counted(wanted), "what was read once is not counted again"

        frozen(kafka, first)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0


def listening(pid: int) -> list[str]:
    """Where a process takes connections, by /proc: IPv4 addresses are in the host's byte order there."""
    mine = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            mine.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = []
    for version in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{version}").read_text().splitlines()[1:]]
        for address, port in (row[1].split(":") for row in rows if row[3] == "0A" and row[9] in mine):
            host = socket.inet_ntoa(bytes.fromhex(address)[::-1]) if version == "tcp" else address
            found.append(f"{host}:{int(port, 16)}")
    return found


def partitions(*workers: Process) -> list[float]:
    """How many each worker reads, of topics with one partition each."""
    found = [worker.figures() for worker in workers]
    return [sum(v for name, v in one.items() if name.startswith("assigned_partitions")) for one in found]


def counted(figures: Figures) -> Figures:
    """Without the lag, which is absent until the first answer after an assignment."""
    return {name: value for name, value in figures.items() if not name.startswith("consumer_lag")}


def frozen(kafka: RunningBroker, worker: Process) -> None:
    """A broker that stands still: not ready within a bound, healthy, and ready again."""
    if not isinstance(kafka, OwnBroker):
        return
    with kafka.frozen():
        # A rebalance that it stands still in is said after 30 s, silence after a session.
        wait_until(lambda: not worker.is_ready(), lambda: str(worker.readyz()))
        assert "the broker has not answered for" in worker.readyz()[1] or "rebalance" in worker.readyz()[1]
        assert worker.healthz()[0] == 200
    worker.wait_ready()


def checks(process: Process, folder: Path) -> None:
    page = folder / "page"
    page.write_text(process.page())
    check("metrics", page)


def test_a_collector_says_where_its_records_are(
    prometheus: Callable[[dict[str, Any]], Prometheus], tmp_path: Path
) -> None:
    with InterruptibleBroker({full_name("dutycycle.", name): 2 for name in SAMPLE_TOPICS}) as broker:
        env = environ(
            broker=broker.url, node="a", interval="100ms", spool=str(tmp_path / "spool"), kubernetes="off"
        )
        broker.set_down()
        with running("collect", env=env, log=tmp_path / "log"):
            collector = Process(tmp_path / "log")
            assert collector.healthz()[0] == 200
            wait_until(
                lambda: collector.figures().get("spool_records", 0) > 20, lambda: str(collector.figures())
            )
            figures = collector.figures()
            assert 0 < figures["spool_bytes"] < figures["spool_limit_bytes"]
            assert figures['records_sent_total{topic="cgroup-samples"}'] == 0
            assert figures['conditions{event="broker_unreachable"}'] >= 1
            status, text = collector.readyz()
            assert (status, text.split(",")[0]) == (200, "ready: the broker is unreachable")
            broker.set_up()
            wait_until(lambda: collector.figures()["spool_records"] == 0, lambda: str(collector.figures()))
            wait_until(
                lambda: collector.readyz()[1] == "ready: records go to the broker\n",
                lambda: str(collector.readyz()),
            )
            figures = collector.figures()
            assert figures["spool_bytes"] == 0
            assert figures['records_sent_total{topic="cgroup-samples"}'] > 20
            assert figures['source_up{collector="cgroup"}'] == 1
            assert figures["ticks_total"] >= figures['measures_total{collector="cgroup"}'] > 20
            assert figures['measure_seconds_total{collector="cgroup"}'] > 0
            assert 'conditions{event="broker_unreachable"}' not in figures
            checks(collector, tmp_path)
            scraping = prometheus(scrape([str(collector.address)]))
            scraping.wait_for("dutycycle_ticks_total > 20 and on() dutycycle_ready == 1")


def test_a_sink_says_that_its_database_is_away(postgres: Postgres, postgres_url: str, tmp_path: Path) -> None:
    peaks = orjson.dumps({"v": 1, "pod": {"v": 1, "uid": "u", "namespace": "d", "name": "p", "node": "a",
                          "phase": "Running"}, "first_ms": 1, "last_ms": 2, "samples": 3, "final": False,
                          "metrics": {}, "gpus": {}})  # fmt: skip
    with EmbeddedBroker(all_topics()) as broker:
        env = environ(broker=broker.url, records=postgres_url, kubernetes="off", partitions="1")
        with running("sink", env=env, log=tmp_path / "log"):
            sink = Process(tmp_path / "log")
            sink.wait_ready()
            asyncio.run(send(settings_of(env), [("pod-peaks", "u", peaks, 2), ("pod-peaks", "x", b"x", 2)]))
            wait_until(
                lambda: sink.figures()['writes_total{sink="records"}'] == 1, lambda: str(sink.figures())
            )
            figures = sink.figures()
            assert figures['records_taken_total{topic="pod-peaks"}'] == 2
            assert figures['records_used_total{topic="pod-peaks"}'] == 1
            assert figures['dead_letter_total{reason="decode",topic="pod-peaks"}'] == 1
            assert figures['sink_up{sink="records"}'] == 1
            assert figures['last_write_timestamp_seconds{sink="records"}'] == pytest.approx(
                time.time(), abs=60
            )
            postgres.stop()
            later = peaks.replace(b'"last_ms":2', b'"last_ms":3')
            asyncio.run(send(settings_of(env), [("pod-peaks", "u", later, 3)]))
            wait_until(lambda: sink.figures()['sink_up{sink="records"}'] == 0, lambda: str(sink.figures()))
            status, text = sink.readyz()
            assert status == 503
            assert text.startswith("sinks: ")
            assert sink.healthz()[0] == 200
            wait_until(
                lambda: sink.figures()['pending_writes{sink="records"}'] == 1, lambda: str(sink.figures())
            )
            postgres.start()
            sink.wait_ready()
            assert sink.figures()['writes_total{sink="records"}'] == 2
            checks(sink, tmp_path)


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    env = environ(broker="kafka://127.0.0.1:9", spool=str(tmp_path / "spool"), kubernetes="off")
    with running("stream", env=env, log=tmp_path / "log"):
        address = Process(tmp_path / "log").address
        done = run_to_end("stream", "--listen", str(address), env=env)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"dutycycle: DUTYCYCLE_LISTEN={address}: port {address.port} is taken")
        assert done.stderr.count("\n") == 1
        asked = run_to_end("healthy", "--ready", str(address), env=env)
        assert (asked.returncode, asked.stderr) == (
            1, "dutycycle: waiting for the broker at kafka://127.0.0.1:9\n",
        )  # fmt: skip
