"""The broker that tests use: its address, and for one of our own its start, stop and kill."""

import glob
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.kafka import jars
from tests.support.servers.kafka.certificates import Certificates, make_certificates
from tests.support.servers.kafka.properties import MECHANISM, PASSWORD, USERNAME, Ports, render
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess


def archive_classes(class_path: str, start: Callable[[list[str]], ServerProcess]) -> list[str]:
    """Java's options for a file of Kafka's classes as read and checked: a start takes two thirds of the CPU.

    Made once for each Java and set of jars: ``start`` runs a broker until it serves, with options of Java's.
    """
    java = Path(shutil.which("java") or "java").resolve()
    made = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {class_path}".encode()).hexdigest()[:16]
    name = f"kafka-classes-{made}"
    file = cache_folder() / f"{name}.jsa"
    with locked(name):
        if not file.exists():
            with tempfile.TemporaryDirectory(dir=file.parent, prefix=file.stem) as temporary:
                unfinished = Path(temporary) / file.name
                start([f"-XX:ArchiveClassesAtExit={unfinished}"]).stop(120)  # it writes the file when it ends
                if unfinished.exists():
                    unfinished.rename(file)  # only a complete one gets the name
    return [f"-XX:SharedArchiveFile={file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


_START_S = 240
_JAVA = [
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]
_HEAP = ["-Xms128m", "-Xmx512m"]


class RunningBroker:
    """A Kafka that somebody else runs: ``DUTYCYCLE_TEST_BROKER``."""

    session_timeout = "6s"
    """The shortest that it lets a worker of a group be silent."""

    def __init__(self, url: str, certificates: Certificates | None = None) -> None:
        self.url = url
        self.bootstrap = url.split("://", 1)[-1]
        self.certificates = certificates

    def settings(self) -> dict[str, str]:
        """The ``DUTYCYCLE_*`` variables by which Dutycycle reaches this broker."""
        if self.certificates is None:
            return {"DUTYCYCLE_BROKER": self.url}
        return {
            "DUTYCYCLE_BROKER": self.url,
            "DUTYCYCLE_TLS_CA": str(self.certificates.authority),
            "DUTYCYCLE_SASL_MECHANISM": MECHANISM,
            "DUTYCYCLE_SASL_USERNAME": USERNAME,
            "DUTYCYCLE_SASL_PASSWORD": PASSWORD,
        }

    def new_prefix(self) -> str:
        """A topic prefix that no other test has."""
        return f"test-{uuid.uuid4().hex[:12]}."

    def create_topics(self, partitions: dict[str, int], **config: str) -> None:
        """Create topics by full name with their partition counts, and wait until each has leaders.

        ``config`` has topic settings, with ``_`` for ``.``: ``cleanup_policy="compact"``.
        """
        new = [NewTopic(name, count, 1, config=_dotted(config)) for name, count in partitions.items()]
        admin = self.admin()  # named, because it must outlive its futures
        for created in admin.create_topics(new).values():
            created.result(timeout=240)
        for name, count in partitions.items():
            _wait_for_leaders(admin, name, count)

    def delete_topics(self, prefix: str) -> None:
        """Delete the topics whose names begin so. A broker that is away keeps them, which costs only time."""
        admin = self.admin()  # named, because it must outlive its futures
        with suppress(KafkaException):
            names = [name for name in admin.list_topics(timeout=60).topics if name.startswith(prefix)]
            for deleted in admin.delete_topics(names).values() if names else ():
                deleted.result(timeout=60)

    def admin(self, **instead: str) -> AdminClient:
        """A synchronous client, so that it also works where no event loop runs.

        ``instead`` overrides librdkafka's settings, with ``_`` for ``.``: ``sasl_password="wrong"``.
        """
        own = {"bootstrap.servers": self.bootstrap, **self._security(), **_dotted(instead)}
        return AdminClient({"log_level": 0, **own})

    def answers(self, **instead: str) -> bool:
        """Whether a metadata request comes back with a broker in it. ``instead``: see ``admin``."""
        try:
            return bool(self.admin(**instead).list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def ensure_running(self) -> None:
        """Nothing to do: it is not ours."""

    def start(self) -> None:
        """Ours alone can be started: see ``OwnBroker``."""
        pytest.skip("DUTYCYCLE_TEST_BROKER names a running broker, which a test must not start or stop")

    stop = kill = start

    def _security(self) -> dict[str, str]:
        if self.certificates is None:
            return {}
        return {
            "security.protocol": "SASL_SSL", "ssl.ca.location": str(self.certificates.authority),
            "sasl.mechanism": MECHANISM, "sasl.username": USERNAME, "sasl.password": PASSWORD,
        }  # fmt: skip


class OwnBroker(RunningBroker):
    """A broker of the tests. Ports and data outlive ``stop`` and ``kill``: ``start`` goes on with them.

    All methods block; in an async test call them by ``await asyncio.to_thread(broker.stop)``.
    """

    session_timeout = "4s"

    def __init__(self, *, secure: bool = False, advertised: int | None = None) -> None:
        self._class_path = jars.class_path()
        self._folder = Path(tempfile.mkdtemp(prefix="dutycycle-kafka-"))
        certificates = make_certificates(self._folder) if secure else None
        ports = Ports(free_port(), free_port(), free_port(), advertised)
        scheme = "kafka+ssl" if secure else "kafka"
        super().__init__(f"{scheme}://127.0.0.1:{ports.clients}", certificates)
        self._properties = self._folder / "server.properties"
        self._properties.write_text(render(self._folder, ports, certificates))
        self._process: ServerProcess | None = None
        user = (
            ["--add-scram", f"{MECHANISM}=[name={USERNAME},password={PASSWORD}]"] if self.certificates else []
        )
        tool = ["-cp", self._class_path, "kafka.tools.StorageTool", "format", "--cluster-id", _cluster_id()]
        command = [*_JAVA, *tool, "--config", str(self._properties), *user]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder)
        if done.returncode:
            raise RuntimeError(f"StorageTool failed: {done.stdout}{done.stderr}")
        self._classes = archive_classes(self._class_path, self._started)

    def start(self) -> None:
        """Start it, and wait until it answers a client's metadata request."""
        self._process = self._started(self._classes)

    def _started(self, options: list[str]) -> ServerProcess:
        java = [*_JAVA, *_HEAP, *options, "-cp", self._class_path]
        process = ServerProcess([*java, "kafka.Kafka", str(self._properties)], self._folder / "kafka.log")
        process.wait_until(self.answers, _START_S)
        return process

    def stop(self) -> None:
        """SIGTERM: the broker hands over and ends. Clients see an outage."""
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        """SIGKILL: the broker is gone in the middle of what it did."""
        if self._process:
            self._process.kill()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP: its connections stay open, and nothing is answered until the block ends."""
        if self._process is None:
            raise RuntimeError("not started")
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def stored_bytes(self, topic: str) -> int:
        """The bytes of a topic's records on disk, batches as producers have compressed them."""
        return sum(log.stat().st_size for log in self._folder.glob(f"data/{glob.escape(topic)}-[0-9]*/*.log"))

    def ensure_running(self) -> None:
        """Start it again if the test before left it stopped."""
        if not (self._process and self._process.running()):
            self.start()

    def discard(self) -> None:
        """End it, and remove its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _wait_for_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    """The controller answers first, and the broker serves the topic a moment later."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        known = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
        if len(known) == partitions and all(one.leader >= 0 for one in known):
            return
        time.sleep(0.02)
    raise TimeoutError(f"topic {topic} has no leaders after 120 s")


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def _cluster_id() -> str:
    return uuid.uuid4().hex[:22]  # Kafka wants 22 characters of URL-safe base64
