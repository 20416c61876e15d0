"""What is collected of a run, and what is made of it at the end."""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dutycycle.contract.codec import encode
from dutycycle.contract.records.derived import Cycle, CycleMetric, OtherCycle, pod_subject
from dutycycle.contract.records.processes import Loop, Process, ProcessSample
from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kube.objects import ApiServer
from dutycycle.submit.objects import CannotRunError
from dutycycle.submit.records import Records
from dutycycle.submit.run import JobRun, RunOptions, Signals, past_run_s, write_report_of
from dutycycle.submit.view import JobStatusLine, status_of
from sinks.records.writer import RecordsWriter
from tests.support.data.traces import read_trace
from tests.support.kafka import all_topics, send
from tests.support.kube.statuses import ended, pod
from tests.support.kube.watched_job import Watched
from tests.support.sinks import made


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(all_topics()) as one:
        yield one


def cycle(uid: str, period_s: float | None, *others: float) -> tuple[str, str, Cycle]:
    found = CycleMetric(
        cyclic=period_s is not None, period_s=period_s,
        others=tuple(OtherCycle(period_s=one, confidence=1) for one in others) or None,
    )  # fmt: skip
    subject = pod_subject("gpu-a", uid)
    one = Cycle(subject=subject, source="nvml", ts_ms=1, metrics={"gpu_util_pct": found})
    return "cycles", f"{subject.key}/nvml", one


async def test_the_records_of_the_pods_and_of_their_nodes_are_kept(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = load({"DUTYCYCLE_BROKER": broker.url})
    await send(settings, [("nvml-samples", "gpu-a", made.sample(ts_ms=1))])  # before the run
    pods: dict[str, Any] = {}
    records = Records(settings, tmp_path / "t.jsonl.zst", lambda: pods)
    await records.start()
    mine, other = made.pod("mine"), made.pod("other")
    await send(settings, [("pods", "mine", mine), ("pods", "other", other)])
    pods["mine"] = {"spec": {"nodeName": "gpu-a"}}  # the API server says so after the collector did
    await send(settings, [
        ("nvml-samples", "gpu-a", made.sample(ts_ms=2)),
        ("nvml-samples", "gpu-b", replace(made.sample(ts_ms=2), node="gpu-b")),
        cycle("mine", 60, 2.5, 10), cycle("other", 7), cycle("mine", 60, 2.5),
        ("profiles", "mine", made.profile("gpu", of=mine)),
        ("profiles", "other", made.profile("gpu", of=other)),
        ("pods", "mine", replace(mine, phase="Succeeded")),
    ])  # fmt: skip
    begun = time.monotonic()
    await records.stop(60)
    assert time.monotonic() - begun < 30, "the end of the pod was read"
    found = [(one.topic, one.key) for one in read_trace(str(tmp_path / "t.jsonl.zst"))]
    assert sorted(found) == [
        ("dutycycle.nvml-samples", "gpu-a"), ("dutycycle.pods", "mine"), ("dutycycle.pods", "mine"),
        ("dutycycle.profiles", "mine"),
    ]  # fmt: skip
    assert (records.samples, records.periods_s) == (1, {"mine": 2.5})


async def test_the_steps_that_a_training_reports_count_more_than_its_cycle(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    def told(uid: str, steps: int) -> Process:
        loop = Loop(loop="pytorch", steps=steps, seconds=3.0)
        return Process(pid=7, pod_uid=uid, loop=loop)

    pods = {"mine": {"spec": {"nodeName": "gpu-a"}}}
    settings = load({"DUTYCYCLE_BROKER": broker.url})
    records = Records(settings, tmp_path / "t.jsonl.zst", lambda: pods)
    await records.start()
    head = {"node": "gpu-a", "collector": "c", "seq": 1, "ts_ms": 2, "interval_ms": 1000}
    sample = ProcessSample(**head, processes=(told("mine", 4), told("other", 9)))  # type: ignore[arg-type]
    ended = replace(made.pod("mine"), phase="Succeeded")
    await send(settings, [("processes", "gpu-a", sample), cycle("mine", 12), ("pods", "mine", ended)])
    await records.stop(60)
    assert records.periods_s == {"mine": 0.75}


async def test_without_topics_of_samples_nothing_begins(tmp_path: Path) -> None:
    with EmbeddedBroker({"dutycycle.pods": 1}) as broker:
        settings = load({"DUTYCYCLE_BROKER": broker.url})
        with pytest.raises(CannotRunError, match=r"^no topic dutycycle\.nvml-samples on kafka://.*collector"):
            await Records(settings, tmp_path / "t", dict).start()


async def test_without_a_broker_nothing_begins(tmp_path: Path) -> None:
    settings = load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"})
    with pytest.raises(CannotRunError, match=r"no broker answered within 0\.5 s at DUTYCYCLE_BROKER=kafka"):
        await Records(settings, tmp_path / "t", dict, patience_s=0.5).start()


def test_how_it_goes_on_one_line() -> None:
    watched = Watched("Job")
    assert status_of(watched.follower, 3, None, (), 600) == "3s: no pod yet"
    watched.has("Job", pod("Running", state={"running": {}}, name="a"))
    watched.has("Job", pod("Running", state={"running": {}}, name="b"))
    watched.has("Job", pod("Failed", state=ended(1), name="c"))
    assert status_of(watched.follower, 90, 60, (2.0, 2.5, 2.5), 600) == (
        "1m30s: 2 running, 1 failed; 24.0 steps a minute; 10 % of its last run (10m)"
    )


def test_the_last_run_is_that_of_the_same_kind_and_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    base = made.job_peaks("uid-0", final=True)
    job = replace(base.job, name="x")
    with RecordsWriter(url) as writer:
        for record in (
            replace(base, job=replace(job, uid="a"), namespace="n", first_ms=0, last_ms=60_000),
            replace(base, job=replace(job, uid="b"), namespace="n", first_ms=70_000, last_ms=190_000),
            replace(base, job=replace(job, uid="c"), namespace="other", first_ms=0, last_ms=900_000),
            replace(base, job=replace(job, uid="d", kind="MPIJob"), namespace="n", last_ms=900_000),
            replace(base, job=replace(job, uid="uid-Job"), namespace="n", first_ms=900_000, last_ms=900_001),
            replace(base, job=replace(job, uid="e"), namespace="n", final=False, last_ms=999_000),
        ):
            writer.write("job-peaks", encode(record))
    assert past_run_s(url, Watched("Job").follower.entries) == 120
    assert past_run_s(url, Watched("Pod").follower.entries) is None


def test_a_report_that_cannot_be_written_is_said_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load({})
    write_report_of(tmp_path, settings, [])
    assert "dutycycle: no report: " in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "dutycycle.report.build", None)
    write_report_of(tmp_path, settings, [])
    assert "pip install 'dutycycle'" in capsys.readouterr().err


async def test_a_signal_is_heard_while_the_broker_is_waited_for(tmp_path: Path) -> None:
    """The broker has fifteen seconds, and what is said then is not that a signal came."""
    settings, signals = load({"DUTYCYCLE_BROKER": "127.0.0.1:9"}), Signals()
    run = JobRun(RunOptions(files=()), settings, tmp_path, JobStatusLine())
    asyncio.get_running_loop().call_later(0.1, signals.stop.set)
    outcome = await run.on(cast("ApiServer", None), signals, [])
    assert (outcome.status, outcome.words) == (128 + signal.SIGTERM, "ended by SIGTERM")
