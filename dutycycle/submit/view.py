"""Says what is said while a job runs: a line for each change, how it goes on the last line of a terminal, and
what its containers write."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import aclosing
from statistics import median

from dutycycle.kube.errors import BusyError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.progress import StatusLine
from dutycycle.submit.follow import JobFollower
from dutycycle.words import short_duration

_LINE_EVERY_S = 60.0
_RETRY_S = 1.0
_Container = tuple[str, str, int]
"""A pod's uid, a container's name, and how often that was restarted."""


class JobStatusLine(StatusLine):
    """Writes to stderr: what the job itself writes is on stdout."""

    def __init__(self) -> None:
        super().__init__()
        self._line_due_s = time.monotonic() + _LINE_EVERY_S

    def status(self, text: str) -> None:
        """Show how it goes: on a terminal always, elsewhere once a minute."""
        self.put(text)
        if not self.is_terminal and time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_EVERY_S
            self.print_line(text)


def status_of(
    follower: JobFollower,
    now_s: float,
    running_s: float | None,
    periods_s: Collection[float],
    past_s: float | None,
) -> str:
    """Return the line of how it goes. ``now_s``: since it was made; ``running_s``: since its first container
    ran; ``periods_s``: the cycles of its pods; ``past_s``: how long its last run took."""
    words = Counter(  # of each pod's state the beginning, such as running
        follower.state(pod).words.partition(":")[0].partition(" on ")[0] for pod in follower.pods.values()
    )
    parts = [", ".join(f"{count} {word}" for word, count in words.items()) or "no pod yet"]
    if periods_s:
        parts.append(f"{60 / median(periods_s):.1f} steps a minute")
    if past_s and running_s is not None:
        parts.append(f"{100 * running_s / past_s:.0f} % of its last run ({short_duration(past_s)})")
    return f"{short_duration(now_s)}: {'; '.join(parts)}"


class Logs:
    """Prints the logs of a job's pods: one task for each container that runs or has run. ``clear``: called
    before each line."""

    def __init__(self, server: ApiServer, follower: JobFollower, clear: Callable[[], None]) -> None:
        self._server = server
        self._clear = clear
        self._follower = follower
        self._tasks: dict[_Container, asyncio.Task[None]] = {}
        self._failed: set[_Container] = set()

    def look(self) -> Iterator[str]:
        """Begin with containers that are new. Answers with what went wrong since the last call."""
        for uid, pod in self._follower.pods.items():
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                who = uid, str(status["name"]), int(status.get("restartCount") or 0)
                if who not in self._tasks and (status.get("state") or {}).keys() & {"running", "terminated"}:
                    meta = pod["metadata"]
                    printing = self._print(meta["namespace"], meta["name"], who[1])
                    self._tasks[who] = asyncio.create_task(printing)
        for who, task in self._tasks.items():
            if who not in self._failed and task.done() and isinstance(error := task.exception(), KubeError):
                self._failed.add(who)
                name = self._follower.pods[who[0]]["metadata"]["name"]
                yield f"no logs of {who[1]} in pod {name}: {error.detail}"

    async def finish(self, seconds: float) -> None:
        """Print to the ends of the containers that have ended; wait for ``seconds`` at most."""
        tasks = self._tasks.values()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _print(self, namespace: str, pod: str, container: str) -> None:
        printed = 0
        while True:
            try:
                async with aclosing(self._server.logs(namespace, pod, container)) as lines:
                    number = 0
                    async for line in lines:
                        number += 1
                        if number > printed:  # the server was away: it begins anew
                            printed = number
                            self._clear()
                            sys.stdout.buffer.write(b"[%s] %s\n" % (pod.encode(), line))
                            sys.stdout.buffer.flush()
            except BusyError:
                await asyncio.sleep(_RETRY_S)
            else:
                return
