"""Runs ``dutycycle completion``: prints the script by which a shell completes the command."""

import argparse
import sys
from contextlib import suppress

from dutycycle.cli.main import COMMANDS, build_parser, command_module
from dutycycle.contract.settings.groups import Settings

EXAMPLE = """dutycycle completion bash > ~/.local/share/bash-completion/completions/dutycycle
dutycycle completion zsh > ~/.zfunc/_dutycycle
dutycycle completion fish > ~/.config/fish/completions/dutycycle.fish"""
SETTINGS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which shell."""
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL",
        help="bash, zsh (whose fpath needs ~/.zfunc, before compinit) or fish; print it anew after an update",
    )  # fmt: skip


def run(args: argparse.Namespace, _settings: Settings) -> int:
    """Print it. A command that is not installed completes by its name alone."""
    import shtab  # here, not above: --help need not wait for it

    installed = []
    for command in COMMANDS:
        with suppress(ModuleNotFoundError):
            command_module(command)
            installed.append(command)
    parser = build_parser(installed)
    files = {"FILE": shtab.FILE, "TRACE": shtab.FILE, "RUN": shtab.FILE, "DIR": shtab.DIRECTORY}
    for argument in parser.arguments():
        first = str(argument.metavar).partition("|")[0]
        if first in files:
            argument.complete = files[first]  # type: ignore[attr-defined]  # shtab reads it
    sys.stdout.write(shtab.complete(parser, args.shell))
    return 0
