"""What makes a record unfit for any operator, whatever its topic. A replay and the worker ask the same."""

from contract.log import ConsumerRecord
from contract.records.deadletter import Reason
from contract.topics import TOPICS


def unfit(record: ConsumerRecord) -> tuple[Reason, str] | None:
    """The reason why ``record`` goes to the dead letters at once, and words for it; None if it is fit."""
    if not record.has_text_key:
        return Reason.KEY, "no key, or none in UTF-8: a record without a key belongs to nobody"
    most = TOPICS[record.topic].max_bytes
    if record.value is not None and len(record.value) > most:
        return Reason.SIZE, f"{len(record.value)} bytes, at most {most} are taken"
    return None
