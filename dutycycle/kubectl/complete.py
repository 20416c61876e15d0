"""Completes words as ``kubectl_complete-dutycycle``: kubectl runs it for the word that is being typed, and
shows what it prints.

The last line is what the shell is to do, in the numbers of the library that kubectl completes with: 4 is "no
file names". Whatever goes wrong, there is nothing to choose from, and no word of it on the user's screen.
"""

import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO

from dutycycle.contract.errors import DutycycleError
from dutycycle.kubectl.cli import KINDS, build_parser, parsed

_NO_FILES = ":4"
_KINDS = tuple(dict.fromkeys(KINDS.values()))


def main() -> int:
    """Print what may stand in place of the last word."""
    for candidate in candidates(sys.argv[1:]):
        print(candidate)  # noqa: T201
    print(_NO_FILES)  # noqa: T201
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Return what the last of ``words``, perhaps empty, may become."""
    *before, current = words or [""]
    return sorted(word for word in _possible(before, current) if word.startswith(current))


def _possible(before: Sequence[str], current: str) -> Iterable[str]:
    """Return what may stand behind ``before``, as the parser of the command line knows it."""
    _, *parsers = build_parser().all_parsers()
    commands = {parser.prog.rpartition(" ")[2]: parser for parser in parsers}
    flags = {
        flag: action for parser in parsers for action in parser.arguments() for flag in action.option_strings
    }
    takes_value = {flag for flag, action in flags.items() if action.nargs != 0}
    if before and before[-1] in takes_value:
        return flags[before[-1]].choices or ()
    # Neither flags nor their values
    given = [
        word
        for word_before, word in zip(["", *before], before, strict=False)
        if not word.startswith("-") and word_before not in takes_value
    ]
    if not given:
        return commands
    if current.startswith("-"):
        known = commands[given[0]].arguments() if given[0] in commands else ()
        return [
            flag for action in known for flag in action.option_strings
            if flag.startswith("--") and flag != "--help"
        ]  # fmt: skip
    if given == ["top"]:
        return _KINDS
    if given == ["health"] or len(given) != (2 if given[0] == "top" else 1):
        return ()
    try:
        with redirect_stderr(StringIO()):
            args = parsed([*before, "any"])
        names: list[str] = import_module("dutycycle.kubectl.run").names(args)
    except (DutycycleError, SystemExit):
        return ()
    return names
