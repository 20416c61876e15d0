"""Decides which place in the queue a new pod gets, and who is charged with it. Pure: time is an argument."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dutycycle.kube import resources
from dutycycle.kube.references import KubeObject
from sinks.scheduling import pods
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.core.measured_usage import MeasuredUsage, owners
from sinks.scheduling.core.policy import Band, Policy
from sinks.scheduling.core.predicted_usage import PredictedUsage, excesses
from sinks.scheduling.core.prediction import Prediction
from sinks.scheduling.core.priority import Placed, place

_SUMS_S = 10.0
"""So long sums of the ledger are used: it is written once a minute."""
_TOGETHER_S = 600.0
"""Pods of one job that come within this have one place."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Holds a place in the queue. ``priority`` is what is wanted. ``excess``: what its owners used of their
    shares, by owner."""

    priority: int
    delay_s: float
    prediction: Prediction | None
    excess: Mapping[str, float]
    why: str


@dataclass(slots=True)
class Queue:
    """Places pods by ``policy``, from what is ``known`` of similar pods and from ``measured`` usage.

    An owner has used what was measured or what its pods were predicted to need when they came, whichever is
    more: so the tenth pod of a burst finds nine others of its owner, and nothing counts twice.
    """

    policy: Policy
    known: ClusterView
    measured: MeasuredUsage
    team_label: str
    _predicted: PredictedUsage = field(init=False)
    _sums: tuple[float, Mapping[str, float]] = (float("-inf"), {})
    _jobs: dict[tuple[str | tuple[str, str] | None, Band], tuple[float, QueuePosition]] = field(
        default_factory=dict
    )
    """By the job, and the band of its pods: those of another class have a place in theirs."""

    def __post_init__(self) -> None:
        """Charges leave the window as measured use does."""
        self._predicted = PredictedUsage(self.policy.window_s)

    def place(
        self, pod: KubeObject, namespace: str, user_class: str, now_s: float, *, charge: bool = True
    ) -> QueuePosition:
        """Return the place of a pod that comes now; its owners are charged with it."""
        pod = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
        owned_by = owners(namespace, (pod["metadata"].get("labels") or {}).get(self.team_label))
        # A claim of Dynamic Resource Allocation does not say how many there are: one at least.
        asked = resources.gpu_request(pod["spec"], pod["metadata"].get("annotations"))
        gpus = 1.0 if asked is None else asked
        job = pods.group(pod) or pods.job_uid(pod), self.policy.band(user_class)
        # Pods of a job that come one after the other have one place: all of them shall start together.
        while self._jobs:
            first = next(iter(self._jobs))
            if now_s - self._jobs[first][0] < _TOGETHER_S:
                break
            del self._jobs[first]
        _, queued = self._jobs.get(job, (now_s, None))
        if queued is None:
            prediction = self.known.prediction(pods.template_of_pod(pod))
            duration_s = None if prediction is None else prediction.middle("duration_s")
            if now_s - self._sums[0] >= _SUMS_S:
                self._sums = (now_s, self.measured.used(now_s))
            used = dict(self._sums[1])
            for owner, gpu_s in self._predicted.charged(now_s).items():
                used[owner] = max(used.get(owner, 0.0), gpu_s)
            excess = excesses(owned_by, used, self.policy.shares)
            placed: Placed = place(self.policy, now_s, duration_s, gpus, excess, user_class)
            why = placed.reason if prediction is None else f"{placed.reason}; {prediction.evidence()}"
            queued = QueuePosition(placed.priority, placed.delay_s, prediction, excess, why)
            if job[0] is not None and charge:
                self._jobs[job] = (now_s, queued)
        if charge:
            prediction = queued.prediction
            expected_s = None if prediction is None else prediction.middle("duration_s")
            seconds = self.policy.unknown_s if expected_s is None else expected_s
            self._predicted.charge(owned_by, seconds * gpus, now_s)
        return queued
