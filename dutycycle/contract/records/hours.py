"""Defines the ledger: what was used on a node in an hour of the clock, and by whom.

The definitions, for the topic ``usage``, its tables in SQL and the counters for Prometheus:

- **Measured time.** A tick counts for the time since the one before it. Time that nobody measured is not
  guessed: after a gap one interval counts (``contract.metering``, which has the next two as well).
- **Busy.** The share of that time in which a kernel ran: the mean of the driver's samples of the tick, or
  ``gpu_util_pct`` where there are none. **Idle** is the rest of what is known.
- **Working.** Busy time of the ticks in which the GPU draws at least a tenth of its power limit, and 15 % of
  it more at full utilization (in proportion at less), or in which its multiprocessors are active for half of
  the busy time. The rest of busy time is waiting: kernels that spin until other GPUs, or the host, come. Of
  how much time it is known is said beside: a GPU without a power limit, and a slice (MIG), whose power nobody
  measures, have it by their multiprocessors alone. It is divided as busy time is.
- **Untouched.** The part of idle time in which a pod held the GPU and no process of its was on it. It is
  known where the processes on the GPU and their pods are seen, and the GPU is not cut into slices.
- **SM-seconds, tensor-seconds.** That time times the activity of the multiprocessors, or of the tensor
  cores, where the GPU counts it. Of how much time it is known is said beside: a GPU's first tick has none,
  and some sources know one of the two alone. They are divided as busy time is.
- **Energy.** The increase of the driver's counter; power times time while that cannot be read.
- **Allocated.** A GPU's time belongs to the pods that run processes on it or were given it. Alone, a pod has
  all of it. Of several, busy time and energy are divided by their utilization, idle time evenly; so is the
  energy while none of them computes. While the GPU computes and the driver tells it of no process, they are
  those of the pods with a process there. If what one of them does cannot be told, time and energy are divided
  evenly, and busy is not known. A pod known by its name alone is one of them; its part is nobody's. A slice
  (MIG) is a part of its GPU by memory, and has its pods of its own.
- **Nobody.** What no pod has goes to a row without a pod. So the rows of a GPU add up to its time, and to
  the increase of the driver's energy counter. What that grew by in a gap is nobody's, be it one of the node
  or of this GPU alone.
- **CPU.** CPU time of a pod's containers; the row without a pod has what the host used beyond its pods.
"""

from dutycycle.contract.records.base import RecordBase, VersionedRecord
from dutycycle.contract.units import Amount, Label, Millis, NodeName, Uid

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


class GpuHour(RecordBase, frozen=True, kw_only=True):
    """Holds a pod's time on one GPU in the hour so far; without ``pod_uid``, what nobody had.

    ``gpu_s`` is the pod's time on the GPU, of a shared GPU its part. ``known_s``: the part of it of which
    utilization is known; ``busy_s``: the part of that in which a kernel ran. ``sm_s``, ``tensor_s``: seconds
    of work of all its multiprocessors, and of all its tensor cores, in ``sm_known_s`` and ``tensor_known_s``.
    ``working_s``: busy seconds in which the GPU worked, of ``working_known_s``. Absent where it has no such
    counters. ``untouched_s``: the part of ``known_s`` in which the pod had the
    GPU and no process there; absent where there was none, or that cannot be seen.
    """

    pod_uid: Uid | None = None
    gpu: Uid
    model: Label | None = None
    attribution: Label | None = None
    gpu_s: Amount
    known_s: Amount
    busy_s: Amount
    sm_s: Amount | None = None
    sm_known_s: Amount | None = None
    tensor_s: Amount | None = None
    tensor_known_s: Amount | None = None
    working_s: Amount | None = None
    working_known_s: Amount | None = None
    energy_j: Amount | None = None
    untouched_s: Amount | None = None


class PodHour(RecordBase, frozen=True, kw_only=True):
    """Holds a pod's CPU and memory in the hour so far; without ``pod_uid``, what the host used beyond its
    pods.

    ``seconds``: the time that was measured. ``mem_byte_s``: memory in use times its time.
    """

    pod_uid: Uid | None = None
    seconds: Amount
    cpu_s: Amount | None = None
    mem_byte_s: Amount | None = None


class UsageHour(VersionedRecord, frozen=True, kw_only=True):
    """What was used on a node since ``hour_ms``, up to ``ts_ms``, of one ``source``: ``nvml`` or ``cgroup``.

    Written once a minute, and with each state that is stored, with the rows that changed; each says all of
    the hour so far. So the newest row of an hour, pod and GPU replaces the ones before, and a repeat changes
    nothing.
    """

    node: NodeName
    source: Label
    hour_ms: Millis
    ts_ms: Millis
    gpus: tuple[GpuHour, ...] = ()
    pods: tuple[PodHour, ...] = ()
