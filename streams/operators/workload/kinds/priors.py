"""What is expected of a pod before anything is measured: by the kind of its owner, and by what its processes
are. Log-odds that are added to the scores of kinds, with CPU and without, and that evidence outvotes.

They are reasoned, not fitted: no public log of a GPU tells who owned its jobs."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from dutycycle.contract.records.processes import Process
from streams.operators.columns.arrays import Floats
from streams.operators.workload.kinds.classifier import WORKLOAD_KINDS

_TRAINS = {"training": 1.5, "inference": -1.5, "interactive": -1.0}
_SERVES = {"training": -1.5, "inference": 1.5, "interactive": -1.0}
_STAYS_UP = {"training": -1.0, "inference": 1.0}
_ENDS = {"training": 0.3, "inference": -0.7}
_ANSWERS = {"training": -0.5, "inference": 0.5}
_RANKS, _MAY_BE_RANKS = {"training": 1.0, "inference": -1.0}, {"training": 0.5, "inference": -0.5}
_OWNERS: Mapping[str, Mapping[str, float]] = {
    **dict.fromkeys(
        ("PyTorchJob", "TFJob", "TrainJob", "JAXJob", "XGBoostJob", "PaddleJob", "MXJob", "MPIJob"), _TRAINS
    ),
    **dict.fromkeys(("InferenceService", "RayService"), _SERVES),
    **dict.fromkeys(("Deployment", "Rollout", "LeaderWorkerSet"), _STAYS_UP),
    **dict.fromkeys(("Job", "JobSet", "RayJob", "Workflow", "CronJob"), _ENDS),
    "Notebook": {"training": -0.5, "inference": -1.5, "interactive": 2.0},
}
"""By the kind of the topmost owner. Whatever else owns a pod says nothing. Who trains in a Deployment has to
start it anew when it is done; a batch of answers may be a Job."""
_DATA_WORKERS = "data workers"
_PROGRAMS: Mapping[str, Mapping[str, float]] = {
    **dict.fromkeys(("vllm", "sglang", "tritonserver", "text-generatio", "llama-server", "ollama"), _SERVES),
    **dict.fromkeys(("tensorrt", "onnxruntime"), _ANSWERS),
    **dict.fromkeys(("torchrun", "accelerate", "deepspeed", "horovodrun", _DATA_WORKERS), _RANKS),
    **dict.fromkeys(("mpirun", "srun"), _MAY_BE_RANKS),
}
"""By the frameworks, launchers and names of processes, which Linux cuts at 15 characters."""
_MOST = 2.0
"""However many agree: all of them were chosen by the same person."""


@lru_cache(maxsize=256)
def prior_of(owner: str | None, programs: frozenset[str]) -> Floats:
    """What to add to the scores of ``WORKLOAD_KINDS`` of a pod with an ``owner`` of this kind, None for none,
    and processes with these ``programs``."""
    expected = [_OWNERS.get(owner or "", {}), *(_PROGRAMS[name] for name in sorted(programs))]
    odds = [sum(of.get(kind, 0.0) for of in expected) for kind in WORKLOAD_KINDS]
    return np.clip(odds, -_MOST, _MOST)


def with_prior(probabilities: Floats, prior: Floats) -> Floats:
    """Probabilities of kinds, shape (kinds,), with what was expected; they add up to 1."""
    grown = probabilities * np.exp(prior)
    return np.asarray(grown / grown.sum())


def programs_of(processes: Iterable[Process]) -> frozenset[str]:
    """Which programs that say something of a pod's kind are among its processes."""
    names: set[str] = set()
    for process in processes:
        names |= {name for name in _PROGRAMS if (process.name or "").lower().startswith(name)}
        if (software := process.software) is not None:
            names |= {package.name for package in software.frameworks or ()} & _PROGRAMS.keys()
            names |= {software.launcher or ""} & _PROGRAMS.keys()
            names |= {_DATA_WORKERS} if software.data_workers else set()
    return frozenset(names)


def is_program(name: str) -> bool:
    """Tell whether it is one of those that ``programs_of`` names."""
    return name in _PROGRAMS
