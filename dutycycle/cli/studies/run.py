"""Runs ``dutycycle run``: a command on this machine, or a job on a cluster, measured from start to end."""

import argparse
import logging
import os
from pathlib import Path
from typing import Any

from dutycycle.cli import arguments
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load

EXAMPLE = """dutycycle run -- python train.py --epochs 3
dutycycle run --interval 200ms --out fast -- python train.py
dutycycle run job.yaml -n research --timeout 2h"""
SETTINGS = (
    "node", "interval", *arguments.OF_BROKER, *arguments.OF_OPERATORS, "price_gpu_hour", "price_kwh",
)  # fmt: skip
_OBJECTS = (".yaml", ".yml", ".json")
"""How the names of files of objects end."""
_OF_CLUSTER = {
    "namespace": None, "keep": False, "update": False, "timeout": None, "for_s": None, "kubeconfig": None,
    "context": None, "logs": False,
}  # fmt: skip
"""Arguments that a command on this machine does not take, and their defaults."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command or the files, and where the report goes."""
    parser.usage = "dutycycle run [OPTIONS] (FILE.yaml … | -- COMMAND …)"
    parser.add_argument(
        "--out", metavar="DIR", type=Path,
        help="an empty or new folder for the report and the trace (default: one in your state directory)",
    )  # fmt: skip
    parser.add_argument(
        "--nsys", action="store_true",
        help="run the command under nsys (NVIDIA Nsight Systems), and report what it saw from inside",
    )  # fmt: skip
    arguments.add_title(parser)
    group = parser.add_argument_group("on a cluster", "with files of objects; - is stdin")
    group.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of objects that name none themselves"
    )
    group.add_argument("--keep", action="store_true", help="do not delete what was created")
    group.add_argument(
        "--update", action="store_true", help="also change objects that exist already; these are not deleted"
    )
    group.add_argument(
        "--timeout", type=arguments.duration_s, metavar="TIME", help="give up after this time, such as 2h"
    )
    group.add_argument(
        "--for", dest="for_s", type=arguments.duration_s, metavar="TIME",
        help="end this long after the first container started; needed for what never ends, as a Deployment",
    )  # fmt: skip
    group.add_argument(
        "--logs",
        action="store_true",
        help="print what the containers write, each line with the name of its pod",
    )
    arguments.add_cluster(group)
    arguments.add_records(group, "read to know how long the last run took; default: none")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run it; its exit status."""
    files = []

    while args.program and (args.program[0] == "-" or args.program[0].lower().endswith(_OBJECTS)):
        files.append(args.program[0])
        args = args.parsed_by.parse_args(args.program[1:], args)  # flags may stand behind the file
    if not args.verbose:  # what could not be measured is said at the end, not within the command's output
        logging.getLogger("dutycycle").setLevel(logging.CRITICAL)
    if files:
        settings = load(os.environ, arguments.given_settings(args))
        if args.program:
            raise SettingError(
                f"run: {args.program[0]!r} after {files[0]}: expected a file that ends with .yaml, .yml or "
                ".json; before a command of this machine stands --"
            )
        if args.nsys:
            raise SettingError(
                "--nsys is for a command on this machine; on a cluster let its container run nsys, and read "
                "the report while it runs: dutycycle profile NAMESPACE/POD:/path"
            )
        from dutycycle.submit.run import RunOptions, run_job

        given: dict[str, Any] = {name: getattr(args, name) for name in ("out", "title", *_OF_CLUSTER)}
        given["timeout_s"] = given.pop("timeout")
        return run_job(RunOptions(files, **given), settings)
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise SettingError(
            "run: give a command, such as: dutycycle run -- python train.py; "
            "or the objects of a job: dutycycle run job.yaml"
        )
    for name, default in _OF_CLUSTER.items():
        if getattr(args, name) != default:
            flag = name.removesuffix("_s")
            raise SettingError(f"--{flag} is for a job on a cluster: dutycycle run job.yaml --{flag} …")
    from dutycycle.run.run import run_command  # here, not above: --help need not wait for it

    return run_command(command, settings, args.out, profiled=args.nsys, title=args.title)
