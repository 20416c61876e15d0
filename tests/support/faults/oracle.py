"""The oracle of every fault: an undisturbed replay of the same samples, and the comparison with it."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from dutycycle.contract.topics import DEFAULT_PREFIX, short_name
from tests.support.data.traces import read_trace
from tests.support.processes.commands import Derived, dutycycle, environ

IN_ORDER = ("window-aggregates", "trends", "cycles")
"""Of these every record counts, and their order within a series."""
SO_FAR = ("usage", "node-peaks")
"""Of these the last row of each hour or day counts: a worker writes them once a minute, and whenever it
stores its state."""
MERGED = ("pod-peaks", "job-peaks", "insights")
"""Of these the last one of a key counts: several partitions meet in them, and those have no order."""
OF_A_JOB = "job/"
"""The key of a job's cycle and trends: the same is true of these."""
DERIVED = (*IN_ORDER, *SO_FAR, *MERGED)

Series = tuple[str, str, str]
"""Topic without prefix, key, and the source: each has an order of its own. Empty where a topic has none."""
Results = dict[Series, list[bytes]]
"""What counts of each series, repeats removed."""


def results(found: Derived) -> Results:
    """What counts of ``found``. A repeat that differs in one bit is no repeat, and stays."""
    by_series: Results = defaultdict(list)
    so_far: dict[Series, dict[str, bytes]] = defaultdict(dict)
    for (topic, key), payloads in found.items():
        if topic in SO_FAR:
            for payload in payloads:
                plain = orjson.loads(payload)
                rows = so_far[topic, key, plain["source"]]
                rows.update(_rows_so_far(plain))
        elif topic in DERIVED:
            merged = topic in MERGED or key.startswith(OF_A_JOB)
            for payload in payloads[-1:] if merged else dict.fromkeys(payloads):
                plain = orjson.loads(payload)
                by_series[topic, key, plain.get("source", "")].append(payload)
    return dict(by_series) | {name: [rows[row] for row in sorted(rows)] for name, rows in so_far.items()}


def _rows_so_far(plain: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """The rows of an hour or a day so far, each with what names it. The moment of writing is none of them."""
    if "day_ms" in plain:
        yield str(plain["day_ms"]), orjson.dumps(plain)
    for part in ("gpus", "pods") if "hour_ms" in plain else ():
        for row in plain.get(part, ()):
            name = f"{plain['hour_ms']} {part} {row.get('gpu', '')} {row.get('pod_uid', '')}"
            yield name, orjson.dumps(row)


def replayed(trace: Path, folder: Path, prefix: str = DEFAULT_PREFIX, **settings: str) -> Results:
    """What an undisturbed replay in process makes of ``trace``; the end of it closes nothing."""
    out = folder / f"{trace.name}.replayed.jsonl"
    env = environ(topic_prefix=prefix, **settings)
    dutycycle("replay", trace, "--keep-open", "--out", out, env=env)
    found: Derived = defaultdict(list)
    for one in read_trace(str(out)):
        found[short_name(prefix, one.topic) or "", one.key or ""].append(one.payload or b"")
    return results(found)


def difference(expected: Results, got: Results) -> str:
    """In words: which series differ, and how."""
    wrong = [name for name in expected if got.get(name) != expected[name]]
    few = [f"{name}: {_how(expected[name], got.get(name, []))}" for name in wrong[:5]]
    strange = sorted(got.keys() - expected.keys())
    return f"{len(wrong)} of {len(expected)} series differ: {few}; {len(strange)} unexpected: {strange[:5]}"


def _how(expected: list[bytes], got: list[bytes]) -> str:
    same = next((n for n, pair in enumerate(zip(expected, got, strict=False)) if pair[0] != pair[1]), None)
    if same is None:
        return f"{len(got)} records, expected {len(expected)}"
    one, other = got[same], expected[same]
    at = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    there = slice(max(at - 60, 0), at + 240)
    return f"record {same} of {len(expected)}: at byte {at} {one[there]!r}, expected {other[there]!r}"


def counted(got: Results) -> str:
    """How much was compared, in words."""
    by_topic = {topic: sum(len(of) for name, of in got.items() if name[0] == topic) for topic in DERIVED}
    return ", ".join(f"{count} {topic}" for topic, count in by_topic.items())
