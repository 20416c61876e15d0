"""Makes what is no table: the first line of the screen, its help, all warnings, one process in depth."""

import textwrap
from collections.abc import Sequence
from datetime import datetime

from dutycycle.contract.units import GIB, sum_of_known
from dutycycle.live.model.state import LiveState
from dutycycle.live.views.spans import Line, util_style
from dutycycle.live.views.tables.nodes import mean_util
from dutycycle.live.views.tables.processes import OnGpu, age_s, on_gpus
from dutycycle.words import UNKNOWN, bytes_text, percent_text, short_duration

_KEYS = (
    ("1 … 5, Tab", "another view: GPUs, pods, jobs, nodes, processes"),
    ("↑ ↓ PgUp PgDn Home End", "move; also j, k, G and the wheel"),
    ("Enter", "in depth: history, forecast, cycle, processes, advice"),
    ("← →", "there: the subject before, the next one"),
    ("Escape", "back; ends a filter"),
    ("/", "filter: rows with all the words that are typed"),
    ("s, S", "sort by the next column, by the one before"),
    ("r", "the other way round"),
    ("Space", "freeze, and go on"),
    ("t, K", "processes of this machine: end, kill; asks first (off by DUTYCYCLE_SIGNALS)"),
    ("w", "all warnings"),
    ("Ctrl-L", "draw all of it again"),
    ("q, Ctrl-C", "quit"),
    ("mouse", "click a tab, a row or a title; a double click opens"),
)
_MEANINGS: tuple[Line, ...] = (
    [("█ use  ", "good"), ("a GPU works; ", ""), ("yellow", "warn"), (" it hardly does; ", ""),
     ("grey", "dim"), (" it does not, or that is not known", "")],
    [("█ memory, heat, power  ", "info"), ("yellow", "warn"), (" from 85 % or 75 °C on, ", ""),
     ("red", "bad"), (" from 95 % or 85 °C on", "")],
    [("▁▄█ history  ", "info"), ("one cell a tick, the newest at the right", "")],
    [("cycle 10 s  ", ""), ("a pattern of load that repeats every ten seconds", "dim")],
    [("58 % in 5m  ", ""), ("the forecast for five minutes from now", "dim")],
    [("3 of 4  ", "warn"), ("GPUs on which a pod ever worked, of those that it has", "dim")],
    [("·  ", "dim"), ("not known, which is not 0", "dim")],
)  # fmt: skip
_NAME = 14
"""Cells for what a figure of a process is called."""


def summary(state: LiveState, title: str) -> Line:
    """Tell who this is, and what all GPUs do together."""
    line: Line = [(title, "bold")]
    if not state.ticks:
        return [*line, ("  ", ""), ("waiting for the first sample …", "warn")]
    gpus, nodes = state.gpus(), state.node_rows()
    if len(nodes) > 1:
        line += [("  ", ""), (f"{len(nodes)} nodes", "")]
    if gpus:
        util = mean_util(gpus)
        mean = "" if util is None else f" {util:.0f} %"
        line += [("  ", ""), (f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}", ""), (mean, util_style(util))]
        memories = [
            (gpu.now.mem_used_bytes, gpu.now.mem_total_bytes) for gpu in gpus
            if gpu.now.mem_used_bytes is not None and gpu.now.mem_total_bytes
        ]  # fmt: skip
        if memories:
            used, total = map(sum, zip(*memories, strict=True))
            line += [("  ", ""), (f"{used / GIB:.0f}/{total / GIB:.0f} GiB", "")]
        watts = sum_of_known(gpu.now.power_w for gpu in gpus)
        if watts is not None:
            line += [("  ", ""), (f"{watts / 1000:.2f} kW", "")]
    cpu = sum_of_known(node.now.cpu_util_pct for node in nodes)
    if not gpus and cpu is not None:
        line += [("  ", ""), (f"no GPU, CPU {percent_text(cpu)}", "")]
    if pods := len(state.pods()):
        line += [("  ", ""), (f"{pods} pods", "")]
    return line


def help_page() -> list[Line]:
    """Return keys, and what is meant by what."""
    keys: list[Line] = [[(f"  {key:<24}", "bold"), (words, "")] for key, words in _KEYS]
    meanings: list[Line] = [[("  ", ""), *line] for line in _MEANINGS]
    return [[("Keys", "bold")], *keys, [], [("What it shows", "bold")], *meanings]


def warnings_page(paragraphs: Sequence[str], width: int) -> list[Line]:
    """Return all of them, the most urgent first."""
    if not paragraphs:
        return [[("no warnings", "dim")]]
    lines: list[Line] = [[("Warnings", "bold")]]
    for paragraph in paragraphs:
        first, *rest = textwrap.wrap(paragraph, max(width - 3, 20))
        lines.append([("! ", "warn"), (first, "")])
        lines += [[("  ", ""), (line, "")] for line in rest]
    return lines


def process_page(state: LiveState, key: str, width: int) -> list[Line]:
    """Return all that is known of a process, on every GPU that it uses; a line that it is gone where it
    is."""
    rows = on_gpus(state)
    shown = next((row for row in rows if row.key == key), None)
    if shown is None:
        return [[("this process no longer uses the GPU: Escape leads back", "warn")]]
    pid, facts = shown.process.pid, shown.facts
    lines: list[Line] = [[("process ", "dim"), (f"{pid}", "bold"), (f"  {shown.process.name or ''}", "")], []]
    pairs = [("job", shown.job), ("pod", shown.pod)]
    if facts is not None:
        age = age_s(state, facts)
        # Local time: it is compared with what other programs of this machine say.
        started = (
            "" if facts.started_s is None else f"{datetime.fromtimestamp(facts.started_s).astimezone():%F %T}"
        )
        pairs += [
            ("user", facts.user or UNKNOWN),
            ("started", f"{started}, {short_duration(age)} ago" if age is not None else UNKNOWN),
            ("CPU", percent_text(facts.cpu_pct)),
            ("host memory", bytes_text(facts.mem_bytes)),
            ("threads", UNKNOWN if facts.threads is None else str(facts.threads)),
            ("parent", facts.parent or UNKNOWN),
        ]
    for name, value in pairs:
        if value:
            lines.append([(f"{name:<{_NAME}}", "dim"), (value, "")])
    if facts is not None and facts.command:
        for number, text in enumerate(textwrap.wrap(facts.command, max(width - _NAME - 1, 20))):
            lines.append([(f"{'' if number else 'command':<{_NAME}}", "dim"), (text, "")])
    lines += [[], [("On GPUs", "bold")]]
    for row in rows:
        if row.process.pid == pid and row.gpu.node == shown.gpu.node:
            use, memory = percent_text(row.process.gpu_util_pct), bytes_text(row.process.mem_used_bytes)
            lines.append([(f"{row.gpu.name:>{_NAME}}  {use:>8}  {memory:>10}", "")])
    if state.local is not None and facts is not None and state.local.may_signal:
        lines += [[], [("t ends it (SIGTERM), K kills it (SIGKILL); both ask first", "dim")]]
    return lines


def signal_question(row: OnGpu, signal_name: str) -> str:
    """Return what is asked before a signal is sent."""
    facts = row.facts
    user = "" if facts is None or facts.user is None else f" of {facts.user}"
    name = row.process.name or "of unknown name"
    return f"send {signal_name} to process {row.process.pid} ({name}{user})? y/N"
