"""The compose file as data, as its defaults fill it in."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "docker-compose.yml"
GPU = ROOT / "docker-compose.gpu.yml"

_DEFAULTED = re.compile(r"\$\{(\w+):-([^}]*)\}")


def services(file: Path = COMPOSE) -> dict[str, Any]:
    """Services by name, with ``${NAME:-default}`` replaced by the default."""
    found: dict[str, Any] = yaml.safe_load(_DEFAULTED.sub(r"\2", file.read_text()))["services"]
    return found


def variables() -> set[str]:
    """The names in ``${…}``, which the person who runs it may set."""
    return {name for name, _ in _DEFAULTED.findall(COMPOSE.read_text())}
