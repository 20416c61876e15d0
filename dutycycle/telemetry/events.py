"""Declares what may go wrong, by name: each event is one log line and one counter with bounded labels.

A ``Telemetry`` belongs to one process and is passed down to whoever has something to tell. An event that
repeats is counted every time and logged once per ``quiet_s``, with how often it happened in between; a
condition (``raise_condition``, ``clear_condition``) is said once when it begins and once when it ends.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from prometheus_client.registry import Collector

from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.topics import TOPICS
from dutycycle.telemetry.metrics import CONDITIONS, Family, Labels, Metric, Metrics, family
from dutycycle.telemetry.status import Status
from dutycycle.telemetry.watchdog import StallDetector

COLLECT, STREAM, SINK, METRICS = "collect", "stream", "sink", "metrics"
ADAPTER, EXTENDER, WEBHOOK, CULL, WEB = "adapter", "extender", "webhook", "cull", "web"
"""The processes, by the name of their ``Telemetry``."""


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Declares a named event: ``level`` of its log line and the names of its labels, whose values are few.

    ``by`` says which processes count it. ``values`` has those of the labels' values that are the same in each
    of them; where every label's values are known, the counter is shown at 0 before anything happens.
    """

    name: str
    level: int
    help: str
    labels: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    values: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def label_values(self, values: Mapping[str, Iterable[str]]) -> Iterator[Labels]:
        """Return every combination of label values; none where the values of a label are not known."""
        known = {**values, **self.values}
        return product(*(known.get(label, ()) for label in self.labels))


_SAMPLES = [topic for topic in TOPICS if topic.endswith("-samples")]
# fmt: off
BROKER_UNREACHABLE = Event(
    "broker_unreachable", logging.WARNING, "The broker cannot be reached", ("reason",),
    by=(COLLECT, STREAM, SINK, METRICS, ADAPTER, EXTENDER, WEBHOOK, CULL),
)
RECORD_UNREADABLE = Event(
    "record_unreadable", logging.WARNING, "Records that cannot be read: they are in no series and no answer",
    ("topic",), by=(METRICS, ADAPTER, EXTENDER, WEBHOOK, CULL),
)
THROTTLED = Event(
    "throttled", logging.WARNING, "Answers that the broker delayed, because a quota is used up", ("request",),
    by=(COLLECT, STREAM, SINK), values={"request": ("produce", "fetch")},
)
DEAD_LETTER = Event(
    "dead_letter", logging.WARNING, "Records that could not be used", ("topic", "reason"),
    by=(STREAM, SINK), values={"reason": Reason},
)
SOURCE_GAP = Event(
    "source_gap", logging.ERROR, "Offsets missing in a source topic", ("topic",), by=(STREAM, SINK)
)
RECORD_TOO_LARGE = Event(
    "record_too_large", logging.ERROR, "Records above the size limit, shortened or dropped", ("topic",),
    by=(COLLECT, STREAM), values={"topic": TOPICS},
)

