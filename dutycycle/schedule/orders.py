"""Decides in which order the jobs are tried: a number each when they arrive, the largest first, then by
arrival."""

from typing import Protocol

from dutycycle.schedule.workload import TraceJob
from sinks.scheduling.core.policy import Policy
from sinks.scheduling.core.predicted_usage import PredictedUsage, excesses
from sinks.scheduling.core.prediction import predict
from sinks.scheduling.core.priority import place
from sinks.scheduling.core.similar import PastUse, SimilarPodIndex

_CLASSES = {"high": 1000, "low": -1000}
"""The values of the users' own PriorityClasses; 0 without one."""


class Order(Protocol):
    """Gives a job its priority when it arrives; it hears when jobs end."""

    def arrived(self, job: TraceJob) -> int: ...

    def ended(self, job: TraceJob, now_s: float) -> None: ...


class ByArrival:
    """Prefers nobody."""

    def arrived(self, job: TraceJob) -> int:
        """Return the same for all."""
        return 0

    def ended(self, job: TraceJob, now_s: float) -> None:
        """Learn nothing."""


class ByClass(ByArrival):
    """Orders as kube-scheduler does without us: by the value of the user's PriorityClass."""

    def arrived(self, job: TraceJob) -> int:
        """Return the number of the user's class; 0 without one."""
        return _CLASSES.get(job.user_class, 0)


class ByCore:
    """Orders as our webhook will: by the number of ``sinks.scheduling.core``, from jobs that have ended by
    now.

    ``knows``: it is told each job's true duration when it arrives (the oracle).
    """

    def __init__(self, policy: Policy, *, knows: bool) -> None:
        self._policy, self._knows = policy, knows
        self._usage, self._similar = PredictedUsage(policy.window_s), SimilarPodIndex()
        self._charged: dict[int, float] = {}
        """By the ``id`` of the job: two rows of a trace may be alike, with one name."""
        self.errors: list[tuple[float, float]] = []
        """Predicted and true durations of the jobs that have ended."""
        self._predicted: dict[int, float] = {}

    def arrived(self, job: TraceJob) -> int:
        """Return the priority; charges its owners with what it is predicted to need."""
        duration_s: float | None = job.duration_s
        if not self._knows:
            prediction = predict(self._similar.nearest(job.template))
            duration_s = None if prediction is None else prediction.middle("duration_s")
            if duration_s is not None:
                self._predicted[id(job)] = duration_s
        now, shares = job.arrival_s, self._policy.shares
        excess = excesses(_owners(job), self._usage.charged(now), shares)
        gpu_s = (self._policy.unknown_s if duration_s is None else duration_s) * job.demand.gpus
        self._charged[id(job)] = gpu_s
        self._usage.charge(_owners(job), gpu_s, now)
        return place(self._policy, now, duration_s, job.demand.gpus, excess, job.user_class).priority

    def ended(self, job: TraceJob, now_s: float) -> None:
        """Let a job that has ended count as similar, and charge its owners with what it really took."""
        gpu_s = job.duration_s * job.demand.gpus
        self._usage.charge(_owners(job), gpu_s - self._charged.pop(id(job)), job.arrival_s)
        self._similar.add(job.template, PastUse({"duration_s": job.duration_s}))
        if id(job) in self._predicted:
            self.errors.append((self._predicted.pop(id(job)), job.duration_s))


def _owners(job: TraceJob) -> list[str]:
    return [f"namespace {job.template.namespace}", *([f"team {job.team}"] if job.team else [])]
