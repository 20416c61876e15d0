"""The embedded broker, for tests that need a broker's protocol and not the real Kafka."""

from collections.abc import Iterator

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from tests.support.fakes.interruptible_broker import InterruptibleBroker


@pytest.fixture
def broker() -> Iterator[InterruptibleBroker]:
    """An embedded broker with a topic ``dutycycle.pods`` of three partitions."""
    with InterruptibleBroker({"dutycycle.pods": 3}) as running:
        yield running


@pytest.fixture
def settings(broker: InterruptibleBroker) -> Settings:
    """Settings that lead to ``broker``."""
    return load_settings({"DUTYCYCLE_BROKER": broker.url, "DUTYCYCLE_NODE": "a"})
