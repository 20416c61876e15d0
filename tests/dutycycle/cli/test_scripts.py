"""What pip puts on PATH: each script names a function that is there."""

import tomllib
from importlib import import_module
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def test_every_script_can_be_called() -> None:
    for name, place in PROJECT["scripts"].items():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function)), name


def test_kubectl_finds_the_plugin_and_its_completion_by_their_names() -> None:
    assert {"kubectl-dutycycle", "kubectl_complete-dutycycle"} <= PROJECT["scripts"].keys()
