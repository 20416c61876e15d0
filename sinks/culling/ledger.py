"""Remembers what was announced and what was stopped, by whom and why: a ConfigMap, so that a restart forgets
nothing.

It is read before and written after each round, and only if nobody else wrote in between: two of us never
stop more than the day's number together.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import orjson

from dutycycle.contract.units import utc_day
from dutycycle.kube.discovery import CONFIG_MAP
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer
from sinks.culling.verdicts import IdleWorkload

_ANNOUNCED, _STOPPED = "announced", "stopped-"
_MOMENTS = ("idle_since_ms", "at_ms")
_KEPT_DAYS = 90
_MOST_BYTES = 900_000
"""The API server takes a MiB of a ConfigMap: beyond this the oldest days are forgotten before their time."""
Json = dict[str, Any]
T = TypeVar("T", Json, list[Json])


class CullLedger:
    """Reads and writes the ConfigMap ``name`` of ``namespace``, which the chart has made. Raises
    ``KubeError``."""

    def __init__(self, server: ApiServer, namespace: str, name: str) -> None:
        self._server, self._where = server, (name, namespace)
        self._version = ""
        self._announced: dict[str, Json] = {}
        self._days: dict[str, list[Json]] = {}

    async def load(self) -> None:
        """Read it as it is now."""
        thing = await self._server.read(CONFIG_MAP, *self._where)
        data: Mapping[str, str] = thing.get("data") or {}
        self._version = thing["metadata"]["resourceVersion"]
        self._announced = self._read(data, _ANNOUNCED, {})
        for uid, entry in self._announced.items():
            moments = [entry.get(name) for name in _MOMENTS] if isinstance(entry, dict) else [None]
            if not all(isinstance(moment, int) for moment in moments):
                raise KubeError(
                    "answer", f"{_ANNOUNCED} is no announcement of {uid}: mend it, or take the key away"
                )
        self._days = {
            key.removeprefix(_STOPPED): self._read(data, key, []) for key in data if key.startswith(_STOPPED)
        }

    def _read(self, data: Mapping[str, str], key: str, empty: T) -> T:
        """Return what stands there. Raises ``KubeError`` for what somebody has made unreadable."""
        try:
            content = orjson.loads(data.get(key) or orjson.dumps(empty))
        except orjson.JSONDecodeError as error:
            raise KubeError("answer", f"{key} is no JSON: {error}: mend it, or take the key away") from error
        if type(content) is not type(empty):
            raise KubeError("answer", f"{key} is no {type(empty).__name__}: mend it, or take the key away")
        return content

    def announced_ms(self, workload: IdleWorkload) -> int | None:
        """Tell when it was said that the workload will be stopped, if it has been idle ever since."""
        entry = self._announced.get(workload.job.uid)
        same = entry is not None and entry["idle_since_ms"] == workload.since_ms
        return int(entry["at_ms"]) if same and entry is not None else None

    async def announce(self, workload: IdleWorkload, now_ms: int) -> None:
        """Note that this was said."""
        self._announced[workload.job.uid] = {
            "workload": str(workload), "idle_since_ms": workload.since_ms, "at_ms": now_ms,
        }  # fmt: skip
        await self._save()

    async def forget_all_but(self, workloads: list[IdleWorkload]) -> None:
        """Forget the announcements of what is idle no more."""
        uids = {workload.job.uid for workload in workloads}
        if not self._announced.keys() <= uids:
            self._announced = {uid: entry for uid, entry in self._announced.items() if uid in uids}
            await self._save()

    def stopped_on(self, now_ms: int) -> int:
        """Tell how many were stopped on this day (UTC), those included that may have failed."""
        return len(self._days.get(utc_day(now_ms), ()))

    async def note(self, entry: Json, now_ms: int) -> None:
        """Note a stop, before it is done: one that is not noted is not done."""
        today = utc_day(now_ms)
        self._days.setdefault(today, []).append(entry)
        oldest = utc_day(now_ms - round(timedelta(days=_KEPT_DAYS).total_seconds() * 1000))
        gone = {day for day in self._days if day < oldest}
        # And the oldest days that leave no room for the others.
        taken = {day: len(orjson.dumps(entries)) for day, entries in self._days.items()}
        room = _MOST_BYTES - len(orjson.dumps(self._announced)) - sum(taken.values())
        for day in sorted(taken.keys() - {today}):
            if room >= 0:
                break
            room += taken[day]
            gone.add(day)
        await self._save(gone)

    async def _save(self, gone: Iterable[str] = ()) -> None:
        data: dict[str, str | None] = {_ANNOUNCED: orjson.dumps(self._announced).decode()}
        data |= {f"{_STOPPED}{day}": orjson.dumps(entries).decode() for day, entries in self._days.items()}
        for day in gone:
            self._days.pop(day, None)
            data[f"{_STOPPED}{day}"] = None
        name, namespace = self._where
        change = {"metadata": {"resourceVersion": self._version}, "data": data}
        await self._server.merge(CONFIG_MAP, name, namespace, change)
        await self.load()
