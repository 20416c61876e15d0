"""Runs a Kafka broker that comes with us: for one machine, in memory, gone when its owner is.

Any Kafka client on this machine can read and write it. It keeps about 5 MB or 100,000 records of each
partition, has no disk, no compaction and no topic administration by protocol: topics are created here.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from dutycycle.contract.errors import DutycycleError

_START_S = 30.0
_ANSWER_S = 10.0
_STOP_S = 5.0


class EmbeddedBroker:
    """Runs the broker's process. Start it (``with`` or ``start``) before ``url`` is asked for.

    The methods wait for the process's answer, milliseconds; they may be called from any thread.
    """

    server: tuple[str, ...] = ("-m", "dutycycle.kafka.embedded_server")
    """What Python runs as the broker's process."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        """Start nothing yet. ``topics``: full names of what to create at the start, with their number of
        partitions."""
        self._topics = dict(topics or {})
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self.bootstrap = ""

    @property
    def url(self) -> str:
        """Return what ``DUTYCYCLE_BROKER`` would say."""
        return f"kafka://{self.bootstrap}"

    @property
    def pid(self) -> int | None:
        """Return the id of the process, None when it does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process else None

    def start(self) -> Self:
        """Start the process and create the topics. Raises ``DutycycleError`` where that cannot be."""
        self._process = subprocess.Popen(  # noqa: S603 - a constant of the class
            [sys.executable, *self.server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self.bootstrap = str(self._read(_START_S)["bootstrap"])
            for name, partitions in self._topics.items():
                self.create_topic(name, partitions)
        except DutycycleError:
            self.stop()
            raise
        return self

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic by its full name, with exactly ``partitions`` partitions."""
        self.ask({"do": "topic", "name": name, "partitions": partitions})

    def stop(self) -> None:
        """End the process; all that it stored is gone. Does nothing when it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes the pipes: the process ends when its standard input does
            if process.stdin:
                with suppress(BrokenPipeError):  # of a command that it died before
                    process.stdin.close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ask(self, command: dict[str, Any]) -> None:
        """Send a command, and wait for its end. Raises ``DutycycleError``."""
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                raise DutycycleError("the embedded broker does not run")
            try:
                process.stdin.write(json.dumps(command) + "\n")
                process.stdin.flush()
            except OSError as error:
                raise DutycycleError("the embedded broker's process has died") from error
            self._read(_ANSWER_S)

    def _read(self, most_s: float) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdout is None:
            raise DutycycleError("the embedded broker does not run")
        # A pipe has no read with a time limit: a process that hangs is ended, and the read with it.
        guard = threading.Timer(most_s, process.kill)
        guard.start()
        try:
            line = process.stdout.readline()
        finally:
            guard.cancel()
        if not line:
            raise DutycycleError("the embedded broker's process has died, or did not answer in time")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise DutycycleError(str(answer["error"]))
        return answer
