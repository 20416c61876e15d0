"""Runs ``dutycycle trial``: short runs of one Job with different GPUs and placements, compared."""

import argparse
import asyncio
import logging
from pathlib import Path

from dutycycle.cli import arguments
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.parsers import namespaces
from dutycycle.parser import typed
from dutycycle.trial.options import (
    GOALS,
    PRIORITY_CLASS,
    TrialOptions,
    gpu_minutes,
    gpu_models,
    long_enough,
    numbers,
    placements,
)

EXAMPLE = """dutycycle trial train.yaml --gpus 1,2,4
dutycycle trial train.yaml --pods 2,4 --placement packed,spread --for 3m --budget 120
dutycycle trial --clean -n research"""
SETTINGS = (*arguments.OF_BROKER, *arguments.OF_OPERATORS, "annotation_prefix", *arguments.OF_SERVICE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the Job, what is tried, within which bounds, and where."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="YAML or JSON with one Job of batch/v1; - is stdin"
    )
    usual = TrialOptions()
    parser.add_argument(
        "--gpus", type=typed(numbers), default=(), metavar="N,N",
        help="GPUs of a pod (default: as the Job has them)",
    )  # fmt: skip
    parser.add_argument(
        "--pods", type=typed(numbers), default=(), metavar="N,N",
        help="pods that run together (default: the Job's parallelism)",
    )  # fmt: skip
    parser.add_argument(
        "--gpu-model", type=typed(gpu_models), default=(), metavar="MODEL,MODEL",
        help="models of GPU: values of the nodes' label nvidia.com/gpu.product, or LABEL=VALUE of another "
        "(default: any that the Job takes)",
    )  # fmt: skip
    parser.add_argument(
        "--placement", type=typed(placements), default=(), metavar="WAY,WAY",
        help="packed: all pods on one node; spread: each on a node of its own (default: no rule)",
    )  # fmt: skip
    parser.add_argument(
        "--for", dest="for_s", type=typed(long_enough), default=usual.for_s, metavar="TIME",
        help="how long each runs after its first container has started, 1m at least (default: 3m)",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=typed(gpu_minutes), default=usual.budget, metavar="MINUTES",
        help="GPU-minutes of all trials of a Job together; with --watch a Job may ask for so many "
        f"(default: {usual.budget:g})",
    )  # fmt: skip
    parser.add_argument(
        "--best", choices=GOALS, default=usual.best,
        help="what the best has the least of, for each step; or the highest rate (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--at-once", type=arguments.whole_number(10_000), default=usual.at_once, metavar="N",
        help="run so many beside one another where there is room; they may disturb each other (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--start", dest="start_s", type=arguments.duration_s, default=usual.start_s, metavar="TIME",
        help="give up one that has no nodes after this time (default: 10m)",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", type=Path, help="an empty or new folder for what is written")
    parser.add_argument(
        "--clean", action="store_true", help="only delete what killed trials have left in the namespace"
    )
    parser.add_argument(
        "--watch", metavar="NAME,NAME", type=typed(_namespaces),
        help="until a signal, try those Jobs of these namespaces whose annotation dutycycle.io/trial asks; "
        "the flags are for what it does not say",
    )  # fmt: skip
    group = parser.add_argument_group("on a cluster")
    group.add_argument("-n", "--namespace", metavar="NAME", help="namespace of a Job that names none")
    group.add_argument(
        "--priority-class", default=PRIORITY_CLASS, metavar="NAME",
        help="one with preemptionPolicy: Never (default: %(default)s, created if it is missing)",
    )  # fmt: skip
    arguments.add_cluster(group)


def _namespaces(text: str) -> tuple[str, ...]:
    if not (names := namespaces(text)):
        raise ValueError("is empty: name the namespaces, such as ml,vision")
    return names


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the trials; their exit status."""
    if (args.clean or args.watch) and args.files:
        raise SettingError(f"--{'clean' if args.clean else 'watch'} is not about one Job: give it no file")
    if not (args.clean or args.watch or args.files):
        raise SettingError("trial: give a file with a Job, such as: dutycycle trial train.yaml --gpus 1,2,4")
    if not args.verbose:
        logging.getLogger("dutycycle").setLevel(logging.CRITICAL)
    from dutycycle.trial.trial import TrialRequest, run_clean, run_trials  # here: --help need not wait for it

    options = TrialOptions(
        gpus=args.gpus, pods=args.pods, gpu_models=args.gpu_model, placements=args.placement,
        for_s=args.for_s, budget=args.budget, best=args.best, start_s=args.start_s, at_once=args.at_once,
        priority_class=args.priority_class,
    )  # fmt: skip
    request = TrialRequest(args.files, args.namespace, args.kubeconfig, args.context, args.out, options)
    if args.watch:
        from dutycycle.trial.watch import run_watch

        return asyncio.run(run_watch(request, settings, args.watch))
    return asyncio.run(run_clean(request)) if args.clean else run_trials(request, settings)
