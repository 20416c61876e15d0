"""Decides what follows for a GPU from all that is known of it: healthy, watch, drain, reset or replace. Pure.

The state of a GPU is its record, so what is judged is what everybody can read. Times are those of events.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from dutycycle.contract.health.changes import began_anew
from dutycycle.contract.health.words import (
    FABRIC_LIMITED,
    FABRIC_READY,
    FABRIC_UNHEALTHY,
    RECOVERY_ACTIONS,
    meaning_of,
)
from dutycycle.contract.health.xids import LEVELS, Level, xid_of
from dutycycle.contract.records.health import GpuEvent, GpuHealth, HealthCounters, HealthFinding

WATCHED_MS = 24 * 3_600_000
"""For so long after its last Xid a GPU is watched, where nothing worse is said of it."""
MOST_PAGES = 63
"""Retired pages from which NVIDIA takes a GPU back, before Ampere (DCGM's limit as well)."""
_OF_EVENTS = frozenset({"xid", "missing", "reset_required"})
"""Findings that stand until the GPU was reset; the others are read anew with the counters."""


def fold(known: GpuHealth | None, event: GpuEvent) -> GpuHealth:
    """Give the GPU after the event, which was not taken before.

    A finding of an Xid or of a GPU that was lost stands until the GPU answers again, was reset, or its
    machine was started again; a *watch* of an Xid ends after a day. What counters tell holds as long as they
    do.
    """
    before = known or GpuHealth(
        gpu=event.gpu, index=event.index, level="healthy", since_ms=event.ts_ms, seen_ms=event.ts_ms
    )
    at_ms = max(event.ts_ms, before.seen_ms)
    standing = [
        finding for finding in before.findings
        if finding.kind in _OF_EVENTS
        and not (finding.level == "watch" and at_ms - finding.last_ms > WATCHED_MS)
    ]  # fmt: skip
    if _was_reset(before, event):
        standing = []
    standing = _with(standing, event)
    xids = before.xids
    if event.kind == "xid" and event.code is not None:
        xids = {**xids, str(event.code): xids.get(str(event.code), 0) + event.count}
    counters = event.counters or before.counters
    active = None if counters is None else counters.nvlinks_active
    most = max((n for n in (before.nvlinks_most, active) if n is not None), default=None)
    measured = () if counters is None else _of_counters(counters, most, at_ms)
    since = {(finding.kind, finding.code): finding.since_ms for finding in before.findings}
    findings = (
        *standing,
        *(
            replace(finding, since_ms=since.get((finding.kind, finding.code), finding.since_ms))
            for finding in measured
        ),
    )
    # Of what is as bad and as new, the counters say more: an Xid is what happened, they are what is so now.
    worst = max(
        findings,
        key=lambda finding: (rank(finding.level), finding.last_ms, finding.kind not in _OF_EVENTS),
        default=None,
    )
    level = "healthy" if worst is None else worst.level
    return replace(
        before,
        index=event.index,
        level=level,
        since_ms=before.since_ms if level == before.level else at_ms,
        seen_ms=at_ms,
        reason=None if worst is None else worst.reason,
        action=None if worst is None else worst.action,
        findings=findings,
        xids=xids,
        nvlinks_most=most,
        counters=counters,
        facts=event.facts or before.facts,
    )


def rank(level: str) -> int:
    """Tell how bad a level is, from 0; one that is newer than the list is one to watch."""
    return next((at for at, known in enumerate(LEVELS) if known == level), LEVELS.index("watch"))


def is_sick(gpu: GpuHealth) -> bool:
    """Tell whether a GPU should get no more work."""
    return rank(gpu.level) >= rank("drain")


def _was_reset(before: GpuHealth, event: GpuEvent) -> bool:
    if event.kind == "returned":
        return True
    old, new = before.facts, event.facts
    if old is not None and new is not None and old.boot_id and new.boot_id and old.boot_id != new.boot_id:
        return True
    if before.counters is None or event.counters is None:
        return False
    recovered = before.counters.recovery_action and event.counters.recovery_action == 0
    return bool(recovered) or began_anew(before.counters, event.counters)


def _with(standing: list[HealthFinding], event: GpuEvent) -> list[HealthFinding]:
    """Add to the findings what happened, if it is bad; again the same is one finding, longer."""
    level: Level = "reset" if event.kind in ("missing", "reset_required") else "healthy"
    if event.kind == "xid" and event.code is not None:
        level = xid_of(event.code).level
    if level == "healthy":
        return standing
    meaning = meaning_of(event.kind, event.code)
    new = HealthFinding(
        kind=event.kind, code=event.code, level=level, reason=meaning.name,
        action=meaning.action or "look at it", since_ms=event.ts_ms, last_ms=event.ts_ms, count=event.count,
    )  # fmt: skip
    same = next(
        (finding for finding in standing if (finding.kind, finding.code) == (new.kind, new.code)), None
    )
    if same is None:
        return [*standing, new]
    longer = replace(new, since_ms=same.since_ms, count=same.count + new.count)
    return [longer if finding is same else finding for finding in standing]


def _of_counters(counters: HealthCounters, most_links: int | None, at_ms: int) -> Iterator[HealthFinding]:
    """Yield what the counters tell, each as of ``at_ms``."""
    action, fabric, health = counters.recovery_action, counters.fabric_state, counters.fabric_health
    _, recovery = RECOVERY_ACTIONS.get(action or 0, ("", "watch"))
    links = None if most_links is None else counters.nvlinks_active
    lost = 0 if most_links is None or links is None else most_links - links
    pages, errors = counters.pages_retired or 0, counters.ecc_uncorrected or 0
    exhausted = counters.banks_exhausted or 0
    rules: tuple[tuple[bool, Level, str, int | None, str], ...] = (
        (bool(counters.remap_failed), "replace", "remap_failed", None, ""),
        (pages >= MOST_PAGES, "replace", "pages_retired", None, f"{pages} pages of memory retired"),
        (errors > 0, "drain", "ecc_uncorrected", None,
         f"uncorrectable ECC errors since its last reset: {errors}"),
        (exhausted > 0, "watch", "banks_exhausted", None,
         f"banks of memory without a row left to replace another: {exhausted}"),
        (bool(counters.remap_pending), "watch", "remap_pending", None, ""),
        (bool(counters.pages_pending), "watch", "pages_pending", None, ""),
        (bool(action), recovery, "recovery_action", action, ""),
        (lost > 0, "reset", "nvlink_down", None, f"{lost} of {most_links} NVLinks are down"),
        (fabric not in (None, FABRIC_READY), "drain", "fabric", fabric, ""),
        (health == FABRIC_UNHEALTHY, "drain", "fabric_health", health, ""),
        (health == FABRIC_LIMITED, "watch", "fabric_health", health, ""),
    )  # fmt: skip
    for holds, level, kind, code, reason in rules:
        if holds:
            meaning = meaning_of(kind, code)
            yield HealthFinding(
                kind=kind, code=code, level=level, reason=reason or meaning.name,
                action=meaning.action or "look at it", since_ms=at_ms, last_ms=at_ms,
            )  # fmt: skip


def sentence(health: GpuHealth) -> str:
    """Return one line for people: what, since when, and what is to be done."""
    if health.reason is None:
        return f"gpu {health.index}: {health.level}"
    since = datetime.fromtimestamp(health.since_ms / 1000, UTC)
    return (
        f"gpu {health.index}: {health.level}: {health.reason}, since {since:%Y-%m-%d %H:%M} UTC; "
        f"{health.action}"
    )


def fault_sentence(event: GpuEvent) -> str:
    """Return one line for who used the GPU: what happened to it, how often, where, and what is to be done."""
    times = f" ({event.count} times)" if event.count > 1 else ""
    of_slice = "" if event.mig is None else f" (slice {event.mig})"
    inference = ", as its answers tell" if event.inferred else ""
    what = f"{event.name}{times} on gpu {event.index}{of_slice} of node {event.node}{inference}"
    return f"{what}; {event.action}" if event.action else what
