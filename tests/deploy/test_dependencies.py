"""What is declared, locked and imported: the same packages, and no more where it has to be small."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.deploy.compose_file import ROOT
from tests.support.processes.commands import environ, read_now, running
from tests.support.processes.hidden import hide_modules, locked, modules_beyond
from tests.support.waiting import wait_until

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("collectors", "streams", "sinks", "dutycycle")
FRAMEWORKS = {"keras", "lightning", "pytorch_lightning", "tensorflow", "torch", "transformers"}
"""Of the user's own training, which imports ``dutycycle.callbacks``."""
BY_NAME = {"psycopg"}
"""What SQLAlchemy imports for us."""
_IMPORT = re.compile(
    r"^( *)(?:from (?=[\w.]+ import )|import (?=[\w.]+(?: as \w+)?(?: *#.*)?$))(\w+)", re.MULTILINE
)
"""Its indent and the module. To parse all code takes seconds."""


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", one)[0].lower() for one in requirements}


DEFAULT = names_of(PROJECT["dependencies"])
EXTRA = names_of([*PROJECT["optional-dependencies"]["models"], *PROJECT["optional-dependencies"]["parquet"]])


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The top-level modules that a file imports, and whether it does so as it is imported itself."""
    for indent, module in _IMPORT.findall(path.read_text()):
        yield module, not indent


@cache
def installed() -> dict[str, set[str]]:
    """The packages here by the modules that they install."""
    return {
        module: {re.sub(r"[-_.]+", "-", package).lower() for package in packages}
        for module, packages in packages_distributions().items()
    }


def packages_of(module: str) -> set[str]:
    return installed().get(module, set())


Imports = list[tuple[Path, str, bool]]


@pytest.fixture(scope="module")
def third_party() -> Imports:
    """Each import of a module that is not ours nor Python's: file, module, whether it is at the top."""
    return [
        (path, module, at_once)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for module, at_once in imports(path)
        if module not in {*sys.stdlib_module_names, *FOLDERS, *FRAMEWORKS}
    ]


def test_what_is_imported_is_declared_and_what_is_declared_is_imported(third_party: Imports) -> None:
    used: set[str] = set(BY_NAME)
    for path, module, _ in third_party:
        declared = packages_of(module) & (DEFAULT | EXTRA)
        assert declared, f"{path}: {module} is of no package in pyproject.toml"
        used |= declared
    assert used == DEFAULT | EXTRA


def test_what_an_extra_brings_is_imported_only_where_it_is_used(third_party: Imports) -> None:
    """Else a command would end for want of what it does not use. Estimators are for those who have River."""
    at_once = {
        path.relative_to(ROOT).parent.as_posix()
        for path, module, is_at_once in third_party
        if is_at_once and packages_of(module) & EXTRA
    }
    assert at_once == {"streams/operators/estimators"}


@pytest.mark.parametrize(
    "name", ["requirements-all.lock", "requirements-collector.lock", "requirements-dev.lock"]
)
def test_the_locks_agree(name: str) -> None:
    versions, others = locked(ROOT / "requirements.lock"), locked(ROOT / name)
    assert {package: versions[package] for package in versions.keys() & others.keys()} == {
        package: others[package] for package in versions.keys() & others.keys()
    }


def test_each_lock_has_what_it_is_for() -> None:
    default = locked(ROOT / "requirements.lock").keys()
    assert default >= DEFAULT
    assert not default & EXTRA
    assert locked(ROOT / "requirements-all.lock").keys() >= default | EXTRA
    assert locked(ROOT / "requirements-collector.lock").keys() < default
    assert not locked(ROOT / "requirements-collector.lock").keys() & {
        "numpy",
        "numba",
        "matplotlib",
        "kubernetes",
    }


def test_what_a_collector_imports_is_in_its_lock(third_party: Imports) -> None:
    lock = locked(ROOT / "requirements-collector.lock").keys()
    missing = {module for path, module, _ in third_party if path.is_relative_to(ROOT / "collectors")
               and not packages_of(module) & lock}  # fmt: skip
    assert missing == set()


def test_a_collector_runs_with_what_its_lock_has(tmp_path: Path) -> None:
    """On every node: nothing else is importable there."""
    hidden = modules_beyond(ROOT / "requirements-collector.lock")
    assert {"faust", "numpy", "rich", "sqlalchemy"} <= hidden
    with EmbeddedBroker({f"dutycycle.{name}": 1 for name in SAMPLE_TOPICS}) as broker:
        env = environ(broker=broker.url, spool=str(tmp_path / "spool"), kubernetes="off", containers="all")
        settings, log = load({}, {"broker": broker.url}), tmp_path / "log"
        with running("collect", env=env | hide_modules(tmp_path, hidden), log=log):
            wait_until(lambda: bool(read_now(settings, ["cgroup-samples"])), log.read_text)


@pytest.mark.parametrize("name", ["up", "stream", "sink", "replay"])
def test_another_command_says_what_a_collectors_environment_lacks(name: str, tmp_path: Path) -> None:
    env = environ(broker="kafka://127.0.0.1:1") | hide_modules(
        tmp_path, modules_beyond(ROOT / "requirements-collector.lock")
    )
    (tmp_path / "t.jsonl").touch()
    more = [str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "out")] if name == "replay" else []
    done = subprocess.run(
        [sys.executable, "-m", "dutycycle", name, *more], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"dutycycle: the package \w+ is not installed: pip install 'dutycycle'", done.stderr.splitlines()[-1]
    ), done.stderr
