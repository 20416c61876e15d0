"""Faults of GPUs as dcgm-exporter shows them, by its names of before and since 4.6; and GPUs in order."""

from typing import Any

import pytest

from collectors.base import Tick
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.dcgm.health import DcgmHealth
from collectors.prometheus.series import NewSample
from dutycycle.contract.records.health import GpuEvent, HealthCounters
from dutycycle.contract.records.samples import Allocation, Gpu, NvmlSample

GIVEN = (Allocation(pod_uid="p", namespace="ml", pod="bert-0"), Allocation(namespace="ml", pod="unknown"))
Values = dict[str, float]
Found = list[tuple[str, int | None, int]]


class Scraped:
    """A GPU that is scraped once a minute."""

    def __init__(self, allocated: tuple[Allocation, ...] | None = GIVEN) -> None:
        self._health = DcgmHealth(Vocabulary())
        self._gpu = Gpu(uuid="GPU-1", index=3, model="NVIDIA H200", allocated=allocated)
        self._seq = 0

    def events(self, values: Values) -> list[GpuEvent]:
        """What is told of a scrape with these values of ``DCGM_FI_DEV_…``."""
        self._seq += 1
        ts_ms = 60_000 * self._seq
        samples = [
            NewSample({"__name__": f"DCGM_FI_DEV_{name}", "UUID": "GPU-1", "gpu": "3"}, ts_ms, value)
            for name, value in values.items()
        ]
        head: dict[str, Any] = {"node": "a", "collector": "c", "seq": self._seq, "ts_ms": ts_ms}
        record = NvmlSample(**head, interval_ms=60_000, gpus=(self._gpu,))
        tick = Tick(**head, interval_ms=60_000, monotonic_s=60.0 * self._seq)
        return list(self._health.events(record, samples, tick))


def incidents(events: list[GpuEvent]) -> Found:
    return [(event.kind, event.code, event.count) for event in events if event.kind != "state"]


CASES: dict[str, tuple[list[Values], list[Found]]] = {
    "an Xid": ([{"XID_ERRORS": 0}, {"XID_ERRORS": 79}], [[], [("xid", 79, 1)]]),
    "an Xid, by the newer name": ([{"XID_ERROR": 0}, {"XID_ERROR": 79}], [[], [("xid", 79, 1)]]),
    "an Xid of long ago": ([{"XID_ERRORS": 79}, {"XID_ERRORS": 79}], [[], []]),
    "another one after it": ([{"XID_ERRORS": 13}, {"XID_ERRORS": 79}], [[], [("xid", 79, 1)]]),
    "the exporter was started again": ([{"XID_ERRORS": 79}, {"XID_ERRORS": 0}], [[], []]),
    "and saw one": ([{"XID_ERRORS": 79}, {"XID_ERRORS": 0}, {"XID_ERRORS": 79}], [[], [], [("xid", 79, 1)]]),
    "not scraped once": ([{"XID_ERRORS": 13}, {}, {"XID_ERRORS": 13}], [[], [], []]),
    "an uncorrectable error": (
        [{"ECC_DBE_VOL_TOTAL": 1}, {"ECC_DBE_VOL_TOTAL": 3}], [[], [("ecc_uncorrected", None, 2)]],
    ),
    "corrected ones": ([{"ECC_SBE_VOL_TOTAL": 1}, {"ECC_SBE_VOL_TOTAL": 900}], [[], []]),
    "a remapped row": (
        [{"UNCORRECTABLE_REMAPPED_ROWS": 0}, {"UNCORRECTABLE_REMAPPED_ROWS": 1}],
        [[], [("rows_remapped", None, 1)]],
    ),
    "a remapped row, by the newer name": (
        [{"ROW_REMAP_UNCORRECTABLE_TOTAL": 0}, {"ROW_REMAP_UNCORRECTABLE_TOTAL": 1}],
        [[], [("rows_remapped", None, 1)]],
    ),
    "no row left": (
        [{"ROW_REMAP_FAILURE": 0}, {"ROW_REMAP_FAILURE": 1}], [[], [("remap_failed", None, 1)]],
    ),
    "no row left, by the newer name": (
        [{"ROW_REMAP_FAILED": 0}, {"ROW_REMAP_FAILED": 1}], [[], [("remap_failed", None, 1)]],
    ),
    "banks without a spare row": (
        [{"BANKS_REMAP_ROWS_AVAIL_NONE": 0, "BANKS_REMAP_ROWS_AVAIL_LOW": 0},
         {"BANKS_REMAP_ROWS_AVAIL_NONE": 2, "BANKS_REMAP_ROWS_AVAIL_LOW": 4}],
        [[], [("banks_exhausted", None, 2)]],
    ),
    "retired pages": (
        [{"RETIRED_SBE": 1, "RETIRED_DBE": 2, "RETIRED_PENDING": 0},
         {"RETIRED_SBE": 2, "RETIRED_DBE": 4, "RETIRED_PENDING": 1}],
        [[], [("pages_retired", None, 3), ("pages_pending", None, 1)]],
    ),
    "errors in its life": ([{"ECC_DBE_AGG_TOTAL": 4}, {"ECC_DBE_AGG_TOTAL": 5}], [[], []]),
    "a recovery action": (
        [{"GPU_RECOVERY_ACTION": 0}, {"GPU_RECOVERY_ACTION": 1}], [[], [("recovery_action", 1, 1)]],
    ),
    "a fabric with less": (
        [{"FABRIC_HEALTH_SUMMARY": 1}, {"FABRIC_HEALTH_SUMMARY": 3}], [[], [("fabric_health", 3, 1)]],
    ),
    "what DCGM does not have": (
        [{"ECC_DBE_VOL_TOTAL": 0}, {"ECC_DBE_VOL_TOTAL": 0x7FFFFFFFFFFFFFF0}], [[], []],
    ),
    "an exporter without any of it": ([{"GPU_UTIL": 3}, {"GPU_UTIL": 4}], [[], []]),
}  # fmt: skip


