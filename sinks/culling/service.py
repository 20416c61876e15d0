"""Runs ``dutycycle cull``: reads what each pod does, and stops what is idle."""

import asyncio
from typing import Any

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.reachability import StoppedError, run_until, wait_for_topics
from dutycycle.kafka.tasks import together
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import connect
from dutycycle.telemetry.events import CULL, Telemetry
from dutycycle.view.follower import Subscription, TopicFollower
from sinks.analyses import check_analyses
from sinks.culling.culler import Culler, CullPolicy
from sinks.culling.ledger import CullLedger
from sinks.culling.verdicts import FRESH_MS, IdlePods
from sinks.events import CULL_FAILED

TOPIC = "pod-insights"


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event, round_s: float = 60.0) -> None:
    """Look every ``round_s`` until ``stop`` is set. Raises ``SettingError`` without namespaces, insights or
    an API server."""
    if not settings.cull_namespaces:
        raise SettingError("DUTYCYCLE_CULL_NAMESPACES: name the namespaces whose idle workloads are stopped")
    check_analyses(CULL, settings, telemetry)
    server = await connect("on", asked_by="dutycycle cull", user_agent="dutycycle-cull")
    assert server is not None  # noqa: S101 - "on" finds one, or raises
    policy = CullPolicy(
        settings.cull_namespaces, round(settings.cull_after * 1000), round(settings.cull_notice * 1000),
        settings.cull_daily, settings.cull_dry_run == "on", settings.annotation_prefix,
    )  # fmt: skip
    idle, ledger = IdlePods(), CullLedger(server, server.namespace, settings.cull_ledger)
    by = f"dutycycle cull (after {settings.cull_after / 3600:g} h)"
    culler = Culler(idle, server, ledger, policy, telemetry, by=by)

    def take(_topic: str, _key: str, record: Any) -> None:
        if record is not None:
            idle.take(record)

    follower = TopicFollower(
        settings, telemetry, f"dutycycle-{CULL}", [Subscription({TOPIC: FRESH_MS / 1000}, take)]
    )

    async def look() -> None:
        await follower.wait_until_read((TOPIC,))
        while True:
            try:
                await culler.round()
            except KubeError as error:  # the ledger cannot be read or written: then nothing is stopped
                telemetry.emit(CULL_FAILED, f"ConfigMap {server.namespace}/{settings.cull_ledger}: {error}")
            await asyncio.sleep(round_s)

    status = telemetry.status
    status.ready["topics"] = lambda: follower.readiness_error((TOPIC,))
    status.waiting = f"waiting for the broker at {settings.broker}"
    try:
        await run_until(stop, wait_for_topics(settings, telemetry, (), outputs=(TOPIC,)))
        status.waiting = None
        await run_until(stop, together(follower.run(), look()))
    except StoppedError:
        return
    finally:
        await server.close()
