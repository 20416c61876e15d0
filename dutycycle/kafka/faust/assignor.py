"""Decides which worker reads which partitions: by ranges, and none before all topics are known."""

from collections import Counter
from typing import Any

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from faust.assignor import PartitionAssignor
from faust.transport.drivers import aiokafka as driver

# Faust gives an app without tables round robin, whatever assignor it asks for. By ranges, partition i of all
# topics with equally many partitions goes to one worker: what is keyed alike is then read together.
driver.RoundRobinPartitionAssignor = RangePartitionAssignor  # type: ignore[attr-defined]  # it is there


class ExactAssignor(PartitionAssignor):
    """Assigns nothing as long as it does not know all topics.

    A leader whose view of the cluster is old would hand out a source without its changelog, and whoever gets
    it would begin from nothing where there is a state.
    """

    def assign(self, cluster: Any, member_metadata: Any) -> Any:
        """Return what each member gets; called in the consumer's thread and loop."""
        app: Any = self.app
        topics = {topic for member in member_metadata.values() for topic in member.subscription}
        partitions = {topic: cluster.partitions_for_topic(topic) or () for topic in topics}
        if all(partitions.values()):
            assignments = super().assign(cluster, member_metadata)
        else:
            app.consumer._thread._consumer._client.force_metadata_update()  # then the group joins anew
            assignments = super().assign(_NO_TOPICS, member_metadata)
        assigned = Counter(
            topic
            for assignment in assignments.values()
            for topic, numbers in assignment.assignment
            for _ in numbers
        )
        app.unread_partitions = {
            topic: len(numbers) - assigned[topic] for topic, numbers in partitions.items()
        }
        return assignments


class _NoTopics:
    def partitions_for_topic(self, topic: str) -> set[int]:
        return set()


_NO_TOPICS: Any = _NoTopics()
