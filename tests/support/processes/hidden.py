"""An interpreter in which some packages are not installed: what a smaller installation has."""

import re
from collections.abc import Collection
from importlib.metadata import packages_distributions
from pathlib import Path

_PROGRAM = """\
import sys
from importlib.machinery import PathFinder
HIDDEN = {names!r}
class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition('.')[0] in HIDDEN else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Visible
"""


def hide_modules(folder: Path, names: Collection[str]) -> dict[str, str]:
    """Write into ``folder`` what makes these modules absent; the environment of such a Python."""
    (folder / "sitecustomize.py").write_text(_PROGRAM.format(names=set(names)))
    return {"PYTHONPATH": str(folder)}


def locked(lock: Path) -> dict[str, str]:
    """The versions of the packages of a lock file, by normalized name."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def modules_beyond(lock: Path) -> set[str]:
    """The modules that are installed here by packages that are not in the lock file, nor ours."""
    kept = {*locked(lock), "dutycycle"}
    return {
        module
        for module, packages in packages_distributions().items()
        if not kept & {re.sub(r"[-_.]+", "-", package).lower() for package in packages}
    }
