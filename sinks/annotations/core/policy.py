"""How often and how much we write to the API server. Pure."""

from dataclasses import dataclass

from contract.settings.groups import Settings


@dataclass(frozen=True, slots=True)
class Policy:
    """``interval_s`` lies between two writes to one object, at least; ``most`` objects are known at once."""

    prefix: str = "dutycycle.io"
    interval_s: float = 30.0
    most: int = 20_000

    @classmethod
    def of(cls, settings: Settings) -> "Policy":
        """As the settings say."""
        return cls(settings.annotation_prefix, settings.annotation_interval)
