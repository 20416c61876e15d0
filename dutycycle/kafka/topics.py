"""Sees to it that topics exist before anybody starts, with the partitions that belong together, or the start
is refused.

A source topic and the changelog of the state that is kept of it must have the same number of partitions:
otherwise a worker would find no state for what it reads. Kafka itself does not mind, so it is checked here.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS, full_name
from dutycycle.kafka.clients import admin_client, check_code, is_code, new_topic, probe, translated
from dutycycle.kafka.errors import BrokerRefusedError, BrokerUnreachableError
from dutycycle.kafka.security import bootstrap_servers
from dutycycle.kafka.topic_settings import TopicUse, verify_settings

_SEEN_S = 60.0
CHANGELOG_CONFIG = {
    "cleanup.policy": "compact",
    "max.message.bytes": "1048588",
    "min.compaction.lag.ms": "1800000",
    "message.timestamp.type": "LogAppendTime",
}
"""Of the topics that hold the streams' state.

For half an hour, by the broker's own clock, compaction removes nothing: should a worker that was replaced
write an old state after the new one, there is time to notice, to recover, and to write the new one again.
"""


class PartitionsDifferError(DutycycleError):
    """Says which topics have unequal numbers of partitions that must be equal."""


async def ensure_topics(
    settings: Settings,
    names: Iterable[str],
    *,
    outputs: Iterable[str] = (),
    changelogs: Mapping[str, str] | None = None,
    alike: bool = True,
    verify: bool = True,
) -> dict[str, int]:
    """Create what is missing, verify what exists; answers with the partitions of each topic, by full name.
    Of topics that no chosen analysis writes (``DUTYCYCLE_ANALYSES``), nothing is asked.

    ``names`` (without prefix) and ``changelogs`` (full name of each: name of its source) must all have the
    same number of partitions; ``outputs`` (without prefix) are only written, and may have any. A topic that
    is created takes the number of those that exist, else ``DUTYCYCLE_PARTITIONS``.

    Whoever keeps no state need not care that numbers differ: ``alike`` false.
    Whoever keeps state (``changelogs``) does not start on topics whose settings would lose records or falsify
    figures, unless ``verify`` is false.

    Raises ``PartitionsDifferError``, ``TopicSettingsError``, or a ``BrokerError``.
    """
    source_configs = _configs(settings, names)
    alike_configs = source_configs | dict.fromkeys(changelogs or {}, CHANGELOG_CONFIG)
    wanted = alike_configs | _configs(settings, outputs)
    async with admin_client(settings, "admin") as admin:
        there = await partitions_of(admin)
        try:
            partitions = common_partitions(there, alike_configs, settings.partitions)
        except PartitionsDifferError:
            if alike:
                raise
            partitions = settings.partitions
        if missing := {name: config for name, config in wanted.items() if name not in there}:
            await _create(admin, settings, missing, partitions)
            there = await _seen(admin, list(missing))
            if alike:  # another process may have created some meanwhile
                common_partitions(there, alike_configs, partitions)
        if changelogs and verify:
            uses = dict.fromkeys(changelogs, TopicUse.CHANGELOG) | dict.fromkeys(
                source_configs, TopicUse.SOURCE
            )
            await verify_settings(
                admin,
                ",".join(bootstrap_servers(settings)),
                {name: (uses.get(name, TopicUse.OUTPUT), config) for name, config in wanted.items()},
            )
        return {name: there[name] for name in wanted}


async def topics_there(settings: Settings, names: Iterable[str]) -> list[str]:
    """Tell which of the topics ``names`` (full names) there are. Raises ``BrokerError``."""
    await probe(settings)  # it says why a broker cannot be reached, which the admin client does not
    async with admin_client(settings, "admin") as admin:
        there = await partitions_of(admin)
    return [name for name in names if name in there]


async def partitions_of(admin: Any) -> dict[str, int]:
    """Tell how many partitions each topic on the broker has."""
    # All topics are asked for: a broker may create what it is asked for by name.
    return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}


def common_partitions(there: Mapping[str, int], alike: Iterable[str], default: int) -> int:
    """Return the number that all existing topics among ``alike`` have, or ``default`` where none exists.

    Raises ``PartitionsDifferError`` naming a topic, what it has, what it should have, and what to do.
    """
    counts = {name: there[name] for name in alike if name in there}
    if not counts:
        return default
    wants_name, wants = next(iter(counts.items()))
    for name, has in counts.items():
        if has != wants:
            raise PartitionsDifferError(
                f"topic {name} has {has} partitions and {wants_name} has {wants}, but they must be equal: "
                f"delete {name if has < wants else wants_name} and start again, which creates it with "
                f"{max(has, wants)} (what is stored in it is lost), or use another DUTYCYCLE_TOPIC_PREFIX"
            )
    return wants


def _configs(settings: Settings, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what each topic should have. Those that no chosen analysis writes are left out."""
    return {
        full_name(settings.topic_prefix, name): TOPICS[name].config()
        for name in written_topics(names, settings.analyses)
    }


async def _create(
    admin: Any, settings: Settings, missing: Mapping[str, dict[str, str]], partitions: int
) -> None:
    topics = [new_topic(name, partitions, settings.replication, config) for name, config in missing.items()]
    try:
        with translated(f"creating {', '.join(missing)}"):
            if (await admin.describe_cluster())["controller_id"] < 0:
                raise BrokerUnreachableError("controller", f"{settings.broker} has no controller yet")
            answer = await admin.create_topics(topics)
    except BrokerRefusedError as error:
        if error.reason != "version":
            raise
        raise BrokerRefusedError(
            "version", f"topic {', '.join(missing)} is missing, and {settings.broker} cannot create topics"
        ) from error
    for name, code, *detail in answer.topic_errors:
        if not is_code(code, "TopicAlreadyExistsError"):
            says = f" ({detail[0]})" if detail and detail[0] else ""
            check_code(code, f"creating topic {name} with {partitions} partitions{says}")


async def _seen(admin: Any, names: list[str]) -> dict[str, int]:
    """Wait until the broker itself knows the topics: the controller answers a moment before that."""
    try:
        async with asyncio.timeout(_SEEN_S):
            while True:
                there = await partitions_of(admin)
                unseen = [name for name in names if not there.get(name)]
                if not unseen:
                    return there
                # They are there now, so that asking for them by name creates nothing.
                for topic in await admin.describe_topics(unseen):
                    if is_code(topic["error_code"], "TopicAuthorizationFailedError"):
                        check_code(topic["error_code"], f"seeing topic {topic['topic']} (Describe)")
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise BrokerUnreachableError("topic", f"{', '.join(names)}: created, but not seen") from error
