"""Says what each figure of a page is and how it is made: of metrics by their catalogue."""

from collections.abc import Mapping

from dutycycle.contract.catalogue import CATALOGUE, unit_of

TERMS: Mapping[str, str] = {
    "busy": "A GPU in whose last tick a kernel ran, or the time of it, by the GPU utilization.",
    "use": "The share of the time in which a kernel ran; the max is of all that this page has seen.",
    "idle": "Held by a pod or process while no kernel runs; of the ledger: known time that was not busy.",
    "free": "Nobody has it, as far as pods and processes tell.",
    "unknown": "Not measured, or not to be divided among those who share a GPU. It is not counted as idle.",
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
    "memory max": "The most that this page has seen of the memory in use.",
    "clocks": "Of the multiprocessors and of the memory.",
    "PCIe": "Bytes that come in and go out on the bus between host and GPU.",
    "slowed by": "What the driver says why clocks are lower than they could be.",
    "disk": "Bytes that the whole node reads and writes.",
    "network": "Bytes that the whole node receives and sends.",
    "GPUs": "How many GPUs it held, as far as was seen.",
    "does": "The kind of work and what holds it back, with how sure that is; the evidence stands beside it.",
    "forecast": "Where the figure is heading; the band has 90 % of what is expected.",
}  # fmt: skip
"""Words of the pages that are no metrics."""


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


def anchors() -> dict[str, str]:
    """Say where on the page a word is explained; the word of two metrics leads to the first."""
    places = {name: anchor(name) for name in TERMS}
    for metric in reversed(metrics()):
        places |= {name: metric["id"] for name in (metric["title"], metric["word"]) if name}
    return places


def anchor(name: str) -> str:
    """Write a word as an id."""
    return name.replace(" ", "-")
