"""Says what a Kafka client may fail with, in words that a user can act on. The driver's own error is the
cause."""

from dutycycle.contract.errors import DutycycleError


class BrokerError(DutycycleError):
    """Says that Kafka did not do what was asked. ``reason`` is one of a few words, fit for a metric's
    label."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type["BrokerError"], tuple[str, str]]:
        """Be copied with both arguments: the driver gives each record of a batch a copy of its failure."""
        return type(self), (self.reason, str(self))


class BrokerUnreachableError(BrokerError):
    """Says that Kafka cannot be reached or is not ready now: trying again later is right."""


class BrokerRefusedError(BrokerError):
    """Says that Kafka answered, and said no (credentials, rights, versions): somebody has to change
    something."""


class RecordRefusedError(BrokerError):
    """Says that Kafka takes other records, but never this one: it is too large, or invalid for its topic."""


class MissingTopicError(BrokerError):
    """Says that nobody has made a topic yet, or that it has another prefix."""
