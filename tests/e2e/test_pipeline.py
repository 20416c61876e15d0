"""The whole pipeline as its processes run in a cluster: collector, stream, sink, real Kafka, PostgreSQL."""

import itertools
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from dutycycle.contract.codec import encode
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.errors import MissingTopicError
from sinks.records.query import pod_peaks
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.one_used import used_in_steps
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, read_now, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

ORDERS = [
    pytest.param(("collect", "sink", "stream"), id="collector first"),
    pytest.param(("sink", "stream", "collect"), id="sink first", marks=pytest.mark.soak),
]
DERIVED = ("window-aggregates", "trends", "cycles", "pod-peaks")


def environment(url: str, prefix: str, records: str, folder: Path, pid: int) -> dict[str, str]:
    """Settings of all three processes; the node has one GPU, which ``pid`` uses in steps of 4 s."""
    return environ(
        broker=url, topic_prefix=prefix, records=records, node="gpu-a", interval="0.25s", containers="all",
        kubernetes="off", partitions="3", snapshot_interval="1s", spool=str(folder / "spool"),
    ) | driver(used_in_steps(pid).write(folder / "scenario"))  # fmt: skip


def lies_on(settings: Settings, topic: str) -> bool:
    """Whether there is a record; there may not even be the topic yet."""
    try:
        return bool(read_now(settings, [topic]))
    except MissingTopicError:
        return False


@pytest.mark.parametrize("order", ORDERS)
def test_from_samples_to_records(
    order: tuple[str, ...], kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path
) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    env = environment(kafka.url, topic_prefix, postgres_url, tmp_path, child.pid)
    settings = settings_of(env)
    try:
        with ExitStack() as stack:
            for command in order:
                stack.enter_context(running(command, env=env, log=tmp_path / f"{command}.log"))

            def found_cycle() -> bool:
                cycles = itertools.chain.from_iterable(read_now(settings, ["cycles"]).values())
                found = [cycle for one in cycles for cycle in orjson.loads(one)["metrics"].values()]
                return any(c["cyclic"] and abs(c["period_s"] - 4) < 0.2 for c in found)

            wait_until(lambda: all(lies_on(settings, topic) for topic in DERIVED), lambda: str(DERIVED))
            wait_until(found_cycle, lambda: f"a cycle of 4 s: {read_now(settings, ['cycles'])}")
            wait_until(
                lambda: any("gpu_util_pct" in one.metrics for one in pod_peaks(postgres_url)),
                lambda: f"records with GPU figures: {pod_peaks(postgres_url)}",
            )
    finally:
        child.kill()
        child.communicate()
    # Ended one after the other, sink last started first stopped: start it again and it catches up.
    newest = {key: payloads[-1] for (_, key), payloads in read_now(settings, ["pod-peaks"]).items()}
    with running("sink", env=env, log=tmp_path / "sink-again.log"):
        wait_until(
            lambda: {one.pod.uid: encode(one) for one in pod_peaks(postgres_url)} == newest,
            lambda: f"{len(newest)} records in PostgreSQL that are the last of the topic",
        )
    assert not read_now(settings, ["dead-letters"])
    ours = [one for one in pod_peaks(postgres_url) if "gpu_util_pct" in one.metrics]
    assert len(ours) == 1
    assert ours[0].metrics["gpu_util_pct"].max == 95, "alone on its GPU, a burst counts"
    assert ours[0].metrics["gpu_mem_used_bytes"].max == 19e9
    assert list(ours[0].gpus) == ["gpu-a/0"]


def test_a_stream_worker_whose_broker_is_nowhere_names_it_until_it_is_told_to_end(tmp_path: Path) -> None:
    """Collectors and sinks: test_collect.py, test_sink.py."""
    log = tmp_path / "log"
    with running("stream", env=environ(broker="kafka://127.0.0.1:9"), log=log) as process:
        wait_until(lambda: "broker_unreachable" in log.read_text(), log.read_text)
        assert "127.0.0.1:9" in log.read_text(), "the address is named"
        assert "DUTYCYCLE_BROKER" in log.read_text(), "and the setting"
        assert process.poll() is None, "it keeps trying"
