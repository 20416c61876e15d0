"""cert-manager's CustomResourceDefinitions, from its pinned Go module. Its controllers are of a module that
no proxy has: they are not built.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.kube.go import go_command
from tests.support.servers.missing import ServerMissingError

_MODULE = "github.com/cert-manager/cert-manager"
_MOST_S = 600


def cert_manager_kinds() -> Iterator[dict[str, Any]]:
    """Each kind of the group ``cert-manager.io``, as it is installed. Raises ``ServerMissingError``."""
    folder = Path(__file__).parent
    done = subprocess.run(
        [*go_command(folder), "mod", "download", "-json", _MODULE], cwd=folder, timeout=_MOST_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ServerMissingError(f"{_MODULE} could not be downloaded: {(done.stdout + done.stderr)[-500:]}")
    for file in sorted(Path(json.loads(done.stdout)["Dir"]).glob("deploy/crds/cert-manager.io_*.yaml")):
        yield yaml.safe_load(file.read_text(encoding="utf-8"))
