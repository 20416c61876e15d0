"""Runs ``dutycycle profile``: tells what a profile of Nsight Systems or PyTorch says."""

import argparse
import asyncio
import sys
from pathlib import Path

from dutycycle.cli import arguments
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.process import print_remark, temporary_folder
from dutycycle.progress import StatusLine

EXAMPLE = """dutycycle profile report1.sqlite
dutycycle profile rank0.pt.trace.json.gz --format json | jq .bottleneck
dutycycle profile report1.sqlite --pod ml/bert-worker-0 --broker kafka://kafka:9092"""
SETTINGS = arguments.OF_BROKER
_REPORT = ".nsys-rep"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, whose it is, and in which form what is found is printed."""
    parser.add_argument(
        "profile", metavar="FILE",
        help="an SQLite export of Nsight Systems, its report itself (*.nsys-rep) where nsys is on PATH, or a "
        "trace of PyTorch's profiler (*.json, *.json.gz); NAMESPACE/POD:/path is in a container that runs",
    )  # fmt: skip
    parser.add_argument("--format", choices=("table", "json"), default="table", help="(default: table)")
    parser.add_argument(
        "--rows", type=arguments.whole_number(), default=12, metavar="N",
        help="rows of each table, at most (default: 12)",
    )  # fmt: skip
    parser.add_argument(
        "--pod", metavar="NAME",
        help="the pod that was profiled: name, namespace/name or uid; annotations and reports of it and "
        "of its job then show the verdict (needs --broker; default: the pod in FILE, if there is a broker)",
    )  # fmt: skip
    arguments.add_timeout(parser)
    group = parser.add_argument_group(
        "on a cluster", "for a FILE in a pod; takes the permissions get and create on pods/exec"
    )
    group.add_argument("-c", "--container", metavar="NAME", help="(default: the first, as for kubectl)")
    arguments.add_cluster(group)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read it and print; 0 when there was something to read."""
    if args.pod is not None and settings.broker is None:
        raise SettingError("--pod needs a broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER")
    with temporary_folder() as folder:
        file, uid = Path(args.profile), None
        if not file.exists():
            if ":/" not in args.profile:
                raise DutycycleError(f"{file}: No such file or directory")
            # here: a file here needs no API server
            from dutycycle.submit.fetch import PodFile, PodSource, fetch

            place = PodFile.of(args.profile)
            source = PodSource(args.kubeconfig, args.context, args.container)
            with StatusLine(every_s=0.5) as status:
                file, uid = asyncio.run(
                    fetch(place, source, folder, lambda done: status.put(f"fetching {place}: {done}"))
                )
        whose = args.pod or (uid if settings.broker is not None else None)
        pod = None
        if whose is not None:
            from dutycycle.profile.publish import find_pod  # here: a profile alone needs no Kafka

            pod = asyncio.run(find_pod(whose, settings, args.timeout))
        from dutycycle.profile.profile import read  # here: --help need not wait

        if file.suffix == _REPORT:
            from dutycycle.run.nsys import Nsys

            nsys = Nsys(str(file), "export it where nsys is: nsys export --type sqlite")
            file = nsys.exported(file, folder)
        with StatusLine(quiet_s=2.0, every_s=0.5) as status:
            profile = read(file, lambda doing: status.put(f"reading {doing} …"))
    if args.format == "json":
        import orjson

        sys.stdout.buffer.write(orjson.dumps(profile.plain(), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        from dutycycle.profile.terminal import show

        show(profile, sys.stdout, args.rows)
    if pod is not None:
        from dutycycle.profile.publish import publish
        from dutycycle.traces.subject import qualified

        asyncio.run(publish(profile, pod, settings))
        of = f" of job {pod.job.name}" if pod.job is not None else ""
        print_remark(f"published for pod {qualified(pod, pod.name)}{of}")
    return 0
