"""Builds prometheus-adapter into the cache folder, and finds it there."""

from pathlib import Path

from tests.support.servers.kube.go import build, built

_HERE = Path(__file__).parent
_KIND = "prometheus-adapter"


def find_prometheus_adapter() -> Path:
    """The program, without building it. Raises ``ServerMissingError`` that says how to get it."""
    return built(_HERE, _KIND, "adapter")


def build_prometheus_adapter() -> None:
    """Build it, unless it is there. Raises ``ServerMissingError`` where that cannot be."""
    build(_HERE, _KIND, ["sigs.k8s.io/prometheus-adapter/cmd/adapter"], "three minutes")
