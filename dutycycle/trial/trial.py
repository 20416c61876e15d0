"""Runs ``dutycycle trial job.yaml``: plan, run, compare, say, write."""

import asyncio
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from dutycycle.contract.codec import encode
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.records.insights import Trials
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.errors import GoneError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef
from dutycycle.process import print_remark
from dutycycle.run.folder import run_folder
from dutycycle.submit.documents import read_documents
from dutycycle.submit.objects import cluster_of, explained
from dutycycle.submit.outcome import FAILED, NOT_RUN
from dutycycle.submit.run import Signals
from dutycycle.trial.access import check_class
from dutycycle.trial.leftovers import JOB, clean
from dutycycle.trial.options import TrialOptions
from dutycycle.trial.plan import Plan, plan_of
from dutycycle.trial.results.picture import draw
from dutycycle.trial.results.record import Whose, annotations_of, publish, record_of
from dutycycle.trial.results.text import lines_of, sentence_of
from dutycycle.trial.results.verdict import TrialVerdict, verdict_of
from dutycycle.trial.session import TrialSession
from dutycycle.trial.template import JobTemplate, template_in

PICTURE, TABLE, RECORD = "trials.png", "trials.txt", "trials.json"


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """Holds what the command line asks for."""

    files: Sequence[str] = ()
    namespace: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    out: Path | None = None
    options: TrialOptions = field(default_factory=TrialOptions)


def run_trials(request: TrialRequest, settings: Settings) -> int:
    """Return the exit status: 0 where a best one was found, 1 where not, 125 where nothing could be run.

    Raises ``SettingError``.
    """
    template = template_in(read_documents(request.files))
    if request.namespace and template.namespace not in (None, request.namespace):
        raise SettingError(
            f"--namespace {request.namespace}: the Job is for the namespace {template.namespace}"
        )
    plan = plan_of(template, request.options)
    needs_broker(settings)
    try:
        folder = run_folder(f"{template.name}-trial", request.out)
        return asyncio.run(_on_cluster(request, settings, template, plan, folder))
    except SettingError:
        raise
    except DutycycleError as error:
        print_remark(f"dutycycle: {error}")
        return NOT_RUN


async def run_clean(request: TrialRequest) -> int:
    """Delete what killed trials have left in a namespace. Raises ``DutycycleError``."""
    server = await cluster_of(request.kubeconfig, request.context, "dutycycle-trial")
    try:
        namespace = request.namespace or server.namespace
        deleted, alive = await clean(server, namespace)
        for name in alive:
            print_remark(f"job/{name}: stays: its trial goes on")
        print_remark(f"{_removed(deleted) or 'no trial has left anything'} in namespace {namespace}")
    except KubeError as error:
        raise explained(error, "look for what trials have left", server) from error
    finally:
        await server.close()
    return 0


def needs_broker(settings: Settings) -> None:
    """Raises ``SettingError`` where there is none."""
    if settings.broker is None:
        raise SettingError(
            "trial: what is measured comes from Kafka: give --broker kafka://host:9092 or DUTYCYCLE_BROKER"
        )


async def _on_cluster(
    request: TrialRequest, settings: Settings, template: JobTemplate, plan: Plan, folder: Path
) -> int:
    server = await cluster_of(request.kubeconfig, request.context, "dutycycle-trial")
    signals = Signals()
    try:
        template = replace(template, namespace=request.namespace or template.namespace or server.namespace)
        verdict, status = await compare(server, settings, template, plan, request.options, folder, signals)
        for line in lines_of(verdict):
            print(line)  # noqa: T201
        sys.stdout.flush()
        if status is None:
            record = await annotated(server, settings, template, verdict)
            (folder / RECORD).write_bytes(
                orjson.dumps(orjson.loads(encode(record)), option=orjson.OPT_INDENT_2)
            )
            (folder / TABLE).write_text("\n".join(lines_of(verdict)) + "\n", encoding="utf-8")
            draw(verdict, f"{record.namespace}/{record.job}: {sentence_of(verdict)}", folder / PICTURE)
            await publish(record, settings)
            print_remark(f"written: {folder}/{PICTURE}, {TABLE}, {RECORD}, and a trace of each trial")
            return 0 if verdict.best is not None else FAILED
        return status
    finally:
        await server.close()


async def compare(
    server: ApiServer, settings: Settings, template: JobTemplate, plan: Plan, options: TrialOptions,
    folder: Path, signals: Signals,
) -> tuple[TrialVerdict, int | None]:  # fmt: skip
    """Run the plan in the template's namespace; the exit status if a signal has ended it.

    Raises ``DutycycleError``.
    """
    for note in plan.notes:
        print_remark(note)
    await check_class(server, options.priority_class)
    try:
        deleted, _ = await clean(server, template.namespace or server.namespace)
    except KubeError as error:
        raise explained(error, "look for what earlier trials have left", server) from error
    if deleted:
        print_remark(f"{_removed(deleted)}, left by a trial that was killed")
    session = TrialSession(server, settings, template, options, folder, signals)
    verdict = verdict_of(await session.run(plan), options.best)
    return verdict, signals.outcome().status if signals.stop.is_set() else None


async def annotated(
    server: ApiServer, settings: Settings, template: JobTemplate, verdict: TrialVerdict
) -> Trials:
    """Return the record of the trials; their Job carries them too, if it is in the cluster."""
    now_ms, uid = time.time_ns() // 1_000_000, None
    namespace = template.namespace or server.namespace
    ref = ObjectRef(JOB.api_version, JOB.name, template.name, namespace)
    try:
        uid = str((await server.metadata(ref))["uid"])
        await server.annotate(ref, annotations_of(verdict, settings.annotation_prefix, now_ms))
    except GoneError:
        uid = None
    except KubeError as error:
        print_remark(f"job/{template.name} gets no annotation: {error.detail}")
    return record_of(verdict, Whose(namespace, template.name, uid), uuid.uuid4().hex, now_ms)


def _removed(names: Sequence[str]) -> str:
    return f"deleted: {', '.join(f'job/{name}' for name in names)}" if names else ""
