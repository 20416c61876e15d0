"""What follows for a GPU from what happened to it: a table of cases, and what holds of any."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dutycycle.contract.health.changes import changes, is_judged_alike
from dutycycle.contract.health.verdict import WATCHED_MS, fold, sentence
from dutycycle.contract.health.words import RECOVERY_ACTIONS, meaning_of
from dutycycle.contract.health.xids import LEVELS, XIDS, xid_of
from dutycycle.contract.records.health import GpuEvent, GpuHealth, HealthCounters
from tests.support.data.gpu_events import FACTS, GOOD, made_event

T = 1_700_000_000_000
HOUR = 3_600_000
APPLICATION = [code for code, xid in XIDS.items() if xid.severity == "application"]
Step = tuple[str, int | None, dict[str, Any]]


def state(**changed: Any) -> Step:
    return "state", None, {"counters": replace(GOOD, **changed), "facts": FACTS}


def xid(code: int, **changed: Any) -> Step:
    return "xid", code, changed


def judged(*steps: Step, every_ms: int = 1000) -> GpuHealth:
    health = None
    for seq, (kind, code, changed) in enumerate(steps):
        health = fold(health, made_event(kind, code, **({"seq": seq, "ts_ms": T + seq * every_ms} | changed)))
    assert health is not None
    return health


CASES: dict[str, tuple[list[Step], str, str | None]] = {
    "in order": ([state()], "healthy", None),
    "an Xid of an application": ([state(), xid(13), xid(31), xid(43), xid(45)], "healthy", None),
    "a contained error of memory": ([state(), xid(94)], "healthy", None),
    "fallen off the bus": ([state(), xid(79)], "reset",
                           "restart the machine; check power, seating and cooling"),
    "an Xid that nobody knows": ([state(), xid(998)], "watch",
                                 "look at the log of the kernel and at NVIDIA's page of Xid errors"),
    "corrected errors alone": ([state(ecc_corrected=9000)], "healthy", None),
    "an uncorrectable error": ([state(ecc_uncorrected=1)], "drain", "let the work end, then reset the GPU"),
    "a row that waits": ([state(remap_pending=True)], "watch", "reset the GPU when convenient"),
    "a bank without a spare row": (
        [state(banks_exhausted=2, banks_low=9)], "watch",
        "plan to replace the GPU: the next such error cannot be mended",
    ),
    "banks with few spare rows": ([state(banks_exhausted=0, banks_low=9)], "healthy", None),
    "uncorrectable errors long ago": (
        [state(ecc_lifetime_uncorrected=5, ecc_lifetime_uncorrected_dram=5)], "healthy", None,
    ),
    "no row left": ([state(remap_failed=True)], "replace", "replace the GPU: NVIDIA takes it back"),
    "worse than an Xid": ([state(remap_failed=True), xid(79)], "replace",
                          "replace the GPU: NVIDIA takes it back"),
    "many pages": ([state(pages_retired=63)], "replace", "reset the GPU when convenient"),
    "few pages": ([state(pages_retired=62)], "healthy", None),
    "a link that went down": ([state(), state(nvlinks_active=17)], "reset",
                              "check links and NVSwitch, then reset the GPU"),
    "a board with fewer links": ([state(nvlinks_active=12)], "healthy", None),
    "links that nobody asked": ([state(), state(nvlinks_active=None)], "healthy", None),
    "a fabric that is not up": ([state(fabric_state=2)], "drain",
                                "restart the fabric manager, or the machine"),
    "a fabric with less": ([state(fabric_health=3)], "watch", "check the links and the NVSwitch"),
    "no fabric": ([state(fabric_state=None, fabric_health=None)], "healthy", None),
    "the driver wants a reset": ([state(recovery_action=1)], "reset", "reset the GPU"),
    "the driver wants a restart": ([state(recovery_action=2)], "reset", "restart the machine"),
    "an action newer than the list": ([state(recovery_action=9)], "watch", "NVIDIA's number 9"),
    "a GPU that tells nothing": ([("state", None, {"counters": HealthCounters()})], "healthy", None),
    "answers nothing": ([state(), ("reset_required", None, {})], "reset", "reset the GPU"),
    "not there": ([state(), ("missing", None, {})], "reset", "restart the machine; check power and seating"),
    # and what ends it
    "there again": ([state(), xid(79), ("returned", None, {}), state()], "healthy", None),
    "there again, and broken": ([state(), xid(79), ("returned", None, {}), state(ecc_uncorrected=2)], "drain",
                                "let the work end, then reset the GPU"),
    "the machine was started": (
        [state(), xid(119), ("state", None, {"counters": GOOD, "facts": replace(FACTS, boot_id="second")})],
        "healthy", None,
    ),
    "the driver was loaded": ([state(), xid(119), state(energy_j=3)], "healthy", None),
    "only the collector was started": ([state(), xid(119), state()], "reset",
                                       "reset the GPU; where it repeats, update the driver"),
    "the driver is content": ([state(recovery_action=1), xid(62), state(recovery_action=0)], "healthy", None),
    "the driver does not say any more": ([state(recovery_action=1), xid(62), state(recovery_action=None)],
                                         "reset", "reset the GPU"),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "level", "action"), CASES.values(), ids=CASES)
def test_the_verdict(steps: list[Step], level: str, action: str | None) -> None:
    health = judged(*steps)
    assert (health.level, health.action) == (level, action)
    assert (health.reason is None) == (level == "healthy") == (health.findings == ())


def test_a_watch_of_an_xid_ends_after_a_day_and_one_of_a_counter_does_not() -> None:
    assert judged(state(), xid(92), state(), every_ms=WATCHED_MS).level == "watch"
    assert judged(state(), xid(92), state(), state(), every_ms=WATCHED_MS).level == "healthy"
    assert (
        judged(state(remap_pending=True), state(remap_pending=True), every_ms=9 * WATCHED_MS).level == "watch"
    )
    assert judged(state(), xid(79), state(), every_ms=9 * WATCHED_MS).level == "reset"


@pytest.mark.parametrize(
    "steps",
    [
        [state(), xid(63), state(remap_pending=True)],
        [state(), xid(63, counters=replace(GOOD, remap_pending=True))],
        [state(), state(remap_pending=True), xid(63)],
    ],
)
def test_of_findings_as_bad_the_counters_are_told_in_whichever_order_they_came(steps: list[Step]) -> None:
    assert judged(*steps).reason == "row remapping waits for a reset"


def test_a_finding_keeps_its_beginning_and_counts() -> None:
    health = judged(state(remap_pending=True), xid(79, count=2), xid(79), state(remap_pending=True))
    fallen, waiting = health.findings
    assert (fallen.since_ms, fallen.last_ms, fallen.count) == (T + 1000, T + 2000, 3)
    assert (waiting.since_ms, waiting.kind) == (T, "remap_pending")
    assert (health.level, health.since_ms, health.xids) == ("reset", T + 1000, {"79": 3})


def test_the_sentence_says_what_since_when_and_what_to_do() -> None:
    assert sentence(judged(state(), xid(79))) == (
        "gpu 0: reset: Xid 79: GPU has fallen off the bus, since 2023-11-14 22:13 UTC; "
        "restart the machine; check power, seating and cooling"
    )
    assert sentence(judged(state())) == "gpu 0: healthy"


@given(st.lists(st.sampled_from(APPLICATION), max_size=50))
def test_no_application_makes_a_gpu_sick(codes: list[int]) -> None:
    health = judged(state(), *(xid(code) for code in codes))
    assert health.level == "healthy"
    assert sum(health.xids.values()) == len(codes)


EVENTS = st.builds(
    lambda kind, code, counters: (kind, code, {"counters": counters}),
    st.sampled_from(["xid", "state", "missing", "returned", "reset_required", "kind_of_tomorrow"]),
    st.integers(0, 300) | st.none(),
    st.none()
    | st.builds(
        HealthCounters,
        ecc_uncorrected=st.none() | st.integers(0, 3),
        remap_pending=st.none() | st.booleans(),
        remap_failed=st.none() | st.booleans(),
        recovery_action=st.none() | st.integers(0, 12),
        nvlinks_active=st.none() | st.integers(0, 18),
        fabric_state=st.none() | st.integers(1, 3),
        energy_j=st.none() | st.integers(0, 9),
    ),
)


@given(st.lists(EVENTS, min_size=1, max_size=12))
def test_any_past_has_a_verdict_that_its_findings_explain(steps: list[Step]) -> None:
    health = judged(*steps)
    worst = max((LEVELS.index(one.level) for one in health.findings), default=0)
    assert health.level == LEVELS[worst]
    assert {one.reason for one in health.findings} >= ({health.reason} if health.reason else set())
    assert all(one.since_ms <= one.last_ms for one in health.findings if one.kind == "xid")


def test_what_is_told_of_every_xid_and_action() -> None:
    for code in range(1, 200):
        meaning = meaning_of("xid", code)
        assert meaning.action
        assert meaning.name.startswith(f"Xid {code}: ")
        assert (xid_of(code).level == "healthy") or meaning.severity in (
            "info",
            "warning",
            "fatal",
            "unknown",
        )
    assert {level for _, level in RECOVERY_ACTIONS.values()} <= set(LEVELS)


B = GOOD
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, int | None, int]]]] = {
    "nothing": ({}, {}, []),
    "what moves in a healthy GPU": ({}, {"ecc_corrected": 9, "energy_j": 9000, "pcie_replays": 4}, []),
    "an error more": ({}, {"ecc_uncorrected": 2}, [("ecc_uncorrected", None, 2)]),
    "a counter that begins anew": ({"ecc_uncorrected": 7}, {"ecc_uncorrected": 0, "energy_j": 1}, []),
    "and has counted since": ({"ecc_uncorrected": 7}, {"ecc_uncorrected": 2, "energy_j": 1},
                              [("ecc_uncorrected", None, 2)]),
    "a counter that could not be read": ({"ecc_uncorrected": 7}, {"ecc_uncorrected": 7, "energy_j": 0}, []),
    "a flag": ({}, {"remap_pending": True}, [("remap_pending", None, 1)]),
    "a flag that falls": ({"remap_pending": True}, {}, []),
    "a flag that is heard of": ({"remap_failed": None}, {"remap_failed": True}, []),
    "an action": ({}, {"recovery_action": 4}, [("recovery_action", 4, 1)]),
    "no action any more": ({"recovery_action": 4}, {}, [("recovery_action", 0, 1)]),
    "links": ({}, {"nvlinks_active": 15}, [("nvlink_down", None, 3)]),
    "links again": ({"nvlinks_active": 15}, {}, [("nvlink_up", None, 3)]),
    "all unknown": ({}, dict.fromkeys(HealthCounters.__struct_fields__), []),
}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_has_changed(
    before: dict[str, Any], now: dict[str, Any], expected: list[tuple[str, int | None, int]]
) -> None:
    pair = replace(B, **before), replace(B, **now)
    assert [(one.kind, one.code, one.count) for one in changes(*pair)] == expected


def test_the_first_reading_is_no_change() -> None:
    assert list(changes(None, replace(B, ecc_uncorrected=4, remap_failed=True))) == []
    assert not is_judged_alike(None, B)
    assert is_judged_alike(B, replace(B, ecc_corrected=4, energy_j=1))
    assert not is_judged_alike(B, replace(B, remap_pending=True))


def test_an_event_of_an_older_moment_does_not_set_the_time_back() -> None:
    later: GpuEvent = made_event("xid", 79, ts_ms=T + HOUR)
    health = fold(fold(None, later), made_event("xid", 31, ts_ms=T))
    assert (health.seen_ms, health.level) == (T + HOUR, "reset")
