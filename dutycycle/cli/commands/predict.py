"""Runs ``dutycycle predict``: prints what the pods of a job's file will need, from the peak records of their
similar pods."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from dutycycle.cli import arguments
from dutycycle.cli.printing import print_json
from dutycycle.contract.settings.groups import Settings
from dutycycle.schedule.asked import advice, prediction_of
from dutycycle.schedule.pod_specs import pods_of
from dutycycle.submit.documents import ManifestDocument, read_documents
from dutycycle.words import PREDICTED
from sinks.records.location import default_records_url
from sinks.records.query import Which, pod_peaks

EXAMPLE = """dutycycle predict job.yaml
dutycycle predict job.yaml --namespace ml
dutycycle predict job.yaml --format json | jq '.[].figures.gpu_mem_bytes'"""
SETTINGS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which file, and whose records."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON, as for kubectl apply")
    parser.add_argument(
        "-n", "--namespace", default="default", metavar="NAME", help="of what names none (default: default)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")
    arguments.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print what each pod template will need. Status 2 where the API server refuses one, and 1 where of an
    object nothing can be predicted, which is said. An object that may make pods, or may not, is said too."""
    url = settings.records or default_records_url()
    documents = read_documents(args.files, templates=True)
    makers = [document for document in documents if document.has_pods]
    answers = [
        answer
        for document in makers or [document for document in documents if document.is_template]
        for answer in _answers(document, args.namespace, documents, url)
    ]
    answers += [
        {
            "kind": document.kind, "name": document.written_name,
            "passed_over": f"{document.kind} of {document.api_version} is not known to make pods, and the "
            "file does not say what would run in them",
        }
        for document in documents if document.may_have_pods
    ]  # fmt: skip
    if args.format == "json":
        print_json(answers)
    else:
        for answer in answers:
            print("\n".join(_lines(answer)))  # noqa: T201
    if any("refused" in answer for answer in answers):
        return 2
    return 1 if any("missing" in answer for answer in answers) else 0


def _answers(
    document: ManifestDocument, namespace: str, documents: list[ManifestDocument], url: str
) -> Iterator[dict[str, Any]]:
    """Yield one answer for each pod template of an object, as JSON has it; ``missing``, ``refused`` or
    ``unknown`` says why there are no figures."""
    head = {"kind": document.kind, "name": document.written_name}
    asked = pods_of(document, namespace, documents)
    if asked.missing is not None:
        yield head | {"missing": asked.missing}
    for pod in asked.pods:
        answer: dict[str, Any] = head | {"namespace": pod.namespace}
        if pod.role:
            answer["role"] = pod.role
        if pod.refused:
            yield answer | {"refused": list(pod.refused)}
            continue
        if pod.gpus is not None:
            answer["gpus"] = pod.gpus
        if pod.note is not None:
            answer["note"] = pod.note
        job = None if document.kind == "Pod" else document.written_name
        prediction = prediction_of(pod, pod_peaks(url, Which(namespace=pod.namespace)), job)
        if prediction is None:
            yield answer | {"unknown": f"no pod like it has ended in namespace {pod.namespace}"}
            continue
        figures: dict[str, dict[str, float]] = {}
        for name, interval in prediction.figures.items():
            figure: dict[str, float] = {"middle": interval.middle}
            if interval.coverage:  # it is known which share of runs is in the range
                figure |= {"low": interval.low, "high": interval.high, "coverage": interval.coverage}
            figures[name] = figure | {"pods": interval.pods}
        yield answer | {
            "evidence": prediction.evidence(), "pods": prediction.pods, "likeness": prediction.likeness,
            "figures": figures, "ask_for": list(advice(pod, prediction)),
        }  # fmt: skip


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    role = f" {answer['role']}" if "role" in answer else ""
    yield f"{answer['kind'].lower()}/{answer['name']}{role}"
    if "note" in answer:
        yield f"  {answer['note']}"
    if "missing" in answer:
        yield f"  {answer['missing']}"
    elif "passed_over" in answer:
        yield f"  passed over: {answer['passed_over']}"
    elif "refused" in answer:
        yield from (f"  the API server refuses {sentence}" for sentence in answer["refused"])
    elif "unknown" in answer:
        yield f"  no prediction: {answer['unknown']}"
    else:
        yield f"  from {answer['evidence']}"
        for name, title, text in PREDICTED:
            if (figure := answer["figures"].get(name)) is not None:
                line = f"  {title}: {text(figure['middle'])}"
                if "coverage" in figure:
                    low, high = text(figure["low"]), text(figure["high"])
                    line += f" ({low} to {high} in {figure['coverage']:.0%} of runs)"
                yield line
        for line in answer["ask_for"]:
            yield f"  ask for {line}"
