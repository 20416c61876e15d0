"""docs/scale.md: what large clusters need, from the figures of ``make bench``, and how well that holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from bench.speed.bench import brief
from bench.speed.cluster import GPU, HOST
from bench.speed.figures import Figures
from bench.speed.report import MISSING, table
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS

GPUS = 8
"""Of a node."""
FLEETS = (10_000, 100_000)
"""GPUs of the clusters on the page."""
REPLICAS = 3
BUSY = 0.7
"""Of a worker's core: the rest is for catching up and for hours with more work."""
BROKER_MB_S = 75
"""What one broker takes of producers and other brokers: an assumption, half of a 1.2 Gbit/s network."""
OfNodes = Callable[[float], float]
"""A result by the number of nodes."""


def times(each: float) -> OfNodes:
    """Return the product of nodes and what each has."""
    return lambda nodes: nodes * each


@dataclass
class Sheet:
    """Lines of a calculation: what, how for so many nodes, and the result for each fleet."""

    rows: list[list[str]] = field(default_factory=list)

    def add(self, what: str, how: str, result: OfNodes, unit: str = "") -> None:
        """Append a line."""
        values = [f"{brief(result(gpus / GPUS))} {unit}".strip() for gpus in FLEETS]
        self.rows.append([what, how, *values])

    def page(self) -> str:
        """Return the lines in Markdown."""
        return table(["", "arithmetic", *(f"{gpus:,} GPUs" for gpus in FLEETS)], self.rows)


def input_(figures: Figures) -> Sheet:
    """What collectors send."""
    sheet = Sheet()
    sheet.add("samples", "nodes × 2 a second", times(2), "a second")
    for topic in (GPU, HOST):
        size = figures.middle(f"live.sent_bytes.{topic}")
        raw = figures.middle(f"live.sample_bytes.{topic}")
        how = f"nodes × {brief(size)} bytes (zstd, of {brief(raw)})"
        sheet.add(f"`{topic}`", how, times(size / 1e6), "MB/s")
    return sheet


def output(figures: Figures) -> Sheet:
    """What the streams send."""
    sheet = Sheet()
    records, sizes = figures.of("live.a_node.records"), figures.of("live.a_node.bytes")
    for topic in sorted(set(records) - {GPU, HOST, "pods"}):
        size = sizes[topic][0]
        how = f"nodes × {brief(size)} bytes a second ({brief(records[topic][0])} records)"
        sheet.add(f"`{topic}`", how, times(size / 1e6), "MB/s")
    changelog = figures.middle("live.a_node.changelog")
    how = f"nodes × {brief(changelog)} bytes a second"
    sheet.add("changelogs", how, times(changelog / 1e6), "MB/s")
    return sheet


def brokers(figures: Figures) -> Sheet:
    """What Kafka has to carry and to keep."""
    sheet = Sheet()
    sent = {topic: figures.middle(f"live.sent_bytes.{topic}") for topic in (GPU, HOST)}
    derived = {name: found[0] for name, found in figures.of("live.a_node.bytes").items() if name not in sent}
    changelog = figures.middle("live.a_node.changelog")
    node_mb_s = (sum(sent.values()) + sum(derived.values()) + changelog) / 1e6
    sheet.add("from producers", "all of the above", times(node_mb_s), "MB/s")
    written = f"from producers × {REPLICAS} replicas"
    sheet.add("written by brokers", written, times(REPLICAS * node_mb_s), "MB/s")
    read_mb_s = (sum(sent.values()) + sent[GPU]) / 1e6
    how = "all samples to the streams, `nvml-samples` to the sinks once more"
    sheet.add("to consumers, of samples", how, times(read_mb_s), "MB/s")
    kept = sum(
        size * TOPICS[name].retention_ms / 1000
        for name, size in {**sent, **derived}.items()
        if TOPICS[name].cleanup == "delete"
    )
    days = TOPICS[GPU].retention_ms // 86_400_000
    how = f"each topic's bytes × its retention (samples {days} days) × {REPLICAS}"
    disk = "disk, of topics that are not compacted"
    sheet.add(disk, how, times(REPLICAS * kept / 1e12), "TB")
    how = f"written by brokers ÷ {BROKER_MB_S} MB/s of one, at least {REPLICAS}"
    sheet.add("brokers", how, lambda nodes: max(REPLICAS, ceil(REPLICAS * nodes * node_mb_s / BROKER_MB_S)))
    return sheet


