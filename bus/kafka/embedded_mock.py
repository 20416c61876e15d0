"""librdkafka's own mock cluster, by its C calls: the Python client exposes only the number of brokers.

The calls are declared in ``rdkafka_mock.h``. They are looked up through the extension module of
``confluent-kafka``, which is linked to the library that its wheel brings.
"""

import ctypes
from typing import Any

from confluent_kafka import cimpl

from contract.errors import DutycycleError

_BROKER = 1
_PRODUCER = 0
_QUIET = b"0"


def _library() -> Any:
    library = ctypes.CDLL(cimpl.__file__)
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_set.argtypes = [ctypes.c_void_p, *[ctypes.c_char_p] * 3, ctypes.c_size_t]
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_destroy.argtypes = [ctypes.c_void_p]
    library.rd_kafka_destroy.argtypes = [ctypes.c_void_p]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    library.rd_kafka_mock_topic_create.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int,
    ]  # fmt: skip
    library.rd_kafka_mock_set_controller_id.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.rd_kafka_mock_broker_set_down.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.rd_kafka_mock_broker_set_up.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.rd_kafka_err2str.restype = ctypes.c_char_p
    return library


class MockCluster:
    """One mock broker that listens on a loopback port of its own choosing, in threads of this process."""

    def __init__(self) -> None:
        self._lib = _library()
        error = ctypes.create_string_buffer(512)
        conf = self._lib.rd_kafka_conf_new()
        # The client that the cluster needs for a parent has no broker of its own, and would say so.
        self._lib.rd_kafka_conf_set(conf, b"log_level", _QUIET, error, len(error))
        self._client = self._lib.rd_kafka_new(_PRODUCER, conf, error, len(error))
        if not self._client:
            raise DutycycleError(f"the embedded broker cannot start: {error.value.decode(errors='replace')}")
        self._cluster = self._lib.rd_kafka_mock_cluster_new(self._client, 1)
        if not self._cluster:
            raise DutycycleError("the embedded broker cannot start: no loopback port could be opened")
        # Without a controller a client waits for one; with it, the client learns at once that this broker
        # cannot create topics by protocol.
        self._lib.rd_kafka_mock_set_controller_id(self._cluster, _BROKER)

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:port``."""
        address: bytes = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with exactly ``partitions`` partitions; raises where it exists already."""
        self._check(
            self._lib.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1),
            f"topic {name} with {partitions} partitions",
        )

    def set_down(self) -> None:
        """Drop every connection and refuse new ones; what is stored stays."""
        self._check(self._lib.rd_kafka_mock_broker_set_down(self._cluster, _BROKER), "set down")

    def set_up(self) -> None:
        """Answer again."""
        self._check(self._lib.rd_kafka_mock_broker_set_up(self._cluster, _BROKER), "set up")

    def close(self) -> None:
        """Give back the port and the memory. Everything stored is gone."""
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._client)

    def _check(self, code: int, what: str) -> None:
        if code:
            raise DutycycleError(f"embedded broker: {what}: {self._lib.rd_kafka_err2str(code).decode()}")
