"""The compose file's Kafka settings, tried on the real Kafka of the same version."""

import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.deploy.compose_file import ROOT, services
from tests.support.servers.kafka import jars
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess

pytestmark = pytest.mark.kafka
KAFKA = services()["kafka"]


def test_the_tests_have_the_same_version() -> None:
    pom = ET.parse(ROOT / "tests/support/servers/kafka/pom.xml")  # noqa: S314 - our own file
    version = pom.findtext(".//{*}dependency[{*}artifactId='kafka_2.13']/{*}version")
    assert KAFKA["image"] == f"apache/kafka:{version}"


@pytest.fixture
def ports() -> dict[str, int]:
    """A free port for each that the container would have."""
    return {port: free_port() for port in ("19092", "9092", "9093")}


@pytest.fixture
def broker(ports: dict[str, int], tmp_path: Path) -> Iterator[ServerProcess]:
    properties = tmp_path / "server.properties"
    # The environment as the image turns it into properties, with this machine's addresses.
    text = "".join(
        f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={value}\n"
        for name, value in KAFKA["environment"].items()
        if name not in {"CLUSTER_ID", "KAFKA_HEAP_OPTS"}
    )
    text = re.sub(r"//kafka:|//:", "//127.0.0.1:", text).replace("@kafka:", "@127.0.0.1:")
    text = re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda port: str(ports[port[0]]), text)
    properties.write_text(text.replace(KAFKA["environment"]["KAFKA_LOG_DIRS"], str(tmp_path / "data")))
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars.class_path()]
    cluster = ["--cluster-id", KAFKA["environment"]["CLUSTER_ID"], "--config", str(properties)]
    subprocess.run([*java, "kafka.tools.StorageTool", "format", *cluster], check=True, capture_output=True)
    process = ServerProcess([*java, "kafka.Kafka", str(properties)], tmp_path / "kafka.log")
    yield process
    process.kill()


def test_it_starts_and_creates_no_topic_by_itself(broker: ServerProcess, ports: dict[str, int]) -> None:
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports['9092']}", "log_level": 0})
    broker.wait_until(lambda: _metadata(client) is not None, 90)
    assert _metadata(client) == [f"127.0.0.1:{ports['9092']}"]
    client.list_topics("never-made", timeout=60)
    assert "never-made" not in client.list_topics(timeout=60).topics


def _metadata(client: AdminClient) -> list[str] | None:
    try:
        return [f"{one.host}:{one.port}" for one in client.list_topics(timeout=2).brokers.values()]
    except Exception:  # noqa: BLE001 - librdkafka's, for whatever is not yet there
        return None
