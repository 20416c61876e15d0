"""Says what a process runs, seen from outside, and what its training loop reports of itself."""

from typing import Annotated

from msgspec import Meta

from dutycycle.contract.records.base import RecordBase, TickRecord, VersionedRecord
from dutycycle.contract.units import Amount, Count, Label, Uid

ShortLabel = Annotated[str, Meta(min_length=1, max_length=200)]
"""Of what anybody may report: many of them have to fit in a record."""


class Package(RecordBase, frozen=True, kw_only=True):
    """Names a framework whose libraries are loaded. ``version`` is absent where its files do not tell it."""

    name: Label
    version: Label | None = None


class Software(RecordBase, frozen=True, kw_only=True):
    """Says what a process runs, as ``/proc`` and the files of its libraries tell it.

    ``cuda`` and ``nccl`` are versions of the loaded libraries, as precise as their names. ``unreadable``
    lists the files of ``/proc/<pid>`` that the collector may not read: what comes from them is absent.
    """

    python: Label | None = None
    frameworks: tuple[Package, ...] | None = None
    cuda: Label | None = None
    nccl: Label | None = None
    launcher: Label | None = None
    data_workers: Count | None = None
    data_workers_by: Label | None = None
    rank: Count | None = None
    local_rank: Count | None = None
    world_size: Count | None = None
    master_addr: Label | None = None
    unreadable: tuple[str, ...] | None = None


class Loop(RecordBase, frozen=True, kw_only=True):
    """Holds what the training loop of a process reported since its last record: ``steps`` steps took
    ``seconds``, the longest of them ``longest_s``."""

    loop: ShortLabel
    steps: Count
    seconds: Amount
    longest_s: Amount | None = None
    samples: Count | None = None
    step: Count | None = None
    batch_size: Count | None = None
    loss_scale: Amount | None = None
    model: ShortLabel | None = None
    parameters: Count | None = None
    dtype: ShortLabel | None = None
    unsent: Count | None = None


class StepReport(Loop, VersionedRecord, frozen=True, kw_only=True):
    """Is a datagram on the collector's socket: some steps of one process. Whose it is, the kernel says."""


class Process(RecordBase, frozen=True, kw_only=True):
    """Describes one process of a pod. ``software`` comes when it is first read and once a minute, ``loop`` at
    each tick with reports."""

    pid: Count
    pod_uid: Uid
    container_id: Uid | None = None
    name: Label | None = None
    software: Software | None = None
    loop: Loop | None = None


class ProcessSample(TickRecord, frozen=True, kw_only=True):
    """The processes of a node of which there is something to say at one tick."""

    processes: tuple[Process, ...]
