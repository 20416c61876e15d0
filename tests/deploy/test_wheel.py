"""The wheel and the sdist: what is in them, and that they run where nothing else is installed."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.parser import Parser
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.deploy.compose_file import ROOT
from tests.support.processes.hidden import locked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
FOLDERS = {"collectors", "streams", "sinks", "dutycycle"}
INFO = f"dutycycle-{VERSION}.dist-info"
NOT_RUN = {"collectors/attribution/kubelet/api.proto"}
"""What others are made from."""


def tree() -> set[str]:
    """Every file of the four folders, as git has them."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built of a copy, with the setuptools that is here."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> ZipFile:
    return ZipFile(built / f"dutycycle-{VERSION}-py3-none-any.whl")


def test_the_wheel_installs_four_names_and_nothing_else(wheel: ZipFile) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {*FOLDERS, INFO}


def test_the_wheel_and_the_sdist_have_every_file(wheel: ZipFile, built: Path) -> None:
    assert {name for name in wheel.namelist() if not name.startswith(INFO)} == tree() - NOT_RUN
    with tarfile.open(built / f"dutycycle-{VERSION}.tar.gz") as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert tree() - NOT_RUN | {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_its_metadata(wheel: ZipFile) -> None:
    found = Parser().parsestr(wheel.read(f"{INFO}/METADATA").decode())
    assert (found["Name"], found["Version"], found["Requires-Python"]) == ("dutycycle", VERSION, ">=3.11")
    assert (found["License-Expression"], found["License-File"]) == ("Apache-2.0", "LICENSE")
    assert {"models", "parquet", "all"} <= set(found.get_all("Provides-Extra", []))
    default = [one for one in found.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert len(default) == len(PROJECT["dependencies"])
    assert f"## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text()


def test_its_commands_are_functions(wheel: ZipFile) -> None:
    lines = wheel.read(f"{INFO}/entry_points.txt").decode().splitlines()
    commands = dict(line.split(" = ") for line in lines if " = " in line)
    assert commands.keys() == {"dutycycle", "kubectl-dutycycle", "kubectl_complete-dutycycle"}
    for target in commands.values():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function))
        assert f"{module.replace('.', '/')}.py" in wheel.namelist()


def test_its_metadata_can_be_published(built: Path) -> None:
    files = map(str, [*built.glob("*.whl"), *built.glob("*.tar.gz")])
    check = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_release_runs_where_nothing_else_is_installed(tmp_path: Path) -> None:
    """``make dist``; it needs a registry of packages."""
    env = os.environ | {"DIST": str(tmp_path / "dist")}
    done = subprocess.run([ROOT / ".ci" / "dist"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    files = {path.name for path in (tmp_path / "dist").iterdir()}
    bill = f"dutycycle-{VERSION}.cdx.json"
    assert files == {f"dutycycle-{VERSION}-py3-none-any.whl", f"dutycycle-{VERSION}.tar.gz", bill}
    found = json.loads((tmp_path / "dist" / bill).read_text())
    assert (found["bomFormat"], found["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    parts = {part["name"].lower().replace("_", "-"): part["version"] for part in found["components"]}
    assert parts == locked(ROOT / "requirements.lock")
