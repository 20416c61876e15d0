"""River's Page-Hinkley test without the package around it.

``river.drift`` imports all its detectors and data sets, and with them scipy.stats: seconds of every start.
"""

from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import river


def _load() -> Any:
    name = "river.drift.page_hinkley"
    spec = spec_from_file_location(name, f"{river.__path__[0]}/drift/page_hinkley.py")
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module {name}", name=name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PageHinkley


PageHinkley: Any = _load()
