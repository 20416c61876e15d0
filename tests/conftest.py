"""What every test can use: the real servers as fixtures (see tests/servers)."""

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from dutycycle.contract.settings.groups import PREFIX

pytest_plugins = (
    "pytester", "tests.support.targets", "tests.support.servers.plugin", "tests.support.faults.plugin",
    "tests.support.sinks.plugin",
)  # fmt: skip

# A shell without job control has what it starts in the background ignore Ctrl-C, and so all that this starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine an example takes as long as it takes. The examples of a test are always the same ones, so
# that no run is red by chance; `make test` tries a fifth of them, and `make soak` looks for others.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", _patient, derandomize=True)
settings.register_profile("quick", _patient, derandomize=True, max_examples=20)
settings.register_profile("fresh", _patient, max_examples=500)
settings.load_profile("full")


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state folder for this process: collectors of tests side by side report the same node. And no setting
    of the outside's, nor what says that it runs in a pod or knows a cluster."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            is_ours = name.startswith(PREFIX) and not name.startswith(f"{PREFIX}TEST_")
            if is_ours or name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
                patch.delenv(name)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def own_log_level() -> None:
    """Commands that are run in this process set the level of our log: here it is as if none had."""
    logging.getLogger("dutycycle").setLevel(logging.NOTSET)
