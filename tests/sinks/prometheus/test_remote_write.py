"""Goal: samples arrive once the receiver is back, in order; what is dropped is counted and said."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import METRICS, Telemetry
from dutycycle.telemetry.metrics import PENDING, SINK_UP, WRITES, Labels, Metric
from sinks.events import SAMPLES_DROPPED, SINK_AWAY
from sinks.prometheus import remote_write
from sinks.prometheus.remote_write import RemoteWriter
from tests.support.fakes.remote_write_receiver import Receiver, Row
from tests.support.metrics import metric_value
from tests.support.servers.kafka.certificates import make_certificates
from tests.support.servers.ports import free_port
from tests.support.waiting import until

NUMBER = Metric("number", "A number")
MANY = Metric("many", "Numbers", ("label",))
NOW_S = 1_700_000_000


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once."""
    monkeypatch.setattr(Backoff, "next_s", lambda backoff: 0.01)


class Writing:
    """A writer whose page has the number of the collection, on top of the process's own metrics."""

    def __init__(self, url: str, **settings: str) -> None:
        given = {f"DUTYCYCLE_REMOTE_WRITE_{name}": value for name, value in settings.items()}
        self.telemetry = Telemetry(METRICS)
        self.number = 0
        self.telemetry.metrics.read(NUMBER, lambda: float(self.number))
        self.writer = RemoteWriter(
            load({"DUTYCYCLE_REMOTE_WRITE": url, "DUTYCYCLE_REMOTE_WRITE_INTERVAL": "300", **given}),
            self.telemetry,
            wall=lambda: NOW_S + self.number,
        )

    def collect(self, times: int = 1) -> None:
        """As often as the interval would."""
        for _ in range(times):
            self.number += 1
            self.writer.put(self.writer.collect())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.writer.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, is_so: Callable[[], bool]) -> None:
        await until(is_so, lambda: self.telemetry.conditions)

    def value(self, metric: Metric) -> float | None:
        return metric_value(self.telemetry, metric, sink=remote_write.NAME)


def numbers(taken: list[list[Row]]) -> list[tuple[float, int]]:
    """The number and its time, of each collection that arrived."""
    return [
        (value, ts_ms) for rows in taken for labels, value, ts_ms in rows
        if ("__name__", "dutycycle_number") in labels
    ]  # fmt: skip


def expected(*collections: int) -> list[tuple[float, int]]:
    return [(float(number), (NOW_S + number) * 1000) for number in collections]


async def test_all_that_a_scrape_reads_is_sent_with_the_time_of_now() -> None:
    receiver = Receiver()
    async with receiver.listening() as url:
        one = Writing(url, LABELS="cluster=a,__replica__=0")
        page = one.telemetry.metrics.page().decode()
        async with one.running():
            await one.until(lambda: len(receiver.taken) == 1)
    assert numbers(receiver.taken) == expected(0)
    names = {dict(labels)["__name__"] for labels, _, _ in receiver.taken[0]}
    assert names == {line.split("{")[0].split(" ")[0] for line in page.splitlines() if line[0] != "#"}
    common = {("job", "dutycycle-metrics"), ("cluster", "a"), ("__replica__", "0")}
    assert all(common <= set(labels) for labels, _, _ in receiver.taken[0])
    (headers,) = receiver.headers
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "snappy"
    assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    assert "authorization" not in headers


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_what_may_pass_is_tried_again_in_order(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    receiver = Receiver()
    receiver.answers = [(status, "too busy", {})] * 3
    async with receiver.listening() as url:
        one = Writing(url)
        one.collect(2)
        async with one.running():
            await one.until(lambda: len(receiver.taken) == 3 and one.value(PENDING) == 0)
    assert numbers(receiver.taken)[:2] == expected(1, 2)
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if f"answers HTTP {status}: too busy; trying again" in line] == said[:1]
    assert one.telemetry.count(SINK_AWAY) == 1
    assert one.telemetry.conditions == {}
    assert one.telemetry.count(SAMPLES_DROPPED) == 0
    assert one.value(WRITES) == sum(map(len, receiver.taken))


async def test_the_receiver_says_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, pauses = Receiver(), []
    really = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await really(min(seconds, 0.005))

    receiver.answers = [(429, "", {"Retry-After": "7"}), (503, "", {"Retry-After": "a while"})]
    async with receiver.listening() as url:
        one = Writing(url)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        async with one.running():
            await one.until(lambda: len(receiver.taken) > 0)
    assert 7 in pauses
    assert 0.01 in pauses


