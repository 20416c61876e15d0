"""Records events of the node's GPUs: what the driver told, which counters changed, who was lost."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict, replace

from collectors.attribution.processes import printable
from collectors.base import Tick, of_node
from collectors.nvml import gate
from collectors.nvml.device import Device, DeviceRef
from collectors.nvml.health.counters import HealthReader
from collectors.nvml.health.watch import XID, DriverEvent, EventWatch
from collectors.nvml.session import Session
from dutycycle.contract.health.changes import STATE_S, Change, changes, describe, hit_pods, is_judged_alike
from dutycycle.contract.health.xids import FALLEN_OFF
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.health import GpuEvent, GpuFacts, HealthCounters, HitPod
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import Gpu
from dutycycle.telemetry.events import Telemetry

_EVERY_TICKS = 6
"""Each GPU is asked in so many ticks once, not all in the same one: what no event tells, as of the fabric, is
heard of within ten seconds all the same."""
_LEAST_STATE_S = 60.0
"""How often a GPU's state is told where only its counters move."""
_IS_LOST = "gpu_is_lost"
_LOST = {
    _IS_LOST: "xid", "reset_required": "reset_required", "gpu_not_found": "missing", "not_listed": "missing",
}  # fmt: skip
"""The kind of event by the reason why a GPU does not answer; other reasons say nothing of the GPU."""
_TOPIC = "gpu-events"


class HealthReading(NamedTuple):
    """Holds what was read of a GPU: None of ``counters`` if it was not due, or answers nothing."""

    counters: HealthCounters | None
    facts: GpuFacts | None


