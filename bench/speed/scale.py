"""docs/scale.md: what a large cluster needs, worked out from the figures of ``make bench``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from bench.speed.bench import brief
from bench.speed.cluster import GPU, HOST, series
from bench.speed.figures import Figures
from bench.speed.report import MISSING, table
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS

NODES = 10_000
GPUS = 8
REPLICAS = 3
BUSY = 0.7
"""Of a worker's core: the rest is for catching up and for hours with more work."""
BROKER_MB_S = 75
"""What one broker takes of producers and other brokers: an assumption, half of a 1.2 Gbit/s network."""


@dataclass
class Sheet:
    """Lines of a calculation: what, how, and the result."""

    rows: list[list[str]] = field(default_factory=list)

    def add(self, what: str, how: str, result: float, unit: str) -> float:
        """One more line; returns the result."""
        self.rows.append([what, how, f"{brief(result)} {unit}".strip()])
        return result

    def page(self) -> str:
        """In Markdown."""
        return table(["", "arithmetic", "result"], self.rows)


def input_(figures: Figures) -> Sheet:
    """What collectors send."""
    sheet = Sheet()
    per_node = {topic: figures.middle(f"live.sent_bytes.{topic}") for topic in (GPU, HOST)}
    sheet.add("samples", f"{NODES:,} nodes × 2 a second", 2 * NODES, "a second")
    for topic, size in per_node.items():
        raw = figures.middle(f"live.sample_bytes.{topic}")
        how = f"{NODES:,} × {brief(size)} bytes (zstd, of {brief(raw)})"
        sheet.add(f"`{topic}`", how, NODES * size / 1e6, "MB/s")
    return sheet


def output(figures: Figures) -> Sheet:
    """What the streams send."""
    sheet = Sheet()
    records, sizes = figures.of("live.a_node.records"), figures.of("live.a_node.bytes")
    for topic in sorted(set(records) - {GPU, HOST, "pods"}):
        each = sizes[topic][0]
        how = f"{NODES:,} × {brief(each)} bytes a node and second ({brief(records[topic][0])} records)"
        sheet.add(f"`{topic}`", how, NODES * each / 1e6, "MB/s")
    changelog = figures.middle("live.a_node.changelog")
    how = f"{NODES:,} × {brief(changelog)} bytes ({series(1)} series a node)"
    sheet.add("changelogs", how, NODES * changelog / 1e6, "MB/s")
    return sheet


def brokers(figures: Figures) -> Sheet:
    """What Kafka has to carry and to keep."""
    sheet = Sheet()
    sent = {topic: figures.middle(f"live.sent_bytes.{topic}") for topic in (GPU, HOST)}
    derived = {name: found[0] for name, found in figures.of("live.a_node.bytes").items() if name not in sent}
    changelog = figures.middle("live.a_node.changelog")
    produced = NODES * (sum(sent.values()) + sum(derived.values()) + changelog) / 1e6
    sheet.add("from producers", "all of the above", produced, "MB/s")
    sheet.add("written by brokers", f"× {REPLICAS} replicas", REPLICAS * produced, "MB/s")
    read = NODES * (sum(sent.values()) + sent[GPU]) / 1e6
    how = "all samples to the streams, `nvml-samples` to the sinks once more"
    sheet.add("to consumers, of samples", how, read, "MB/s")
    kept = sum(
        size * TOPICS[name].retention_ms / 1000
        for name, size in {**sent, **derived}.items()
        if TOPICS[name].cleanup == "delete"
    )
    disk = REPLICAS * NODES * kept / 1e12
    days = TOPICS[GPU].retention_ms // 86_400_000
    how = f"each topic's bytes × its retention (samples {days} days) × {REPLICAS}"
    sheet.add("disk, of topics that are not compacted", how, disk, "TB")
    needed = max(REPLICAS, ceil(REPLICAS * produced / BROKER_MB_S))
    how = f"{brief(REPLICAS * produced)} MB/s ÷ {BROKER_MB_S} MB/s a broker, at least {REPLICAS}"
    sheet.add("brokers", how, needed, "")
    return sheet


def workers(figures: Figures) -> Sheet:
    """What computes."""
    sheet = Sheet()
    cpu_us = figures.middle("live.cpu_us")
    busy = sheet.add(
        "cores", f"{2 * NODES:,} samples/s × {brief(cpu_us)} µs", 2 * NODES * cpu_us / 1e6, "busy"
    )
    count = ceil(busy / BUSY)
    sheet.add("stream workers, a core each", f"{brief(busy)} ÷ {BUSY:g}", count, "")
    partitions = 2 * 2 ** (count - 1).bit_length()
    how = "the next power of two, doubled: so that workers differ by little and more can be added"
    sheet.add("partitions of each topic", how, partitions, "")
    each = NODES / count
    memory = figures.middle("state.memory_most_mb")
    how = f"{brief(memory)} MB with 1,000 nodes × {brief(each)} ÷ 1,000"
    sheet.add("memory of a worker", how, memory * each / 1000, "MB")
    recovery = figures.middle("state.recovery_s")
    how = f"{brief(recovery)} s with 1,000 nodes × {brief(each)} ÷ 1,000"
    sheet.add("recovery of a worker that was killed", how, recovery * each / 1000, "s")
    return sheet


def sinks(figures: Figures) -> Sheet:
    """What is written outside of Kafka; a node runs one pod."""
    sheet, settings = Sheet(), Settings()
    peaks = figures.middle("live.a_node.records.pod-peaks")
    rows = sheet.add("peak records", f"{NODES:,} pods × {brief(peaks)} a second", NODES * peaks, "a second")
    rate = figures.middle("postgres.records_per_s")
    sheet.add("sinks for these", f"{brief(rows)} ÷ {brief(rate)} of one sink", ceil(rows / rate), "")
    patches = figures.middle("annotations.patches_per_s")
    sheet.add("annotations of pods", f"measured for 10,000 pods, × {NODES:,} ÷ 10,000", patches, "PATCH/s")
    beat, wait = settings.annotation_heartbeat, settings.annotation_interval
    leases = sheet.add("Leases of nodes", f"{NODES:,} ÷ {beat:g} s", NODES / beat, "PUT/s")
    how = f"{NODES:,} ÷ {wait:g} s, if each node's text changed all the time"
    nodes = sheet.add("annotations of nodes, at most", how, NODES / wait, "PATCH/s")
    every = patches + leases + nodes
    how = f"({brief(patches)} + {brief(leases)} + {brief(nodes)}) ÷ {settings.annotation_rate} a sink"
    sheet.add("sinks for these, at most", how, ceil(every / settings.annotation_rate), "")
    taken = figures.middle("annotations.taken_per_s")
    sheet.add(
        "share of one API server, at most", f"{brief(every)} ÷ {brief(taken)}", 100 * every / taken, "%"
    )
    return sheet


def write(figures: Figures, folder: Path) -> None:
    """Write the page."""
    sheets = {"input_": input_, "output": output, "brokers": brokers, "workers": workers, "sinks": sinks}
    parts = {name: _or_missing(sheet, figures) for name, sheet in sheets.items()}
    template = Path(__file__).with_name("scale.template.md").read_text()
    page = template.format(nodes=NODES, gpus=GPUS, beat=Settings().annotation_heartbeat, **parts)
    (folder / "scale.md").write_text(page)


def _or_missing(part: Callable[[Figures], Sheet], figures: Figures) -> str:
    try:
        return part(figures).page()
    except KeyError as error:
        return f"{MISSING} It takes {error.args[0]}."
