"""Says what each figure of a page is and how it is made: of metrics by their catalogue."""

import re
from collections.abc import Mapping
from functools import cache

from dutycycle.contract.catalogue import CATALOGUE, unit_of
from dutycycle.words import named_figure

TERMS: Mapping[str, str] = {
    "busy": "A GPU in whose last tick a kernel ran, or the time of it, by the GPU utilization.",
    "use": "The share of the time in which a kernel ran; the max is of all that this page has seen.",
    "idle": "Held by a pod or process while no kernel runs; of the ledger: known time that was not busy.",
    "free": "Nobody has it, as far as pods and processes tell.",
    "unknown": "Not measured, not to be divided among those who share a GPU, or without a kernel where "
    "neither pods nor processes tell who has it. It is not counted as idle.",
    "silent": "No sample came in for ten seconds and five ticks, or the node's samples lack it.",
    "untouched": "Held by a pod, and no process is on it. A part of the idle time, or of the unknown.",
    "ledger": "What was used in each hour (UTC) by each pod on each GPU. Rows are written while the hour "
    "goes on, and become days in time.",
    "records": "What the sink of records has written into SQL: of pods and jobs maxima, means, verdict.",
    "GPU hours": "Time in which somebody had a GPU, whether or not it worked.",
    "cost": "GPU hours, CPU hours and energy by the prices of their time; a dot where no price was set.",
    "idle cost": "The part of the cost of GPU hours that was idle. What is unknown is not in it.",
    "waste": "The idle GPU hours.",
    "cycle": "The period at which the use repeats, such as a training step or a checkpoint.",
    "steps a minute": "As the training reports them; else by the cycle, where one is known.",
    "health": "What follows from the Xids, errors of memory, retired pages, links and counters of a GPU: "
    "healthy, watch, drain, reset or replace. A GPU of which nobody has told is unknown, not healthy.",
    "memory": "Of a GPU its own, in use by anybody; of a pod, job or machine the main memory that its cgroup "
    "or the machine has in use.",
    "memory max": "The most that was seen of the memory in use.",
    "clocks": "Of the multiprocessors and of the memory.",
    "PCIe": "Bytes that come in and go out on the bus between host and GPU.",
    "slowed by": "What the driver says why clocks are lower than they could be.",
    "disk": "Bytes that the whole node reads and writes.",
    "network": "Bytes that the whole node receives and sends.",
    "GPUs": "How many GPUs it held, as far as was seen.",
    "pods": "How many of its pods were seen.",
    "history": "The newest figures of its use, a tick each, the last at the right.",
    "cores": "Of the CPUs of the machine, as its system counts them.",
    "age": "Of a figure the time since it was measured; of a process since it started.",
    "lasted": "From the first to the last that was seen of it.",
    "idle since": "Since when the verdict is idle, and what it was held for from then until now.",
    "asked": "What the pod requests of Kubernetes.",
    "used": "The most that was measured of one of these pods.",
    "predicted": "What pods like it that had ended used at most, the middle of them; and a range, with the "
    "share of runs that lie in it.",
    "throttled": "The share of the scheduler's periods in which its CPU limit throttled it.",
    "nodes": "On how many nodes its pods are.",
    "does": "The kind of work and what holds it back, with how sure that is; the evidence stands beside it.",
    "working": "Busy time in which the GPU worked and did not wait, by its power or its multiprocessors; "
    "where neither tells, it is unknown and not in it.",
    "tensor use of peak": "Tensor activity by the clock of the multiprocessors over that of the peak. "
    "Padding counts, so it is no MFU.",
    "waiting": "The share of seconds in which the GPU was below 60 % of its usual utilization.",
    "forecast": "Where the figure is heading; the band has 90 % of what is expected.",
}  # fmt: skip
"""Words of the pages that are no metrics."""
_DETAIL = re.compile(
    r"(?:, |; | \(|: | by rank| of the figures| of the machine).*| (?:mean|max|most|enough|request)$"
)
_ALIASES = {
    "utilization": "gpu use", "from mean of all": "gpu use", "between gpus": "gpu use",
    "gpu mem": "gpu memory", "mem-copy": "memory copy", "energy": "gpu energy", "kwh": "gpu energy",
    "max °c": "gpu temperature", "clock reduced": "slowed by", "power of limit": "gpu power",
    "inside the gpus": "sm activity", "gpu time": "gpu hours", "held without a process": "untouched",
    "host memory": "memory", "period": "cycle", "held back by": "does",
    "what it does": "does", "evidence": "does", "tensor/peak": "tensor use of peak", "mhz": "clocks",
    "cpus": "cpu", "memory of one gpu": "gpu memory", "duration": "lasted", "range": "predicted",
    "gpus asked": "asked", "cpus asked": "asked", "memory asked": "asked",
    "steps": "steps a minute", "a minute": "steps a minute", "time of a step": "steps a minute",
}  # fmt: skip
"""Other names that reports and pages have for them."""


def metrics() -> list[dict[str, str]]:
    """List the metrics: ``id``, title, word, unit, meaning, and who measures it."""
    return [
        {
            "id": f"{row.source}-{row.field}", "title": row.title, "word": row.word,
            "unit": unit_of(row.field).text, "meaning": row.meaning, "source": row.source, "field": row.field,
        }
        for row in CATALOGUE
        if row.meaning
    ]  # fmt: skip


def place_of(name: str) -> str | None:
    """Return the id under which a figure is explained, by its name on a page or in a report; None where
    nothing does. What stands behind a comma, such as ``max``, is part of no name."""
    places, whole = _places(), name.casefold()
    for text in (whole, _DETAIL.sub("", whole)):
        if (place := places.get(_ALIASES.get(text, text))) is not None:
            return place
    return None


def address_of(name: str) -> str | None:
    """Return the address of what explains a figure, seen from any page; None where nothing does."""
    place = place_of(name)
    return None if place is None else f"about#{place}"


@cache
def _places() -> dict[str, str]:
    """Return ids by name; one that two metrics have leads to the first, and a word of the pages is theirs."""
    places: dict[str, str] = {}
    for metric in reversed(metrics()):
        names = metric["title"], metric["word"], named_figure(metric["field"], 0)[0]
        places |= {name.casefold(): metric["id"] for name in names if name}
    return places | {name.casefold(): anchor(name) for name in TERMS}


def anchor(name: str) -> str:
    """Write a word as an id."""
    return name.replace(" ", "-")
