"""Is the command ``kubectl dutycycle``: parses, runs, and says what went wrong.

Exit status: 0 success, 1 failure (one line on stderr), 2 wrong usage.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings import parsers
from dutycycle.parser import Parser, typed
from dutycycle.process import print_remark

_PROG = "kubectl dutycycle"
SORTS = ("gpu", "cpu", "memory", "network", "disk", "name")
FORMS = ("table", "wide", "json", "yaml")
KINDS = {"pods": "pods", "pod": "pods", "po": "pods", "nodes": "nodes", "node": "nodes", "no": "nodes",
         "jobs": "jobs", "job": "jobs"}  # fmt: skip
_LEGEND = """-      not measured; such rows come last. Idle is 0.
35m (stale)   no sample came for three heartbeats of the node; (ended): the pod has
97%~   measured of the whole GPU, which was given to this pod alone; not of the pod's processes
untouched   no process of the pod was ever seen on the GPUs that it holds
256+   GPUs that a large job's annotations list; it has more"""
_EXAMPLES = {
    "": "kubectl dutycycle top pods -A\nkubectl dutycycle why bert-worker-0 -n research",
    "top": """kubectl dutycycle top pods -A --sort-by cpu
kubectl dutycycle top nodes --gpus
kubectl dutycycle top jobs -n research -l team=vision -o yaml""",
    "peaks": """kubectl dutycycle peaks mpijob/bert -n research
kubectl dutycycle peaks mpijob/bert -n research -o json | jq .annotations""",
    "health": """kubectl dutycycle health
kubectl dutycycle health --all -o json | jq '.[].gpus'""",
    "why": """kubectl dutycycle why bert-worker-0 -n research
kubectl dutycycle why mpijob/bert -n research -o json | jq .not_known
kubectl dutycycle why bert-worker-0 -n ml --records postgresql+psycopg://dutycycle@db/dutycycle""",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plugin; returns the exit status."""
    args = parsed(argv)
    try:
        # What talks to the API server takes ten times as long to import as all of this: --help does without.
        import_module("dutycycle.kubectl.run").run(args)
        sys.stdout.flush()
    except SettingError as error:
        return _say(error, 2)
    except DutycycleError as error:
        return _say(error, 1)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return _say("interrupted", 1)
    return 0


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Give the command line, in any order: argparse alone loses an optional NAME that comes after a flag."""
    args, rest = build_parser().parse_known_args(argv)
    if args.command == "top" and args.name is None and rest and not rest[0].startswith("-"):
        args.name = rest.pop(0)
    if rest:
        args.parsed_by.refuse(rest)
    return args


def build_parser() -> Parser:
    """Return all sub-commands; kubectl's own flags mean what they mean there."""
    parser = Parser(
        prog=_PROG,
        usage=f"{_PROG} COMMAND [OPTIONS]",
        description="Show what pods, nodes and jobs used at most, from their annotations.",
    )
    parser.add_version()
    parser.add_examples(_EXAMPLES[""])
    commands = parser.add_subparsers(prog=_PROG, dest="command", metavar="COMMAND", required=True)
    top = _command(commands, "top", "list the highest utilization so far, the busiest first")
    top.add_argument(
        "kind", type=lambda word: KINDS.get(word, word),  # kubectl's other words, too: po, no, the singular
        choices=("pods", "nodes", "jobs"), metavar="pods|nodes|jobs", help="what to list",
    )  # fmt: skip
    top.add_argument("name", metavar="NAME", nargs="?", help="only this one; a job also as kind/name")
    top.add_argument("-A", "--all-namespaces", action="store_true", help="list in all namespaces")
    top.add_argument(
        "-l", "--selector", metavar="LABELS", help="only objects with these labels, such as app=bert"
    )
    top.add_argument(
        "--sort-by",
        choices=SORTS,
        default="gpu",
        help="what to sort by: the largest first, names ascending (default: gpu)",
    )
    top.add_argument("--gpus", action="store_true", help="nodes: one line for each GPU")
    peaks = _command(
        commands, "peaks", "show what each pod of a job used at most, also after the pods are gone"
    )
    peaks.add_argument(
        "job", metavar="JOB", help="the job's name, or kind/name such as mpijob/bert or deploy/web"
    )
    health = _command(commands, "health", "list the nodes with broken GPUs: why, and what is to be done")
    health.add_argument("--all", action="store_true", help="also nodes whose GPUs are all healthy")
    why = _command(
        commands, "why", "show what a pod, job or node used at most, what it does, and what limits it"
    )
    why.add_argument(
        "what", metavar="POD", help="a pod's name, or pod/name; kind/name of a job, node/name of a node"
    )
    why.add_argument(
        "--records",
        type=typed(parsers.records_url),
        metavar="URL",
        help="database of the peak records: averages, and what is deleted (default: DUTYCYCLE_RECORDS)",
    )
    return parser


def _command(commands: "argparse._SubParsersAction[Parser]", name: str, summary: str) -> Parser:
    command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    command.add_examples(_EXAMPLES[name], _LEGEND if name == "top" else "")
    command.add_argument("-n", "--namespace", metavar="NAME", help="the namespace (default: the context's)")
    command.add_argument(
        "-o", "--output", choices=FORMS, default="table",
        help="how to print: a table, a wide one with more columns, or the whole objects (default: table)",
    )  # fmt: skip
    command.add_argument("--no-headers", action="store_true", help="print tables without their headers")
    command.add_argument(
        "--context", metavar="NAME", help="the kubeconfig's context (default: its current one)"
    )
    command.add_argument(
        "--kubeconfig", metavar="FILE", help="the kubeconfig (default: KUBECONFIG, else ~/.kube/config)"
    )
    command.add_argument(
        "--as", dest="as_user", metavar="USER", help="act as this user, if yours may impersonate them"
    )
    command.add_argument(
        "--as-group", dest="as_groups", action="append", default=[], metavar="GROUP",
        help="act as a member of this group; may be given several times, with --as",
    )  # fmt: skip
    command.add_argument(
        "--prefix",
        type=typed(parsers.dns_name),
        metavar="DOMAIN",
        help="prefix of the annotation keys (default: DUTYCYCLE_ANNOTATION_PREFIX)",
    )
    return command


def _say(message: object, status: int) -> int:
    print_remark(f"{_PROG}: {message}")
    return status


if __name__ == "__main__":
    sys.exit(main())
