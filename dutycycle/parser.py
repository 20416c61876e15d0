"""Parses the command lines of ``dutycycle`` and ``kubectl dutycycle``: short usage, ``--version``, and "did
you mean"."""

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NoReturn, TypeVar

_Value = TypeVar("_Value")


class Parser(argparse.ArgumentParser):
    """Parses as argparse does, but a mistake takes three lines: usage, the mistake, and where help is.

    ``parsed_by`` of a namespace is the parser of the command that was given.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **more)
        self.set_defaults(parsed_by=self)
        self.examples: list[str] = []

    def add_version(self) -> None:
        """Add ``--version``."""
        self.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")

    def add_examples(self, examples: str, notes: str = "") -> None:
        """Show ``examples``, a command a line, at the end of the help, below ``notes``. A test runs each."""
        self.examples = examples.splitlines()
        self.epilog = notes + "\n\n" * bool(notes) + "\n  ".join(("examples:", *self.examples))

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        """Parse the arguments. What is unknown is refused by the parser of its command, not by that of all
        commands."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parsed.parsed_by.refuse(unknown)
        return parsed

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Check the names of flags and commands first: argparse would rather miss what they were to be."""
        words = list(sys.argv[1:] if args is None else args)
        if self._subparsers is not None:
            self._check_flags(list(takewhile(_is_flag, words)))
            name = next((word for word in words if not _is_flag(word)), None)
            commands = next(
                action.choices or () for action in self._actions if action.nargs == argparse.PARSER
            )
            if name is not None and name not in commands:
                self.error(f"unknown command {name}{_meant(name, commands)}")
        elif all(
            action.nargs != argparse.REMAINDER for action in self._actions
        ):  # what follows is of another program
            self._check_flags([word for word in takewhile("--".__ne__, words) if word.startswith("--")])
        return super().parse_known_args(words, namespace)

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End with status 2, as nobody takes ``unknown``."""
        if _is_flag(unknown[0]):
            self._check_flags(unknown[:1])
        self.error(f"unrecognized arguments: {' '.join(unknown)}")

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        usage = self.format_usage()
        self.exit(2, f"{usage}{self.prog}: {message}\nsee {self.prog} --help\n")

    def format_usage(self) -> str:
        """Return one line: what must be given, and that there is more."""
        return f"usage: {self._short_usage()}\n"

    def format_help(self) -> str:
        """Return the whole help, with the same usage."""
        self.usage = self._short_usage().replace("%", "%%")
        return super().format_help()

    def all_parsers(self) -> Iterator["Parser"]:
        """Yield this parser, and those of its commands."""
        yield self
        for action in self._actions:
            if action.nargs == argparse.PARSER and isinstance(action.choices, dict):
                yield from action.choices.values()

    def arguments(self) -> Iterator[argparse.Action]:
        """Yield those of its commands, too."""
        for parser in self.all_parsers():
            yield from parser._actions

    def _check_flags(self, flags: Iterable[str]) -> None:
        for flag in flags:
            name = flag.partition("=")[0]
            if not any(option.startswith(name) for option in self._option_string_actions):
                self.error(f"unknown flag {name}{_meant(name, self._option_string_actions)}")

    def _short_usage(self) -> str:
        if self.usage is not None:
            return self.usage.replace("%%", "%")
        given = [action for action in self._actions if action.required and action.option_strings]
        flags = (f"{action.option_strings[0]} {action.metavar or ''}".strip() for action in given)
        places = []
        for action in self._actions:
            if not action.option_strings:
                name = str(action.metavar or action.dest)
                shapes = {"?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} …"}
                places.append(shapes.get(str(action.nargs), name))
        return " ".join((self.prog, *flags, "[OPTIONS]", *places))


def typed(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return a parser as a type of argparse, which then shows the message of its ``ValueError``."""

    def parsed(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version  # here, not above: it takes longer to import than all of this

        sys.stdout.write(f"{parser.prog} {version('dutycycle')}\n")
        parser.exit()


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _meant(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(known), n=1)
    return f": did you mean {close[0]}?" if close else ""
