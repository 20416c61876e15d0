"""Builds prometheus-adapter into the cache folder, and finds it there."""

import tempfile
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.kube.go_build import built_folder, go_build
from tests.support.servers.missing import ServerMissingError

_HERE = Path(__file__).parent
_PACKAGE = "sigs.k8s.io/prometheus-adapter/cmd/adapter"


def find_prometheus_adapter() -> Path:
    """The program, without building it. Raises ``ServerMissingError`` that says how to get it."""
    if not _cached().exists():
        raise ServerMissingError("prometheus-adapter is not built (make servers builds it; it needs Go)")
    return _cached()


def build_prometheus_adapter() -> None:
    """Build it, unless it is there. Raises ``ServerMissingError`` where that cannot be."""
    with locked("prometheus-adapter"):
        if _cached().exists():
            return
        print("building prometheus-adapter, once: about three minutes on two cores", flush=True)
        _cached().parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            built = Path(temporary) / "adapter"
            go_build(_HERE, "prometheus-adapter", [_PACKAGE], built, "-s -w")
            built.rename(_cached())


def _cached() -> Path:
    return built_folder(_HERE, "prometheus-adapter") / "adapter"
