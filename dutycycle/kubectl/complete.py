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
from dutycycle.kubectl.cli import FORMS, KINDS, SORTS, parsed

_NO_FILES = ":4"
_COMMANDS = ("top", "peaks", "why", "health")
_KINDS = tuple(dict.fromkeys(KINDS.values()))
_VALUES = {"--sort-by": SORTS, "-o": FORMS, "--output": FORMS}
_OTHERS = ("-n", "--namespace", "-l", "--selector", "--context", "--kubeconfig", "--prefix", "--records",
           "--as", "--as-group")  # fmt: skip
_TAKES_VALUE = frozenset({*_VALUES, *_OTHERS})
_COMMON = ("--namespace", "--output", "--no-headers", "--context", "--kubeconfig", "--as", "--as-group",
           "--prefix")  # fmt: skip
_FLAGS = {
    "top": (*_COMMON, "--all-namespaces", "--selector", "--sort-by", "--gpus"),
    "peaks": _COMMON,
    "why": (*_COMMON, "--records"),
    "health": (*_COMMON, "--all"),
}


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
    if before and before[-1] in _TAKES_VALUE:
        return _VALUES.get(before[-1], ())
    # Neither flags nor their values
    given = [
        word
        for word_before, word in zip(["", *before], before, strict=False)
        if not word.startswith("-") and word_before not in _TAKES_VALUE
    ]
    if not given:
        return _COMMANDS
    if current.startswith("-"):
        return _FLAGS.get(given[0], ())
    if given == ["top"]:
        return _KINDS
    if given == ["health"]:
        return ()
    return _names(before) if len(given) == (2 if given[0] == "top" else 1) else ()


def _names(before: Sequence[str]) -> Iterable[str]:
    """Return the names that are there."""
    try:
        with redirect_stderr(StringIO()):
            args = parsed([*before, "any"])
        names: list[str] = import_module("dutycycle.kubectl.run").names(args)
    except (DutycycleError, SystemExit):
        return ()
    return names
