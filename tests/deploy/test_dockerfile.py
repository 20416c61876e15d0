"""The Dockerfile: what can be said of it without an engine."""

import fnmatch
import re
import sys
import tomllib

import pytest

from tests.support.deploy.compose_file import ROOT, services
from tests.support.processes.hidden import locked

TEXT = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line.strip() and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def arguments(instruction: str) -> list[str]:
    return [line[1] for line in LINES if line[0] == instruction]


def copied_from_here() -> list[str]:
    """Every file or folder that the build context must bring."""
    copies = [words.split() for words in arguments("COPY") if not words.startswith("--from")]
    return [source for words in copies for source in words[:-1]]


def test_images_are_pinned_and_have_a_python_that_fits() -> None:
    images = [words.split()[0] for words in arguments("FROM")]
    stages = {words.split()[2] for words in arguments("FROM") if " AS " in words}
    for image in set(images) - stages:
        found = re.fullmatch(r"python:(\d+)\.(\d+)\.\d+-slim-\w+", image)
        assert found, image
        assert (int(found[1]), int(found[2])) == sys.version_info[:2]  # the lock's


def test_it_does_not_run_as_root() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", arguments("USER")[-1])
    assert LINES.index(["USER", arguments("USER")[-1]]) < LINES.index(["ENTRYPOINT", '["dutycycle"]'])


def test_what_it_copies_exists_and_is_let_through() -> None:
    ignore = (ROOT / ".dockerignore").read_text().split("\n")
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    assert set(copied_from_here()) == allowed
    assert all((ROOT / source).exists() for source in allowed)


def test_it_copies_every_package() -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    ours = {name for name in packages if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)}
    assert ours == {source for source in copied_from_here() if (ROOT / source).is_dir()}


def test_it_copies_what_the_wheel_is_described_by() -> None:
    project = PROJECT["project"]
    assert {project["readme"], *project["license-files"]} <= set(copied_from_here())


def test_it_has_every_part_of_the_pipeline_or_that_of_the_lock_that_is_asked_for() -> None:
    assert arguments("ARG") == ["LOCK=requirements.lock"]
    assert '--require-hashes --only-binary=:all: --requirement="${LOCK}"' in TEXT
    for service in ("collector", "prometheus-collector"):
        lock = services()[service]["build"]["args"]["LOCK"]
        assert lock == "requirements-collector.lock"
        assert lock in copied_from_here()


def test_what_builds_the_wheel_is_locked() -> None:
    assert "pip install --require-hashes --requirement=requirements-build.lock" in arguments("RUN")
    wanted = {re.split("[<>=]", one)[0] for one in PROJECT["build-system"]["requires"]}
    assert locked(ROOT / "requirements-build.lock").keys() >= wanted


def test_what_compose_names_is_among_what_is_installed() -> None:
    assert "psycopg" in services()["sinks"]["environment"]["DUTYCYCLE_RECORDS"]
    assert "psycopg-binary" in locked(ROOT / "requirements.lock")


@pytest.mark.parametrize(
    ("service", "image"),
    [("collector", "dutycycle-collector"), ("streams", "dutycycle"), ("sinks", "dutycycle")],
)
def test_the_image_has_the_projects_version(service: str, image: str) -> None:
    assert services()[service]["image"] == f"{image}:{PROJECT['project']['version']}"


def test_loops_are_compiled_when_the_image_is_built() -> None:
    """With streams in it; numba is not in a collector's image."""
    (compile_,) = (words for words in arguments("RUN") if "streams.compile" in words)
    assert compile_.startswith('! /opt/dutycycle/bin/python -c "import numba" || ')
    assert LINES.index(["RUN", compile_]) < LINES.index(
        ["COPY", "--from=installed /opt/dutycycle /opt/dutycycle"]
    )