COLLECTOR_FAILED = Event(
    "collector_failed", logging.WARNING, "A collector could not measure", ("collector", "reason"),
    by=(COLLECT,), values={"reason": ("error", "no_answer", "slow", "closing")},
)
TICK_LATE = Event(
    "tick_late", logging.WARNING, "Ticks that began after the next one was due, left out", by=(COLLECT,)
)
GPUS_UNAVAILABLE = Event(
    "gpus_unavailable", logging.WARNING, "No GPU of this node can be measured", ("reason",), by=(COLLECT,)
)
DEVICE_LOST = Event("device_lost", logging.ERROR, "A GPU stopped answering", ("reason",), by=(COLLECT,))
NOT_MEASURED = Event(
    "not_measured", logging.INFO, "A quantity that cannot be measured on this machine", ("what", "reason"),
    by=(COLLECT,),
)
ATTRIBUTION_FAILED = Event(
    "attribution_failed", logging.INFO, "A process whose pod could not be found", ("reason",), by=(COLLECT,)
)
CUDA_LOG_UNREADABLE = Event(
    "cuda_log_unreadable", logging.WARNING, "Lines and files of CUDA logs that cannot be used", ("reason",),
    by=(COLLECT,), values={"reason": ("bad_line", "no_pod", "not_readable")},
)
PROCESSES_LEFT_OUT = Event(
    "processes_left_out", logging.WARNING, "Processes on GPUs beyond what is read of a node", by=(COLLECT,)
)
STEPS_REFUSED = Event(
    "steps_refused", logging.WARNING, "Reports of training loops that cannot be used", ("reason",),
    by=(COLLECT,), values={"reason": ("decode", "schema", "version", "too_large", "no_pod", "too_many")},
)
STEPS_UNREACHABLE = Event(
    "steps_unreachable", logging.WARNING, "The socket for training loops cannot be opened", ("path",),
    by=(COLLECT,),
)
KUBERNETES_AWAY = Event(
    "kubernetes_away", logging.WARNING, "The Kubernetes API server cannot be read", ("what",),
    by=(COLLECT,), values={"what": ("pods",)},
)
OWNER_FORBIDDEN = Event(
    "owner_forbidden", logging.WARNING, "Owners of pods that no role lets the collector read", ("kind",),
    by=(COLLECT,),
)
KUBELET_UNREACHABLE = Event(
    "kubelet_unreachable", logging.WARNING, "The kubelet does not report which devices it allocated",
    ("what",), by=(COLLECT,),
)
PROMETHEUS_QUERY_FAILED = Event(
    "prometheus_query_failed", logging.WARNING, "One of the queries to Prometheus failed", ("what",),
    by=(COLLECT,), values={"what": ("gpus", "containers", "hosts", "kube_pod_info")},
)
PROMETHEUS_INCOMPLETE = Event(
    "prometheus_incomplete", logging.WARNING,
    "Prometheus said that an answer lacks samples, such as those of a store that is away", by=(COLLECT,),
)
SPOOLED = Event(
    "spooled", logging.INFO, "Records kept on disk while the broker is unreachable", by=(COLLECT,)
)
SPOOL_DROPPED = Event(
    "spool_dropped", logging.ERROR, "Oldest records dropped, because the spool was full", by=(COLLECT,)
)
SPOOL_FAILED = Event(
    "spool_failed", logging.ERROR, "The spool's disk does not accept records", ("reason",),
    by=(COLLECT,), values={"reason": ("disk",)},
)
RECORD_REFUSED = Event(
    "record_refused", logging.ERROR, "Records that the broker refuses permanently, dropped",
    ("topic", "reason"), by=(COLLECT,),
)

MODEL_FAILED = Event(
    "model_failed", logging.WARNING, "Errors of a user's model, which begins anew", ("topic",),
    by=(STREAM,), values={"topic": _SAMPLES},
)
MODEL_LARGE = Event(
    "model_large", logging.WARNING, "States of a user's model over the limit, begun anew", ("topic",),
    by=(STREAM,), values={"topic": _SAMPLES},
)
SAMPLE_LATE = Event(
    "sample_late", logging.INFO, "Ticks later than the allowed lateness, left out of windows", ("topic",),
    by=(STREAM,), values={"topic": _SAMPLES},
)
SAMPLE_DUPLICATE = Event(
    "sample_duplicate", logging.INFO, "Ticks that were processed before", ("topic",),
    by=(STREAM,), values={"topic": _SAMPLES},
)
CLOCK_JUMP = Event(
    "clock_jump", logging.WARNING, "Ticks far ahead of their node's clock, dropped", ("topic",),
    by=(STREAM,), values={"topic": _SAMPLES},
)
CLOCK_SET_BACK = Event(
    "clock_set_back", logging.WARNING, "Nodes whose clock was set back by more than five minutes", ("topic",),
    by=(STREAM,), values={"topic": _SAMPLES},
)
SAMPLE_GAP = Event(
    "sample_gap", logging.WARNING, "Pauses of more than a minute in a node's samples, or steps of its clock",
    ("topic",), by=(STREAM,), values={"topic": _SAMPLES},
)
DUPLICATE_PRODUCER = Event(
    "duplicate_producer", logging.WARNING, "Ticks of two collectors that report the same node",
    ("topic",), by=(STREAM,), values={"topic": _SAMPLES},
)

WRITE_RETRIED = Event(
    "write_retried", logging.WARNING, "Writes of a sink that are tried again", ("sink", "reason"), by=(SINK,)
)
WRITE_REJECTED = Event(
    "write_rejected", logging.ERROR, "Writes that were refused permanently", ("sink", "reason"), by=(SINK,)
)
# fmt: on

_ABOUTS = 100
"""So many subjects of the same event and labels are logged apart; all others are one."""


@dataclass(slots=True)
class _LoggedEvent:
    """Holds when it was logged last, and how often it happened since."""

    at: float = float("-inf")
    unsaid: int = 0


