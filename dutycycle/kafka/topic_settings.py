"""Judges what a topic's settings do to Dutycycle: they are read from the broker, compared with what is
needed, mended.

Somebody else may have made a topic, or changed it. A record that compaction takes away before it was read is
lost, and a state that is deleted after an hour gives wrong figures: workers do not start on such a topic.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import BATCH_BYTES, admin_client, check_code, topic_resource, translated
from dutycycle.kafka.errors import BrokerRefusedError

_HOUR_MS = 3_600_000
_APPLIED_S, _LOOK_S = 10.0, 0.1
_SET_ON_TOPIC = 1
"""Kafka's number for a setting that somebody gave the topic, and that is no default of the broker."""


class TopicUse(StrEnum):
    """Says what a process does with a topic, which decides what of its settings harms."""

    SOURCE = "source"
    """It is read from the first record to the last."""
    CHANGELOG = "changelog"
    """It keeps the newest state of each key for good."""
    OUTPUT = "output"
    """It is written for others."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """Holds a topic as it lies on the broker."""

    replication: int
    """The fewest replicas of its partitions."""
    settings: Mapping[str, str]
    """Every setting with its value, as Kafka names them, the broker's defaults among them."""
    set_on_topic: Mapping[str, str]
    """Those that somebody gave this topic."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Describes a setting of a topic that does not fit. ``wanted`` None: no value of it mends this."""

    topic: str
    setting: str
    actual: str
    wanted: str | None
    harm: str
    forbids_start: bool = False
    """Whether a worker would lose records or falsify figures, and so must not start."""

    def describe(self, bootstrap: str) -> str:
        """Return one line: the topic, what it has, what that does, and the command that mends it."""
        wanted = "" if self.wanted is None else f" and should have {self.wanted}"
        line = f"{self.topic} has {self.setting}={self.actual}{wanted}: {self.harm}"
        if self.wanted is None:
            return line
        return (
            f"{line}; kafka-configs.sh --bootstrap-server {bootstrap} --alter --topic {self.topic} "
            f"--add-config {self.setting}={self.wanted}, or dutycycle topics --apply"
        )


class TopicSettingsError(DutycycleError):
    """Says which of a topic's settings would lose records or falsify figures."""


def compare_settings(
    name: str, use: TopicUse, wanted: Mapping[str, str], topic: TopicDescription, replication: int = 1
) -> list[Difference]:
    """Return what of a topic's settings does not fit; those that forbid a start come first.

    ``wanted``: the settings that Dutycycle gives the topic when it makes it. ``replication``: the replicas
    that it should have at least.
    """
    differences = []
    policy, should_be = topic.settings.get("cleanup.policy", ""), wanted["cleanup.policy"]
    policies = {part.strip() for part in policy.split(",") if part.strip()}
    if policies and policies != {should_be}:
        if should_be == "delete":
            harm = "compaction takes away records that were not read yet"
            forbids = use is TopicUse.SOURCE
        elif use is TopicUse.CHANGELOG:
            harm = "the state of what is still running is deleted, and the figures after a restart are wrong"
            forbids = True
        else:
            harm = "the newest record of a key is deleted, and whoever starts later does not know it"
            forbids = False
        differences.append(Difference(name, "cleanup.policy", policy, should_be, harm, forbids))
    differences += _compare_limits(name, use, wanted, topic.settings)
    in_sync, has = int(topic.settings.get("min.insync.replicas", "1")), topic.replication
    setting = "min.insync.replicas"
    if in_sync > has:
        harm = f"it has {has} replicas, so that no record is ever acknowledged"
        differences.append(Difference(name, setting, str(in_sync), str(has), harm, forbids_start=True))
    elif has > 2 and in_sync < 2:  # with two, one may be away
        harm = "an acknowledged record is lost with one broker"
        differences.append(Difference(name, setting, str(in_sync), "2", harm))
    if has < replication:
        harm = (
            f"DUTYCYCLE_REPLICATION={replication} is for topics that are created; "
            "kafka-reassign-partitions.sh adds replicas"
        )
        differences.append(Difference(name, "replicas", str(has), None, harm))
    return sorted(differences, key=lambda difference: not difference.forbids_start)


