"""Collects samples of all nodes that a Prometheus scrapes, a record per node and scrape.

Each sample is given out once, when it is new, with its own time. So a target that is not scraped any more
is absent, and a value is never repeated between two scrapes.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from collectors.base import Tick, of_node
from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.containers import CONTAINER_SELECTOR
from collectors.prometheus.dcgm.health import DcgmHealth
from collectors.prometheus.host import HOST_SELECTOR
from collectors.prometheus.identity.labels import POD_INFO, workload_of
from collectors.prometheus.identity.pods import PodIndex, UidOf
from collectors.prometheus.kube_state import KUBE_NOW, KubeState
from collectors.prometheus.names import PodNames, scraped_pods
from collectors.prometheus.query import QueryError
from collectors.prometheus.records import APART_MS, WAITING_MS, by_node, cgroup_samples, nvml_samples
from collectors.prometheus.series import NewSample, ScrapeCursor, ScrapedSeries
from dutycycle.contract.log import ProducerRecord
from dutycycle.telemetry.events import (
    ATTRIBUTION_FAILED,
    NOT_MEASURED,
    PROMETHEUS_INCOMPLETE,
    PROMETHEUS_QUERY_FAILED,
    Telemetry,
)

_POD_INFO_EVERY_S = 30.0
_LEAST_WINDOW_S = 60.0
_FIRST_WINDOW_S = 300.0
"""At the start, and after a failure: what is in it counts as known, so that rates have their beginning."""
_LEAST_DEADLINE_S = 4.0
_HELP_S = 4


class PrometheusApi(Protocol):
    """Declares what is asked; each method raises ``QueryError``. See ``Prometheus``."""

    def samples(self, selector: str, seconds: float, deadline_s: float) -> list[ScrapedSeries]: ...

    def now(self, selector: str, deadline_s: float) -> list[ScrapedSeries]: ...

    def help_texts(self, names: Iterable[str], timeout_s: int) -> dict[str, list[str]]: ...

    def incomplete(self) -> list[str]: ...

    def close(self) -> None: ...


class PrometheusCollector:
    """Collects from a Prometheus. ``uid_of``: the pods of the API server. Without it, records of pods are
    given out too.

    ``health``: faults of GPUs are told of, as far as the exporters have them.
    """

    name = "prometheus"

    def __init__(
        self, prometheus: PrometheusApi, telemetry: Telemetry, reader: AnswerReader, *, uid_of: UidOf | None,
        retire_s: float, health: bool = True,
    ) -> None:  # fmt: skip
        self._selectors = {
            "gpus": reader.vocabulary.selector, "containers": CONTAINER_SELECTOR, "hosts": HOST_SELECTOR
        }  # fmt: skip
        self._reader = reader
        self._prometheus = prometheus
        self._telemetry = telemetry
        self._pod_index = PodIndex(uid_of=uid_of)
        self._kube = KubeState()
        self._health = DcgmHealth(reader.vocabulary) if health else None
        self._names = PodNames(retire_s) if uid_of is None else None
        self._cursors = {what: ScrapeCursor() for what in self._selectors}
        self._new = dict.fromkeys(self._selectors, True)
        self._hosts: set[str] = set()
        self._waiting: dict[str, Sequence[NewSample]] = {}
        self._measured_s: dict[str, float] = {}
        """By node: when its containers were measured last."""
        self._pod_info_due_s = float("-inf")

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return what was scraped since the last tick. Raises ``QueryError`` when every query failed, and
        ``ClustersMixedError``."""
        deadline_s = time.monotonic() + max(_LEAST_DEADLINE_S, 1.5 * tick.interval_ms / 1000)
        raw = self._ask(tick, deadline_s)
        if names := self._reader.vocabulary.without_help(raw.get("gpus", ())):
            self._reader.vocabulary.learn_help(self._prometheus.help_texts(names, _HELP_S))
        answers = self._reader.read(raw)
        samples: dict[str, list[NewSample]] = {}
        for what, cursor in self._cursors.items():
            samples[what] = cursor.of(answers.get(what, ()))
            if what not in answers or not self._new[what]:
                continue
            self._new[what], samples[what] = False, []
            if what == "containers":  # or a pod would be known by its name first, and by its uid then
                self._pod_index.learn_containers(answers[what])
        self._ask_for_pods(tick, deadline_s)
        self._pod_index.learn_containers(samples["containers"])
        unknown = {
            f"{who.namespace}/{who.pod}"
            for sample in samples["containers"]
            if (who := workload_of(sample.labels)) is not None and self._pod_index.of(sample.labels) is None
        }
        if unknown:
            detail = f"{len(unknown)} pods such as {min(unknown)}: neither cAdvisor's id label nor {POD_INFO}"
            self._telemetry.emit(ATTRIBUTION_FAILED, detail, count=len(unknown), reason="no_uid")
        outs = list(self._records(samples, tick))
        for detail, count, what, reason in self._reader.left_out():
            self._telemetry.emit(NOT_MEASURED, detail, count=count, what=what, reason=reason)
        if texts := self._prometheus.incomplete():
            self._telemetry.raise_condition(PROMETHEUS_INCOMPLETE, "answers", "; ".join(texts))
        else:
            self._telemetry.clear_condition(PROMETHEUS_INCOMPLETE, "answers", "answers are whole again")
        return outs

    def close(self) -> None:
        """Give the connections back."""
        self._prometheus.close()

    def _ask(self, tick: Tick, deadline_s: float) -> dict[str, list[ScrapedSeries]]:
        failed: dict[str, QueryError] = {}
        answers: dict[str, list[ScrapedSeries]] = {}
        usual_s = max(_LEAST_WINDOW_S, 2 * tick.interval_ms / 1000)
        for what, selector in self._selectors.items():
            window_s = _FIRST_WINDOW_S if self._new[what] else usual_s
            try:
                answers[what] = self._prometheus.samples(selector, window_s, deadline_s)
            except QueryError as error:
                failed[what], self._new[what] = error, True
        if not answers:  # the runner reports it
            raise next(iter(failed.values()))
        for what in self._selectors:
            self._report(what, failed.get(what))
        return answers

    def _ask_for_pods(self, tick: Tick, deadline_s: float) -> None:
        if tick.monotonic_s < self._pod_info_due_s:
            return
        try:
            series = self._reader.read({"kube": self._prometheus.now(KUBE_NOW, deadline_s)})["kube"]
        except QueryError as error:  # the pods known before stay
            self._report(POD_INFO, error)
            return
        self._pod_index.learn_pods(series)
        self._kube.learn(series)
        self._report(POD_INFO, None)
        self._pod_info_due_s = tick.monotonic_s + _POD_INFO_EVERY_S

    def _records(self, samples: dict[str, list[NewSample]], tick: Tick) -> Iterator[ProducerRecord]:
        nodes = {what: by_node(of, self._reader.nodes, APART_MS[what]) for what, of in samples.items()}
        for of in nodes.values():
            of.pop("", None)
        self._hosts |= nodes["hosts"].keys()
        # Hosts are due with their node's containers, and alone where these do not come.
        self._waiting |= nodes["hosts"]
        self._measured_s |= dict.fromkeys(nodes["containers"], tick.monotonic_s)
        due = {
            node
            for node in self._waiting
            if tick.monotonic_s - self._measured_s.get(node, float("-inf")) > WAITING_MS / 1000
        }
        due |= self._waiting.keys() & nodes["containers"].keys()
        hosts = {node: self._waiting.pop(node) if node in due else () for node in self._hosts}
        samples_of_gpus = list(nvml_samples(nodes["gpus"], self._reader.gpus, self._pod_index, tick))
        if self._names is not None:
            seen = scraped_pods(nodes["containers"], samples_of_gpus, self._pod_index)
            yield from self._names.update(seen, self._kube, tick)
        for gpus in samples_of_gpus:
            yield of_node("nvml-samples", gpus)
            if self._health is not None:
                for event in self._health.events(gpus, nodes["gpus"][gpus.node], tick):
                    yield of_node("gpu-events", event)
        for use in cgroup_samples(nodes["containers"], hosts, self._pod_index, tick, self._reader.no_numbers):
            yield of_node("cgroup-samples", use)

    def _report(self, what: str, error: QueryError | None) -> None:
        if error is not None:
            self._telemetry.raise_condition(PROMETHEUS_QUERY_FAILED, what, f"{error}; the others go on")
        else:
            self._telemetry.clear_condition(PROMETHEUS_QUERY_FAILED, what, "answered again")
