"""Makes of what a Prometheus kept the records that the collector would have written, in order of time. Pure.

History is taken in chunks. A chunk needs nothing of the one before but what ``HistoryState`` holds, so that a
run that was interrupted goes on with the same records.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from statistics import median

from collectors.base import Tick, of_node
from collectors.prometheus.answers import AnswerReader, LearnedState
from collectors.prometheus.containers import CONTAINER_SELECTOR
from collectors.prometheus.host import HOST_SELECTOR
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.kube_state import KUBE_SELECTOR, KubeState
from collectors.prometheus.names import PodNames, PodState, ScrapedPod, scraped_pods
from collectors.prometheus.records import APART_MS, WAITING_MS, cgroup_samples, nvml_samples
from collectors.prometheus.series import NewSample, ScrapedSeries, samples_after
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.base import RecordBase, written

_SLICE_MS = 30_000
"""How often what kube-state-metrics says is looked at, as the collector does."""
_KUBE_AGE_MS = 120_000
"""What it says counts for so long: it is scraped once a minute at least."""
_FAILED_SCRAPES = 3
_Scrape = tuple[int, list[NewSample]]
"""A moment, and what was measured then."""
_Scrapes = dict[tuple[int, str], dict[str, list[NewSample]]]
"""By moment and node, and by kind: what one record is made of."""


class HistoryState(RecordBase, frozen=True, kw_only=True):
    """Holds what goes from one chunk to the next. ``hosts``: nodes for which node_exporter speaks."""

    seq: int = written(int)
    hosts: tuple[str, ...] = written(tuple)
    learned: LearnedState = written(LearnedState)
    pods: tuple[PodState, ...] = written(tuple)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Holds the answers for ``(start_ms, end_ms]`` by the names of ``History.selectors``.

    Points before ``start_ms`` are there for rates and names alone. Over more than ``gap_ms`` no rate is
    taken.
    """

    start_ms: int
    end_ms: int
    gap_ms: int
    series: Mapping[str, list[ScrapedSeries]] = field(repr=False)


