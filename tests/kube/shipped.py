"""The permissions that are shipped, read from what is shipped, and given to accounts of a test's own."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

from tests.servers.kube.accounts import Permission, expand, grant, service_account
from tests.servers.kube.client import Client, Object
from tests.servers.kube.server import Kube

_BASE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"

COMPONENTS = ("collector", "sinks")
"""Those that speak to the API server. The streams have no token at all."""


@cache
def shipped_rules(component: str) -> tuple[Object, ...]:
    """The rules of the ClusterRole of ``collector`` or ``sinks``."""
    documents = [one for file in sorted(_BASE.glob("*.yaml")) for one in yaml.safe_load_all(file.read_text())]
    name = f"dutycycle-{component}"
    (role,) = [
        one for one in documents if one and one["kind"] == "ClusterRole" and one["metadata"]["name"] == name
    ]
    return tuple(role["rules"])


def account(kube: Kube, namespace: str, component: str, *, rules: tuple[Object, ...] | None = None) -> Client:
    """A ServiceAccount with the shipped permissions of a component, or with ``rules`` instead."""
    client = service_account(kube, namespace, component)
    grant(kube, client, namespace, component, shipped_rules(component) if rules is None else rules)
    return client


def without(rules: Iterable[Object], lacking: Permission) -> tuple[Object, ...]:
    """Rules that allow the same but for one permission."""
    allowed = sorted(expand(rules) - {lacking})
    return tuple({"verbs": [verb], "apiGroups": [group], "resources": [one]} for verb, group, one in allowed)
