"""ServiceAccounts and what they may: everything that RBAC denies unless a role of the test's allows it."""

from collections.abc import Iterable

from tests.support.servers.kube.client import Client, Object, Refused
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until

Permission = tuple[str, str, str]
"""Verb, API group, resource."""

_EFFECT_S = 120
_RBAC = "rbac.authorization.k8s.io"
_EVERYBODYS = {"authorization.k8s.io", "authentication.k8s.io"}
"""Groups by which every account may ask who it is and what it may."""


def service_account(kube: Kube, namespace: str, name: str) -> Client:
    """Who has the account's token; the account is made where it is missing. It may nothing by itself."""
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    try:
        kube.admin.create(account | {"metadata": {"namespace": namespace, "name": name}})
    except Refused as answer:
        if answer.status != 409:
            raise
    return kube.client(new_token(kube, namespace, name))


def new_token(kube: Kube, namespace: str, name: str) -> str:
    """A token of a ServiceAccount for an hour, by the TokenRequest API."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = kube.admin.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    return str(answer["status"]["token"])


def grant(kube: Kube, client: Client, namespace: str, account: str, rules: Iterable[Object]) -> None:
    """Let the account, which is ``client``, do what ``rules`` say and no more; returns once it is so."""
    name, given = f"{namespace}-{account}", list(rules)
    role: Object = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    binding = role | {
        "kind": "ClusterRoleBinding",
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
    }
    for thing in (role | {"rules": given}, binding):
        try:
            kube.admin.delete(thing)
        except Refused as answer:
            if answer.status != 404:
                raise
        kube.admin.create(thing)
    # The API server learns of a role by a watch of its own, a moment after it was made.
    wanted = expand(given)
    wait_until(
        lambda: permissions(client) == wanted, lambda: f"{wanted}: {permissions(client)}", pause_s=0.02
    )


def expand(rules: Iterable[Object]) -> set[Permission]:
    """Each single permission of some rules."""
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def permissions(client: Client) -> set[Permission]:
    """What the account may, by its own ``kubectl auth can-i --list``, beside asking that."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = client.request("POST", path, {"spec": {"namespace": "default"}})
    return {one for one in expand(answer["status"]["resourceRules"]) if one[1] not in _EVERYBODYS}


def used(kube: Kube, account: str, *, allowed: bool = True) -> set[tuple[Permission, str]]:
    """What a shipped account has asked for and was allowed, or was forbidden; each with its namespace."""
    wanted = "allow" if allowed else "forbid"
    return {
        ((one["verb"], ref.get("apiGroup", ""), ref["resource"]), ref.get("namespace", ""))
        for one in kube.audited(account)
        if (ref := one.get("objectRef")) is not None and ref.get("apiGroup") not in _EVERYBODYS
        and one["annotations"]["authorization.k8s.io/decision"] == wanted
    }  # fmt: skip
