"""The embedded broker, for tests that need a broker's protocol and not the real Kafka."""

from collections.abc import Iterator

import pytest

from bus.kafka.embedded import EmbeddedBroker
from contract.settings.groups import Settings
from contract.settings.load import load as load_settings


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """An embedded broker with a topic ``dutycycle.pods`` of three partitions."""
    with EmbeddedBroker({"dutycycle.pods": 3}) as running:
        yield running


@pytest.fixture
def settings(broker: EmbeddedBroker) -> Settings:
    """Settings that lead to ``broker``."""
    return load_settings({"DUTYCYCLE_BROKER": broker.url, "DUTYCYCLE_NODE": "a"})
