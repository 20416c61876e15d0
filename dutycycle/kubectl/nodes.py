"""Shows nodes by what they carry: ``health`` of all, and ``why node/NAME`` of one with its GPUs and their
pods."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from dutycycle.contract.health.verdict import rank
from dutycycle.kube.discovery import NODE
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import GpuNow, Json, insights, of_node, of_pod, ours
from dutycycle.kubectl.api import Api, ForbiddenError, KubectlError, ListedPod
from dutycycle.kubectl.jobs import name_of
from dutycycle.kubectl.last_sample import LastSamples
from dutycycle.process import print_remark
from dutycycle.words import aligned
from sinks.annotations.core.keys import GPU_HEALTH, GPU_HEALTH_REASON


def show_health(api: Api, args: argparse.Namespace) -> None:
    """Print the nodes whose GPUs' health is known, the worst first; with ``--all`` those in order, too."""
    known = []
    nodes = api.list(NODE, None)
    for meta in nodes:
        annotations = ours(meta.get("annotations"), args.prefix)
        if isinstance(level := annotations.get(GPU_HEALTH), str):
            reason = annotations.get(GPU_HEALTH_REASON)
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
        sys.stdout.write(aligned(["NODE", "HEALTH", "GPUS"], rows, headers=not args.no_headers))
    healthy = sum(level == "healthy" for _, level, _ in known)
    unknown = len(nodes) - len(known)
    remark = f"{healthy} of {len(known)} nodes healthy"
    if unknown:
        remark += f"; of {unknown} nothing is known: they have no GPU, or no collector that reads its health"
    print_remark(remark)


@dataclass(frozen=True, slots=True)
class _PodOfNode:
    """Holds a pod that is on the node, with what it carries."""

    pod: ListedPod
    annotations: Json

    def __str__(self) -> str:
        figures = {"GPU {}": output.format_percent(of_pod(self.annotations).gpu_pct)}
        figures |= {"CPU {} of a core": output.format_percent(of_pod(self.annotations).cpu_pct)}
        known = [form.format(text) for form, text in figures.items() if text != output.DASH]
        known += [text for name, text in insights(self.annotations).items() if name != "advice"]
        return f"{self.pod.meta['namespace']}/{self.pod.meta['name']}: {', '.join(known) or 'no figures'}"


def show_why_node(api: Api, args: argparse.Namespace) -> None:
    """Print it. Raises ``KubectlError`` for a node of which nothing is known."""
    meta = api.read(NODE, None, name_of(NODE, args.what))
    annotations = ours(meta.get("annotations"), args.prefix)
    if not annotations:
        raise KubectlError(
            f"nothing is known of node {meta['name']}: it carries no {args.prefix}/ annotation. "
            "Nodes without GPUs carry none; on others they come within a minute of the first sample"
        )
    samples = LastSamples.read(api)
    sample = samples.of_node(str(meta["name"]))
    pods, problem = [], None
    try:
        every = api.pods(None)
    except ForbiddenError as error:
        problem = str(error)
    else:
        carrying = (
            _PodOfNode(pod, ours(pod.meta.get("annotations"), args.prefix))
            for pod in every
            if pod.node == meta["name"] and not pod.has_ended
        )
        pods = [pod for pod in carrying if pod.annotations]
        pods.sort(key=lambda pod: (-(of_pod(pod.annotations).gpu_pct or 0), str(pod)))
    if output.is_data(args.output):
        where = {"kind": NODE.name, "name": meta["name"], "uid": meta["uid"]} | sample.plain()
        listed = (
            None
            if problem is not None
            else [
                {name: pod.pod.meta[name] for name in ("namespace", "name")}
                | {"annotations": pod.annotations}
                for pod in pods
            ]
        )
        output.emit(where | {"annotations": annotations, "pods": listed}, args.output)
        return
    age = sample.text(samples.now_ms, " ago") if sample.at_ms is not None else None
    reason = samples.problem or "the node has no heartbeat"
    print(f"node {meta['name']}")  # noqa: T201
    # What its GPUs do, each that is not in order, and who uses them
    static, gpus = of_node(annotations)
    kinds = [str(static[name]) for name in ("model", "mem_size") if name in static]
    lines = [("GPUs", " ".join([str(static.get("count", len(gpus))), *kinds]))]
    lines += [(f"GPU {gpu.index}", "; ".join(_of_gpu(gpu)) or "nothing is measured") for gpu in gpus]
    level, unhealthy = annotations.get(GPU_HEALTH), annotations.get(GPU_HEALTH_REASON)
    health = level if isinstance(level, str) else "not known: its collector does not read it"
    lines.append(("health", health))
    lines += [("", sentence) for sentence in unhealthy.split("\n")] if isinstance(unhealthy, str) else []
    if problem is not None:
        lines.append(("pods", f"not known: {problem}"))
    else:
        lines.append(("pods", f"{len(pods)} with figures" if pods else "none that carries figures"))
        lines += [("", str(pod)) for pod in pods]
    for name, text in (*lines, ("last sample", age or f"not known: {reason}")):
        sys.stdout.write(f"  {name:<12} {text}\n")


def _of_gpu(gpu: GpuNow) -> Iterator[str]:
    """Yield what it does now, and at most in the last hour."""
    processes = gpu.number("process_cnt")
    now = {
        "memory {} used": output.format_megabytes(gpu.megabytes("mem_used")),
        "{} free": output.format_megabytes(gpu.megabytes("mem_free")),
        "1 process" if processes == 1 else "{} processes": output.format_number(processes),
    }
    hour = {
        "at most {} in the last hour": output.format_percent(gpu.number("max_gpu_util")),
        "memory bus {}": output.format_percent(gpu.number("max_mem_util")),
    }
    trend = gpu.number("trend_pct_per_h")
    course = {
        "a cycle of {}": output.DASH if gpu.period in (None, "no") else str(gpu.period),
        "trend {} % an hour": output.format_number(trend),
    }
    for figures in (now, hour, course):
        known = [form.format(text) for form, text in figures.items() if text != output.DASH]
        if known:
            yield ", ".join(known)
