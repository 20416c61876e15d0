"""Holds everything that knows Faust's insides: app, consumer, producer, assignor, runner.

May import: ``kafka`` and what lies below it.
"""

import sys
from types import ModuleType

if "aiohttp" not in sys.modules:
    # Faust's types are imported without it: it is a sixth of a worker's start, for the type of an attribute
    # that nothing here uses. Who needs it imports it as ever.
    _client = ModuleType("aiohttp.client")
    vars(_client)["ClientSession"] = object
    sys.modules |= {"aiohttp": ModuleType("aiohttp"), "aiohttp.client": _client}
    try:
        import faust.types.web  # noqa: F401
    finally:
        del sys.modules["aiohttp"], sys.modules["aiohttp.client"]
