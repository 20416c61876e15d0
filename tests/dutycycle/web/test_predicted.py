"""What similar pods made one expect of a job's pods, on its page beside what they asked for and used."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from sqlalchemy import create_engine, text

from dutycycle.contract.records.derived import JobPeaks, PodPeaks
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.settings.load import load
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.web.server import WebPage
from dutycycle.web.subject.predicted import PredictedPods, predicted_pods
from sinks.records.jobs import read_job
from tests.dutycycle.web.test_pages import HOSTILE, Checked, plain, served
from tests.dutycycle.web.test_pages import text as page_of
from tests.dutycycle.web.test_viewers import OneNamespace
from tests.support.sinks.made import job_peaks, peak, pod_peaks
from tests.support.sinks.recording import write_records

GIB = 1024**3
BEGAN_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
JOB = "job-now"


def ref(uid: str, name: str = "train-7") -> JobRef:
    return JobRef(api_version="batch/v1", kind="Job", name=name, uid=uid)


def ended(
    uid: str, gib: float, hours_before: float = 1, *, final: bool = True, name: str = "train-6", **pod: Any
) -> PodPeaks:
    """A pod of another job that ran for an hour, until so long before the job of the page began."""
    end_ms = BEGAN_MS - round(hours_before * HOUR_MS)
    fields = {
        "namespace": "ml", "name": uid, "job": ref(f"job-of-{uid}", name), "images": ("train:1",),
        "gpu_request": 1.0, "phase": "Succeeded", "started_ms": end_ms - HOUR_MS, "finished_ms": end_ms,
    }  # fmt: skip
    return pod_peaks(
        uid, fields | pod, first_ms=end_ms - HOUR_MS, last_ms=end_ms, final=final,
        metrics={"gpu_util_pct": peak(80.0), "cpu_util_pct": peak(900.0, p95=100 * gib),
                 "mem_used_bytes": peak(2 * gib * GIB)},
        gpus={"gpu-a/0": {"mem_used_bytes": peak(gib * GIB)}},
    )  # fmt: skip


def own(uid: str, gib: float, **pod: Any) -> PodPeaks:
    """A pod of the job of the page, which ran for two hours."""
    fields: dict[str, Any] = {"job": ref(JOB), "cpu_request": 32.0, "mem_request_bytes": 256.0 * GIB}
    return ended(uid, gib, -1, **fields | pod)


def job(**changed: Any) -> JobPeaks:
    fields = {"job": ref(JOB), "namespace": "ml", "first_ms": BEGAN_MS, "last_ms": BEGAN_MS + HOUR_MS}
    return job_peaks(JOB, final=True, **fields | changed)


def no_similar_pods() -> Iterator[PodPeaks]:
    """Pods of which nothing may follow."""
    yield ended("of-others", 70, namespace="rivals")
    yield ended("ended-later", 71, -0.5)
    yield ended("still-runs", 72, final=False)
    yield ended("trial", 73, trial_of="train")
    yield ended("of-itself", 74, job=ref(JOB))


def groups_of(url: str) -> list[PredictedPods]:
    record = read_job(url, JOB)
    assert record is not None
    return predicted_pods(url, record.row, None)[0]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/records.db"


async def test_what_similar_pods_used_is_beside_what_was_asked_for_and_used(tmp_path: Path, url: str) -> None:
    similar = [ended(f"similar-{gib}", gib, gib - 9) for gib in (10, 11, 12)]
    write_records(url, job(), own("train-7-0", 14), own("train-7-1", 13), *similar)
    async with served(LiveState(), tmp_path) as client:
        page = await page_of(client, f"job?uid={JOB}")
    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    words = plain(page)
    assert "train-7-0 and 1 more: 3 ended pods with the same job name and GPUs" in words
    for row in (
        "duration 1h00m 1h00m to 1h00m in 50% of runs 1h00m",
        "memory of one GPU 11.0 GiB 10.0 GiB to 12.0 GiB in 50% of runs 14.0 GiB",
        "GPU utilization, max 80 % 80 % to 80 % in 50% of runs 80 %",
        "CPUs, p95 11.0 10.0 to 12.0 in 50% of runs 32.0 14.0",
        "memory, max 22.0 GiB 20.0 GiB to 24.0 GiB in 50% of runs 256.0 GiB 28.0 GiB",
    ):
        assert row in words, words


async def test_without_similar_pods_nothing_is_predicted(tmp_path: Path, url: str) -> None:
    """Similar is nothing of another namespace, that had not ended, was a trial, or is of the job itself."""
    write_records(url, job(), own("train-7-0", 14), *no_similar_pods())
    async with served(LiveState(), tmp_path) as client:
        words = plain(await page_of(client, f"job?uid={JOB}"))
    assert "train-7-0 and 1 more" not in words
    assert "train-7-0 : not known, as no pod like it had ended" in words
    assert "memory of one GPU · 14.0 GiB" in words
    assert "memory, max · 256.0 GiB 28.0 GiB" in words


def test_one_like_it_is_a_prediction_and_no_range(url: str) -> None:
    write_records(url, job(), own("train-7-0", 14), ended("similar", 10), *no_similar_pods())
    group = next(group for group in groups_of(url) if group.names == ["train-7-0"])
    assert group.prediction is not None
    assert (group.prediction.pods, group.prediction.middle("gpu_mem_bytes")) == (1, 10 * GIB)
    assert {row["range"] for row in group.rows()} == {None}


async def test_who_sees_one_namespace_reads_pods_of_this_one_alone(url: str) -> None:
    """Also where somebody has given his pod the uid of a job of another namespace."""
    write_records(
        url, job(), own("train-7-0", 14), own("forged", 60, namespace="rivals"), ended("similar", 10),
        *no_similar_pods(),
    )  # fmt: skip
    page = WebPage(Source(LiveState(), "t", "p", list), load({}, {"records": url, "web": "127.0.0.1:0"}))
    page.gate = OneNamespace()  # type: ignore[assignment]
    async with page.serving() as address, ClientSession(address) as client:
        words = plain(await page_of(client, f"job?uid={JOB}"))
    assert "1 ended pod with the same job name and GPUs" in words
    assert "10.0 GiB" in words
    for secret in ("forged", "rivals", "70.0 GiB", "60.0 GiB"):
        assert secret not in words


def test_pods_that_ask_for_something_else_stand_by_themselves(url: str) -> None:
    write_records(url, job(), own("worker-0", 14), own("worker-1", 15), own("a-master", 3, cpu_request=2.0))
    assert sorted(group.names for group in groups_of(url)) == [["a-master"], ["worker-0", "worker-1"]]


async def test_hostile_names_are_text(tmp_path: Path, url: str) -> None:
    label: dict[str, Any] = {"labels": {HOSTILE[:60]: HOSTILE}, "images": (HOSTILE,), "namespace": HOSTILE}
    write_records(url, job(namespace=HOSTILE), own(HOSTILE, 14, **label), ended("similar", 10, **label))
    async with served(LiveState(), tmp_path) as client:
        page = await page_of(client, f"job?uid={JOB}")
    parser: HTMLParser = Checked()
    parser.feed(page)
    assert "<script>alert" not in page
    assert f"{HOSTILE} : 1 ended pod with the same job name" in plain(page)


async def test_a_record_that_cannot_be_read_is_left_out_and_counted(tmp_path: Path, url: str) -> None:
    write_records(url, job(), own("train-7-0", 14), ended("similar", 10), ended("broken", 90, 2))
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE pod_peaks SET record = '{}' WHERE name = 'broken'"))
    engine.dispose()
    async with served(LiveState(), tmp_path) as client:
        words = plain(await page_of(client, f"job?uid={JOB}"))
    assert "this Dutycycle cannot read, and leaves out: 1" in words
    assert "train-7-0 : 1 ended pod with the same job name" in words
