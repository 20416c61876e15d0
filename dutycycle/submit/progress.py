"""Decides when a run is over, and what has to be said meanwhile. Pure: what is known and the time are
arguments."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dutycycle.submit.follow import JobFollower
from dutycycle.submit.objects import CannotRunError
from dutycycle.submit.outcome import FAILED, TIMED_OUT, Outcome, outcome_of, outcome_of_lost
from dutycycle.submit.states import exits_of
from dutycycle.words import short_duration

_IMAGE_PATIENCE_S = 60.0
"""So long an image may not be pulled: a registry that is busy answers the second or third time."""


@dataclass(slots=True)
class JobProgress:
    """Follows how far a job is. Seconds are by any one clock; 0 is when the objects were made. ``for_s``: how
    long the job is to run; ``timeout_s``: how long all may take; ``held_s``: how long it may have a node."""

    follower: JobFollower
    for_s: float | None = None
    timeout_s: float | None = None
    held_s: float | None = None
    began_s: float | None = None
    """When the first container ran."""
    bound_s: float | None = None
    """When the first pod had a node."""
    _cannot_start_s: dict[str, float] = field(default_factory=dict)
    _reported: dict[str, str] = field(default_factory=dict)

    def look(self, now_s: float) -> Outcome | None:
        """Return the outcome, once there is one. Raises ``CannotRunError``."""
        states = [self.follower.state(pod) for pod in self.follower.pods.values()]
        if self.began_s is None and any(state.started for state in states):
            self.began_s = now_s
        if self.bound_s is None and any(pod["spec"].get("nodeName") for pod in self.follower.pods.values()):
            self.bound_s = now_s
        for uid, pod in self.follower.pods.items():
            state = self.follower.state(pod)
            if state.cannot_start is None:
                self._cannot_start_s.pop(uid, None)
            elif state.hopeless or now_s - self._cannot_start_s.setdefault(uid, now_s) >= _IMAGE_PATIENCE_S:
                raise CannotRunError(f"pod {pod['metadata']['name']}: {state.cannot_start}")
        outcome = self._ended()
        if outcome is None and self.for_s is not None and self.began_s is not None:
            outcome = self._after_so_long(now_s - self.began_s)
        held_s, bound_s = self.held_s, self.bound_s
        if outcome is None and held_s is not None and bound_s is not None and now_s - bound_s >= held_s:
            held = short_duration(held_s)
            outcome = Outcome(TIMED_OUT, f"not over after {held} on its nodes, which is all it may")
        if outcome is None and self.timeout_s is not None and now_s >= self.timeout_s:
            words = f"not over after {short_duration(self.timeout_s)}, as --timeout says"
            if self.began_s is None:
                why = [
                    f"{pod['metadata']['name']} is {self.follower.state(pod).words}"
                    for pod in self.follower.pods.values()
                ] or [f"{entry}: {self.follower.why_no_pods(entry)}" for entry in self.follower.entries]
                words = f"never started within {short_duration(self.timeout_s)}, as --timeout says: {why[0]}"
            return Outcome(TIMED_OUT, words)
        return outcome

    def changes(self, broker_away: str = "") -> Iterator[str]:
        """Yield a line for each change since the last call. ``broker_away``: why nothing is read;
        empty while it is."""
        for entry in self.follower.entries:
            pods = self.follower.pods_of(entry)
            if not pods and entry.uid in self.follower.things:
                yield from self._new(str(entry), self.follower.why_no_pods(entry))
            for pod in pods:
                name, state = pod["metadata"]["name"], self.follower.state(pod)
                if str(entry) != f"pod/{name}" or not state.ended:  # of a Pod the outcome says it
                    yield from self._new(f"pod {name}", state.words)
        api_away = next(iter(self.follower.away.values()), "")
        for whose, away in (("API server", api_away), ("broker", broker_away)):
            if away:
                yield from self._new(whose, f"{away}; the job goes on, and it is tried again")
            elif whose in self._reported:
                yield from self._new(whose, "answers")

    def _new(self, what: str, words: str) -> Iterator[str]:
        if self._reported.get(what) != words:
            self._reported[what] = words
            yield f"{what}: {words}"

    def _ended(self) -> Outcome | None:
        """Tell whether all that end by themselves have, or one of them has failed."""
        ending = [str(entry) for entry in self.follower.entries if not entry.document.never_ends]
        outcomes: dict[str, Outcome | None] = {}
        for entry in self.follower.entries:
            thing, pods = self.follower.things.get(str(entry.uid)), self.follower.pods_of(entry)
            if entry.uid in self.follower.lost:
                outcomes[str(entry)] = outcome_of_lost(pods)
            else:
                outcomes[str(entry)] = None if thing is None else outcome_of(thing, pods)
        for owner, outcome in outcomes.items():
            if outcome is not None and outcome.status:
                return Outcome(outcome.status, f"{owner}: {outcome.words}")
        if not ending or any(outcomes[owner] is None for owner in ending):
            return None
        return Outcome(0, f"{', '.join(ending)}: succeeded")

    def _after_so_long(self, lasted_s: float) -> Outcome | None:
        if self.for_s is None or lasted_s < self.for_s:
            return None
        for pod in self.follower.pods.values():
            state = self.follower.state(pod)
            if not state.words.startswith(("running", "succeeded", "deleted", "is being deleted")):
                exits = exits_of(pod)
                name = pod["metadata"]["name"]
                return Outcome(exits[0].code if exits else FAILED, f"pod {name}: {state.words}")
        return Outcome(0, f"ran for {short_duration(self.for_s)}, as --for says")
