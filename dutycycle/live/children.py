"""Runs the processes of ``dutycycle up``: sub-commands, restarted when they fail, their logs kept and
watched."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from dutycycle.contract.backoff import Backoff
from dutycycle.process import NOT_BEGUN, PARENT_VARIABLE, RESTARTS_VARIABLE, stopped_within
from dutycycle.telemetry.serving import SERVING, SERVING_TLS
from streams.compile import COMPILING

_LONGEST_PAUSE_S = 30.0
_STOP_S = 25.0
_SHOWN = 4
_LAST_WORDS = "dutycycle: "
"""Begins the line in which a command says why it fails."""
_LOG = logging.getLogger("up")
"""Not one of ours, which are always shown: this is for ``--verbose``, the screen is kept tidy."""


class Child:
    """Runs one sub-command in a process of its own. Its stderr goes to a log file; warnings are kept for
    show."""

    def __init__(self, name: str, environ: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.restarts = 0
        """How often in a row: the pauses grow by it."""
        self.failures = 0
        self.warnings: deque[str] = deque(maxlen=_SHOWN)
        self._environ = {**environ, PARENT_VARIABLE: str(os.getpid()), "PYTHONUNBUFFERED": "1"}
        self.log = log
        self.status: int | None = None
        """How the last attempt ended that had begun its work; None: none has."""
        self.reason = ""
        """Why, if that was a failure, and what to do."""
        self._last_words = ""
        self._log_failed = False
        self._compiling_since: float | None = None
        """By the monotonic clock; None if its loops were compiled before."""
        self.begun = asyncio.Event()
        """Set from when the process first answers, or has failed to: its imports and compiling are over."""
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def messages(self) -> list[str]:
        """Return what a person should know of it: its newest warnings, and how long it compiles: tens of
        seconds."""
        if self._compiling_since is None or self.begun.is_set():
            return [*self.warnings]
        tens = (time.monotonic() - self._compiling_since) // 10
        return [*self.warnings, f"{self.name} is {COMPILING}: {10 * tens:.0f} s"]

    async def run(self) -> None:
        """Keep the process running until ``stop``; after a failure start it again, later each time."""
        while not self._stopping.is_set():
            started = time.monotonic()
            self._last_words = ""
            try:
                status = await self._once()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next start may do better
                ended = f"could not be run ({error})"
                self.status, self.reason = 1, f"{self.name} {ended}"
                if self._process is not None and self._process.returncode is None:
                    self._process.kill()  # nobody reads what it says: it would stand still
                    await self._process.wait()
            else:
                ended = f"ended with status {status}"
                # SIGTERM by its number: it came before the interpreter could handle it.
                if status not in (NOT_BEGUN, -signal.SIGTERM):
                    words = self._last_words if status == 1 else ""
                    self.status, self.reason = status, words or f"{self.name} {ended}"
            self.begun.set()
            if self._stopping.is_set():
                return
            if time.monotonic() - started > _LONGEST_PAUSE_S:
                self.restarts = 0
            pause = Backoff(1.0, _LONGEST_PAUSE_S, spread=0, failures=self.restarts).next_s()
            self.restarts += 1
            self.failures += 1
            why = f": {self._last_words}" if self._last_words else ""
            self.warnings.append(f"{self.name} {ended}, started again in {pause:g} s{why}")
            await stopped_within(self._stopping, pause)

    async def _once(self) -> int:
        # A session of its own: Ctrl-C in the terminal is for the parent alone, which stops us in order.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dutycycle", self.name,
            env=self._environ | {RESTARTS_VARIABLE: str(self.failures)},
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._process = process
        if self._stopping.is_set():  # meanwhile: ``stop`` has found nothing to end
            process.send_signal(signal.SIGTERM)
        if process.stderr is not None:
            async for line in process.stderr:
                self._keep(line)
                text = line.decode(errors="replace").rstrip()
                if SERVING in text or SERVING_TLS in text:
                    self.begun.set()
                    _LOG.info("%s", text.partition("dutycycle.health ")[2])
                if text.startswith(_LAST_WORDS):
                    self._last_words = text.removeprefix(_LAST_WORDS)
                elif COMPILING in text:
                    self._compiling_since = time.monotonic()
                elif level := next((level for level in (" WARNING ", " ERROR ") if level in text), None):
                    self.warnings.append(text.partition(level)[2].removeprefix("dutycycle."))
        return await process.wait()

    def _keep(self, line: bytes) -> None:
        """Append a line to the log. A disk that does not take it is said once: the reading goes on."""
        try:
            with self.log.open("ab", buffering=0) as log:
                log.write(line)
        except OSError as error:
            if not self._log_failed:
                self.warnings.append(f"{self.name} goes on without its log: {self.log}: {error.strerror}")
            self._log_failed = True
        else:
            self._log_failed = False

    async def stop(self) -> int | None:
        """Stop the process by SIGTERM, and by SIGKILL if it does not end in time. Return the exit status,
        None if it did not run."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return None if process is None else process.returncode
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                return await process.wait()
        except TimeoutError:
            process.kill()
            return await process.wait()