class History:
    """Turns chunks, given in order, into records. ``collector`` is their field of that name; ``interval_ms``
    is that of a record whose scrape has none before it."""

    def __init__(self, collector: str, interval_ms: int, retire_s: float, reader: AnswerReader) -> None:
        self.selectors = {
            "gpus": reader.vocabulary.selector, "hosts": HOST_SELECTOR, "containers": CONTAINER_SELECTOR,
            "kube": KUBE_SELECTOR,
        }  # fmt: skip
        """What is asked for, for each chunk."""
        self._reader = reader
        self._collector = collector
        self._interval_ms = interval_ms
        self._kube = KubeState()
        self._names = PodNames(retire_s)
        self._seq = 0
        self._hosts: set[str] = set()

    def snapshot(self) -> HistoryState:
        """Return after a chunk what the next one needs."""
        return HistoryState(
            seq=self._seq, hosts=tuple(sorted(self._hosts)), learned=self._reader.snapshot(),
            pods=tuple(self._names.snapshot()),
        )  # fmt: skip

    def restore(self, state: HistoryState) -> None:
        """Go on after the chunk of the snapshot."""
        self._seq, self._hosts = state.seq, set(state.hosts)
        self._reader.restore(state.learned)
        self._names.restore(state.pods)

    def records(self, chunk: Chunk) -> Iterator[ProducerRecord]:
        """Yield the records of a chunk, in order of time. Raises ``ClustersMixedError``."""
        chunk = replace(chunk, series=self._reader.read(chunk.series, chunk.start_ms))
        scrapes: _Scrapes = defaultdict(lambda: defaultdict(list))
        by_what = {what: self._scrapes(what, chunk) for what in APART_MS}
        self._hosts |= by_what["hosts"].keys()
        measured_ms: dict[str, int] = {}  # by node: when containers were measured last before the chunk
        for series in chunk.series["containers"] if by_what["hosts"] else ():
            if before := [ts_ms for ts_ms, _ in series.points if ts_ms <= chunk.start_ms]:
                node = self._reader.nodes.node_of(series.labels)
                measured_ms[node] = max(measured_ms.get(node, 0), before[-1])
        for node, hosts in by_what["hosts"].items():
            moments = [measured_ms.get(node, 0), *(ts_ms for ts_ms, _ in by_what["containers"].get(node, ()))]
            by_what["hosts"][node] = _beside_containers(hosts, moments, chunk)
        for what, nodes in by_what.items():
            for node, moments_of in nodes.items():
                for ts_ms, samples in moments_of:
                    scrapes[ts_ms, node][what] = samples
        # Names and uids of the whole chunk; of several pods that had one name, the first
        index = PodIndex(patient_answers=0)
        index.learn_pods(_latest_first(chunk.series["kube"]))
        index.learn_containers(_latest_first(chunk.series["containers"]))
        for start_ms, of in groupby(sorted(scrapes), key=lambda key: key[0] // _SLICE_MS * _SLICE_MS):
            # Take what kube-state-metrics said at the end of a slice
            end_ms = start_ms + _SLICE_MS
            now = []
            for scraped in chunk.series["kube"]:
                points = tuple(
                    point for point in scraped.points if end_ms - _KUBE_AGE_MS < point[0] <= end_ms
                )
                if points:
                    now.append(ScrapedSeries(scraped.labels, points))
            index.learn_pods(now)
            self._kube.learn(now)
            yield from self._slice({key: scrapes.pop(key) for key in of}, index)

    def _scrapes(self, what: str, chunk: Chunk) -> dict[str, list[_Scrape]]:
        nodes: dict[str, list[tuple[int, int, NewSample]]] = defaultdict(list)
        start_ms = chunk.start_ms - (WAITING_MS if what == "hosts" else 0)
        for number, series in enumerate(chunk.series[what]):
            # So long a series may have no sample and go on: what a counter grew in that time is known, but
            # what a GPU did is not. For some scrapes that failed nobody saw it.
            gap_ms: float = chunk.gap_ms
            if what == "gpus" and len(series.points) > 1:
                steps = [after[0] - before[0] for before, after in pairwise(series.points)]
                gap_ms = min(gap_ms, _FAILED_SCRAPES * median(steps))
            new = [(sample.ts_ms, number, sample) for sample in samples_after(series, start_ms, gap_ms)]
            count = sum(ts_ms > chunk.start_ms for ts_ms, _, _ in new)
            if new and (node := self._reader.nodes.name_of(series.labels, count)):
                nodes[node] += new
        for samples in nodes.values():
            samples.sort(key=lambda numbered: numbered[:2])
        return {node: list(_together(samples, APART_MS[what])) for node, samples in nodes.items()}

    def _slice(self, scrapes: _Scrapes, index: PodIndex) -> Iterator[ProducerRecord]:
        """Yield the records of a slice: who the pods are, and then what they did."""
        outs: list[ProducerRecord] = []
        seen: list[ScrapedPod] = []
        for (ts_ms, node), of in scrapes.items():
            tick = self._tick(ts_ms)
            index.learn_containers(of["containers"])
            containers = {node: of["containers"]} if of["containers"] else {}
            hosts = {node: of["hosts"]} if node in self._hosts else {}
            of_gpus = {node: of["gpus"]} if of["gpus"] else {}
            gpus = list(nvml_samples(of_gpus, self._reader.gpus, index, tick))
            seen += scraped_pods(containers, gpus, index)
            outs += [of_node("nvml-samples", sample) for sample in gpus]
            uses = cgroup_samples(containers, hosts, index, tick, self._reader.no_numbers)
            outs += [of_node("cgroup-samples", sample) for sample in uses]
        first_ms, _ = next(iter(scrapes))
        yield from self._names.update(seen, self._kube, self._tick(first_ms))
        yield from outs

    def _tick(self, ts_ms: int) -> Tick:
        self._seq += 1
        return Tick(
            node="", collector=self._collector, seq=self._seq - 1, ts_ms=ts_ms,
            interval_ms=self._interval_ms, monotonic_s=ts_ms / 1000,
        )  # fmt: skip


def _latest_first(series: Iterable[ScrapedSeries]) -> list[ScrapedSeries]:
    return sorted(
        (scraped for scraped in series if scraped.points),
        key=lambda scraped: scraped.points[0][0],
        reverse=True,
    )


def _beside_containers(hosts: Iterable[_Scrape], moments: list[int], chunk: Chunk) -> list[_Scrape]:
    """Give a scrape of node_exporter the moment of cAdvisor's next one, so that a record tells both: a pod
    that is in every other record alone counts for a part of its time.

    ``moments``: cAdvisor's, the last one before the chunk first. What has none yet waits for the next chunk;
    where cAdvisor does not come, it has its own moment.
    """
    placed: dict[int, list[NewSample]] = {}
    for own_ms, samples in hosts:
        at, ts_ms = bisect_left(moments, own_ms), own_ms
        if at < len(moments):
            ts_ms = moments[at] if moments[at] - own_ms <= WAITING_MS else own_ms
        elif own_ms - moments[-1] <= WAITING_MS and chunk.end_ms - own_ms < WAITING_MS:
            continue
        if ts_ms > chunk.start_ms:
            placed[ts_ms] = samples
    return list(placed.items())


def _together(
    samples: Iterable[tuple[int, int, NewSample]], apart_ms: int
) -> Iterator[tuple[int, list[NewSample]]]:
    """Scrapes of a node, each with its newest moment: no series twice, and not more than ``apart_ms`` apart.

    ``samples`` are in order of time, each with the number of its series.
    """
    group: dict[int, NewSample] = {}
    first_ms = last_ms = 0
    for ts_ms, of in groupby(samples, key=lambda numbered: numbered[0]):
        now = {number: sample for _, number, sample in of}
        if group and (now.keys() & group.keys() or ts_ms - first_ms > apart_ms):
            yield last_ms, list(group.values())
            group = {}
        first_ms = first_ms if group else ts_ms
        last_ms = ts_ms
        group |= now
    if group:
        yield last_ms, list(group.values())
