"""Events of GPUs as a collector writes them."""

from typing import Any

from dutycycle.contract.health.words import meaning_of
from dutycycle.contract.records.health import GpuEvent, GpuFacts, HealthCounters

FACTS = GpuFacts(model="NVIDIA H200", serial="1653323014211", bus_id="00000000:18:00.0", boot_id="first")
GOOD = HealthCounters(
    ecc_corrected=0, ecc_uncorrected=0, remap_pending=False, remap_failed=False, nvlinks=18,
    nvlinks_active=18, recovery_action=0, fabric_state=3, fabric_health=1, energy_j=5000,
)  # fmt: skip
"""What an H200 in order counts."""


def made_event(kind: str, code: int | None = None, **changes: Any) -> GpuEvent:
    """An event with the words of the catalogue."""
    meaning = meaning_of(kind, code)
    event: dict[str, Any] = {
        "node": "gpu-a", "collector": "c", "seq": 0, "ts_ms": 1_700_000_000_000, "gpu": "GPU-a", "index": 0,
        "kind": kind, "code": code, "severity": meaning.severity, "name": meaning.name,
        "action": meaning.action,
    }  # fmt: skip
    return GpuEvent(**(event | changes))
