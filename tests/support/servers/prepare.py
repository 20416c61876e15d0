"""``python -m tests.support.servers.prepare``: fetch what the test servers need, and say which are missing.

It never fails: what is missing here is skipped by the tests that need it (and fails them under ``CI=true``).
"""

from collections.abc import Callable

from tests.support.servers.axe import axe_script
from tests.support.servers.compose import build_compose
from tests.support.servers.helm.build import build_helm
from tests.support.servers.kafka.jars import class_path
from tests.support.servers.kube.build import build_programs
from tests.support.servers.missing import ServerMissingError, program
from tests.support.servers.postgres import find_programs
from tests.support.servers.prometheus_adapter.build import build_prometheus_adapter


def main() -> None:
    for name, look in _SERVERS.items():
        try:
            look()
        except ServerMissingError as reason:
            print(f"{name}: {reason}")


def _programs(*names: str) -> Callable[[], None]:
    def look() -> None:
        for name in names:
            program(name)

    return look


_SERVERS: dict[str, Callable[[], object]] = {
    "axe": axe_script, "chromium": _programs("chromium"), "kafka": class_path,
    "kafka with TLS": _programs("openssl"), "postgres": find_programs,
    "prometheus": _programs("prometheus", "promtool"),
    "alertmanager": _programs("prometheus-alertmanager", "amtool"), "docker compose": build_compose,
    "helm": build_helm, "kcat": _programs("kcat"), "kubernetes": build_programs,
    "prometheus-adapter": build_prometheus_adapter,
}  # fmt: skip

if __name__ == "__main__":
    main()