class HealthRecorder:
    """Makes events of one node's GPUs. ``pod_of``: the pod with a uid, if it is known.

    In each tick ``begin``, then ``read`` for each GPU (from any thread), then ``records``. ``watch`` is to be
    closed before the library.
    """

    def __init__(
        self, telemetry: Telemetry, host_root: str = "/", pod_of: Callable[[str], Pod | None] = lambda _: None
    ) -> None:
        self.watch = EventWatch(telemetry)
        self._pod_of = pod_of
        self._boot_id = _boot_id(host_root)
        self._driver_events: Counter[DriverEvent] = Counter()
        self._readers: dict[str, tuple[DeviceRef, bool, HealthReader]] = {}
        """By UUID, with the listing and the MIG mode that it knows. Drivers may give the handle of before."""
        self._counters: dict[str, HealthCounters] = {}
        self._known: dict[str, HealthCounters] = {}
        """Holds each counter as it could be read last: what happened meanwhile is found by that."""
        self._facts: dict[str, GpuFacts] = {}
        self._stated: dict[str, tuple[float, HealthCounters | None]] = {}
        """When each GPU's state was told last, and what."""
        self._lost: set[str] = set()
        self._fallen: set[str] = set()
        self._pods: dict[str, tuple[HitPod, ...]] = {}
        """Who used each GPU at the last tick: what an Xid kills is gone before it is heard of."""
        self._seq = 0

    def begin(self, devices: Sequence[Device]) -> None:
        """Take what has happened since the last tick. Raises ``DriverUnavailableError``."""
        self.watch.register(devices)
        self._driver_events = self.watch.drain()

    def read(self, device: Device, tick: Tick) -> HealthReading:
        """Return the GPU's counters, if they are due or something happened to it; its facts, if they are
        new."""
        uuid = device.ref.uuid
        known = self._readers.get(uuid)
        renewed = known is None or known[0] is not device.ref or known[1] != device.divided
        reader = HealthReader() if known is None else known[2]
        if renewed:
            reader.forget()
            self._readers[uuid] = device.ref, device.divided, reader
        due = (tick.seq + device.ref.index) % _EVERY_TICKS == 0
        happened = any(event.uuid == uuid for event in self._driver_events)
        if not (due or renewed or happened):
            return HealthReading(None, None)
        counters = reader.read(device.query, links=happened)
        if not renewed:
            return HealthReading(counters, None)
        ask = device.query.ask
        facts = GpuFacts(
            model=printable(ask("model", gate.name) or "") or None,
            serial=printable(ask("serial", gate.serial) or "") or None,
            bus_id=printable(ask("bus_id", gate.bus_id) or "") or None,
            ecc=ask("ecc_mode", gate.ecc_enabled),
            mig=device.divided,
            persistence=ask("persistence_mode", gate.persistence_enabled),
            compute_mode=ask("compute_mode", gate.compute_mode),
            boot_id=self._boot_id,
        )
        return HealthReading(counters, facts)

    def records(
        self, tick: Tick, session: Session, gpus: Mapping[str, Gpu], readings: Mapping[str, HealthReading]
    ) -> list[ProducerRecord]:
        """Return what happened in this tick; ``gpus`` that answered by UUID, and what was read of them."""
        hit = {uuid: hit_pods(gpu, self._pod_of) for uuid, gpu in gpus.items()}
        events: list[GpuEvent] = []
        for uuid, change, instance, inferred in self._happened(session, readings):
            device = session.device(uuid)
            slices = device.slices if device is not None else {}
            event = self._event(tick, session, uuid, change)
            hit_slices = [slice_ for slice_, of_slice in slices.items() if of_slice == instance]
            mig = hit_slices[0] if len(hit_slices) == 1 else None
            # Who uses it now, and who did a tick before.
            before, pods = self._pods.get(uuid), hit.get(uuid)
            if before is not None:
                pods = tuple({pod.uid: pod for pod in (*before, *(pods or ()))}.values())
            events.append(replace(event, inferred=inferred, mig=mig, pods=pods))
        changed = {event.gpu for event in events}
        # Of a GPU that is lost nothing is read, and it is there all the same.
        for uuid in (*gpus, *sorted(self._lost)):
            if self._is_state_due(uuid, tick.monotonic_s, has_changed=uuid in changed):
                facts = self._facts.get(uuid)
                facts = None if facts is None else replace(facts, driver=session.driver or None)
                events.append(replace(self._event(tick, session, uuid, Change("state")), facts=facts))
                self._stated[uuid] = tick.monotonic_s, self._counters.get(uuid)
        self._pods = {uuid: pods for uuid, pods in hit.items() if pods is not None}
        return [of_node(_TOPIC, event) for event in events]

    def _happened(self, session: Session, readings: Mapping[str, HealthReading]) -> Iterator["_Happening"]:
        """Yield Xids, then the lost and the returned, then what changed."""
        for event, count in self._driver_events.items():
            if event.type == XID and session.device(event.uuid) is not None:
                if event.data == FALLEN_OFF and event.uuid in self._fallen & self._lost:
                    continue  # its answers have said so before
                self._fallen |= {event.uuid} if event.data == FALLEN_OFF else set()
                yield _Happening(event.uuid, Change("xid", event.data, count), event.instance)
        yield from self._lost_and_returned(session)
        for uuid, reading in readings.items():
            if reading.facts is not None:
                self._facts[uuid] = reading.facts
            if reading.counters is not None:
                self._counters[uuid] = reading.counters
                before = self._known.get(uuid)
                for change in changes(before, reading.counters):
                    yield _Happening(uuid, change)
                known = {name: value for name, value in asdict(reading.counters).items() if value is not None}
                self._known[uuid] = replace(before or reading.counters, **known)

    def _lost_and_returned(self, session: Session) -> Iterator["_Happening"]:
        """Yield each that was lost or came back once. A GPU that is lost has fallen off the bus, whether the
        driver has said so or not."""
        for uuid, reason in session.lost.items():
            if uuid in self._lost or reason not in _LOST:
                continue
            self._lost.add(uuid)
            if reason != _IS_LOST:
                yield _Happening(uuid, Change(_LOST[reason]))
            elif uuid not in self._fallen:
                self._fallen.add(uuid)
                yield _Happening(uuid, Change(_LOST[reason], FALLEN_OFF), inferred=True)
        for uuid in sorted(self._lost - session.lost.keys()):
            self._lost.discard(uuid)
            self._fallen.discard(uuid)
            yield _Happening(uuid, Change("returned"))

    def _event(self, tick: Tick, session: Session, uuid: str, change: Change) -> GpuEvent:
        device = session.device(uuid)
        self._seq += 1
        return GpuEvent(
            node=tick.node, collector=tick.collector, seq=self._seq, ts_ms=tick.ts_ms, gpu=uuid,
            # Of a GPU that never answered there is no more than its index.
            index=device.ref.index if device is not None else int(uuid.rpartition(" ")[2]),
            counters=self._counters.get(uuid), **describe(change),
        )  # fmt: skip

    def _is_state_due(self, uuid: str, now_s: float, *, has_changed: bool) -> bool:
        """Tell whether a GPU's state is to be told. ``has_changed``: an event of this tick tells it."""
        counters = self._counters.get(uuid)
        if uuid not in self._stated:
            return counters is not None or uuid in self._lost
        at_s, before = self._stated[uuid]
        if now_s - at_s >= STATE_S:
            return True
        if counters is None or has_changed:
            return False
        if not is_judged_alike(before, counters):
            return True
        moved = before is None or replace(before, energy_j=None) != replace(counters, energy_j=None)
        return moved and now_s - at_s >= _LEAST_STATE_S


class _Happening(NamedTuple):
    uuid: str
    change: Change
    instance: int | None = None
    inferred: bool | None = None


def _boot_id(host_root: str) -> str | None:
    """Return the kernel's, of this start of the machine; None where it cannot be read."""
    try:
        return Path(host_root, "proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
