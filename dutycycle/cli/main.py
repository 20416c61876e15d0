"""Is the command line: parses, loads the settings, and hands over to one module per sub-command.

Exit status: 0 success, 1 failure (one line on stderr), 2 wrong usage.
"""

import argparse
import keyword
import logging
import os
import re
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Protocol, cast

from dutycycle.cli import arguments
from dutycycle.contract.errors import DutycycleError, NotInstalledError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load, near_misses
from dutycycle.parser import Parser
from dutycycle.process import SERVICES, command_name, die_with_parent, interrupt_on_signals, print_remark

COMMANDS = {
    "run": "run a command here or a job on a cluster, and report what it used and what holds it back",
    "up": "run the whole pipeline on this machine, with a live view",
    "top": "watch the nodes, GPUs, pods and jobs of any broker live; starts nothing",
    "collect": "run the collector of one node, which publishes samples",
    "stream": "run a worker that computes windows, trends, cycles and peaks from samples",
    "sink": "run a worker that writes annotations to Kubernetes and peak records to SQL",
    "serve": "answer from the topics, in one process: series, autoscalers, kube-scheduler, new pods",
    "adapter": "answer autoscalers: the custom and external metrics APIs of Kubernetes",
    "extender": "score nodes for kube-scheduler by what is really free on them",
    "webhook": "give new pods priorities by how long they will run and what was used: an admission webhook",
    "cull": "stop workloads that hold GPUs and have used none for hours: announced, and within bounds",
    "demo": "write a trace of eight simulated GPUs with known jobs, to try all the rest on",
    "replay": "compute the same from a recorded trace, without Kafka; or publish the trace",
    "record": "write what topics hold to a trace file",
    "import": "write logs of nvidia-smi, of dcgmi dmon or of a public dataset to a trace",
    "topics": "create and verify the Kafka topics, or list those that are needed",
    "report": "write a report of a trace, or of a job that ran: one page, pictures and tables",
    "compare": "show runs side by side: what changed by more than noise, and which is better",
    "plot": "draw a few series of a trace or of tables: a picture, or a page to zoom in",
    "profile": "say what a profile of Nsight Systems or PyTorch shows, and what holds the program back",
    "peaks": "show what pods and jobs used at most, from the peak records",
    "usage": "show what a team, a job or a node used, what was idle, and what it cost",
    "predict": "say what the pods of a job's file will need, from the records of those like them",
    "trial": "run a Job for minutes with different GPUs and placements, and say which is best",
    "schedule": "simulate what our priorities and scores of nodes would do to a trace of arrivals",
    "remove": "remove what was made in a cluster at run time: annotations, PriorityClasses, Leases, Events",
    "health": "say whether the GPUs of this machine are in order, and what is to be done if not",
    "healthy": "ask a running process whether it is healthy",
    "completion": "print the script by which bash, zsh or fish completes this command",
}
"""Sub-commands, each in a module of its name in ``dutycycle.cli.commands``, ``studies`` or ``services``; but
those of ``_SERVED`` are one."""

_SERVED = frozenset({"serve", "adapter", "extender", "webhook"})
_STUDIES = frozenset(
    {"demo", "replay", "record", "import", "report", "run", "compare", "plot", "profile", "trial"}
)


class CommandModule(Protocol):
    """Declares what a module of ``commands`` or ``services`` provides."""

    EXAMPLE: str
    SETTINGS: tuple[str, ...]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""
        ...

    def run(self, args: argparse.Namespace, settings: Settings) -> int:
        """Do it; the exit status."""
        ...


def command_module(name: str) -> CommandModule:
    """Return the module of one sub-command, imported only when it is used."""
    if name in _SERVED:
        served: CommandModule = import_module("dutycycle.cli.services.serve").COMMANDS[name]
        return served
    folder = "services" if name in SERVICES - {"up", "top"} else "studies" if name in _STUDIES else "commands"
    module = f"{name}_" if keyword.iskeyword(name) else name
    return cast("CommandModule", import_module(f"dutycycle.cli.{folder}.{module}"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        interrupt_on_signals(given)
        args = build_parser({command_name(given)}).parse_args(_joined(given))
        die_with_parent(os.environ)
        set_up_logging(verbose=args.verbose)
        settings = load(os.environ, arguments.given_settings(args))
        for name, resembles in near_misses(os.environ):
            print_remark(f"dutycycle: {name} is no setting; did you mean {resembles}?")
        return command_module(args.command).run(args, settings)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package in sys.modules:  # it is there, and a part of it is not
            raise
        return _say(NotInstalledError(package), 1)
    except SettingError as error:
        return _say(error, 2)
    except DutycycleError as error:
        return _say(error, 1)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a folder or file of ours: where it was known better, it was said better
        where = "" if error.filename is None else f"{error.filename}: "
        return _say(f"{where}{error.strerror or error}", 1)
    except KeyboardInterrupt:
        return _say("interrupted", 1)


_MOMENTS = ("--from", "--to", "--since", "--until")


def _joined(given: Sequence[str]) -> list[str]:
    """Return ``--from -10m`` as ``--from=-10m``: argparse takes what begins with a dash for a flag."""
    if command_name(given) == "run":  # what follows is for another program
        return list(given)
    joined: list[str] = []
    for argument in given:
        if joined and joined[-1] in _MOMENTS and re.match(r"-\d", argument):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def set_up_logging(*, verbose: bool) -> None:
    """Log to stderr: our own events from INFO on, libraries from WARNING on, with ``verbose`` from INFO
    on."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True)
    logging.getLogger("dutycycle").setLevel(logging.INFO)


def _say(message: object, status: int) -> int:
    print_remark(f"dutycycle: {message}")
    return status


def build_parser(wanted: Collection[str]) -> Parser:
    """Return the parser of all sub-commands; only those that are ``wanted`` are imported, and know their
    arguments.

    Raises ``ModuleNotFoundError`` for one that needs what is not installed.
    """
    parser = Parser(
        prog="dutycycle",
        usage="dutycycle COMMAND [OPTIONS]",
        description="The utilization of every GPU, pod and job: its maximum, its cycles, its trend.",
    )
    parser.add_version()
    parser.add_examples(
        "dutycycle up\ndutycycle run -- python train.py\ndutycycle replay --help",
        "Every setting is also an environment variable: --topic-prefix is DUTYCYCLE_TOPIC_PREFIX.",
    )
    subparsers = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = subparsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        sub.add_argument("-v", "--verbose", action="store_true", help="also log what libraries do")
        if name in wanted:
            module = command_module(name)
            sub.add_examples(module.EXAMPLE)
            module.add_arguments(sub)
            arguments.add_settings(sub, module.SETTINGS)
    return parser
