"""Goal: what a help shows as an example works as it stands there.

The examples are those of the parsers. Each is a line for a shell, in a folder with the files that it names;
only hosts, ports and the namespace are put in the place of those in the line.
"""

import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.cli.main import COMMANDS, build_parser, main
from dutycycle.kubectl import cli as kubectl
from dutycycle.parser import Parser
from dutycycle.process import SERVICES
from tests.support.data.prometheus_history import HOUR_S, history
from tests.support.kubectl.plugin_user import install
from tests.support.processes import warm
from tests.support.processes.commands import STOP_S
from tests.support.processes.examples import annotate, broker_of, environ_of, write_files
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import program
from tests.support.servers.ports import free_port
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.waiting import DEADLINE_S, wait_until

PARSERS = [*build_parser(COMMANDS).all_parsers(), *kubectl.build_parser().all_parsers()]
EXAMPLES = [example for parser in PARSERS for example in parser.examples]
PROGRAMS = ("jq",)
HISTORY_H = 0.2
_TRIAL = "tests/e2e/kube/test_trial.py"
_HEALTH = "tests/dutycycle/cli/test_health.py"
ELSEWHERE = {
    "dutycycle health": _HEALTH,
    """dutycycle health --format json | jq '.[] | select(.level != "healthy")'""": _HEALTH,
    "dutycycle run job.yaml -n research --timeout 2h": "tests/e2e/kube/test_run_job.py",
    "dutycycle trial train.yaml --gpus 1,2,4": _TRIAL,
    "dutycycle trial train.yaml --pods 2,4 --placement packed,spread --for 3m --budget 120": _TRIAL,
}
"""What needs controllers and a kubelet, or GPUs."""


@pytest.mark.parametrize("parser", PARSERS, ids=lambda one: one.prog)
def test_each_help_has_one_to_three_at_its_end(parser: Parser) -> None:
    lines = parser.format_help().splitlines()
    assert 1 <= len(parser.examples) <= 3
    assert lines[-len(parser.examples) - 1 :] == ["examples:", *(f"  {one}" for one in parser.examples)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def broker(files: Path) -> Iterator[str]:
    with broker_of(files / "day.jsonl.zst") as url:
        yield url


@pytest.fixture(scope="module")
def prometheus_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    start_s = int(time.time() - HISTORY_H * HOUR_S)
    server = Prometheus(
        tmp_path_factory.mktemp("prometheus"), scrape([]), history=history(start_s, HISTORY_H)
    )
    yield server.url
    server.stop()


@pytest.fixture
def filled_postgres_url(files: Path, postgres_url: str) -> str:
    assert main(["replay", str(files / "day.jsonl.zst"), "--records", postgres_url]) == 0
    return postgres_url


@pytest.fixture
def folder(files: Path, tmp_path: Path) -> Path:
    shutil.copytree(files, tmp_path / "home")
    (tmp_path / "home/bin").mkdir()
    return tmp_path / "home"


PLACES = {
    "kafka://kafka:9092": "broker",
    "http://prometheus:9090": "prometheus_url",
    "postgresql+psycopg://dutycycle@db/dutycycle": "filled_postgres_url",
}
"""What an example says, and the fixture with the place that is meant here."""


def placed(example: str, port: int, request: pytest.FixtureRequest) -> str:
    for name, fixture in PLACES.items():
        if name in example:
            example = example.replace(name, request.getfixturevalue(fixture))
    return example.replace("0.0.0.0:6443", f"127.0.0.1:{free_port()}").replace("127.0.0.1:19470", f":{port}")


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_works(example: str, folder: Path, request: pytest.FixtureRequest) -> None:
    if example in ELSEWHERE:
        assert f'"{example.split()[1]}"' in Path(ELSEWHERE[example]).read_text()
        pytest.skip(f"is run by {ELSEWHERE[example]}")
    arguments = example.split()
    for name in PROGRAMS:
        if name in arguments:
            program(name)
    # What the example writes may be there, as others read it.
    out = folder / arguments[arguments.index("--out") + 1] if "--out" in arguments else folder / "nothing"
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    port = free_port()
    line, more = placed(example, port, request), dict[str, str]()
    if " adapter " in line:
        subprocess.run(
            [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=adapter",
             "-keyout", "tls.key", "-out", "tls.crt"],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
    if " webhook " in line:
        (folder / "policy.toml").write_text("stretch = 4.0\n")
    on_kube = (
        "kubectl",
        *(f"dutycycle {name}" for name in ("remove", "adapter", "webhook", "trial", "cull")),
    )
    if line.startswith(on_kube):
        kube: Kube = request.getfixturevalue("kube")
        namespace: str = request.getfixturevalue("namespace")
        annotate(kube, namespace)
        install(folder / "bin")
        (folder / "bin/kubectl").symlink_to(kube.programs.kubectl)
        line = line.replace("-n research", f"-n {namespace}").replace("team-a", namespace)
        more = {"KUBECONFIG": str(kube.admin.kubeconfig)}
    env = environ_of(folder, listen=f"127.0.0.1:{port}") | more
    _, command, *others = [argument for argument in arguments if "=" not in argument]
    if command in (*SERVICES, "top") and not {"--duration", "--once"} & set(others):
        return serves(line, folder, env, port)
    warm.install(folder / "bin")
    if " healthy " in line or " top --broker" in line:  # of what runs now
        with started("dutycycle collect --broker " + request.getfixturevalue("broker"), folder, env, port):
            return ends_well(line, folder, env)
    return ends_well(line, folder, env)


def ends_well(line: str, folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=folder, env=env, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr


def serves(line: str, folder: Path, env: dict[str, str], port: int) -> None:
    with started(line, folder, env, port):
        pass


class started:  # noqa: N801 - a context manager
    """A service that is ready, and ends well when it is asked to."""

    def __init__(self, line: str, folder: Path, env: dict[str, str], port: int) -> None:
        self._line, self._log = line, folder / "log"
        self._url = f"http://127.0.0.1:{port}/readyz"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", line], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> None:
        try:
            wait_until(self._is_ready, self._log.read_text)
        except BaseException:
            self._process.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(STOP_S) == 0, self._log.read_text()
        finally:
            self._process.kill()

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        if " top " in self._line:  # it serves nobody, but shows something
            return self._log.stat().st_size > 0
        try:
            with urllib.request.urlopen(self._url, timeout=60) as page:  # noqa: S310 - of this machine
                return bool(page.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False
