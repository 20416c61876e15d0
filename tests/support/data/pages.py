"""Pages of the documentation whose commands a test runs."""

import re
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Step:
    """A block of commands, and what the page shows of their output."""

    commands: str
    shown: str


def steps(page: Path) -> list[Step]:
    """Of the page, in order."""
    found: list[Step] = []
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        if kind == "text":
            found[-1] = replace(found[-1], shown=text)
        else:
            assert kind == "sh", f"a block of {kind}: neither run nor shown"
            found.append(Step(text, ""))
    return found


def is_shown(line: str, output: str) -> bool:
    """Whether the output has the line, with other numbers; ``…`` stands for the rest of it."""
    begin, rest, _ = line.partition("…")
    words = [r"\d[\d.]*".join(map(re.escape, re.split(r"\d[\d.]*", word))) for word in begin.split()]
    pattern = r"\s+".join(words) + (".*" if rest else "")
    return any(re.fullmatch(pattern, one.strip()) for one in output.splitlines())
