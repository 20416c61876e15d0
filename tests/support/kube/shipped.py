"""The accounts that are shipped, from the files that are shipped, and accounts that may a little less."""

from collections.abc import Iterable
from functools import cache

import yaml

from tests.support.deploy.manifests import KUSTOMIZE, NAMESPACE, kustomize
from tests.support.servers.kube.accounts import Permission, expand, grant, new_token, service_account
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube

COMPONENTS = ("collector", "sinks")
"""Those that speak to the API server. The streams have no token at all."""
_KINDS = ("ServiceAccount", "ClusterRole", "Role", "ValidatingAdmissionPolicy")
"""What their names begin with."""


@cache
def _shipped() -> tuple[Object, ...]:
    return tuple(kustomize(KUSTOMIZE / "base"))


def shipped_rules(component: str) -> tuple[Object, ...]:
    """The rules of the ClusterRole of a component, and of its Role in its own namespace."""
    name, kinds = f"dutycycle-{component}", ("ClusterRole", "Role")
    roles = [one for one in _shipped() if one["kind"] in kinds and one["metadata"]["name"] == name]
    return tuple(rule for role in roles for rule in role["rules"])


@cache
def _install(kube: Kube) -> None:
    """The accounts, their roles, and the policy that keeps the sinks to annotations; once on a server."""
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    things = [namespace, *(one for one in _shipped() if one["kind"].startswith(_KINDS))]
    kube.admin.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(things))


def shipped_account(kube: Kube, component: str) -> Client:
    """The component's own account, as it is in a cluster."""
    _install(kube)
    return kube.client(new_token(kube, NAMESPACE, f"dutycycle-{component}"), NAMESPACE)


def account(kube: Kube, namespace: str, component: str, rules: Iterable[Object]) -> Client:
    """An account of the test's own, which may what ``rules`` say."""
    client = service_account(kube, namespace, component)
    grant(kube, client, namespace, component, rules)
    return client


def without(rules: Iterable[Object], *lacking: Permission) -> tuple[Object, ...]:
    """Rules that allow the same but for some permissions."""
    allowed = sorted(expand(rules) - set(lacking))
    return tuple({"verbs": [verb], "apiGroups": [group], "resources": [one]} for verb, group, one in allowed)
