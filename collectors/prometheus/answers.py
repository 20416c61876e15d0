"""Reads what each answer of a Prometheus teaches: names, units, nodes, clusters and exporters. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from collectors.prometheus.containers import container_part, of_containers_once
from collectors.prometheus.dcgm.devices import GpuReader, explain, explain_nameless
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.dcgm.merge import merge_exporters
from collectors.prometheus.host import host_part
from collectors.prometheus.identity.clusters import Clusters
from collectors.prometheus.identity.exporters import Exporters
from collectors.prometheus.identity.labels import Target
from collectors.prometheus.identity.nodes import GpuPlace, NodeNames
from collectors.prometheus.identity.nodes import explain as explain_nodes
from collectors.prometheus.series import (
    ScrapedSeries,
    SeriesLabels,
    without_impossible,
    without_second_scrapes,
    without_server,
)
from dutycycle.contract.records.base import RecordBase, written
from dutycycle.contract.settings.groups import PrometheusSettings

NoNumbers = Counter[tuple[str, str]]
"""Samples that are NaN or infinite, or that no machine has, by metric and text, with how many there were."""


class LearnedState(RecordBase, frozen=True, kw_only=True):
    """Holds what goes from one part of the past to the next."""

    cluster: str | None = None
    host_names: tuple[tuple[Target, str], ...] = written(tuple)
    gpus: tuple[GpuPlace, ...] = written(tuple)
    renamed_hosts: tuple[tuple[str, str], ...] = written(tuple)
    renaming_jobs: tuple[str, ...] = written(tuple)
    units: tuple[tuple[str, str, str, float], ...] = written(tuple)
    dividing: tuple[Target, ...] = written(tuple)


class LeftOut(NamedTuple):
    """Says what is in no record, in a sentence; ``what`` and ``reason``: its words in counters."""

    detail: str
    samples: int
    what: str
    reason: str


class AnswerReader:
    """Learns from each answer, and gives its series with labels that the rest of the code knows.

    ``without``: fields of GPUs that are not read. Raises ``SettingError`` for names that stand for nothing.
    """

    def __init__(self, settings: PrometheusSettings | None = None, without: Set[str] = frozenset()) -> None:
        settings = settings or PrometheusSettings()
        cluster_label = settings.prometheus_cluster
        if cluster_label and "=" in cluster_label:  # only one cluster is asked for
            cluster_label = None
        self.vocabulary = Vocabulary(dict(settings.prometheus_names), without)
        self.exporters = Exporters()
        self.clusters = Clusters(cluster_label)
        self.nodes = NodeNames()
        self.gpus = GpuReader(self.vocabulary, self.exporters)
        self.no_numbers: NoNumbers = Counter()
        self._counted_ms: dict[str, int] = defaultdict(int)

    def read(
        self, answers: Mapping[str, Sequence[ScrapedSeries]], after_ms: int = 0
    ) -> dict[str, list[ScrapedSeries]]:
        """Return the answers to some of the queries, by what was asked for.

        Samples after ``after_ms`` that are no numbers are counted, each once though it is asked for again.
        Raises ``ClustersMixedError`` where clusters cannot be told apart.
        """
        answers = {
            what: series if what == "gpus" else [without_impossible(scraped) for scraped in series]
            for what, series in answers.items()
        }
        for what, series in answers.items():
            since_ms = max(self._counted_ms[what], after_ms)
            uncounted = [
                (scraped.labels.get("__name__", ""), ts_ms, f"{value:g}")
                for scraped in series for ts_ms, value in scraped.no_numbers if ts_ms > since_ms
            ]  # fmt: skip
            for name, ts_ms, text in uncounted:
                self.no_numbers[name, text] += 1
                self._counted_ms[what] = max(self._counted_ms[what], ts_ms)
        gpus = self.vocabulary.rename_labels(answers.get("gpus", ()))
        apart = self.clusters.apart({**answers, "gpus": gpus})
        apart["gpus"] = without_second_scrapes(apart["gpus"], without_server)
        self.vocabulary.learn(apart["gpus"])
        kube = apart.get("kube", ())
        self.exporters.learn_pods(kube)
        self.exporters.learn(apart["gpus"])
        self.gpus.learn(apart["gpus"])
        self.nodes.learn_pods(kube)
        for what, series in apart.items():
            if what != "gpus":
                self.nodes.learn_hosts(series)
        self.nodes.learn_hosts(apart["gpus"])
        self.nodes.learn_gpus(apart["gpus"])
        apart["gpus"] = merge_exporters(apart["gpus"], self.vocabulary, self.exporters)
        for what, part_of in (("hosts", host_part), ("containers", container_part)):
            if what in apart:
                apart[what] = without_second_scrapes(apart[what], self._key_of(part_of))
        if "containers" in apart:
            apart["containers"] = of_containers_once(apart["containers"])
        return {what: series for what, series in apart.items() if what in answers}

    def _key_of(self, part_of: Callable[[SeriesLabels], Hashable]) -> Callable[[SeriesLabels], Hashable]:
        return lambda labels: (labels.get("__name__"), self.nodes.node_of(labels), part_of(labels))

    def left_out(self) -> Iterator[LeftOut]:
        """Say what is in no record since the last call."""
        refused, no_numbers = self.nodes.refused, self.no_numbers
        nameless, impossible = self.gpus.nameless, self.gpus.impossible
        if refused:
            yield LeftOut(explain_nodes(refused), refused.total(), "node", "no_name")
        if nameless:
            yield LeftOut(explain_nameless(nameless), nameless.total(), "gpu", "no_name")
        if impossible:
            yield LeftOut(explain(impossible), impossible.total(), "gpu", "out_of_range")
        if no_numbers:
            (name, text), _ = no_numbers.most_common(1)[0]
            values = f"{no_numbers.total()} values that are no number, or that no machine has"
            detail = f"{values}, such as {text} of {name}: taken as not measured"
            yield LeftOut(detail, no_numbers.total(), "prometheus", "no_number")
        for detail in self.vocabulary.unknown_units.values():
            yield LeftOut(detail, 1, "energy_j", "out_of_range")
        self.vocabulary.unknown_units.clear()
        for counts in (refused, nameless, impossible, no_numbers):
            counts.clear()

    def snapshot(self) -> LearnedState:
        """Return what was learned, for ``restore``."""
        gpus, renamed = self.nodes.snapshot()
        return LearnedState(
            cluster=self.clusters.label, host_names=tuple(self.nodes.hosts.items()), gpus=gpus,
            renamed_hosts=renamed, renaming_jobs=tuple(sorted(self.exporters.renaming)),
            units=self.vocabulary.snapshot(), dividing=tuple(sorted(self.gpus.dividing)),
        )  # fmt: skip

    def restore(self, state: LearnedState) -> None:
        """Go on with what was known."""
        self.clusters.label = state.cluster or self.clusters.label
        self.nodes.hosts = dict(state.host_names)
        self.nodes.restore(state.gpus, state.renamed_hosts)
        self.exporters.renaming = set(state.renaming_jobs)
        self.vocabulary.restore(state.units)
        self.gpus.dividing = set(state.dividing)
