"""What a Kafka client may fail with, in words that a user can act on. The driver's own error is the cause."""

from dutycycle.contract.errors import DutycycleError


class BrokerError(DutycycleError):
    """Kafka did not do what was asked. ``reason`` is one of a few words, fit for a metric's label."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["BrokerError"], tuple[str, str]]:
        """Be copied with both arguments: the driver gives each record of a batch a copy of its failure."""
        return type(self), (self.reason, str(self))


class BrokerUnreachableError(BrokerError):
    """Kafka cannot be reached or is not ready now: trying again later is right."""


class BrokerRefusedError(BrokerError):
    """Kafka answered, and said no (credentials, rights, versions): somebody has to change something."""


class RecordRefusedError(BrokerError):
    """Kafka takes other records, but never this one: it is too large, or invalid for its topic."""


class MissingTopicError(BrokerError):
    """A topic that nobody has made yet, or that has another prefix."""