@pytest.mark.parametrize(
    ("status", "hint"), [(400, ""), (401, "_TOKEN(_FILE)"), (404, "is the whole URL"), (302, "")]
)
async def test_what_is_refused_is_dropped_counted_and_said(
    status: int, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    receiver.answers = [(status, "out of\norder sample", {})]
    async with receiver.listening() as url:
        one = Writing(url.replace("//", "//user:hunter2@"))
        one.collect(2)
        async with one.running():
            await one.until(lambda: len(receiver.taken) == 2 and one.value(PENDING) == 0)
    assert numbers(receiver.taken)[0] == expected(2)[0]
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"HTTP {status}" in said
    assert "out of order sample" in said
    assert hint in said
    assert "hunter2" not in caplog.text
    dropped = one.telemetry.counts[SAMPLES_DROPPED.name, ("refused",)]
    assert dropped == len(receiver.taken[0])


async def test_headers_are_sent_as_they_are_now_and_asked_for_where_a_tenant_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "headers"
    file.write_text("X-Scope-OrgID: team-a\n")
    receiver = Receiver()
    receiver.answers = [(401, "no org id", {})]
    async with receiver.listening() as url:
        one = Writing(url, HEADERS_FILE=str(file))
        async with one.running():
            await one.until(lambda: bool(caplog.records))
            file.write_text("X-Scope-OrgID: team-b")
            one.collect()
            await one.until(lambda: len(receiver.taken) == 1)
    assert "give DUTYCYCLE_REMOTE_WRITE_HEADERS='X-Scope-OrgID: <tenant>'" in caplog.text
    assert [headers["x-scope-orgid"] for headers in receiver.headers] == ["team-a", "team-b"]


async def test_a_receiver_that_is_not_there_is_waited_for_within_the_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver, port = Receiver(), free_port()
    one = Writing(f"http://user:hunter2@127.0.0.1:{port}/api/v1/write", BYTES="1MB")
    chance = random.Random(1)  # noqa: S311 - hard to compress
    many: dict[Labels, float] = {(chance.randbytes(32).hex(),): 1.0 for _ in range(1900)}
    one.telemetry.metrics.read(MANY, lambda: many)
    async with one.running():
        await one.until(lambda: one.value(SINK_UP) == 0)
        readiness = str(one.telemetry.status.ready[remote_write.NAME]())
        one.collect(30)
        dropped = one.telemetry.counts[SAMPLES_DROPPED.name, ("full",)]
        kept = one.writer.pending
        assert 20 * len(many) < dropped < 29 * len(many), "the limit is about six of them"
        async with receiver.listening(port):
            await one.until(lambda: one.value(PENDING) == 0)
    assert sum(map(len, receiver.taken)) == kept
    arrived = numbers(receiver.taken)
    assert arrived[0] == expected(0)[0], "the one on its way was kept"
    assert arrived[1:] == expected(*range(32 - len(arrived), 31)), "and of the others the newest"
    assert one.value(SINK_UP) == 1
    assert "does not answer" in readiness
    assert "DUTYCYCLE_REMOTE_WRITE_BYTES are full" in caplog.text
    assert "hunter2" not in caplog.text + readiness


@pytest.mark.parametrize(
    ("kind", "headers"), [("TOKEN", ["Bearer a", "Bearer b"]), ("PASSWORD", ["Basic dTph", "Basic dTpi"])]
)
async def test_credentials_are_those_of_the_file_now(kind: str, headers: list[str], tmp_path: Path) -> None:
    receiver, file = Receiver(), tmp_path / "secret"
    file.write_text("a\n")
    user = {"USERNAME": "u"} if kind == "PASSWORD" else {}
    async with receiver.listening() as url:
        one = Writing(url, **{f"{kind}_FILE": str(file)}, **user)
        async with one.running():
            await one.until(lambda: len(receiver.taken) == 1)
            file.write_text("b\n")
            one.collect()
            await one.until(lambda: len(receiver.taken) == 2)
    assert [found["authorization"] for found in receiver.headers] == headers


async def test_credentials_of_the_url_are_sent_and_others_win() -> None:
    receiver = Receiver()
    async with receiver.listening() as url:
        for number, given in enumerate([{}, {"TOKEN": "t"}], start=1):
            one = Writing(url.replace("//", "//u:a@"), **given)
            async with one.running():
                await one.until(lambda number=number: len(receiver.taken) == number)  # type: ignore[misc]
    assert [found["authorization"] for found in receiver.headers] == ["Basic dTph", "Bearer t"]


async def test_tls_is_of_an_authority_that_is_known(tmp_path: Path) -> None:
    made, receiver = make_certificates(tmp_path), Receiver()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.server)
    async with receiver.listening(tls=tls) as url:
        stranger = Writing(url)
        async with stranger.running():
            await stranger.until(lambda: stranger.value(SINK_UP) == 0)
        assert "DUTYCYCLE_REMOTE_WRITE_CA is the file" in "".join(stranger.telemetry.conditions.values())
        one = Writing(url, CA=str(made.authority))
        async with one.running():
            await one.until(lambda: len(receiver.taken) == 1)
