"""``dutycycle profile --pod``: what a profile says reaches those who look at the pod and at its job."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from dutycycle.cli.main import main
from dutycycle.contract.codec import decode
from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.traces.extract import read_all
from tests.support.data.profiled import waits_for_data, write_export, write_trace
from tests.support.kafka import send

JOB = JobRef(api_version="batch/v1", kind="Job", name="bert", uid="j")
FIRST, NEWEST, ALONE = (
    Pod(uid=uid, namespace="ml", name=name, node="a", phase="Running", started_ms=started_ms, job=job)
    for uid, name, started_ms, job in (("p1", "b-0", 5, JOB), ("p2", "b-0", 9, JOB), ("q", "x", 1, None))
)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({f"dutycycle.{name}": 3 for name in (*SAMPLE_TOPICS, "profiles")}) as one:
        yield one


@pytest.fixture
def flags(broker: EmbeddedBroker) -> tuple[str, ...]:
    """For a broker that knows the pods."""
    pods = [("pods", pod.uid, pod) for pod in (FIRST, NEWEST, ALONE)]
    asyncio.run(send(settings_of(broker), [*pods, ("pods", "bad", b"no pod")], 1))
    return "--broker", broker.url


def settings_of(broker: EmbeddedBroker) -> Settings:
    return load({"DUTYCYCLE_BROKER": broker.url})


def on_topic(broker: EmbeddedBroker) -> dict[str, ProfileVerdict]:
    """By key."""
    found = asyncio.run(read_all(settings_of(broker), "profiles", 20))
    return {one.key or "": decode(ProfileVerdict, one.value or b"", "profiles") for one in found}


def test_it_is_published_for_the_newest_pod_of_the_name_and_for_its_job(
    broker: EmbeddedBroker, flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = write_export(waits_for_data(), tmp_path / "report1.sqlite")
    assert main(["profile", str(export), "--pod", "ml/b-0", *flags]) == 0
    out, err = capsys.readouterr()
    assert ("held back by: input (98% sure)" in out, err) == (True, "published for pod ml/b-0 of job bert\n")
    assert main(["profile", str(export), "--pod", "x", "--format", "json", *flags]) == 0
    found = on_topic(broker)
    assert found.keys() == {"p2", "j", "q"}
    assert [found[key].subject.key for key in ("p2", "j", "q")] == ["pod/p2", "job/j", "pod/q"]
    assert {one.source for one in found.values()} == {"report1.sqlite"}
    assert (found["j"].pod, found["j"].bottleneck) == (NEWEST, "input")
    printed = orjson.loads(capsys.readouterr().out)
    assert dict(found["q"].evidence) == printed["evidence"]


def test_what_cannot_be_published_is_one_line(
    broker: EmbeddedBroker, flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = write_export(waits_for_data(), tmp_path / "report1.sqlite")
    cut = write_trace(waits_for_data(), tmp_path / "rank0.pt.trace.json")
    cut.write_bytes(cut.read_bytes()[:-200])

    def error(file: Path, *arguments: str) -> tuple[int, str]:
        status = main(["profile", str(file), *arguments])
        return status, capsys.readouterr().err.splitlines()[-1]

    assert error(export, "--pod", "x") == (
        2, "dutycycle: --pod needs a broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER",
    )  # fmt: skip
    there = f"in the topic dutycycle.pods on {broker.url}; there are pods: ml/b-0, ml/x"
    assert error(export, "--pod", "bert-1", *flags) == (
        1,
        f"dutycycle: no pod 'bert-1' {there}",
    )  # fmt: skip
    assert error(cut, "--pod", "x", *flags) == (
        1, "dutycycle: nothing is published for pod x: no verdict, since the file is cut off",
    )  # fmt: skip
    assert error(Path("none"), "--pod", "x", "--broker", "kafka://127.0.0.1:9") == (
        1, "dutycycle: none: No such file or directory",
    )  # fmt: skip
    away = error(export, "--pod", "x", "--broker", "kafka://127.0.0.1:9", "--timeout", "500ms")
    assert (away[0], "kafka://127.0.0.1:9" in away[1]) == (1, True)
    assert on_topic(broker) == {}