def workers(figures: Figures) -> Sheet:
    """What computes."""
    sheet = Sheet()
    cpu_us = figures.middle("live.cpu_us")
    memory, recovery = figures.middle("state.memory_most_mb"), figures.middle("state.recovery_s")

    cores = times(2 * cpu_us / 1e6)

    def count(nodes: float) -> int:
        return ceil(cores(nodes) / BUSY)

    sheet.add("cores", f"samples a second × {brief(cpu_us)} µs", cores, "busy")
    sheet.add("stream workers, a core each", f"cores ÷ {BUSY:g}", count)
    how = "the next power of two, doubled: so that workers differ by little and more can be added"
    sheet.add("partitions of each topic", how, lambda nodes: 2 * 2 ** (count(nodes) - 1).bit_length())
    how = f"{brief(memory)} MB with 1,000 nodes × nodes of a worker ÷ 1,000"
    sheet.add("memory of a worker", how, lambda nodes: memory * nodes / count(nodes) / 1000, "MB")
    how = f"{brief(recovery)} s with 1,000 nodes × nodes of a worker ÷ 1,000"
    killed = "recovery of a worker that was killed"
    sheet.add(killed, how, lambda nodes: recovery * nodes / count(nodes) / 1000, "s")
    return sheet


def sinks(figures: Figures) -> Sheet:
    """What is written outside of Kafka; a node runs one pod."""
    sheet, settings = Sheet(), Settings()
    peaks = figures.middle("live.a_node.records.pod-peaks")
    rate = figures.middle("postgres.records_per_s")
    measured = figures.middle("annotations.patches_per_s")
    taken = figures.middle("annotations.taken_per_s")
    beat, wait = settings.annotation_heartbeat, settings.annotation_interval

    requests = times(measured / 10_000 + 1 / beat + 1 / wait)
    sheet.add("peak records", f"pods × {brief(peaks)} a second", times(peaks), "a second")
    how = f"peak records ÷ {brief(rate)} of one sink"
    sheet.add("sinks for these", how, lambda nodes: ceil(nodes * peaks / rate))
    how = f"{brief(measured)} a second, measured for 10,000 pods, × pods ÷ 10,000"
    sheet.add("annotations of pods", how, times(measured / 10_000), "PATCH/s")
    sheet.add("Leases of nodes", f"nodes ÷ {beat:g} s", times(1 / beat), "PUT/s")
    how = f"nodes ÷ {wait:g} s, if each node's text changed all the time"
    sheet.add("annotations of nodes, at most", how, times(1 / wait), "PATCH/s")
    how = f"the three lines before ÷ {settings.annotation_rate} of one sink"
    at_most = "sinks for these, at most"
    sheet.add(at_most, how, lambda nodes: ceil(requests(nodes) / settings.annotation_rate))
    how = f"the same three lines ÷ {brief(taken)}"
    share = "share of one API server, at most"
    sheet.add(share, how, lambda nodes: 100 * requests(nodes) / taken, "%")
    return sheet


def check(figures: Figures) -> str:
    """Write how far a large fleet is from what a small one predicts, as a table."""
    rows = []
    for name, (title, unit) in {
        "cpu_pct": ("CPU of the worker", "% of a core"),
        "records_per_s": ("records that it sends", "a second"),
        "sent_kb_s": ("bytes of its topics that are not compacted, as they lie in Kafka", "kB/s"),
        "changelog_kb_s": ("bytes of its changelogs", "kB/s"),
        "memory_mb": ("its memory", "MB"),
    }.items():
        predicted = figures.middle(f"fleet.predicted.{name}")
        measured = figures.middle(f"fleet.measured.{name}")
        difference = f"{100 * (measured / predicted - 1):+.0f} %"
        rows.append([title, f"{brief(predicted)} {unit}", f"{brief(measured)} {unit}", difference])
    return f"{figures.notes['fleet.how']}\n\n{table(['', 'predicted', 'measured', 'difference'], rows)}"


def write(figures: Figures, folder: Path) -> None:
    """Write the page."""
    parts: dict[str, Callable[[Figures], Sheet | str]] = {
        "input_": input_,
        "output": output,
        "brokers": brokers,
        "workers": workers,
        "sinks": sinks,
        "check": check,
    }
    texts = {name: _or_missing(part, figures) for name, part in parts.items()}
    template = Path(__file__).with_name("scale.template.md").read_text()
    page = template.format(gpus=GPUS, beat=Settings().annotation_heartbeat, **texts)
    (folder / "scale.md").write_text(page)


def _or_missing(part: Callable[[Figures], Sheet | str], figures: Figures) -> str:
    try:
        made = part(figures)
    except KeyError as error:
        return f"{MISSING} It takes {error.args[0]}."
    return made if isinstance(made, str) else made.page()
