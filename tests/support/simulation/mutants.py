"""Ways to break the code on purpose, each of which the simulation has to find.

``python -m tests.support.simulation.mutants`` says in how many runs each is found.
"""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.kafka.faust.sequence import SourceSequence
from streams.operators.node.watermark import Timeline
from streams.operators.node.window import WindowBank
from streams.runtime.checkpoint import CheckpointCoordinator
from streams.runtime.eviction import Eviction
from streams.runtime.keyed_operator import KeyedOperator
from streams.runtime.stage_task import Checkpoint, StageTask
from streams.state.fencing import ChangelogFence
from streams.state.partition_clock import PartitionClock
from streams.state.record import Piece, Write, offset_of
from streams.state.recovery import Change, ChangelogReducer
from tests.support.simulation.plan import planned
from tests.support.simulation.port import SimulatedPort
from tests.support.simulation.run import Outcome, simulate

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
Checkpoints = list[tuple[StageTask, Checkpoint]]


def fence_forgotten(patch: Patch) -> None:
    """A worker that begins does not know up to where a stored state reaches."""
    real = KeyedOperator._resume

    def resume(self: KeyedOperator) -> Any:
        operator = real(self)
        self.offset = -1
        return operator

    patch.setattr(KeyedOperator, "_resume", resume)


def acknowledged_too_early(patch: Patch) -> None:
    """Offsets are acknowledged before outputs and states have arrived."""
    real = CheckpointCoordinator._store

    async def store(self: CheckpointCoordinator, checkpoints: Checkpoints, **how: bool) -> bool:
        for task, checkpoint in checkpoints:
            for partition, offset in checkpoint.done.items():
                self._port.acknowledge(TopicPartition(task.stage.source, partition), offset)
        return await real(self, checkpoints, **how)

    patch.setattr(CheckpointCoordinator, "_store", store)


def states_before_outputs(patch: Patch) -> None:
    """States are sent while outputs are still on their way."""
    real = CheckpointCoordinator._store

    async def store(self: CheckpointCoordinator, checkpoints: Checkpoints, **how: bool) -> bool:
        heads = [
            (task.stage.name, Write(*write.packed.head))
            for task, checkpoint in checkpoints
            for write in checkpoint.writes
        ]
        try:
            await self._write(heads)
        except OSError as error:
            self.fail(str(error))
            return False
        return await real(self, checkpoints, **how)

    patch.setattr(CheckpointCoordinator, "_store", store)


def failed_output_dropped(patch: Patch) -> None:
    """An output that could not be sent is left out, and work goes on."""

    async def send_outbox(self: CheckpointCoordinator) -> None:
        async with self._sending:
            while self._outbox:
                out = self._outbox.popleft()
                try:
                    self._under_way.add(await self._port.post(out))
                except OSError:
                    continue

    patch.setattr(CheckpointCoordinator, "_send_outbox", send_outbox)


def unanswered_output_counts(patch: Patch) -> None:
    """A commit does not wait for the outputs sent before."""
    real = CheckpointCoordinator._store

    async def store(self: CheckpointCoordinator, checkpoints: Checkpoints, **how: bool) -> bool:
        await self._send_outbox()
        self._under_way.clear()
        return await real(self, checkpoints, **how)

    patch.setattr(CheckpointCoordinator, "_store", store)


def heads_before_pieces(patch: Patch) -> None:
    """The head of a large state is sent before its pieces."""
    real = CheckpointCoordinator._write

    async def written(self: CheckpointCoordinator, writes: Iterable[tuple[str, Write]]) -> None:
        every = list(writes)
        held: list[Any] = getattr(self, "_held_back", [])
        pieces = [(name, write) for name, write in every if write.value is not None and write.key[2]]
        if pieces:
            self._held_back = pieces  # type: ignore[attr-defined] # sent after the heads
            return
        self._held_back = []  # type: ignore[attr-defined] # as above
        await real(self, every)
        await real(self, held)

    patch.setattr(CheckpointCoordinator, "_write", written)


def older_state_wins(patch: Patch) -> None:
    """Of two states of a key the one written last counts."""
    patch.setattr(ChangelogReducer, "read", lambda self, key, value, headers: [(key, value)])


def rewrite_forgotten(patch: Patch) -> None:
    """What had to be preferred at recovery is not written anew: compaction keeps what is old."""

    async def rewritten(self: CheckpointCoordinator, rewrites: Iterable[Any]) -> None:
        return None

    patch.setattr(CheckpointCoordinator, "_rewritten", rewritten)


def others_not_noticed(patch: Patch) -> None:
    """A worker does not mind that others write into its changelogs."""
    patch.setattr(ChangelogFence, "wrote", lambda self, partition, offset: True)
    patch.setattr(ChangelogFence, "ends", lambda self, partition, end: True)


def pieces_torn(patch: Patch) -> None:
    """A piece that comes after a head which it does not belong to takes the place of the one that does."""

    def piece(self: ChangelogReducer, key: bytes, value: bytes, piece: Piece) -> list[Change]:
        return [] if offset_of(value) < offset_of(self._stored(piece.head)) else [(key, value)]

    patch.setattr(ChangelogReducer, "_piece", piece)


def removed_too_early(patch: Patch) -> None:
    """A key that is idle leaves before all its records are committed."""
    real = Eviction._if_idle

    def idle(self: Eviction, *args: Any) -> list[Write]:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimulatedPort, "committed", lambda *_: 1 << 60)
            return real(self, *args)

    patch.setattr(Eviction, "_if_idle", idle)


def loss_not_noticed(patch: Patch) -> None:
    """A hole in the offsets is always taken for the broker's own."""

    async def bridged(self: SourceSequence, record: ConsumerRecord, expected: int, **_: object) -> bool:
        return True

    patch.setattr(SourceSequence, "_bridged", bridged)


