"""What owners and programs of a pod let expect of its kind, and that evidence outvotes it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench.generators_jobs import Draft, blind
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import InsightPart
from dutycycle.contract.records.processes import Package, Process, ProcessSample, Software
from streams.operators.forward import ProcessForwarder
from streams.operators.workload.kinds.classifier import WORKLOAD_KINDS, choose_kind
from streams.operators.workload.kinds.priors import prior_of, programs_of, with_prior
from streams.state.codec import from_bytes, to_bytes
from tests.streams.operators.workload.test_insights import (
    JOB,
    NOTHING,
    STAGES,
    START_MS,
    in_turn,
    insights,
    parts,
    run,
)

TRAINERS = ("PyTorchJob", "TFJob", "TrainJob", "JAXJob", "XGBoostJob", "PaddleJob", "MXJob", "MPIJob")
SERVERS = ("InferenceService", "RayService", "Deployment", "Rollout", "LeaderWorkerSet")
ENDS = ("Job", "JobSet", "RayJob", "Workflow", "CronJob")
EXPECTED = [
    *((owner, "training", "inference") for owner in TRAINERS),
    *((owner, "inference", "training") for owner in SERVERS),
    *((owner, "training", "inference") for owner in ENDS),
    ("Notebook", "interactive", "training"),
]


RANK = Process(
    pid=1, pod_uid="p", name="python3",
    software=Software(
        frameworks=(Package(name="torch"), Package(name="vllm")), launcher="torchrun", data_workers=8
    ),
)  # fmt: skip


def told(owner: str | None, likely: Mapping[str, float], programs: frozenset[str] = frozenset()) -> str:
    probabilities = np.array([likely.get(kind, 0.002) for kind in WORKLOAD_KINDS])
    return choose_kind(with_prior(probabilities / probabilities.sum(), prior_of(owner, programs))).kind


@pytest.mark.parametrize(("owner", "expected", "other"), EXPECTED)
def test_an_owner_decides_what_is_open_and_evidence_outvotes_it(
    owner: str, expected: str, other: str
) -> None:
    of_both = {expected: 0.5, other: 0.5}
    assert told(None, of_both) == "unknown"
    assert told(owner, of_both) == expected
    assert told(owner, {expected: 0.01, other: 0.99}) == other


@pytest.mark.parametrize("owner", [None, "Pod", "StatefulSet", "RayCluster", "DaemonSet", "SparkApplication"])
def test_other_owners_say_nothing(owner: str | None) -> None:
    assert prior_of(owner, frozenset()).tolist() == [0.0] * len(WORKLOAD_KINDS)
    likely = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    assert with_prior(likely, prior_of(owner, frozenset())) == pytest.approx(likely)


@pytest.mark.parametrize(
    ("process", "programs"),
    [
        (Process(pid=1, pod_uid="p", name="VLLM::EngineCor"), {"vllm"}),
        (Process(pid=1, pod_uid="p", name="tritonserver"), {"tritonserver"}),
        (Process(pid=1, pod_uid="p", name="text-generation"), {"text-generatio"}),
        (Process(pid=1, pod_uid="p", name="python3"), set()),
        (Process(pid=1, pod_uid="p"), set()),
        (RANK, {"vllm", "torchrun", "data workers"}),
        (Process(pid=1, pod_uid="p", software=Software(launcher="ray", data_workers=0)), set()),
    ],
)
def test_which_programs_say_something(process: Process, programs: set[str]) -> None:
    assert programs_of([process]) == programs


def test_programs_count_beside_the_owner_and_no_number_of_them_is_certain() -> None:
    assert told(None, {"training": 0.7, "inference": 0.3}, frozenset({"vllm"})) == "inference"
    assert (
        told(None, {"training": 0.3, "inference": 0.7}, frozenset({"torchrun", "data workers"})) == "training"
    )
    assert told("PyTorchJob", {"training": 0.5, "inference": 0.5}, frozenset({"vllm"})) == "unknown"
    many = frozenset({"torchrun", "data workers", "deepspeed", "mpirun"})
    assert abs(prior_of("MPIJob", many)).max() == 2.0
    assert told("MPIJob", {"training": 0.004, "inference": 0.99}, many) == "inference"


def flat(seed: int, copy_share: float) -> Any:
    """Flat at 97 %, one core busy: nobody can be sure."""
    draft = Draft(np.random.default_rng(seed), 600)
    draft.gpus = 1
    draft.util[:] = 97 + draft.noise(0.5)
    draft.copy_share[:], draft.mem[:], draft.cpu[:], draft.effort[:] = copy_share, 70, 110, 0.6
    draft.label(0, 600, "training")
    return draft.done("flat", seed)


def last_kind(one: Any, owner: str, *, with_cpu: bool, first: InsightPart | None = None) -> str:
    asks = replace(NOTHING, job=replace(JOB, kind=owner))
    of = parts(one if with_cpu else blind(one), asks=asks)
    records = in_turn(of) if with_cpu else [*of["pods"], *of["nvml"]]
    return insights(run(STAGES["insights"].build("p", None), [first, *records] if first else records))[
        -1
    ].kind


@pytest.mark.parametrize(("with_cpu", "without"), [(True, "inference"), (False, "unknown")])
def test_an_mpi_job_at_a_flat_97_percent_trains_and_a_deployment_serves(with_cpu: bool, without: str) -> None:
    one = flat(1, 0.35)
    assert last_kind(one, "Pod", with_cpu=with_cpu) == without
    assert last_kind(one, "MPIJob", with_cpu=with_cpu) == "training"
    assert last_kind(one, "Deployment", with_cpu=with_cpu) == "inference"


def test_an_mpi_job_that_looks_like_a_server_in_all_else_is_one() -> None:
    assert last_kind(flat(3, 0.6), "MPIJob", with_cpu=True) == "inference"


def test_programs_come_from_the_processes_of_a_pod_and_stay_with_it() -> None:
    software = Software(frameworks=(Package(name="torch"),), launcher="torchrun", data_workers=4)
    sample = ProcessSample(
        node="n", collector="c", seq=1, ts_ms=START_MS, interval_ms=1000,
        processes=(
            Process(pid=1, pod_uid="p", software=software), Process(pid=2, pod_uid="q", name="bash"),
        ),
    )  # fmt: skip
    (sent,) = ProcessForwarder("n").update(ConsumerRecord("processes", 0, 0, "n", encode(sample), START_MS))
    assert isinstance(sent, ProducerRecord)
    part = decode(InsightPart, sent.value or b"", sent.topic)
    assert (part.uid, part.programs, part.steps) == ("p", ("data workers", "torchrun"), None)
    assert last_kind(flat(1, 0.35), "Pod", with_cpu=False, first=part) == "training"
    operator = STAGES["insights"].build("p", None)
    run(operator, [part, replace(part, programs=("what a newer node knows",))])
    again = STAGES["insights"].build("p", from_bytes(to_bytes(operator.snapshot())))
    assert again.snapshot()["programs"] == ["data workers", "torchrun"]


def test_an_owner_that_becomes_known_late_counts_from_then_on() -> None:
    of = parts(blind(flat(1, 0.35)), asks=replace(NOTHING, job=replace(JOB, kind="MPIJob")))
    operator = STAGES["insights"].build("p", None)
    assert insights(run(operator, of["nvml"][:40]))[-1].kind == "unknown"
    assert insights(run(operator, [*of["pods"], *of["nvml"][40:]]))[-1].kind == "training"
