"""Says what else can be wrong with a GPU than an Xid: names, severities and what to do, by kind of event."""

from typing import NamedTuple

from dutycycle.contract.health.xids import Level, Severity, xid_of

RECOVERY_ACTIONS: dict[int, tuple[str, Level]] = {
    0: ("none", "healthy"),
    1: ("reset the GPU", "reset"),
    2: ("restart the machine", "reset"),
    3: ("drain: no new work with peers over NVLink", "drain"),
    4: ("drain, then reset the GPU", "reset"),
    5: ("recover the IMEX domain", "drain"),
    6: ("reset the bus of the GPU", "reset"),
    7: ("restart the whole system", "reset"),
}
"""``NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`` (field 230): what the driver wants done, and what follows."""
FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}
FABRIC_READY, FABRIC_UNHEALTHY, FABRIC_LIMITED = 3, 2, 3
"""``nvmlGpuFabricInfo``: its state when CUDA can run, and two of the summaries of its health."""


class EventMeaning(NamedTuple):
    """Says what an event is called, how bad it is, and what is to be done."""

    name: str
    severity: Severity
    action: str | None = None


_MEANINGS = {
    "state": EventMeaning("state of the GPU", "info"),
    "missing": EventMeaning(
        "GPU is not listed any more", "fatal", "restart the machine; check power and seating"
    ),
    "reset_required": EventMeaning("GPU answers nothing until it is reset", "fatal", "reset the GPU"),
    "returned": EventMeaning("GPU answers again", "info"),
    "ecc_uncorrected": EventMeaning(
        "uncorrectable ECC errors", "fatal", "let the work end, then reset the GPU"
    ),
    "rows_remapped": EventMeaning("rows of memory remapped", "warning", "reset the GPU when convenient"),
    "remap_pending": EventMeaning(
        "row remapping waits for a reset", "warning", "reset the GPU when convenient"
    ),
    "remap_failed": EventMeaning("row remapping failed", "fatal", "replace the GPU: NVIDIA takes it back"),
    "banks_exhausted": EventMeaning(
        "banks of memory have no row left to replace another",
        "warning",
        "plan to replace the GPU: the next such error cannot be mended",
    ),
    "pages_retired": EventMeaning("pages of memory retired", "warning", "reset the GPU when convenient"),
    "pages_pending": EventMeaning(
        "page retirement waits for a reset", "warning", "reset the GPU when convenient"
    ),
    "nvlink_down": EventMeaning("NVLinks went down", "fatal", "check links and NVSwitch, then reset the GPU"),
    "nvlink_up": EventMeaning("NVLinks are active again", "info"),
}  # fmt: skip


def meaning_of(kind: str, code: int | None = None) -> EventMeaning:
    """Return what an event of this kind says; one of a kind that is newer than this list is a warning."""
    match kind:
        case "xid" if code is not None:
            xid = xid_of(code)
            return EventMeaning(f"Xid {code}: {xid.name}", xid.severity, xid.action)
        case "recovery_action" if code is not None:
            action, level = RECOVERY_ACTIONS.get(code, (f"NVIDIA's number {code}", "watch"))
            if level == "healthy":
                return EventMeaning("no recovery action is needed any more", "info")
            return EventMeaning(f"the driver asks for recovery action {code}", "fatal", action)
        case "fabric" if code is not None:
            state = FABRIC_STATES.get(code, f"NVIDIA's number {code}")
            if code == FABRIC_READY:
                return EventMeaning("NVLink fabric: completed", "info")
            return EventMeaning(
                f"NVLink fabric: {state}", "fatal", "restart the fabric manager, or the machine"
            )
        case "fabric_health" if code is not None:
            if code not in (FABRIC_UNHEALTHY, FABRIC_LIMITED):
                return EventMeaning("NVLink fabric is healthy", "info")
            words = "is unhealthy" if code == FABRIC_UNHEALTHY else "has limited capacity"
            return EventMeaning(f"NVLink fabric {words}", "fatal" if code == FABRIC_UNHEALTHY else "warning",
                           "check the links and the NVSwitch")  # fmt: skip
    return _MEANINGS.get(
        kind, EventMeaning(kind.replace("_", " "), "warning", "look at the log of the kernel")
    )
