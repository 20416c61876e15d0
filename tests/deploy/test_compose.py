"""docker-compose.yml: read by compose itself, and each service checked for what it must and must not have."""

import asyncio
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load, near_misses
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.telemetry.endpoint import PORTS, Address, where
from dutycycle.telemetry.events import Telemetry
from sinks.serve.service import run
from tests.support.deploy.compose_file import COMPOSE, GPU, ROOT, services, variables
from tests.support.kafka import all_topics
from tests.support.processes.commands import run_to_end
from tests.support.servers.compose import compose_command
from tests.support.servers.missing import ServerMissingError
from tests.support.servers.ports import free_port
from tests.support.waiting import until

SERVICES = services()
OURS = {
    "collector": "collect", "prometheus-collector": "collect", "streams": "stream", "sinks": "sink",
    "metrics": "metrics", "web": "web",
}  # fmt: skip
COMMANDS = OURS | {"metrics": "sink --metrics", "web": "serve --roles web"}
SERVERS = sorted(SERVICES.keys() - OURS.keys())
ACCOUNT = r"[a-z0-9/]+"


def each(names: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", sorted(names))


@pytest.mark.parametrize("files", [[COMPOSE], [COMPOSE, GPU]], ids=["plain", "gpu"])
def test_compose_accepts_it(files: list[Path]) -> None:
    try:
        command = compose_command()
    except ServerMissingError as reason:  # not demanded in CI: it comes with Docker, or must be compiled
        pytest.skip(str(reason))
    chosen = [part for file in files for part in ("--file", str(file))]
    done = subprocess.run(
        [*command, *chosen, "config", "--quiet"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@each(OURS)
def test_its_command_exists(name: str) -> None:
    command = SERVICES[name]["command"]
    assert command == COMMANDS[name].split()
    done = run_to_end(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")


@each(OURS)
def test_its_settings_are_known_and_valid(name: str, tmp_path: Path) -> None:
    given = {key: str(value) for key, value in SERVICES[name]["environment"].items() if value is not None}
    assert near_misses(given) == []
    known = {"DUTYCYCLE_" + field.upper() for field in Settings.__dataclass_fields__}
    assert SERVICES[name]["environment"].keys() <= known
    if "DUTYCYCLE_HOST_ROOT" in given:  # a folder of the container
        given["DUTYCYCLE_HOST_ROOT"] = str(tmp_path)
    if "DUTYCYCLE_WEB_TOKEN" in given:
        given["DUTYCYCLE_WEB_TOKEN"] = str(tmp_path / "token")
    settings = load(given)
    host, port = (settings.broker or "").removeprefix("kafka://").split(":")
    assert host in SERVICES
    assert f"INSIDE://:{port}," in SERVICES["kafka"]["environment"]["KAFKA_LISTENERS"]


@each(OURS)
def test_ours_run_with_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert "user" not in service  # the image's own, which is not root


Service = dict[str, Any]
RULES: dict[str, Callable[[Service], bool]] = {
    "it is not privileged": lambda service: not service.get("privileged") and "cap_add" not in service,
    "its network is its own": lambda service: service.get("network_mode") is None,
    "it does not have Docker's socket": lambda service: (
        not any("docker.sock" in v for v in service.get("volumes", ()))
    ),
    "its ports are published on loopback alone": lambda service: all(
        re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service.get("ports", ())
    ),
    "it says whether it is well": lambda service: (
        service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
        and {"interval", "timeout", "retries", "start_period"} <= service["healthcheck"].keys()
    ),
    "it comes back": lambda service: service["restart"] == "unless-stopped",
    "its log is bounded": lambda service: {"max-size", "max-file"} <= service["logging"]["options"].keys(),
    "it waits for health where there is a check": lambda service: all(
        wait["condition"] == "service_healthy" and "healthcheck" in SERVICES[other]
        for other, wait in service.get("depends_on", {}).items()
    ),
}


@each(SERVICES)
@pytest.mark.parametrize("rule", RULES)
def test_a_service_keeps_the_rules_of_all(name: str, rule: str) -> None:
    assert RULES[rule](SERVICES[name])


async def test_the_page_starts_and_asks_for_the_token_that_it_has_made(tmp_path: Path) -> None:
    """As in its container, but for the names of the others and the folder of its volume."""
    service, file = SERVICES["web"], tmp_path / "web-token"
    environment = service["environment"]
    host, port = environment["DUTYCYCLE_SERVE_LISTEN"].split(":")
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    volume, folder = service["volumes"][0].split(":")
    assert environment["DUTYCYCLE_WEB_TOKEN"] == f"{folder}/{file.name}"
    assert volume in yaml.safe_load(COMPOSE.read_text())["volumes"], "a token outlives its container"
    listen = f"127.0.0.1:{free_port()}"
    with EmbeddedBroker(all_topics()) as broker:
        settings = load(environment | {
            "DUTYCYCLE_BROKER": broker.url, "DUTYCYCLE_RECORDS": f"sqlite:///{tmp_path}/records.db",
            "DUTYCYCLE_SERVE_LISTEN": f"{host}:{listen.split(':')[1]}", "DUTYCYCLE_WEB_TOKEN": str(file),
            "DUTYCYCLE_PARTITIONS": "1", "DUTYCYCLE_PROMETHEUS": "http://127.0.0.1:9",
        })  # fmt: skip
        stop = asyncio.Event()
        telemetry = Telemetry("web")
        task = asyncio.create_task(run(("web",), settings, telemetry, stop))
        await until(lambda: telemetry.status.readiness_error() is None, working=task)
        async with ClientSession(f"http://{listen}") as client:
            signed_in = {"Authorization": f"Bearer {file.read_text().strip()}"}
            while await _status(client, signed_in) == 503:  # noqa: ASYNC110 - it says so until it answers
                await asyncio.sleep(0.05)
            assert [await _status(client, headers) for headers in ({}, signed_in)] == [303, 200]
        stop.set()
        await task


async def _status(client: ClientSession, headers: dict[str, str]) -> int:
    async with client.get("/fleet", headers=headers, allow_redirects=False) as answer:
        return answer.status


def test_the_collector_sees_the_host_and_cannot_write_to_it() -> None:
    collector = SERVICES["collector"]
    root = collector["environment"]["DUTYCYCLE_HOST_ROOT"]
    assert (collector["pid"], collector["uts"]) == ("host", "host")
    assert {f"/proc:{root}/proc:ro", f"/sys:{root}/sys:ro"} <= set(collector["volumes"])
    spool_volume = collector["volumes"][-1].split(":")[1]
    assert Path(spool_volume) in Path(collector["environment"]["DUTYCYCLE_SPOOL"]).parents


@each(SERVERS)
def test_images_of_others_are_pinned(name: str) -> None:
    repository, _, tag = SERVICES[name]["image"].partition(":")
    assert re.fullmatch(ACCOUNT, repository)
    assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?(-\w+)?", tag), tag
    assert "build" not in SERVICES[name]


@each(OURS)
def test_ours_are_asked_where_they_answer(name: str) -> None:
    service = SERVICES[name]
    process, listen = OURS[name], service["environment"]["DUTYCYCLE_LISTEN"]
    assert listen == f"0.0.0.0:{PORTS[process]}"
    assert service["healthcheck"]["test"] == ["CMD", "dutycycle", "healthy", "--ready", process]
    assert where(process, listen) == Address("127.0.0.1", PORTS[process])
    published = [port.rpartition(":")[2] for port in service.get("ports", ())]
    assert str(PORTS[process]) not in published, "figures are for Prometheus, which is in the same network"
    assert published == (["8890"] if name == "web" else [])
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    jobs = {job["job_name"]: job for job in scraped}
    job = jobs[f"dutycycle-{process}"]
    if "profiles" in service:
        assert job["dns_sd_configs"] == [{"names": [name], "type": "A", "port": PORTS[process]}]
    else:
        assert job["static_configs"] == [{"targets": [f"{name}:{PORTS[process]}"]}]


def test_volumes_are_declared_and_bound_files_exist() -> None:
    declared = yaml.safe_load(COMPOSE.read_text())["volumes"].keys()
    sources = {volume.split(":")[0] for one in SERVICES.values() for volume in one.get("volumes", ())}
    named = {source for source in sources if not source.startswith((".", "/"))}
    assert named == declared
    assert all((ROOT / source).exists() for source in sources if source.startswith("."))


def test_every_variable_is_explained() -> None:
    explained = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(), flags=re.MULTILINE))
    assert variables() <= explained
    given = [one.get("environment", {}) for one in SERVICES.values()]
    by_name = {name for one in given for name, value in one.items() if value is None}
    assert explained - variables() == by_name


def test_the_trial_passwords_are_variables() -> None:
    for line in COMPOSE.read_text().splitlines():
        if "PASSWORD" in line and not line.lstrip().startswith("#"):
            assert re.search(r"\$\{\w*PASSWORD:-local-trial\}", line), line


def test_the_gpu_file_adds_to_a_service_that_exists() -> None:
    assert services(GPU).keys() <= SERVICES.keys()
