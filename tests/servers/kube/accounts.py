"""ServiceAccounts and what they may: everything that RBAC denies unless a role of the test's allows it."""

from collections.abc import Iterable

from tests.servers.kube.client import Client, Object, Refused
from tests.servers.kube.server import Kube

_TOKEN_S = 3600
_RBAC = "rbac.authorization.k8s.io"


def service_account(kube: Kube, namespace: str, name: str) -> Client:
    """Who has the account's token; the account is made where it is missing. It may nothing by itself."""
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    try:
        kube.admin.create(account | {"metadata": {"namespace": namespace, "name": name}})
    except Refused as answer:
        if answer.status != 409:
            raise
    return kube.client(new_token(kube, namespace, name))


def new_token(kube: Kube, namespace: str, name: str, seconds: int = _TOKEN_S) -> str:
    """A token of a ServiceAccount, by the TokenRequest API; it ends after ``seconds``, at least 600."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = kube.admin.request("POST", path, {"spec": {"expirationSeconds": seconds}})
    return str(answer["status"]["token"])


def grant(kube: Kube, name: str, rules: Iterable[Object], namespace: str, account: str) -> None:
    """A ClusterRole ``name`` of these rules, bound to a ServiceAccount; in place of an earlier one."""
    role: Object = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    binding = role | {
        "kind": "ClusterRoleBinding",
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
    }
    for thing in (role | {"rules": list(rules)}, binding):
        try:
            kube.admin.delete(thing)
        except Refused as answer:
            if answer.status != 404:
                raise
        kube.admin.create(thing)
