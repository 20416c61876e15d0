"""``why POD``: what is known of a pod, and what holds it up; what is not known is said to be so."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from contract.codec import to_plain
from contract.records.derived import PodPeaks
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import (
    INSIGHTS,
    Json,
    MaxUsage,
    attribution,
    by_process,
    insights,
    of_pod,
    ours,
)
from dutycycle.kubectl.api import Api, KubectlError
from dutycycle.kubectl.jobs import pod_name
from dutycycle.kubectl.output import emit_json
from dutycycle.kubectl.top import age_s
from kube.discovery import POD
from kube.references import Metadata
from sinks.annotations.core.keys import GPU_UTIL, UPDATED


def show_why(api: Api, args: argparse.Namespace) -> None:
    """Print it. Raises ``KubectlError`` for a pod of which nothing at all is known."""
    name = pod_name(args.pod)
    meta = api.read(POD, args.namespace, name)
    found = ours(meta.get("annotations"), args.prefix)
    record = _record(args.records, args.namespace, str(meta["uid"]))
    if not found and record is None:
        raise KubectlError(
            f"nothing is known of pod {name}: it carries no {args.prefix}/ annotation. They come within "
            "a minute of its first sample; `kubectl dutycycle top pods` shows whether others have some"
        )
    known = insights(found)
    if args.output == "json":
        plain = None if record is None else to_plain(record)
        emit_json(_json(meta, found, known) | ({"record": plain} if plain else {}))
        return
    print(f"pod {args.namespace}/{name}")  # noqa: T201
    for line in (*_figures(found), *_means(record), *_insights(known)):
        sys.stdout.write(f"  {line}\n")


def _json(meta: Metadata, found: Json, known: dict[str, str]) -> dict[str, Any]:
    where = {"namespace": meta.get("namespace"), "name": meta["name"], "uid": meta["uid"]}
    return (
        where | known | {"not_known": [name for name in INSIGHTS if name not in known], "annotations": found}
    )


def _figures(found: Json) -> Iterator[str]:
    """What it used at most, and where that is known from."""
    if parts := list(_parts(of_pod(found))):
        yield f"at most      {_joined(parts)}"
    shares = by_process(found, GPU_UTIL)
    if len(shares) > 1:
        each = (f"{_process(*key)} {output.format_percent(value)}" for key, value in shares.items())
        yield f"of which     {_joined(each)}"
    if words := attribution(found):
        yield f"attribution  {_joined(f'GPU {index} {word}' for index, word in words.items())}"
    if (seconds := age_s(found.get(UPDATED))) is not None:
        yield f"last sample  {output.format_age(seconds)} ago"


def _parts(usage: MaxUsage) -> Iterator[str]:
    figures = {
        "GPU {}": output.format_percent(usage.gpu_pct),
        "GPU memory bus {}": output.format_percent(usage.gpu_mem_bus_pct),
        "CPU {} of a core": output.format_percent(usage.cpu_pct),
        "memory {}": output.format_megabytes(usage.mem_mb),
        "network {} Mbit/s": output.format_number(usage.net_mbps),
        "disk {} MB/s": output.format_number(usage.disk),
    }
    return (form.format(text) for form, text in figures.items() if text != output.DASH)


def _means(record: PodPeaks | None) -> Iterator[str]:
    """What only the records have: means, and over which time."""
    if record is None:
        return
    names = {"gpu_util_pct": "GPU", "cpu_util_pct": "CPU", "cpu_throttled_pct": "CPU throttled"}
    means = (
        f"{words} {output.format_percent(record.metrics[name].mean)}"
        for name, words in names.items()
        if name in record.metrics
    )
    length = output.format_age((record.last_ms - record.first_ms) / 1000)
    yield f"on average   {_joined(means)}, over {length}"


def _insights(known: dict[str, str]) -> Iterator[str]:
    for name in INSIGHTS:
        yield f"{name:<12} {known.get(name, 'not known yet')}"


def _record(url: str | None, namespace: str, uid: str) -> PodPeaks | None:
    """The pod's peak record, where a database of records was named."""
    if url is None:
        return None
    from sinks.records.query import pod_peaks  # SQLAlchemy takes longer to import than all the rest

    return next((one for one in pod_peaks(url, namespace) if one.pod.uid == uid), None)


def _process(gpu: int, pid: int | None) -> str:
    return f"GPU {gpu}" if pid is None else f"process {pid} on GPU {gpu}"


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)
