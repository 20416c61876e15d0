"""``health``: which GPUs of the cluster are broken, by what the Nodes carry."""

import argparse
import sys

from dutycycle.contract.health.verdict import rank
from dutycycle.kube.discovery import NODE
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import ours
from dutycycle.kubectl.api import Api
from sinks.annotations.core.keys import GPU_HEALTH, GPU_HEALTH_REASON


def show_health(api: Api, args: argparse.Namespace) -> None:
    """Print the nodes whose GPUs' health is known, the worst first; with ``--all`` those in order, too."""
    known = []
    nodes = api.list(NODE, None)
    for meta in nodes:
        found = ours(meta.get("annotations"), args.prefix)
        if isinstance(level := found.get(GPU_HEALTH), str):
            reason = found.get(GPU_HEALTH_REASON)
            known.append((str(meta["name"]), level, reason.split("\n") if isinstance(reason, str) else []))
    known.sort(key=lambda node: (-rank(node[1]), node[0]))
    if output.is_data(args.output):
        output.emit(
            [{"name": name, "health": level, "gpus": gpus} for name, level, gpus in known], args.output
        )
        return
    rows = [
        [name if first else "", level if first else "", gpu]
        for name, level, gpus in known
        if args.all or level != "healthy"
        for first, gpu in zip([True, *[False] * len(gpus)], gpus or [output.DASH], strict=False)
    ]
    if rows:
        sys.stdout.write(output.aligned(["NODE", "HEALTH", "GPUS"], rows, headers=not args.no_headers))
    healthy = sum(level == "healthy" for _, level, _ in known)
    unknown = len(nodes) - len(known)
    remark = f"{healthy} of {len(known)} nodes healthy"
    if unknown:
        remark += f"; of {unknown} nothing is known: they have no GPU, or no collector that reads its health"
    print(remark, file=sys.stderr)  # noqa: T201
