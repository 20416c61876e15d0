"""What a job carries of its pods: a key for each; of a large job a summary, and those that needed most. Pure.

While the job runs, a pod that has a key keeps it, whatever others need later: the choice is made once more,
at the end, and then depends on the record alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from contract.records.derived import JobPeaks
from sinks.annotations.core import keys
from sinks.annotations.core.diff import Present, stays
from sinks.annotations.core.incarnations import pods_by_name
from sinks.annotations.core.values import job_ranks, job_summary, job_values, text


@dataclass(frozen=True, slots=True)
class JobView:
    """A job's record as texts by key, those that needed most first."""

    prefix: str
    pods: Mapping[str, str]
    summary: str
    final: bool
    hidden: int = 0
    """Pods that not even the record has."""

    @classmethod
    def of(cls, prefix: str, record: JobPeaks) -> "JobView":
        """Of one record."""
        record = replace(record, pods=pods_by_name(record))
        values, ranks = job_values(record), job_ranks(record)
        names = sorted(values, key=lambda pod: (*(-rank for rank in ranks[pod]), pod))
        pods = {}
        for pod in names:
            name = keys.pod_key_name(pod)
            # The value says the pod's name where the key cannot.
            pods[f"{prefix}/{name}"] = text(values[pod] if name == pod else {"pod": pod} | values[pod])
        return cls(prefix, pods, text(job_summary(record)), record.final, record.pods_omitted or 0)

    def wanted(self, present: Present, told: Mapping[str, str]) -> dict[str, str]:
        """All that we want on the job, ``told`` of the job itself before its pods, within what fits beside
        what is kept there."""
        chosen = {**told, **self._chosen(present)}
        taken = present.others_bytes + keys.size_of(self._stays(present, chosen))
        kept, _ = keys.that_fit(chosen.items(), taken)
        if self.pods.keys() <= kept.keys() and not self.hidden:
            return kept
        summary = {self._key(keys.PODS_SUMMARY): self.summary}
        kept, _ = keys.that_fit((summary | chosen).items(), taken)
        with_key = kept.keys() | self._stays(present, kept).keys()
        return kept | {self._key(keys.PODS_OMITTED): text(self.hidden + len(self.pods.keys() - with_key))}

    def surplus(self, present: Present, wanted: Mapping[str, str]) -> frozenset[str]:
        """The keys of pods that others have to make room for: at the end alone."""
        mine = self.pods.keys() & present.ours.keys() if self.final else frozenset[str]()
        return frozenset(mine - wanted.keys())

    def _chosen(self, present: Present) -> dict[str, str]:
        """The pods that may have a key, the most important first."""
        ordered = list(self.pods)
        if not self.final:
            # What is there comes first: left out, its older value would stay, and take room all the same.
            ordered.sort(key=lambda key: key not in present.ours)
        return {key: self.pods[key] for key in ordered[: keys.MOST_PODS]}

    def _stays(self, present: Present, wanted: Mapping[str, str]) -> dict[str, str]:
        """What is on the job after the write beside ``wanted``."""
        gone = self.pods.keys() if self.final else frozenset[str]()
        return stays("job", self.prefix, present.ours, wanted.keys() | gone)

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}"