def _compare_limits(
    name: str, use: TopicUse, wanted: Mapping[str, str], actual: Mapping[str, str]
) -> Iterator[Difference]:
    """Yield what does not fit of sizes and times."""
    most = actual.get("max.message.bytes")
    needed = wanted["max.message.bytes"]
    if most is not None and int(most) < int(needed):
        harm = "a record that is larger is refused"
        # A collector leaves out a record that is too large and goes on; a worker cannot.
        yield Difference(name, "max.message.bytes", most, needed, harm, use is not TopicUse.SOURCE)
    segment, small = actual.get("segment.bytes"), wanted.get("segment.bytes")
    if segment is not None and small is not None and int(segment) > int(small):
        harm = "whoever starts reads so much of each partition: compaction leaves out the newest segment"
        yield Difference(name, "segment.bytes", segment, small, harm)
    kept, should_keep = actual.get("retention.ms"), wanted.get("retention.ms")
    if kept is not None and should_keep is not None and 0 <= int(kept) < int(should_keep):
        harm = f"records are gone after {int(kept) / _HOUR_MS:g} h, read or not"
        yield Difference(name, "retention.ms", kept, should_keep, harm)
    size = actual.get("retention.bytes", "-1")
    if should_keep is not None and size != "-1":
        harm = "the oldest records of a partition are gone when it is larger, read or not"
        yield Difference(name, "retention.bytes", size, "-1", harm)
    for setting in ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms"):
        most = actual.get(setting)
        default = str(2**63 - 1)
        is_event_time = actual.get("message.timestamp.type", "CreateTime") == "CreateTime"
        if use is not TopicUse.CHANGELOG and is_event_time and most is not None and most != default:
            where = "ahead of" if "after" in setting else "behind"
            harm = f"records of a clock that is further {where} the broker's are refused"
            yield Difference(name, setting, most, default, harm)
    for setting in ("message.timestamp.type", "min.compaction.lag.ms"):
        if use is TopicUse.CHANGELOG and setting in actual and actual[setting] != wanted[setting]:
            harm = "what a worker that was replaced writes too late may not be noticed"
            yield Difference(name, setting, actual[setting], wanted[setting], harm)


async def describe_topics(admin: Any, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Return what each topic has. Raises ``BrokerError`` where the user may not ask, or the broker cannot
    say."""
    resources = [topic_resource(name) for name in names]
    with translated("reading the settings of topics"):
        # All topics are asked for: a broker may create what it is asked for by name.
        partitions = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
        answers = await admin.describe_configs(resources) if resources else []
    topics: dict[str, TopicDescription] = {}
    for answer in answers:
        for code, _, _, name, entries in answer.resources:
            check_code(code, f"reading the settings of {name} (it takes the right DescribeConfigs)")
            replicas = [len(partition["replicas"]) for partition in partitions.get(name, [])]
            topics[name] = TopicDescription(
                replication=min(replicas, default=1),
                settings={entry[0]: entry[1] for entry in entries if entry[1] is not None},
                set_on_topic={
                    entry[0]: entry[1]
                    for entry in entries
                    if entry[1] is not None and entry[3] == _SET_ON_TOPIC
                },
            )
    return topics


async def apply_settings(
    admin: Any, topics: Mapping[str, TopicDescription], differences: Iterable[Difference]
) -> None:
    """Give each topic the settings that it should have, and keep what else was given it.

    Returns when the broker says that they hold, which on a busy one is some time after it took them; after
    ten seconds at most. Raises ``BrokerError`` naming the topic: the user may not alter it, or the broker
    refuses a value.
    """
    changes: dict[str, dict[str, str]] = {}
    for difference in differences:
        if difference.wanted is not None:
            changes.setdefault(difference.topic, {})[difference.setting] = difference.wanted
    for name, values in changes.items():
        # Kafka's request replaces all settings of a topic: those that it has go with it.
        settings = {**topics[name].set_on_topic, **values}
        with translated(f"changing the settings of {name}"):
            answers = await admin.alter_configs([topic_resource(name, settings)])
        for answer in answers:
            for code, detail, *_ in answer.resources:
                check_code(code, f"changing the settings of {name}{f' ({detail})' if detail else ''}")
    end_s = asyncio.get_running_loop().time() + _APPLIED_S
    while changes and asyncio.get_running_loop().time() < end_s:
        topics = await describe_topics(admin, changes)
        changes = {
            name: values
            for name, values in changes.items()
            if not values.items() <= topics[name].settings.items()
        }
        if changes:
            await asyncio.sleep(_LOOK_S)


async def verify_settings(
    admin: Any, bootstrap: str, wanted: Mapping[str, tuple[TopicUse, dict[str, str]]]
) -> None:
    """Raise ``TopicSettingsError`` if a topic would lose records or falsify figures.

    ``wanted``: of each topic its use and the settings that it should have. A broker that does not say its
    topics' settings, as it knows no such request or the user may not ask, is taken as it is.
    """
    try:
        topics = await describe_topics(admin, wanted)
    except BrokerRefusedError:
        return
    harmful = [
        difference.describe(bootstrap)
        for name, topic in topics.items()
        for difference in compare_settings(name, *wanted[name], topic)
        if difference.forbids_start
    ]
    if harmful:
        raise TopicSettingsError("\n".join(harmful))


async def read_batch_bytes(settings: Settings, names: Iterable[str]) -> int:
    """Tell how large a batch may be that is sent to any of these topics (full names): ``BATCH_BYTES`` at
    most.

    Kafka refuses a whole batch that is larger than the topic's ``max.message.bytes``, although each record
    in it would fit. A broker that does not say it takes that. Raises ``BrokerUnreachableError``.
    """
    try:
        async with admin_client(settings, "admin") as admin:
            topics = await describe_topics(admin, names)
    except BrokerRefusedError:
        return BATCH_BYTES
    limits = (int(topic.settings.get("max.message.bytes", BATCH_BYTES)) for topic in topics.values())
    return min((BATCH_BYTES, *limits))