class Telemetry:
    """Counts and logs events of one component.

    ``component`` is the process's name. ``counts`` maps (event name, label values) to how often it happened;
    ``metrics`` has all else that is served, and ``status`` says whether the process is well. Safe to call
    from several threads.
    """

    def __init__(
        self, component: str, *, quiet_s: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.conditions: dict[tuple[str, str], str] = {}
        """What lasts now, by (event name, condition's name), with its detail."""
        self.metrics = Metrics()
        self.metrics.registry.register(_EventMetrics(self))
        self.metrics.read(
            CONDITIONS,
            lambda: {
                (event,): float(number)
                for event, number in Counter(event for event, _ in list(self.conditions)).items()
            },
        )
        self.status = Status()
        self.stall_detector = StallDetector()
        self._component = component
        self._events: dict[str, Event] = {}
        self._expected: set[tuple[str, Labels]] = set()
        self._log = logging.getLogger(f"dutycycle.{component}")
        self._quiet_s = quiet_s
        self._clock = clock
        self._logged: dict[tuple[str, tuple[str, ...]], dict[str, _LoggedEvent]] = {}
        self._lock = threading.Lock()

    def emit(self, event: Event, detail: str = "", *, count: int = 1, about: str = "", **labels: str) -> None:
        """Count ``event`` and log it unless it was logged a moment ago. ``labels`` are the event's own.

        ``about`` tells it, in the log alone, from others with the same labels: each is logged by itself.
        """
        key = (event.name, tuple(labels[name] for name in event.labels))
        now = self._clock()
        with self._lock:
            self._events[event.name] = event
            self.counts[key] += count
            by_subject = self._logged.setdefault(key, {})
            repeats = by_subject.setdefault(
                about if about in by_subject or len(by_subject) < _ABOUTS else "", _LoggedEvent()
            )
            repeats.unsaid += count
            if now - repeats.at < self._quiet_s:
                return
            unsaid, repeats.at, repeats.unsaid = repeats.unsaid, now, 0
        parts = [event.name, *(f"{k}={v}" for k, v in zip(event.labels, key[1], strict=True))]
        if detail:
            parts.append(f": {detail}")
        if unsaid > 1:
            parts.append(f"({unsaid} times)")
        self._log.log(event.level, "%s", " ".join(parts).replace(" :", ":"))

    def raise_condition(self, event: Event, name: str, detail: str, **labels: str) -> None:
        """Say once that a lasting condition began; the same condition again says nothing.

        ``name`` tells it from others of its kind. ``labels`` are the event's own; an event with a single
        label has ``name`` there unless it is given.
        """
        values = labels or dict.fromkeys(event.labels[:1], name)
        key = (event.name, tuple(values[label] for label in event.labels))
        with self._lock:
            new = (event.name, name) not in self.conditions
            self.conditions[event.name, name] = detail
            self._events[event.name] = event
            self.counts[key] += new
        if new:
            self._log.log(event.level, "%s %s: %s", event.name, name, detail)

    def clear_condition(self, event: Event, name: str, detail: str = "over") -> None:
        """Say that a condition ended, if it had begun."""
        if self.conditions.pop((event.name, name), None) is not None:
            self._log.info("%s %s: %s", event.name, name, detail)

    def expect(self, *modules: object, by: Iterable[str] = (), **values: Iterable[str]) -> None:
        """Show the events of this process that ``modules`` declare from now on: a rate needs a first value.

        ``by``: the processes whose work it does, if that is not its own name. ``values`` has those of a label
        that depend on the process. Where all are known, they count from 0.
        """
        names = frozenset(by) or {self._component}
        lists = {label: list(given) for label, given in values.items()}
        with self._lock:
            for event in (event for module in modules for event in vars(module).values()):
                if isinstance(event, Event) and not names.isdisjoint(event.by):
                    self._events[event.name] = event
                    self._expected.update((event.name, labels) for labels in event.label_values(lists))

    def tally(self) -> dict[Event, dict[Labels, int]]:
        """Return how often each event happened, by its label values; none for those without a label value
        yet."""
        with self._lock:
            counts: dict[Event, dict[Labels, int]] = {event: {} for event in self._events.values()}
            for name, labels in self._expected | self.counts.keys():
                counts[self._events[name]][labels] = self.counts[name, labels]
        return counts

    def count(self, event: Event) -> int:
        """Tell how often ``event`` happened, over all labels."""
        with self._lock:
            return sum(number for (name, _), number in self.counts.items() if name == event.name)


class _EventMetrics(Collector):
    """Collects counts of events at the scrape."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterator[Family]:
        """Yield a counter for each event, with its label values; called by the registry."""
        for event, counts in self._telemetry.tally().items():
            yield family(Metric(f"{event.name}_total", event.help, event.labels), counts)
