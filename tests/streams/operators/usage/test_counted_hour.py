"""Over an hour the ledger's totals are those of the kernel's and the driver's own counters."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.support.data.counted_hour import GPUS, PODS, CountedHour
from tests.support.data.traces import consumed
from tests.support.sinks.recording import record_all
from tests.support.targets import slow_after

CPU = "SELECT pod_uid, sum(cpu_s) FROM usage_hours WHERE gpu = '' AND hour = :hour GROUP BY pod_uid"
ENERGY = (
    "SELECT gpu, sum(energy_j), sum(gpu_s) FROM usage_hours WHERE gpu <> '' AND hour = :hour GROUP BY gpu"
)
HOUR = "2026-09-21T15:00:00.000Z"


@pytest.mark.parametrize("seed", slow_after(0, range(3)))
def test_totals_are_those_of_the_counters(seed: int, tmp_path: Path) -> None:
    hour = CountedHour(seed)
    url = f"sqlite:///{tmp_path}/records.db"
    record_all(consumed(hour.records()), url)
    engine = create_engine(url)
    with engine.connect() as connection:
        cpu: dict[str, float] = {
            uid: float(sum_s) for uid, sum_s in connection.execute(text(CPU), {"hour": HOUR})
        }
        energy = connection.execute(text(ENERGY), {"hour": HOUR}).all()
    engine.dispose()
    used = hour.used
    assert set(cpu) == {"", *PODS}
    for uid in PODS:
        assert cpu[uid] == pytest.approx(used.cpu_s[uid], rel=0.005), uid  # but for its first and last tick
    assert sum(cpu.values()) == pytest.approx(used.cpu_s[""], rel=0.001)
    assert [gpu for gpu, _, _ in energy] == [f"GPU-{index}" for index in range(GPUS)]
    for index, (_, joules, seconds) in enumerate(energy):
        assert joules == pytest.approx(used.energy_j[index], rel=0.001)
        assert seconds == pytest.approx(3600, rel=0.001)
