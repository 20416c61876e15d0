"""Completes words as ``kubectl_complete-dutycycle``: kubectl runs it for the word that is being typed, and
shows what it prints.

The last line is what the shell is to do, in the numbers of the library that kubectl completes with: 4 is "no
file names". Whatever goes wrong, there is nothing to choose from, and no word of it on the user's screen.
"""

import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, suppress
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
    _, *parsers = build_parser().all_parsers()
    commands = {parser.prog.rpartition(" ")[2]: parser for parser in parsers}
    flags = {
        flag: action for parser in parsers for action in parser.arguments() for flag in action.option_strings
    }
    takes_value = {flag for flag, action in flags.items() if action.nargs != 0}
    # Neither flags nor their values
    given = [
        word
        for word_before, word in zip(["", *before], before, strict=False)
        if not word.startswith("-") and word_before not in takes_value
    ]
    possible: Iterable[str] = ()
    if before and before[-1] in takes_value:
        possible = flags[before[-1]].choices or ()
    elif not given:
        possible = commands
    elif current.startswith("-"):
        known = commands[given[0]].arguments() if given[0] in commands else ()
        every = (flag for action in known for flag in action.option_strings)
        possible = [flag for flag in every if flag.startswith("--") and flag != "--help"]
    elif given == ["top"]:
        possible = _KINDS
    elif given != ["health"] and len(given) == (2 if given[0] == "top" else 1):
        with suppress(DutycycleError, SystemExit):
            with redirect_stderr(StringIO()):
                args = parsed([*before, "any"])
            possible = import_module("dutycycle.kubectl.run").names(args)
    return sorted(word for word in possible if word.startswith(current))
