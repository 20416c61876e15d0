"""cert-manager's CustomResourceDefinitions, from its pinned Go module. Its controllers are of a module that
no proxy has: they are not built.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.kube.go import go_command
from tests.support.servers.missing import run_or_miss

_MODULE = "github.com/cert-manager/cert-manager"
_MOST_S = 600


def cert_manager_kinds() -> Iterator[dict[str, Any]]:
    """Each kind of the group ``cert-manager.io``, as it is installed. Raises ``ServerMissingError``."""
    folder = Path(__file__).parent
    command = [*go_command(folder), "mod", "download", "-json", _MODULE]
    answer = run_or_miss(command, f"downloading {_MODULE}", _MOST_S, folder=folder)
    for file in sorted(Path(json.loads(answer)["Dir"]).glob("deploy/crds/cert-manager.io_*.yaml")):
        yield yaml.safe_load(file.read_text(encoding="utf-8"))
