"""Every topic that a deployment has, those that hold state too: to be made at once, or by somebody else."""

from collections.abc import Mapping
from dataclasses import dataclass

from bus.kafka.topics import CHANGELOG_CONFIG
from bus.kafka.topics_wait import wait_for_topics
from contract.settings.settings import Settings
from contract.topics import SAMPLE_TOPICS, TOPICS, full_name
from streams.app import changelog_topics
from streams.topology import stages
from telemetry.events import Telemetry

_BY_NODE = "node-parts"


@dataclass(frozen=True, slots=True)
class Planned:
    """One topic as it should be. ``alike``: it must have as many partitions as all others that are."""

    name: str
    config: Mapping[str, str]
    alike: bool


def planned(settings: Settings) -> list[Planned]:
    """All topics by their full names; those of the contract first."""
    alike = _alike(settings)
    ours = [
        Planned(full_name(settings.topic_prefix, name), topic.config(), name in alike)
        for name, topic in TOPICS.items()
    ]
    states = changelog_topics(settings, stages(settings))
    return ours + [Planned(name, CHANGELOG_CONFIG, alike=True) for name in states]


async def make_topics(settings: Settings, telemetry: Telemetry) -> dict[str, int]:
    """Create what is missing and verify what is there; the partitions of each, by full name.

    A broker that is away is waited for, and that is said. Raises ``PartitionsDifferError``, or a
    ``BrokerError``.
    """
    alike = _alike(settings)
    outputs = [name for name in TOPICS if name not in alike]
    changelogs = changelog_topics(settings, stages(settings))
    return await wait_for_topics(settings, telemetry, alike, outputs=outputs, changelogs=changelogs)


def _alike(settings: Settings) -> list[str]:
    """What the stages read, and what the sinks read of one node in one worker."""
    return list(dict.fromkeys((*SAMPLE_TOPICS, _BY_NODE, *(stage.source for stage in stages(settings)))))
