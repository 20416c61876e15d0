"""What must hold: while a run goes on, and at its end."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord, ProducerRecord, TopicPartition
from dutycycle.telemetry.events import CLOCK_SET_BACK
from streams.runtime.stage_task import StageTask
from streams.state.codec import from_bytes, to_bytes, unpack
from streams.state.record import name_of, offset_of, state_key
from tests.support.fakes.broker import Broker
from tests.support.simulation.feed import Sent
from tests.support.simulation.profile import Name, Profile
from tests.support.simulation.shadow import Shadow
from tests.support.simulation.worker import Worker

Slot = tuple[str, str]
"""An output topic and a key."""
Subject = tuple[str, str, Name]
"""An output topic, a key, and which of its subjects a record is about."""


class Judge:
    """Watches the broker, and every record that a worker takes. Objects by ``AssertionError``."""

    def __init__(self, broker: Broker, profile: Profile) -> None:
        self._broker = broker
        self._profile = profile
        self.shadow = Shadow(broker.sources, profile.digests)
        self._expected: dict[tuple[TopicPartition, Slot], list[bytes | None]] = defaultdict(list)
        self._explained: dict[Slot, set[bytes | None]] = defaultdict(set)
        self._landed: dict[Slot, dict[bytes | None, int]] = defaultdict(dict)
        self._contents: dict[tuple[str, str, Name], dict[bytes | None, None]] = defaultdict(dict)
        """By slot and name, in the order of their arrival."""
        self._epochs = 0
        """How often a clock was set back: what was named before comes again then, of other samples."""
        self._last: dict[Subject, ProducerRecord] = {}
        self._newest: dict[Subject, tuple[Name, ProducerRecord]] = {}
        self._last_due: dict[Subject, bytes | None] = {}
        """Of coalesced records the last that a record was to send, as an operator does that begins anew."""
        self._offsets: dict[tuple[Slot, bytes | None], int] = {}
        """Of ``ordered`` stages: the last offset after which that is what a coalesced record says."""
        self.checked: Counter[str] = Counter()
        """How often each thing was looked at: a check that never ran proves nothing."""
        broker.watchers.append(self)

    def appended(self, record: ConsumerRecord) -> None:
        """A record lies in a source: now it is known what follows from it."""
        stage = self._broker.sources[record.topic]
        set_back = stage.name, CLOCK_SET_BACK.name
        before = self.shadow.happened[set_back]
        applied, leaving = self.shadow.take(record)
        self._epochs += self.shadow.happened[set_back] - before
        for out in leaving:
            self._explained[out.topic, out.key].add(out.value)
        for out in applied.outs:
            slot = out.topic, out.key
            self._expected[record.topic_partition, slot].append(out.value)
            self._explained[slot].add(out.value)
            if (subject := self._coalesced_subject(out)) is not None:
                self._last_due[subject] = out.value
        for out in applied.unwritten:
            self._explained[out.topic, out.key].add(out.value)
        if stage.name in self._profile.ordered and applied.good:
            operator = self.shadow.keys[stage.name, record.partition, applied.key].operator
            for emission in stage.build(applied.key, operator.snapshot()).flush():
                if isinstance(emission, ProducerRecord):
                    self._offsets[(emission.topic, emission.key), emission.value] = record.offset

    def landed(self, out: ProducerRecord) -> None:
        """Nothing arrives that no record explains, and nothing twice with different content."""
        slot = out.topic, out.key
        plain = orjson.loads(out.value or b"null")
        at_once = out.value in self._explained[slot]
        subject = self._coalesced_subject(out)
        assert at_once or subject is not None, f"{slot}: never was {out.value!r:.300}"
        if (name := self._profile.names.get(out.topic)) is not None:
            contents = self._contents[*slot, name(plain)]
            contents[out.value] = None
            assert len(contents) <= 1 + self._epochs, f"{slot} {name(plain)}: {list(contents)!r:.700}"
            self.checked["content"] += 1
        self._landed[slot].setdefault(out.value, len(self._landed[slot]))
        if subject is not None:
            version = *self._profile.versions[out.topic](plain), self._offsets.get((slot, out.value), -1)
            self._last[subject] = out
            if subject not in self._newest or version >= self._newest[subject][0]:
                self._newest[subject] = version, out

    def _coalesced_subject(self, out: ProducerRecord) -> Subject | None:
        """Return what a record is about; None for one that is sent at once, not coalesced."""
        if out.topic not in self._profile.versions:
            return None
        name = self._profile.subjects.get(out.topic, lambda _: ())(orjson.loads(out.value or b"null"))
        return None if name is None else (out.topic, out.key, name)

    def committing(self, place: TopicPartition, before: int, offset: int) -> None:
        """What is acknowledged is on the broker: its outputs, and a state that holds it."""
        assert offset >= before, f"{place}: committed {before}, then {offset}"
        stage = self._broker.sources[place[0]].name
        stored = self._broker.changelogs[TopicPartition(stage, place[1])].found
        for at in range(before, offset):
            applied = self.shadow.applied[place].get(at)
            if applied is None:
                continue
            for out in applied.outs:
                landed = self._landed[out.topic, out.key]
                assert out.value in landed, (
                    f"{place} is committed to {offset}, the output of {at} is not there: {out}"
                )
            if applied.good:
                has = offset_of(stored.get(state_key(place[1], applied.key), b""))
                assert has >= at, (
                    f"{place} is committed to {offset}, but the state of {applied.key} holds {has} only"
                )
            self.checked["committed"] += 1

    def seen(self, _worker: Worker, task: StageTask, record: ConsumerRecord) -> None:
        """A restart changes nothing: after the same record the same state, in every life."""
        live = task._operators.get((record.partition, record.key or ""))
        applied = self.shadow.applied[record.topic_partition][record.offset]
        if live is None or live.offset != record.offset or not applied.good:
            return
        has = self._profile.digests[task.stage.name](live._operator)
        place = f"{record.topic}-{record.partition}: {record.key} at {record.offset}"
        assert has == applied.digest, f"{place} is {has}, not {applied.digest}"
        self.checked["state"] += 1

    def final(self, workers: Iterable[Worker], sent: list[Sent], *, zombies: bool) -> None:
        """The end of a run: everything is there, nothing else is, and what is stored is bounded."""
        self._all_outputs()
        self._unwritten_outputs()
        self._newest_outputs(zombies=zombies)
        self._states()
        self._telemetry(list(workers))
        self._profile.account(self.shadow, sent)
        self._profile.whole(
            self.shadow, sent, {subject[:2]: out for subject, (_, out) in self._newest.items()}
        )

    def _all_outputs(self) -> None:
        for (_, slot), expected in self._expected.items():
            landed = self._landed[slot]
            missing = [value for value in expected if value not in landed]
            assert not missing, f"{slot}: missing {missing[:2]!r:.300}"
            order = [landed[value] for value in dict.fromkeys(expected)]
            assert order == sorted(order), f"{slot}: not in the order of the log"
            self.checked["slots"] += 1

    def _unwritten_outputs(self) -> None:
        """What an operator sends rarely does not wait for a record that may never come."""
        for (stage, _, _), key in self.shadow.keys.items():
            if key.left is None:
                for out in key.operator.unwritten():
                    landed = isinstance(out, ProducerRecord) and out.value in self._landed[out.topic, out.key]
                    assert landed, f"{stage}: {out} is in a state that is stored, and was not sent"
                    self.checked["unwritten"] += 1

    def _newest_outputs(self, *, zombies: bool) -> None:
        """The newest of each subject is exact; so is the last, unless somebody may have written late."""
        wanted: dict[Subject, list[bytes | None]] = defaultdict(list)
        for out in self.shadow.flushed():
            if (subject := self._coalesced_subject(out)) is not None:
                wanted[subject].append(out.value)
        # Of what nothing was left to send at the end that counts which was sent last.
        wanted = {subject: [value] for subject, value in self._last_due.items()} | wanted
        for subject in self._unclosed():
            wanted[subject].append(self._last_due.get(subject))
        _compare({subject: out.value for subject, (_, out) in self._newest.items()}, wanted)
        if not zombies:
            _compare({subject: out.value for subject, out in self._last.items()}, wanted)

    def _unclosed(self) -> Iterator[Subject]:
        """Yield what idle keys of which the state is still stored would close: that is sent when they leave,
        and so maybe never."""
        for (stage, partition, name), key in self.shadow.keys.items():
            stored = self._broker.changelogs[TopicPartition(stage, partition)].found
            if key.left is None or state_key(partition, name) not in stored:
                continue
            flushed = {(out.topic, out.key) for out in key.leaving[: key.flushed]}
            for out in key.leaving[key.flushed :]:
                subject = self._coalesced_subject(out)
                if subject is not None and (out.topic, out.key) not in flushed:
                    yield subject

    def _states(self) -> None:
        """What is stored is what should be, bit for bit, and nothing beside it."""
        for (stage, partition, name), key in self.shadow.keys.items():
            table = self._broker.changelogs[TopicPartition(stage, partition)].found
            found = unpack(state_key(partition, name), table.get)
            if found is None:
                assert key.left is not None, f"{stage}-{partition}: no state of {name}"
                continue
            assert found.offset >= key.offset, f"{stage} {name}: state at {found.offset}, not {key.offset}"
            lasting = self._profile.lasting
            has, wanted = (to_bytes(lasting(one)) for one in (found.snapshot, from_bytes(key.snapshot())))
            assert has == wanted, f"{stage} {name}: state {_around(has, wanted)}"
            self.checked["states"] += 1
        for (stage, partition), changelog in self._broker.changelogs.items():
            for record in changelog.found:
                named = name_of(record)
                known = named is None or (stage, partition, named) in self.shadow.keys
                assert known, f"{stage}-{partition}: a state of {named}, which never was"

    def _telemetry(self, workers: list[Worker]) -> None:
        counts = Counter[str]()
        for worker in workers:
            for (name, _), count in worker.telemetry.counts.items():
                counts[name] += count
        assert not counts["state_reset"], "a state was begun anew"
        self.checked["evicted"] += counts["state_evicted"]
        self.checked["rewritten"] += counts["state_rewritten"]
        self.checked["others noticed"] += sum("somebody else" in worker.port.reason for worker in workers)
        if len(workers) == 1:
            for (_, event), count in self.shadow.happened.items():
                assert counts[event] >= count, (
                    f"{event}: counted {counts[event]} times, happened {count} times"
                )


def _compare(found: dict[Subject, Any], wanted: dict[Subject, list[Any]]) -> None:
    """One of those wanted is there for each: a key that left and came back was sent for twice."""
    for subject in found | wanted:
        has, should = found.get(subject), wanted.get(subject, [])
        assert has in should, f"{subject}: the newest is {has!r:.400}, not {should!r:.400}"


def _around(has: bytes, wanted: bytes) -> str:
    """Where two long texts begin to differ."""
    at = next((n for n, pair in enumerate(zip(has, wanted, strict=False)) if pair[0] != pair[1]), 0)
    since = max(0, at - 100)
    return f"{has[since : at + 150]!r}, not {wanted[since : at + 150]!r}"
