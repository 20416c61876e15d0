"""Holds everything that knows Faust's insides: app, consumer, producer, assignor, runner.

May import: ``kafka`` and what lies below it.
"""

import sys
from types import ModuleType


def _import_types() -> None:
    """Import Faust's types without aiohttp: it is a sixth of a worker's start, for the type of an attribute
    that nothing here uses. Who needs it imports it as ever."""
    client = ModuleType("aiohttp.client")
    vars(client)["ClientSession"] = object
    sys.modules |= {"aiohttp": ModuleType("aiohttp"), "aiohttp.client": client}
    try:
        import faust.types.web  # noqa: F401
    finally:
        del sys.modules["aiohttp"], sys.modules["aiohttp.client"]


if "aiohttp" not in sys.modules:
    _import_types()
