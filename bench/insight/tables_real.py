"""Writes the first tables of ``docs/insight.md``: how good what is told is, on logs of real machines."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.insight.real import (
    CycleScore,
    Replayed,
    Scored,
    digest_of_code,
    read_truth,
    replay_once,
    trace_path,
)
from dutycycle.contract.errors import DutycycleError

METRICS = {"gpu_util_pct": "GPU utilization", "mem_used_bytes": "GPU memory", "power_w": "power"}
HORIZONS_S = (10.0, 30.0, 300.0)
FEWEST = 20
"""Forecasts below which tables by source say nothing of them."""
BEGIN, END = "<!-- make bench-insight REAL=... writes from here -->\n", "<!-- to here -->\n"
"""Between these lines of the page are the tables."""


def replayed(folder: Path, cache: Path, jobs: int = 1) -> dict[str, Replayed]:
    """All traces of a folder, by name, each replayed, or as a replay by the same code left it in ``cache``;
    so many processes at once, the longest traces first."""
    truths, code = read_truth(folder), digest_of_code()
    paths = {name: trace_path(folder, name) for name in truths}
    with ProcessPoolExecutor(jobs) as pool:
        replays = {
            name: pool.submit(replay_once, paths[name], truths[name], cache, code)
            for name in sorted(truths, key=lambda name: -paths[name].stat().st_size)
        }
        return {name: replays[name].result() for name in truths}


def real_machines(folder: Path, cache: Path, page: Path, jobs: int = 1) -> None:
    """Write the tables into the page. Raises ``DutycycleError`` for a folder or page that cannot be used."""
    every = list(replayed(folder, cache, jobs).values())
    sources: dict[str, list[Replayed]] = defaultdict(list)
    for log in every:
        sources[log.truth.source].append(log)
    write(page, section(every, sources))


def kinds_of(logs: Iterable[Replayed]) -> tuple[int, list[float]]:
    """Give in how many logs the kind is known, and % of their time that it is right, unknown and wrong;
    nothing of no log."""
    shares = [share for log in logs if (share := log.kind_shares()) is not None]
    return len(shares), [100 * sum(of) / len(shares) for of in zip(*shares, strict=True)]


def limits_of(logs: Iterable[Replayed]) -> list[bool]:
    """Give for each log whose limit is known whether the last one told is right."""
    return [right for log in logs if (right := log.is_limit_right()) is not None]


def cycles_of(logs: Iterable[Replayed]) -> CycleScore:
    """The cycles of all."""
    each = [log.score_cycles() for log in logs]
    return CycleScore(*(sum(getattr(of, name) for of in each) for name in ("found", "missed", "wrong")))


def memory_of(logs: Iterable[Replayed]) -> tuple[int, int]:
    """How often it was told that memory runs out, and how often wrongly."""
    each = [log.memory_told() for log in logs]
    return sum(told for told, _ in each), sum(wrongly for _, wrongly in each)


def scored(logs: Iterable[Replayed]) -> dict[tuple[str, float], Scored]:
    """The forecasts of all, by metric and horizon."""
    of: dict[tuple[str, float], Scored] = defaultdict(Scored)
    for log in logs:
        for place, forecasts in log.forecasts.items():
            of[place].merge(forecasts)
    return of


def ratio(value: float | None) -> str:
    """As it is printed; "-" for none."""
    return "-" if value is None else f"{value:.2f}"


def section(every: list[Replayed], sources: Mapping[str, list[Replayed]]) -> str:
    """What the page says of them, in Markdown."""
    known, shares = kinds_of(every)
    kinds = " / ".join(f"{share:.0f} %" for share in shares) or "-"
    limits = limits_of(every)
    cycles, (_, wrongly) = cycles_of(every), memory_of(every)
    clear, answers = cycles.found + cycles.missed, cycles.found + cycles.wrong
    recall, precision = cycles.found / max(clear, 1), cycles.found / max(answers, 1)
    of = scored(every)
    flat = sum(score.flat for score in of.values())
    lines = [
        f"Measured on {time.strftime('%Y-%m-%d')} with {len(every)} logs of {len(sources)} sources.", "",
        "| | |", "|---|---|",
        f"| kind of a job, {known} logs with a known kind: share of the time "
        f"that it is right / `unknown` / wrong | {kinds} |",
        f"| limit: the last one told is right | {sum(limits)} of {len(limits)} |",
        f"| cycles: series with a clear one where it is found; series with a wrong one "
        f"| {cycles.found} of {clear}; {cycles.wrong} (recall {recall:.2f}, precision {precision:.2f}) |",
        f'| "memory full", told in jobs that ended well | {wrongly or "never"} |',
        f"| intervals of forecasts without any width | {flat or 'none'} |", "",
        "| forecast | number | error, as a share of that of the last value | "
        "those that are not the last value: share, error | within 5-95 % |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for metric, name in METRICS.items():
        for horizon_s in HORIZONS_S:
            score = of.get((metric, horizon_s), Scored())
            if score.count:
                made = f"{100 * score.made / score.count:.0f} %, {ratio(score.made_ratio)}"
                figures = f"{score.count} | {ratio(score.ratio)} | {made} | {score.inside_pct:.0f} %"
                lines.append(f"| {name}, {horizon_s:g} s ahead | {figures} |")
    return "\n".join([*lines, "", *by_source(sources)]) + "\n"


def by_source(sources: Mapping[str, list[Replayed]]) -> list[str]:
    """The lines of the table by source: the forecasts of all metrics together at each horizon."""
    heads = " | ".join(f"forecasts {horizon_s:g} s ahead" for horizon_s in HORIZONS_S)
    lines = [
        f"| source | logs | tick, s | kind | cycles | wrong in | {heads} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for source, logs in sources.items():
        of, cycles = scored(logs), cycles_of(logs)
        kinds = " / ".join(f"{share:.0f}" for share in kinds_of(logs)[1])
        ticks = Counter(f"{log.tick_s:.2g}" for log in logs).most_common()
        found = f"{cycles.found} of {cycles.found + cycles.missed}" if cycles.found + cycles.missed else ""
        cells = [", ".join(cells_by_metric(of, horizon_s)) for horizon_s in HORIZONS_S]
        ticks_s = ", ".join(tick for tick, _ in ticks)
        row = [source, str(len(logs)), ticks_s, kinds, found, str(cycles.wrong or ""), *cells]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def cells_by_metric(of: Mapping[tuple[str, float], Scored], horizon_s: float) -> list[str]:
    """Of each metric with enough forecasts: u, m or p, error, and % within the interval."""
    letters = zip("ump", METRICS, strict=True)
    scores = [(letter, of[metric, horizon_s]) for letter, metric in letters if (metric, horizon_s) in of]
    return [
        f"{letter} {ratio(score.ratio)} ({score.inside_pct:.0f})"
        for letter, score in scores
        if score.count >= FEWEST
    ]


def write(page: Path, text: str) -> None:
    """Put the text between the two lines of the page. Raises ``DutycycleError`` if they are not there."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise DutycycleError(f"{page}: needs the lines {BEGIN.strip()!r} and {END.strip()!r}, for the tables")
    page.write_text(before + begin + text + end + after)
