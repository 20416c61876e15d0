"""Peak records as streams send them, many versions of each key, and what must be in SQL at the end."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Text, cast, select

from dutycycle.contract.codec import encode
from dutycycle.contract.records.derived import Peak
from sinks.records.rows import JOB_TABLE, KEYS, POD_TABLE, in_order, job_row, pod_row
from sinks.records.tables.columns import Document
from sinks.records.tables.schema import TABLES
from tests.support.sinks import made

START_MS = 1_700_000_000_000
MOST_VERSIONS = 300
"""A job has as many pods as its record has versions: more would be too large. The feed slows down instead."""
METRICS = ("cpu_util_pct", "gpu_util_pct", "mem_used_bytes", "power_w")
Rows = dict[str, dict[str, Any]]
"""Rows of both tables by key."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One record on its way, and its time. The row is its worth in SQL if it is the last of its key."""

    topic: str
    key: str
    payload: bytes
    ts_ms: int
    row: dict[str, Any]


def lives(pods: int, versions: int, seed: int) -> list[Sent]:
    """``versions`` records of each pod and of a job for every ten, each saying more than the one before.

    A pod's ``samples``, and the number of a job's pods, is the number of its version, from 1 on.
    """
    chance = random.Random(seed)  # noqa: S311 - figures, no secrets
    tops: dict[str, dict[str, Peak]] = {}
    sent = []
    for version in range(1, versions + 1):
        of_round = [_pod(f"pod-{i:04}", version, versions, tops, chance) for i in range(pods)]
        of_round += [_job(f"job-{i:03}", version, versions, tops, chance) for i in range(pods // 10)]
        chance.shuffle(of_round)
        sent += of_round
    return sent


def _pod(
    uid: str, version: int, versions: int, tops: dict[str, dict[str, Peak]], chance: random.Random
) -> Sent:
    metrics = _more(uid, version, tops, chance)
    record = made.pod_peaks(
        uid, first_ms=START_MS, last_ms=START_MS + 1000 * version, samples=version, final=version == versions,
        metrics=metrics, gpus={"gpu-a/0": metrics}, processes=None,
    )  # fmt: skip
    return Sent("pod-peaks", uid, encode(record), record.last_ms, pod_row(record).values)


def _job(
    uid: str, version: int, versions: int, tops: dict[str, dict[str, Peak]], chance: random.Random
) -> Sent:
    one = made.job_peaks().pods["bert-worker-0"]
    record = made.job_peaks(
        uid, first_ms=START_MS, last_ms=START_MS + 1000 * version, final=version == versions,
        metrics=_more(uid, version, tops, chance), pods={f"w-{i:03}": one for i in range(version)},
    )  # fmt: skip
    return Sent("job-peaks", uid, encode(record), record.last_ms, job_row(record).values)


def _more(key: str, version: int, tops: dict[str, dict[str, Peak]], chance: random.Random) -> dict[str, Peak]:
    """Maxima that never fall, means that go anywhere."""
    known, found = tops.get(key, {}), {}
    for metric in METRICS:
        value = chance.uniform(0, 100)
        old = known.get(metric)
        high = old is None or value > old.max
        found[metric] = Peak(
            max=value if old is None or high else old.max,
            mean=chance.uniform(0, value),
            at_ms=START_MS + 1000 * version if old is None or high else old.at_ms,
        )
    tops[key] = found
    return found


def newest(sent: Sequence[Sent]) -> Rows:
    """The row of each key after all of them."""
    return {one.key: _read(one.row) for one in sent}


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose documents have their keys in order: those of jsonb are in another one."""
    return row | {name: in_order(row[name]) for name in ("record", "labels") if name in row}


def stored(engine: Engine) -> Rows:
    """Every row of both tables; a key that is there twice fails."""
    found: Rows = {}
    with engine.connect() as connection:
        for name in (POD_TABLE, JOB_TABLE):
            columns = [
                cast(one, Text).label(one.name) if isinstance(one.type, Document) else one
                for one in TABLES[name].c
            ]
            for row in connection.execute(select(*columns)).mappings():
                values = _read(dict(row))
                key = values[KEYS[name][0]]
                assert key not in found
                found[key] = values
    return found


def difference(expected: Rows, got: Rows) -> str:
    """Which rows are wrong, and one of them."""
    wrong = [key for key in expected.keys() | got.keys() if expected.get(key) != got.get(key)]
    if not wrong:
        return "no difference"
    key = min(wrong)
    wanted, found = expected.get(key, {}), got.get(key, {})
    fields = {
        name: (wanted.get(name), found.get(name)) for name in wanted if wanted.get(name) != found.get(name)
    }
    return f"{len(wrong)} of {len(expected)} rows differ; {key}: {str(fields)[:400]}"
