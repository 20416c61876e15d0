"""Runs ``dutycycle serve``: one process for all that answers from the topics, each topic read once."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS
from dutycycle.kafka.reachability import StoppedError, run_until, wait_for_topics
from dutycycle.kafka.tasks import together
from dutycycle.telemetry import events
from dutycycle.telemetry.events import Telemetry
from dutycycle.view.follower import TopicFollower
from sinks import events as sink_events
from sinks.analyses import check_analyses
from sinks.serve.base import Models, Role
from sinks.serve.roles import ROLES, role_class

_SWITCH_S = 0.0005
"""How long a thread that renders a scrape keeps the interpreter while an answer is due; Python's own 5 ms are
waited for several times in an answer."""


async def run(names: Sequence[str], settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Serve the roles ``names`` until ``stop`` is set. Raises ``DutycycleError`` where the start is refused:
    settings, an address, or an API server that cannot be used."""
    models: Models = {}
    roles = [role_class(name)(settings, telemetry, models) for name in names]
    follower = TopicFollower(
        settings, telemetry, f"dutycycle-{'-'.join(names)}",
        [subscription for role in roles for subscription in role.subscriptions],
    )  # fmt: skip

    def error_of(role: Role) -> Callable[[], str | None]:
        topics = {topic for subscription in role.subscriptions for topic in subscription.topics}
        return lambda: follower.readiness_error(topics) or role.readiness_error()

    status, topics = telemetry.status, list(follower.topics)
    errors = {role.name: error_of(role) for role in roles}
    status.ready |= errors
    telemetry.expect(
        events, sink_events, by=[ROLES[name].process for name in names], topic=topics,
        sink=["remote_write"] if "metrics" in names and settings.remote_write else [],
    )  # fmt: skip
    for name in names:
        check_analyses(ROLES[name].process, settings, telemetry)
    listener = None
    if any(role.serves for role in roles):
        from sinks.serve.listener import Listener  # here, not above: series need no aiohttp

        listener = Listener(settings, telemetry, roles, errors)
    if len(roles) > 1:
        sys.setswitchinterval(_SWITCH_S)
    alike = ALIKE_TOPICS if not set(ALIKE_TOPICS).isdisjoint(topics) else ()
    outputs = [
        name for name in (*topics, *(name for role in roles for name in role.outputs)) if name not in alike
    ]
    try:
        for role in roles:
            await role.open()
        status.waiting = f"waiting for the broker at {settings.broker}"
        await run_until(stop, wait_for_topics(settings, telemetry, alike, outputs=outputs))
        status.waiting = None
        work = [role.work(listener) for role in roles]
        if listener is not None:
            work.append(listener.serve())
        await run_until(stop, together(follower.run(), *work))
    except StoppedError:
        return
    finally:
        for role in roles:
            await role.close()
