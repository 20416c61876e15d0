"""One trace of a training job, read once for all tests of the report."""

from pathlib import Path

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import gather
from dutycycle.report.gather import Gathered
from tests.support.data.traces import write_trace
from tests.support.data.training_job import training_job


@pytest.fixture(scope="session")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of twelve minutes on two GPUs."""
    return write_trace(tmp_path_factory.mktemp("report") / "job.jsonl.zst", training_job(720, 2))


@pytest.fixture(scope="session")
def gathered(trace: Path) -> Gathered:
    """What is in it."""
    return gather([str(trace)], Settings())
