"""Prints what the containers of a run write, line by line, each with the name of its pod."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing

from dutycycle.kube.errors import BusyError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.submit.follow import JobFollower

_RETRY_S = 1.0
_Container = tuple[str, str, int]
"""A pod's uid, a container's name, and how often that was restarted."""


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
