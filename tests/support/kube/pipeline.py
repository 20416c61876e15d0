"""Our processes as in a cluster: a collector, a stream and a sink, each under its own ServiceAccount."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.errors import MissingTopicError
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario
from tests.support.kafka import settings_of
from tests.support.kube.cluster import Cluster
from tests.support.kube.shipped import COMPONENTS, shipped_account
from tests.support.processes.commands import environ, read_now, running
from tests.support.processes.figures import read_page
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until


class Pipeline:
    """The environment of the processes, what they said, and what lies on the topics between them."""

    def __init__(self, kafka: RunningBroker, prefix: str, kube: Kube, cluster: Cluster, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cluster = cluster
        self.accounts = {name: shipped_account(kube, name) for name in COMPONENTS}
        self._env = environ(
            broker=kafka.url, topic_prefix=prefix, partitions="2", node=cluster.node, interval="0.25s",
            windows="1s", lateness="0", snapshot_interval="1s", annotation_interval="1s",
            records=f"sqlite:///{folder}/records.db", spool=str(folder / "spool"),
        )  # fmt: skip
        self.settings: Settings = settings_of(self._env)

    def gpus(self, *gpus: FakeGpu) -> None:
        """What the driver says from now on."""
        Scenario(gpus=gpus).write(self._folder / "scenario")

    @contextmanager
    def run(self, *commands: str) -> Iterator[None]:
        """``collect``, ``stream`` and ``sink``, or some of them; they have to end in good order."""
        with ExitStack() as stack:
            for command in commands or ("collect", "stream", "sink"):
                process = running(command, env=self._env_of(command), log=self._log(command))
                self._processes[command] = stack.enter_context(process)
            yield
        for command in self._processes:
            assert "Traceback" not in self.said(command)
        self._processes.clear()

    def said(self, command: str) -> str:
        """The log of a command's last run."""
        return self._log(command).read_text()

    def count(self, command: str, metric: str) -> float:
        """A counter of a running process, from its own page: the sum over its labels."""
        page = read_page(self._log(command))
        return sum(map(float, re.findall(rf"^dutycycle_{metric}\b.* (\S+)$", page, re.MULTILINE)))

    def wait_until(self, is_so: Callable[[], bool], what: Callable[[], str]) -> None:
        """Return once ``is_so``; fail and say ``what`` was waited for, or which process has died."""

        def so_or_dead() -> bool:
            for command, process in self._processes.items():
                assert process.poll() is None, f"{command} ended: {self.said(command)[-4000:]}"
            return is_so()

        wait_until(so_or_dead, what)

    def wait_for(self, pod: Object, **wanted: object) -> None:
        """Until the record of a pod on the topic ``pods`` says this."""

        def says() -> bool:
            record = self.newest("pods").get(pod["metadata"]["uid"], {})
            return wanted.items() <= record.items()

        self.wait_until(says, lambda: f"{wanted} of {pod['metadata']['name']}: {self.newest('pods')}")

    def newest(self, topic: str) -> dict[str, Object]:
        """The last record of each key; none while there is no topic."""
        try:
            found = read_now(self.settings, [topic])
        except MissingTopicError:
            return {}
        return {key: orjson.loads(payloads[-1]) for (_, key), payloads in found.items() if payloads[-1]}

    def wait_for_annotations(self, thing: Object, wanted: Object) -> None:
        """Until the object's annotations of ours have these values, read as JSON."""

        def has() -> bool:
            found = self._cluster.annotations(thing)
            return all(name in found and _json(found[name]) == value for name, value in wanted.items())

        self.wait_until(
            has, lambda: f"{wanted} on {thing['metadata']['name']}: {self._cluster.annotations(thing)}"
        )

    def _env_of(self, command: str) -> dict[str, str]:
        account_of: dict[str, Client] = {
            "collect": self.accounts["collector"],
            "sink": self.accounts["sinks"],
        }
        if command not in account_of:
            return self._env  # the streams never ask the API server
        env = self._env | {"KUBECONFIG": str(account_of[command].kubeconfig)}
        if command == "collect":
            env |= driver(self._folder / "scenario")
        return env

    def _log(self, command: str) -> Path:
        return self._folder / f"{command}.log"


def _json(text: str) -> object:
    """A value as JSON; as it is where it is none, like the time in ``updated``."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
