"""Shows ``peaks JOB``: what each pod of a job needed at most, kept on the job after its pods are gone."""

import argparse

from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import (
    counts_of_job,
    insights,
    of_job,
    of_whole_job,
    omitted,
)
from dutycycle.kubectl.api import Api, KubectlError
from dutycycle.kubectl.jobs import Jobs
from dutycycle.kubectl.last_sample import JobSamples
from dutycycle.kubectl.output import Answer, AnswerRow, emit, is_data, print_answer

_HEADERS = ["POD", "NODE", "GPU", "MAX-GPU>", "MAX-GPU-MEM>", "MAX-CPU>", "P95-CPU>", "MAX-MEM>",
            "MAX-NET(Mbit/s)>", "MAX-DISK(MB/s)>"]  # fmt: skip
_OF_GPUS, _REST = ("gpu_pct", "gpu_mem_mb"), ("cpu_pct", "cpu_p95_pct", "mem_mb", "net_mbps", "disk")


def show_peaks(api: Api, args: argparse.Namespace) -> None:
    """Print it. Raises ``KubectlError`` for a job that carries nothing."""
    job = Jobs(api, args.prefix).one(args.job, args.namespace)
    workers = of_job(job.annotations)
    if not workers and not counts_of_job(job.annotations).pods_ever:
        raise KubectlError(
            f"{job}{f', the owner of {job.owns},' if job.owns else ''} carries no figures of its pods yet: "
            "they come within a minute of a pod's first sample; "
            f"look at `kubectl dutycycle top pods -n {args.namespace}`"
        )
    samples = JobSamples(api, args.prefix, args.namespace)
    sample = samples.of_job(args.namespace, job.annotations)
    if is_data(args.output):
        where = {"namespace": args.namespace, "name": job.meta["name"]} | sample.plain()
        emit({"kind": job.kind.name, **where, "annotations": job.annotations}, args.output)
        return
    rows = []
    for worker in workers:
        usage, rest = worker.usage, output.format_usage(worker.usage, *_REST)
        # A line for each GPU; the figures that are the pod's only on the first.
        lines = [
            [node, str(index), output.format_percent(util), output.format_megabytes(mem_mb),
             *(rest if number == 0 else [""] * len(rest))]
            for number, ((node, index), (util, mem_mb)) in enumerate(worker.gpus.items())
        ] or [[output.DASH, output.DASH, *output.format_usage(usage, *_OF_GPUS), *rest]]  # fmt: skip
        rows += [AnswerRow("", worker.pod, cells, usage, {}) for cells in lines]
    if len(workers) != 1:
        most = of_whole_job(job.annotations)
        rows.append(
            AnswerRow("", "(most)", ["", "", *output.format_usage(most, *_OF_GPUS, *_REST)], most, {})
        )
    answer = Answer("job", _HEADERS, rows, 1, namespaced=False)
    answer.remarks += [f"{name}: {text}" for name, text in insights(job.annotations).items()]
    if count := omitted(job.annotations):
        answer.remarks.append(f"and {count} more pods: the peak records have them")
    answer.remarks += [job.remark] if job.remark else []
    if sample.at_ms is not None:  # these figures outlive the pods: that nothing is sampled any more is usual
        answer.remarks.append(f"last sample: {sample.text(samples.now_ms, ' ago')}")
    print_answer(answer, args.output, headers=not args.no_headers)