@pytest.mark.parametrize(("scrapes", "expected"), CASES.values(), ids=CASES)
def test_what_is_told_of_each_scrape(scrapes: list[Values], expected: list[Found]) -> None:
    scraped = Scraped()
    assert [incidents(scraped.events(values)) for values in scrapes] == expected


def test_where_errors_were_is_told() -> None:
    names: Values = {"ECC_DBE_VOL_DEV": 1, "ECC_DBE_VOL_SRM": 2, "ECC_DBE_AGG_DEV": 3, "ECC_DBE_AGG_SRM": 4}
    (event,) = Scraped().events(names)
    assert event.counters == HealthCounters(
        ecc_uncorrected_dram=1, ecc_uncorrected_sram=2, ecc_lifetime_uncorrected_dram=3,
        ecc_lifetime_uncorrected_sram=4,
    )  # fmt: skip


def test_an_event_names_the_pods_that_have_the_gpu() -> None:
    scraped = Scraped()
    scraped.events({"XID_ERRORS": 0, "ECC_DBE_VOL_TOTAL": 0})
    (event,) = scraped.events({"XID_ERRORS": 31, "ECC_DBE_VOL_TOTAL": 0})
    assert [(pod.uid, pod.namespace, pod.name) for pod in event.pods or ()] == [("p", "ml", "bert-0")]
    assert (event.gpu, event.index, event.severity) == ("GPU-1", 3, "application")


@pytest.mark.parametrize(
    ("allocated", "pods"), [(None, None), ((), ()), (GIVEN[1:], None)], ids=["not told", "nobody", "no uid"]
)
def test_whose_it_is_may_be_unknown(allocated: tuple[Allocation, ...] | None, pods: tuple[()] | None) -> None:
    alone = Scraped(allocated=allocated)
    alone.events({"XID_ERRORS": 0})
    assert alone.events({"XID_ERRORS": 31})[0].pods == pods


def test_the_state_is_told_at_first_and_after_ten_minutes_and_when_it_is_better() -> None:
    scraped = Scraped()
    kinds = [
        [
            event.kind
            for event in scraped.events({"ROW_REMAP_PENDING": float(minute < 3), "ECC_SBE_VOL_TOTAL": 0})
        ]
        for minute in range(14)
    ]
    assert kinds == [["state"], [], [], ["state"], *[[]] * 9, ["state"]]


def test_what_is_absent_is_not_zero() -> None:
    (event,) = Scraped().events({"ECC_DBE_VOL_TOTAL": 0})
    assert event.counters is not None
    assert event.counters.ecc_uncorrected == 0
    assert (event.counters.ecc_corrected, event.counters.remap_failed) == (None, None)


@pytest.mark.parametrize(
    ("values", "errors"),
    [
        ({"NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 3, "NVLINK_REPLAY_ERROR_COUNT_TOTAL": 4}, 7),
        ({"NVLINK_CRC_DATA_ERROR_TOTAL": 2, "NVLINK_RECOVERY_ERROR_TOTAL": 0}, 2),
        ({"NVLINK_REPLAY_ERROR_TOTAL": 0}, 0),
        ({"NVLINK_REPLAY_ERROR_TOTAL": 0x7FFFFFFFFFFFFFF0, "ECC_DBE_VOL_TOTAL": 0}, None),
        ({"ECC_DBE_VOL_TOTAL": 0}, None),
    ],
)
def test_errors_of_nvlinks_are_those_of_all_kinds(values: Values, errors: int | None) -> None:
    (event,) = Scraped().events(values)
    assert event.counters is not None
    assert event.counters.nvlink_errors == errors
