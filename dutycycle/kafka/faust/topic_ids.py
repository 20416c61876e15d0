"""Reads the identities of topics (KIP-516): a topic that is deleted and created again has another one.

aiokafka asks for metadata as Kafka 2 knew it, by names alone. This is the same request as Kafka 2.8 knows it.
"""

from collections.abc import Collection
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

_METADATA, _VERSION = 3, 10  # the first version whose answers have identities: KIP-516
_TEXT = CompactString("utf-8")
_ID = (("id_high", Int64), ("id_low", Int64))


class _IdsResponse(Response):  # type: ignore[misc]  # the driver has no types
    API_KEY = _METADATA
    API_VERSION = _VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields)
            ),
        ),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                *_ID,
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync_replicas", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _IdsRequestStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = _METADATA
    API_VERSION = _VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _IdsResponse
    SCHEMA = Schema(
        ("topics", CompactArray(*_ID, ("name", _TEXT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _IdsRequest(Request[_IdsRequestStruct]):  # type: ignore[misc]
    API_KEY = _METADATA

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def build(self, request_struct_class: type[_IdsRequestStruct]) -> _IdsRequestStruct:
        topics: list[tuple[int, int, str, dict[int, bytes]]] = [(0, 0, name, {}) for name in self._names]
        return request_struct_class(topics, False, False, False, {})


async def read_topic_ids(client: Any, names: Collection[str]) -> dict[str, str]:
    """Return the identity of each topic (full name), in hexadecimal digits, as one of the brokers says it.

    A topic that there is not, or whose broker is older than Kafka 2.8, is left out. ``client`` is one of the
    driver's. Raises ``KafkaError`` where no broker answers.
    """
    brokers = [broker.nodeId for broker in client.cluster.brokers()] or [client.get_random_node()]
    for number, broker in enumerate(brokers, 1):
        try:
            answer = await client.send(broker, _IdsRequest(names))
            break
        except (IncompatibleBrokerVersion, NotImplementedError):  # aiokafka's second word for an older broker
            return {}
        except KafkaError:  # one that is away, as in a rolling restart: another one knows as much
            if number == len(brokers):
                raise
    ids = {name: (high, low) for code, name, high, low, *_ in answer.topics if not code}
    mask = 2**64 - 1
    return {name: f"{high & mask:016x}{low & mask:016x}" for name, (high, low) in ids.items() if high or low}
