"""All kinds of anomalies of one pod, minute by minute."""

from dataclasses import dataclass, field

from streams.operators.workload.anomalies.hang import Hang
from streams.operators.workload.anomalies.kinds import Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.power import PowerFit
from streams.operators.workload.anomalies.siblings import Siblings
from streams.operators.workload.anomalies.steps import SlowSteps


@dataclass(slots=True)
class AnomalyFinder:
    """Follows one pod; plain data."""

    steps: SlowSteps = field(default_factory=SlowSteps)
    siblings: Siblings = field(default_factory=Siblings)
    power: PowerFit = field(default_factory=PowerFit)
    hang: Hang = field(default_factory=Hang)

    def add(self, minute: Minute) -> list[Found]:
        """Take the next minute. What holds now, in a fixed order of kinds."""
        hang = self.hang.add(minute)
        found = [hang, self.steps.add(minute), *self.siblings.add(minute), self.power.add(minute)]
        return [one for one in found if one is not None]
