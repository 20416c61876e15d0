"""Makes and sends the dead letter of a record that a sink could not use."""

from collections.abc import Awaitable, Callable

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import DeadLetter, Reason
from dutycycle.telemetry.events import DEAD_LETTER, Telemetry

Post = Callable[[ProducerRecord], Awaitable[Awaitable[object]]]
"""As ``WorkerPort.post``."""


class DeadLetters:
    """Sends dead letters, counts them, and ends the worker if one cannot be sent."""

    def __init__(self, prefix: str, telemetry: Telemetry, post: Post, fail: Callable[[str], None]) -> None:
        self._prefix = prefix
        self._telemetry = telemetry
        self._post = post
        self._fail = fail

    async def send(self, origin: ConsumerRecord, reason: Reason, error: str) -> bool:
        """Send a dead letter, and tell whether the broker has it; if not, the worker ends, and the record is
        read again."""
        letter = DeadLetter.of(origin, self._prefix, reason, error)
        where = f"{origin.topic}-{origin.partition}@{origin.offset}: {letter.error}"
        self._telemetry.emit(DEAD_LETTER, where, topic=origin.topic, reason=reason.value)
        try:
            out = ProducerRecord("dead-letters", origin.key or "", encode(letter), letter.ts_ms)
            await (await self._post(out))
        except Exception as failure:  # noqa: BLE001 - whatever it was, the letter did not arrive
            self._fail(f"sending a dead letter: {failure!r}")
            return False
        return True
