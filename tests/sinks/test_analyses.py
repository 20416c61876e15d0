"""Goal: a service whose analyses are off says at its start what it is without, or that it can do nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from dutycycle.contract.analyses import ANALYSES, MISSED_BY, NEEDED_BY
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.telemetry import events
from dutycycle.telemetry.events import Telemetry
from sinks import service as sink
from sinks.culling import service as cull
from sinks.serve.roles import ROLES
from sinks.serve.service import run as serve
from tests.support.servers.kafka.certificates import make_certificate
from tests.support.servers.kube.client import kubeconfig
from tests.support.waiting import until

Run = Callable[[Settings, Telemetry, asyncio.Event], Awaitable[None]]
SERVICES: dict[str, Run] = {
    events.SINK: sink.run,
    events.CULL: cull.run,
    **{entry.process: partial(serve, [name]) for name, entry in ROLES.items()},
}


def settings_of(folder: Path, analyses: str) -> Settings:
    make_certificate(folder, "tls", "d", "ca")
    files = {
        f"DUTYCYCLE_SERVE_{file}": str(folder / f"tls.{end}")
        for file, end in (("CERT", "crt"), ("KEY", "key"))
    }
    return load({
        "DUTYCYCLE_BROKER": "127.0.0.1:1", "DUTYCYCLE_NODE": "n", "DUTYCYCLE_ANALYSES": analyses,
        "DUTYCYCLE_CULL_NAMESPACES": "ml", "DUTYCYCLE_RECORDS": f"sqlite:///{folder}/records.db", **files,
    })  # fmt: skip


async def started(service: str, folder: Path, analyses: str) -> Telemetry:
    """After its start, in which it waits for a broker that is not there."""
    telemetry, stop = Telemetry(service), asyncio.Event()
    running = asyncio.ensure_future(SERVICES[service](settings_of(folder, analyses), telemetry, stop))
    await until(lambda: running.done() or "broker" in (telemetry.status.waiting or ""))
    stop.set()
    await running
    return telemetry


@pytest.fixture(autouse=True)
def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is known, and not asked at the start."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")))


def said(telemetry: Telemetry) -> set[str]:
    return {labels[0] for name, labels in telemetry.counts if name == "analysis_off"}


@pytest.mark.parametrize("service", [service for service in SERVICES if service not in NEEDED_BY])
async def test_what_is_missed_is_said(service: str, tmp_path: Path) -> None:
    missed = {name for name in MISSED_BY[service] if name != "cycles"}
    assert said(await started(service, tmp_path, "cycles")) == missed
    assert not said(await started(service, tmp_path, ",".join(ANALYSES)))


@pytest.mark.parametrize(
    ("service", "analyses", "enough", "says"),
    [
        (
            events.ADAPTER,
            "peaks",
            "windows,cycles,trends",
            "peaks: adapter needs windows, because .*: add windows$",
        ),
        (
            events.CULL,
            "windows,cycles",
            "cycles,trends,insights",
            "windows,cycles: cull needs insights, because .*: add trends,insights$",
        ),
    ],
)
async def test_who_could_do_nothing_is_refused(
    service: str, analyses: str, enough: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=f"^DUTYCYCLE_ANALYSES={says}"):
        await asyncio.wait_for(started(service, tmp_path, analyses), 120)
    assert not said(await started(service, tmp_path, enough))


async def test_each_role_of_a_process_says_what_it_misses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry, stop = Telemetry("serve"), asyncio.Event()
    stop.set()
    with caplog.at_level("INFO"):
        await serve(["extender", "webhook"], settings_of(tmp_path, "windows,usage"), telemetry, stop)
    lines = [line for line in caplog.messages if line.startswith("analysis_off analysis=peaks: ")]
    assert [line.split(": ")[1] for line in lines] == ["extender", "webhook"]
    with pytest.raises(SettingError, match="adapter needs windows"):
        await serve(["metrics", "autoscaler"], settings_of(tmp_path, "usage"), telemetry, stop)


def test_each_relation_is_of_analyses_and_services_that_there_are() -> None:
    assert set(NEEDED_BY) | set(MISSED_BY) == set(SERVICES)
    for service, missed in MISSED_BY.items():
        assert {*missed, *([NEEDED_BY[service][0]] if service in NEEDED_BY else [])} <= set(ANALYSES)
