"""Runs the embedded broker in a process of its own: ``python -m dutycycle.kafka.embedded_server``, driven by
lines of JSON.

It answers each line of standard input with one of standard output, and ends when standard input does:
however its parent dies, the pipe closes.

    {"do": "topic", "name": "dutycycle.pods", "partitions": 8}

The broker is librdkafka's own mock cluster, by its C calls: the Python client exposes only the number of
brokers. The calls are declared in ``rdkafka_mock.h``. They are looked up through the extension module of
``confluent-kafka``, which is linked to the library that its wheel brings.
"""

import ctypes
import json
import signal
import sys
from collections.abc import Callable
from typing import IO, Any

from confluent_kafka import cimpl

from dutycycle.contract.errors import DutycycleError

BROKER = 1
_PRODUCER = 0
_QUIET = b"0"


class MockCluster:
    """Runs one mock broker that listens on a loopback port of its own choosing, in threads of this
    process."""

    def __init__(self) -> None:
        self.lib: Any = ctypes.CDLL(cimpl.__file__)
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        self.lib.rd_kafka_conf_new.restype = pointer
        self.lib.rd_kafka_conf_set.argtypes = [pointer, text, text, text, ctypes.c_size_t]
        self.lib.rd_kafka_new.restype = pointer
        self.lib.rd_kafka_new.argtypes = [number, pointer, text, ctypes.c_size_t]
        self.lib.rd_kafka_mock_cluster_new.restype = pointer
        self.lib.rd_kafka_mock_cluster_new.argtypes = [pointer, number]
        self.lib.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
        self.lib.rd_kafka_destroy.argtypes = [pointer]
        self.lib.rd_kafka_mock_cluster_bootstraps.restype = text
        self.lib.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
        self.lib.rd_kafka_mock_topic_create.argtypes = [pointer, text, number, number]
        self.lib.rd_kafka_mock_set_controller_id.argtypes = [pointer, ctypes.c_int32]
        self.lib.rd_kafka_err2str.restype = text
        error = ctypes.create_string_buffer(512)
        conf = self.lib.rd_kafka_conf_new()
        # The client that the cluster needs for a parent has no broker of its own, and would say so.
        self.lib.rd_kafka_conf_set(conf, b"log_level", _QUIET, error, len(error))
        self._client = self.lib.rd_kafka_new(_PRODUCER, conf, error, len(error))
        if not self._client:
            raise DutycycleError(f"the embedded broker cannot start: {error.value.decode(errors='replace')}")
        self.cluster = self.lib.rd_kafka_mock_cluster_new(self._client, 1)
        if not self.cluster:
            raise DutycycleError("the embedded broker cannot start: no loopback port could be opened")
        # Without a controller a client waits for one; with it, the client learns at once that this broker
        # cannot create topics by protocol.
        self.lib.rd_kafka_mock_set_controller_id(self.cluster, BROKER)

    @property
    def bootstrap(self) -> str:
        """Return the address, ``127.0.0.1:port``."""
        address: bytes = self.lib.rd_kafka_mock_cluster_bootstraps(self.cluster)
        return address.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with exactly ``partitions`` partitions; raises where it exists already."""
        self.check(
            self.lib.rd_kafka_mock_topic_create(self.cluster, name.encode(), partitions, 1),
            f"topic {name} with {partitions} partitions",
        )

    def obey(self, command: dict[str, Any]) -> None:
        """Do what a line of standard input asks for."""
        match command["do"]:
            case "topic":
                self.create_topic(command["name"], int(command["partitions"]))
            case other:
                raise ValueError(f"{other!r} is no command of the embedded broker")

    def close(self) -> None:
        """Give back the port and the memory. Everything stored is gone."""
        self.lib.rd_kafka_mock_cluster_destroy(self.cluster)
        self.lib.rd_kafka_destroy(self._client)

    def check(self, code: int, what: str) -> None:
        """Raise for an error code of the library."""
        if code:
            raise DutycycleError(f"embedded broker: {what}: {self.lib.rd_kafka_err2str(code).decode()}")


def serve(cluster: MockCluster, commands: IO[str], answers: IO[str]) -> None:
    """Say where the broker listens, then obey until ``commands`` ends."""
    _answer(answers, {"bootstrap": cluster.bootstrap})
    for line in commands:
        try:
            cluster.obey(json.loads(line))
        except (DutycycleError, ValueError, KeyError, TypeError) as error:
            _answer(answers, {"error": str(error)})
        else:
            _answer(answers, {"ok": True})


def _answer(answers: IO[str], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def main(make: Callable[[], MockCluster] | None = None) -> None:
    """Run until standard input ends."""
    # Ctrl-C goes to the whole foreground group, and the others still have to hand in what they hold.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        cluster = (make or MockCluster)()
    except DutycycleError as error:
        _answer(sys.stdout, {"error": str(error)})
        raise SystemExit(1) from error
    try:
        serve(cluster, sys.stdin, sys.stdout)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
