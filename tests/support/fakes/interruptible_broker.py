"""The embedded broker with outages that a test plays: this file is its process, too."""

import ctypes
from typing import Any

from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.embedded_server import BROKER, MockCluster, main


class InterruptibleBroker(EmbeddedBroker):
    """``set_down`` breaks and refuses connections, ``set_up`` ends that; what is stored stays."""

    server = (__file__,)

    def set_down(self) -> None:
        self.ask({"do": "down"})

    def set_up(self) -> None:
        self.ask({"do": "up"})


class InterruptibleCluster(MockCluster):
    """Obeys ``down`` and ``up`` as well."""

    def obey(self, command: dict[str, Any]) -> None:
        if command["do"] not in ("down", "up"):
            return super().obey(command)
        call = getattr(self.lib, f"rd_kafka_mock_broker_set_{command['do']}")
        call.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        return self.check(call(self.cluster, BROKER), command["do"])


if __name__ == "__main__":
    main(InterruptibleCluster)