def repeats_taken(patch: Patch) -> None:
    """A record that is delivered twice is taken twice."""

    async def admits(self: SourceSequence, record: ConsumerRecord) -> bool:
        return True

    patch.setattr(SourceSequence, "admits", admits)


def nothing_forgotten(patch: Patch) -> None:
    """A worker keeps its operators when its partitions are dealt anew."""
    real = StageTask.forget

    def forget(self: StageTask) -> None:
        kept = dict(self._operators)
        real(self)
        self._operators.update(kept)

    patch.setattr(StageTask, "forget", forget)


def checkpoint_torn(patch: Patch) -> None:
    """What is processed while a commit is under way is acknowledged with it."""
    real = StageTask.checkpoint_done

    def done(self: StageTask, checkpoint: Checkpoint) -> None:
        checkpoint.done.update(self._done)
        real(self, checkpoint)

    patch.setattr(StageTask, "checkpoint_done", done)


def rebuilt_without_the_recent(patch: Patch) -> None:
    """After a failure of an operator, what was not stored yet is lost."""

    def rebuild(self: KeyedOperator) -> None:
        self._operator = self._resume()

    patch.setattr(KeyedOperator, "_rebuild", rebuild)


def outputs_out_of_order(patch: Patch) -> None:
    """Outputs leave newest first."""
    real = CheckpointCoordinator._send_outbox

    async def send_outbox(self: CheckpointCoordinator) -> None:
        self._outbox.reverse()
        await real(self)

    patch.setattr(CheckpointCoordinator, "_send_outbox", send_outbox)


def idle_key_goes_on(patch: Patch) -> None:
    """A key that comes back after it was idle goes on where it was, if it has not left yet."""

    def applied(self: KeyedOperator, record: ConsumerRecord, now_ms: int) -> Any:
        self.seen_ms = now_ms
        return self._operator.update(record)

    patch.setattr(KeyedOperator, "_applied", applied)


def clock_forgotten(patch: Patch) -> None:
    """A worker that begins does not know what time it is in a partition."""
    patch.setattr(PartitionClock, "restored", lambda *_, **__: None)


def seen_ticks_forgotten(patch: Patch) -> None:
    """A snapshot forgets which ticks were seen."""
    real = Timeline.snapshot
    patch.setattr(Timeline, "snapshot", lambda self: real(self) | {"seen": []})


def open_windows_lost(patch: Patch) -> None:
    """A snapshot forgets the open windows."""
    real = WindowBank.snapshot
    patch.setattr(WindowBank, "snapshot", lambda self: real(self) | {"open": []})


def counters_begin_anew(patch: Patch) -> None:
    """A snapshot forgets the last values of counters, from which the next window's steps begin."""
    real = WindowBank.snapshot

    def snapshot(self: WindowBank) -> dict[str, Any]:
        self._last[:] = np.nan
        return real(self)

    patch.setattr(WindowBank, "snapshot", snapshot)


def held_ticks_lost(patch: Patch) -> None:
    """A snapshot forgets the ticks that wait until others agree that time moved on."""
    real = Timeline.snapshot
    patch.setattr(Timeline, "snapshot", lambda self: real(self) | {"held": []})


def watermark_forgotten(patch: Patch) -> None:
    """A snapshot forgets how far a node's time had come."""
    real = Timeline.snapshot
    patch.setattr(Timeline, "snapshot", lambda self: real(self) | {"watermark_ms": None})


def ledger_waits_for_a_tick(patch: Patch) -> None:
    """A state is stored before the ledger has what is in it."""
    patch.setattr(KeyedOperator, "unwritten", lambda _: [])


def held_behind_lost(patch: Patch) -> None:
    """Ticks of long ago that nobody confirms are dropped, and not late."""
    real = Timeline._release
    patch.setattr(Timeline, "_release", lambda self: ([], real(self)[1]))


MUTANTS: dict[str, list[Mutant]] = {
    "toy": [
        fence_forgotten, acknowledged_too_early, states_before_outputs, failed_output_dropped,
        unanswered_output_counts, heads_before_pieces, older_state_wins, loss_not_noticed, repeats_taken,
        nothing_forgotten, checkpoint_torn, rebuilt_without_the_recent, idle_key_goes_on,
        clock_forgotten, rewrite_forgotten, others_not_noticed, pieces_torn, removed_too_early,
    ],
    "real": [
        outputs_out_of_order, seen_ticks_forgotten, open_windows_lost, counters_begin_anew,
        watermark_forgotten, held_ticks_lost, ledger_waits_for_a_tick,
        held_behind_lost,
    ],
}  # fmt: skip
"""By the kind of run that has to find them."""


def broken(mutant: Mutant, seed: int, kind: str) -> Outcome:
    """The run of a seed with the code broken."""
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        return simulate(planned(seed, kind))


def main() -> None:
    """In how many runs each mutant is found, and what finds it first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", type=int, default=200, help="runs of the toy stage for each")
    parser.add_argument("--real", type=int, default=40, help="runs of the real stages for each")
    args = parser.parse_args()
    for kind, mutants in MUTANTS.items():
        runs: int = getattr(args, kind)
        for mutant in mutants:
            outcomes = [broken(mutant, seed, kind) for seed in range(runs)]
            failures = [one for one in outcomes if one.failure is not None]
            first = f"seed {failures[0].plan.seed}: {failures[0].failure:.150}" if failures else "NOT FOUND"
            print(f"{mutant.__name__:28} {len(failures):4} of {runs} {kind} runs; {first}", flush=True)


if __name__ == "__main__":
    main()
