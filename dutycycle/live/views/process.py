"""Shows one process in depth, and the question before a signal."""

import textwrap
from datetime import datetime

from dutycycle.live.model.state import LiveState
from dutycycle.live.views.spans import Line
from dutycycle.live.views.tables.processes import OnGpu, age_s, on_gpus
from dutycycle.words import UNKNOWN, bytes_text, percent_text, short_duration

_NAME = 14


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
