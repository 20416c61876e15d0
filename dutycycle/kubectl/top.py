"""Shows ``top pods|nodes|jobs``: the maxima so far, the busiest first."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dutycycle.contract.units import sum_of_known
from dutycycle.kube.discovery import NODE, POD, Kind
from dutycycle.kube.references import Metadata
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import (
    INSIGHTS,
    GpuNow,
    Json,
    MaxUsage,
    MaybeNumber,
    attribution,
    by_process,
    counts_of_job,
    highest_of,
    insights,
    is_untouched,
    of_job,
    of_node,
    of_pod,
    of_whole_job,
    omitted,
    ours,
)
from dutycycle.kubectl.api import Api, ForbiddenError, KubectlError, scope_of
from dutycycle.kubectl.jobs import Jobs, name_of
from dutycycle.kubectl.last_sample import JobSamples, LastSamples
from dutycycle.kubectl.output import Answer, AnswerRow
from sinks.annotations.core import keys

_USAGE = {
    "MAX-GPU>": "gpu_pct", "MAX-CPU>": "cpu_pct", "MAX-MEM>": "mem_mb", "MAX-NET(Mbit/s)>": "net_mbps",
    "MAX-DISK(MB/s)>": "disk",
}  # fmt: skip
_LAST_SAMPLE = "LAST-SAMPLE>"
_INSIGHTS = ("WORKLOAD", "BOTTLENECK")
"""The annotations ``kind`` (a job's KIND is another) and ``bottleneck``."""
_ALLOCATED = "~"
"""Behind the figure of a whole GPU: it was given to the pod, and no process of the pod was seen on it."""
_COUNTS = ("PODS>", "PODS-EVER>", "GPUS>", "GPUS-EVER>")
"""Of a job: now, and in all of its life."""
_UNTOUCHED = "untouched"
"""Instead of what a pod does: it holds GPUs, and no process of its was ever on one."""
_SORT_FIELDS = {"gpu": "gpu_pct", "cpu": "cpu_pct", "memory": "mem_mb", "network": "net_mbps", "disk": "disk"}


def top_pods(api: Api, args: argparse.Namespace) -> Answer:
    """Return the pods that carry annotations."""
    if args.name is None:
        every = api.pods(args.namespace, args.selector)
    else:
        every = [api.pod(args.namespace, name_of(POD, args.name))]
        _check_carries(POD, every[0].meta, args.prefix)
    samples = LastSamples.read(api)
    wide = args.output == "wide"
    rows = []
    for pod in every:
        if annotations := ours(pod.meta.get("annotations"), args.prefix):
            sample = samples.of_pod(pod, annotations)
            usage = of_pod(annotations)
            gpu, *rest = output.format_usage(usage, *_USAGE.values())
            gpu += _ALLOCATED * most_is_allocated(annotations)
            cells = [str(usage.gpus) if usage.gpus else output.DASH, gpu, *rest, sample.text(samples.now_ms)]
            cells += [_UNTOUCHED, output.DASH] if is_untouched(annotations) else _insights(annotations)[:2]
            if wide:
                words = ",".join(dict.fromkeys(attribution(annotations).values()))
                bus = output.format_percent(usage.gpu_mem_bus_pct)
                cells += [pod.node or output.DASH, bus, words or output.DASH, _insights(annotations)[2]]
            rows.append(_row(pod.meta, annotations, cells, usage, sample.plain()))
    headers = ["GPUS>", *_USAGE, _LAST_SAMPLE, *_INSIGHTS]
    headers += ["NODE", "MAX-MEM-BUS>", "ATTRIBUTION", "ADVICE"] * wide
    return _answer("pod", headers, rows, len(every), args, samples.problem)


def top_jobs(api: Api, args: argparse.Namespace) -> Answer:
    """Return the objects of whichever kind that carry annotations."""
    looking = Jobs(api, args.prefix)
    wide = args.output == "wide"
    rows = []
    if args.name is None:
        jobs = list(looking.annotated(args.namespace, args.selector))
    else:
        jobs = [looking.one(args.name, args.namespace)]
        _check_carries(jobs[0].kind, jobs[0].meta, args.prefix)
    samples = JobSamples(api, args.prefix, args.namespace)
    for job in jobs:
        sample = samples.of_job(job.meta["namespace"], job.annotations)
        usage = of_whole_job(job.annotations)
        usages = output.format_usage(usage, *_USAGE.values(), "gpu_mem_mb")
        counts = counts_of_job(job.annotations)
        each = (counts.pods_now, counts.pods_ever, counts.gpus_now, counts.gpus_ever)
        cells = [job.kind.name, *(output.DASH if count is None else str(count) for count in each)]
        if counts.gpus_ever and "gpus_ever" not in job.annotations and not all_gpus_named(job.annotations):
            cells[-1] += "+"  # of a large job: it had more GPUs than are known
        cells += [*usages, sample.text(samples.now_ms), *_insights(job.annotations)[: 2 + wide]]
        rows.append(_row(job.meta, job.annotations, cells, usage, {"kind": job.kind.name} | sample.plain()))
    headers = ["KIND", *_COUNTS, *_USAGE, "MAX-GPU-MEM>", _LAST_SAMPLE]
    headers += [*_INSIGHTS, *["ADVICE"] * wide]
    answer = _answer("job", headers, rows, looking.there, args, samples.problem)
    answer.remarks += [job.remark for job in jobs if job.remark]
    if looking.denied:
        kinds = ", ".join(str(kind) for kind, _ in looking.denied)
        kind, error = looking.denied[0]
        what = f"list {kinds}{scope_of(kind, args.namespace)}"
        answer.remarks.append(f"left out: {ForbiddenError(what, error.user)}")
    answer.remarks += [f"left out: {failure}" for failure in looking.failed]
    return answer


def top_nodes(api: Api, args: argparse.Namespace) -> Answer:
    """Return the nodes that carry annotations; with ``--gpus`` a line for each GPU."""
    if args.name is None:
        every = api.list(NODE, None, args.selector)
    else:
        every = [api.read(NODE, None, name_of(NODE, args.name))]
        _check_carries(NODE, every[0], args.prefix)
    samples = LastSamples.read(api)
    wide = args.output == "wide"
    rows: list[AnswerRow] = []
    for meta in every:
        annotations = ours(meta.get("annotations"), args.prefix)
        static, gpus = of_node(annotations)
        if static or gpus:
            lines = [[str(gpu.index), *_now([gpu])] for gpu in gpus]
            if not args.gpus:
                kind = [str(static.get(name, output.DASH)) for name in ("model", "mem_size")]
                lines = [[str(static.get("count", len(gpus))), *kind, *_now(gpus)]]
            sample = samples.of_node(str(meta["name"]))
            more = [sample.text(samples.now_ms), *[str(static.get("pcie_gen_width", output.DASH))] * wide]
            usage = MaxUsage(
                gpus=len(gpus),
                gpu_pct=highest_of(gpu.number("max_gpu_util") for gpu in gpus),
                mem_mb=sum_of_known(gpu.megabytes("mem_used") for gpu in gpus),
            )
            rows += [_row(meta, annotations, cells + more, usage, sample.plain()) for cells in lines]
    headers = [*(_GPU_HEADERS if args.gpus else _NODE_HEADERS), _LAST_SAMPLE, *["PCIE"] * wide]
    return _answer("node", headers, rows, len(every), args, samples.problem)


def _check_carries(kind: Kind, meta: Metadata, prefix: str) -> None:
    """Raises for an object that was asked for by its name and has no annotation of ours."""
    if not ours(meta.get("annotations"), prefix):
        raise KubectlError(
            f"{kind.name.lower()}/{meta['name']} carries no {prefix}/ annotation: "
            "they come within a minute of its first sample"
        )


_NOW = ("MEM-USED>", "MEM-FREE>", "PROCS>", "MAX-GPU>", "MAX-MEM-BUS>", "PERIOD>", "TREND(%/h)>")
_NODE_HEADERS = ("GPUS>", "MODEL", "GPU-MEM", *_NOW)
_GPU_HEADERS = ("GPU>", *_NOW)


def _now(gpus: Sequence[GpuNow]) -> list[str]:
    """Return sums of memory and processes, the most of the rest; a cycle and a trend only of one."""
    processes = sum_of_known(gpu.number("process_cnt") for gpu in gpus)
    periods = {gpu.period for gpu in gpus} - {None}
    trends = {gpu.number("trend_pct_per_h") for gpu in gpus} - {None}
    return [
        output.format_megabytes(sum_of_known(gpu.megabytes("mem_used") for gpu in gpus)),
        output.format_megabytes(sum_of_known(gpu.megabytes("mem_free") for gpu in gpus)),
        output.format_number(processes),
        output.format_percent(highest_of(gpu.number("max_gpu_util") for gpu in gpus)),
        output.format_percent(highest_of(gpu.number("max_mem_util") for gpu in gpus)),
        _only(periods, str),
        _only(trends, output.format_number),
    ]


def _only(values: set[Any], form: Callable[[Any], str]) -> str:
    """Return the value that all have; ``mixed`` where they differ."""
    return output.DASH if not values else form(values.pop()) if len(values) == 1 else "mixed"


def _row(
    meta: Metadata, annotations: Json, cells: Sequence[str], usage: MaxUsage, more: Mapping[str, str]
) -> AnswerRow:
    return AnswerRow(str(meta.get("namespace", "")), str(meta["name"]), list(cells), usage, annotations, more)


def _answer(
    what: str,
    headers: Sequence[str],
    rows: list[AnswerRow],
    there: int,
    args: argparse.Namespace,
    problem: str | None,
) -> Answer:
    if args.sort_by == "name":
        rows.sort(key=lambda row: (row.namespace, row.name))
    else:
        field = _SORT_FIELDS[args.sort_by]
        rows.sort(key=lambda row: (descending(getattr(row.usage, field)), row.namespace, row.name))
    namespaced = what != "node" and args.namespace is None
    answer = Answer(what, ["NAMESPACE"] * namespaced + ["NAME", *headers], rows, there, namespaced)
    if rows and problem:
        answer.remarks.append(f"last samples are not known: {problem}")
    return answer


def _insights(annotations: Json) -> list[str]:
    """Return what is known of ``INSIGHTS``, the advice last."""
    known = insights(annotations)
    return [known.get(name, output.DASH) for name in INSIGHTS]


def all_gpus_named(annotations: Json) -> bool:
    """Tell whether a job tells each GPU of each pod; a large one tells those of some pods, or of none."""
    return not omitted(annotations) and all(
        process.gpus or process.usage.gpu_pct is None for process in of_job(annotations)
    )


def descending(value: MaybeNumber) -> tuple[bool, float]:
    """Return a sort key: the largest first, and what is not known last, below 0."""
    return value is None, -(value or 0)


def most_is_allocated(annotations: Json) -> bool:
    """Tell whether the busiest GPU's figure is the device's own, and no process's that was seen in the
    pod."""
    shares, words = by_process(annotations, keys.GPU_UTIL), attribution(annotations)
    highest = highest_of(shares.values())
    sources = {
        words.get(index) for (index, _), value in shares.items() if value is not None and value == highest
    }
    return sources == {"allocated"}
