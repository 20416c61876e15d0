"""Runs ``dutycycle serve``: answers from the topics, in one process; and the commands of one role alone."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from dutycycle.cli import arguments
from dutycycle.cli.garbage import collect_rarely
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings
from sinks.serve.roles import ROLES, chosen_roles


@dataclass(frozen=True)
class ServeCommand:
    """Is a command that serves ``roles``; none: those of the setting. A ``CommandModule``."""

    EXAMPLE: str
    roles: tuple[str, ...] = ()

    @property
    def SETTINGS(self) -> tuple[str, ...]:  # noqa: N802 - as a module has it
        """Return the settings of its roles, and of every service."""
        of_roles = [name for role in self.roles or ROLES for name in ROLES[role].settings]
        chosen = () if self.roles else ("roles",)
        common = (*arguments.OF_BROKER, *arguments.OF_TOPICS, *arguments.OF_RESULTS)
        return (*chosen, *common, *dict.fromkeys(of_roles), *arguments.OF_SERVICE)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: settings are all that there is."""

    def run(self, _args: argparse.Namespace, settings: Settings) -> int:
        """Serve until a signal."""
        return run_roles(self.roles or chosen_roles(settings.roles), settings)


def run_roles(roles: Sequence[str], settings: Settings) -> int:
    """Serve until a signal; a role alone has a port and a name for its health of its own."""
    from sinks.serve.service import run as serve  # here, not above: --help need not wait for it

    collect_rarely()  # a full collection keeps an answer waiting for 0.1 s, and a scrape causes several
    process = ROLES[roles[0]].process if len(roles) == 1 else "serve"
    return run_service(lambda *of: serve(roles, *of), process, settings)


COMMANDS = {
    "serve": ServeCommand(
        "dutycycle serve --roles metrics,extender --broker kafka://kafka:9092 --serve-listen 127.0.0.1:8888"
    ),
    "adapter": ServeCommand(
        "dutycycle adapter --broker kafka://kafka:9092 --serve-listen 0.0.0.0:6443 "
        "--serve-cert tls.crt --serve-key tls.key",
        ("autoscaler",),
    ),
    "extender": ServeCommand(
        "dutycycle extender --broker kafka://kafka:9092 --serve-listen 127.0.0.1:8888", ("extender",)
    ),
    "webhook": ServeCommand(
        "dutycycle webhook --broker kafka://kafka:9092 --webhook-policy policy.toml", ("webhook",)
    ),
}
"""By the name of the command."""
