"""Counts GPU-seconds that pods were predicted to need, by owner; compares owners by what they used."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

_SLICES = 24  # what leaves the window is off by a 24th of it at most


@dataclass(slots=True)
class PredictedUsage:
    """Charges of the newest ``window_s``, in 24 slices: a slice leaves as a whole.

    A pod is charged when it comes, with what it is predicted to need: so the tenth pod of a burst already
    finds nine others of its owner. ``charge`` once more, with the difference, when it is known what it used.
    """

    window_s: float
    _slices: deque[tuple[int, dict[str, float]]] = field(default_factory=deque)
    _sums: dict[str, float] = field(default_factory=dict)

    def charge(self, owners: Collection[str], gpu_s: float, at_s: float) -> None:
        """Charge ``owners`` of a pod that came at ``at_s`` with so many GPU-seconds more (or less, if
        negative)."""
        number = int(at_s // (self.window_s / _SLICES))
        if not self._slices or number > self._slices[-1][0]:
            self._expire(number)
            self._slices.append((number, {}))
        slice_ = next((usage for at, usage in reversed(self._slices) if at == number), None)
        if slice_ is None:  # it has left the window
            return
        for owner in owners:
            slice_[owner] = slice_.get(owner, 0.0) + gpu_s
            self._sums[owner] = self._sums.get(owner, 0.0) + gpu_s

    def charged(self, now_s: float) -> Mapping[str, float]:
        """Return GPU-seconds in the window, by owner."""
        self._expire(int(now_s // (self.window_s / _SLICES)))
        return self._sums

    def _expire(self, newest: int) -> None:
        gone = False
        while self._slices and self._slices[0][0] <= newest - _SLICES:
            self._slices.popleft()
            gone = True
        if gone:  # added up anew: a difference would leave a rounding error, which would count as use
            self._sums = {}
            for _, slice_ in self._slices:
                for owner, gpu_s in slice_.items():
                    self._sums[owner] = self._sums.get(owner, 0.0) + gpu_s


def excesses(
    owners: Iterable[str], used: Mapping[str, float], shares: Mapping[str, float]
) -> dict[str, float]:
    """Return what each owner used of its part: 1 is just that, and what it is while nobody used anything.

    ``used``: GPU-seconds by owner. The rivals of a namespace are the namespaces, and those of a team the
    teams; who used nothing has no part in the division.
    """
    excess_of = {}
    for owner in owners:
        kind = owner.partition(" ")[0]
        gpu_s = {name: of for name, of in sorted(used.items()) if of > 0 and name.partition(" ")[0] == kind}
        if gpu_s:
            own = gpu_s.setdefault(owner, 0.0)
            entitled = shares.get(owner, 1.0) / sum(shares.get(name, 1.0) for name in gpu_s)
            excess_of[owner] = own / sum(gpu_s.values()) / entitled
        else:
            excess_of[owner] = 1.0
    return excess_of
