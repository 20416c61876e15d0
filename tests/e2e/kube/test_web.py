"""Who may see what on the page, by the real API server's word, under the account that the chart gives it."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict
from yarl import URL

from dutycycle.contract.settings.load import load
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.web import access
from dutycycle.web.server import WebPage
from tests.support.deploy.manifests import FULL, of_kind, render
from tests.support.live import POD, fed, nvml
from tests.support.servers.kube.accounts import new_token, service_account
from tests.support.servers.kube.client import Client, Object, Refused
from tests.support.servers.kube.server import Kube

_EFFECT_S = 120
_RBAC = "rbac.authorization.k8s.io"
PASSWORDS = {"jane": "", "tom": "team-b", "eve": "strangers"}
"""Those whom the proxy knows, and their groups."""


@pytest.fixture
def other_namespace(kube: Kube, namespace: str) -> str:
    return kube.new_namespace()


@pytest.fixture
async def page_account(kube: Kube, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The account of the page, with what the chart gives it."""
    client = service_account(kube, namespace, "web")
    head = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": f"{namespace}-web"}}
    rules = of_kind(render(FULL), "ClusterRole", "web")["rules"]
    kube.admin.create(head | {"kind": "ClusterRole", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "web", "namespace": namespace}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"{namespace}-web"}
    kube.admin.create(head | {"kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": role})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}}
    await accepted(client, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    monkeypatch.setenv("KUBECONFIG", str(client.access.write_kubeconfig(tmp_path / "kubeconfig")))
    return client


def may_list_pods(kube: Kube, namespace: str, *subjects: dict[str, str]) -> Object:
    """Let these list pods in a namespace; the binding."""
    head = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": "see-pods", "namespace": namespace}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    kube.admin.create(head | {"kind": "Role", "rules": rules})
    binding: Object = head | {
        "kind": "RoleBinding", "subjects": list(subjects),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "see-pods"},
    }  # fmt: skip
    kube.admin.create(binding)
    return binding


def state_of(*namespaces: str) -> LiveState:
    """A GPU that pods of these namespaces share."""
    processes = [{"pid": at, "name": f"program-{at}", "pod_uid": f"p{at}"} for at in range(len(namespaces))]
    pods = [
        ("pods", f"p{at}", POD | {"uid": f"p{at}", "namespace": name, "name": f"train-{at}"})
        for at, name in enumerate(namespaces)
    ]
    return fed(("nvml-samples", "a", nvml(50, processes=processes)), *pods)


@asynccontextmanager
async def served(state: LiveState, tmp_path: Path, **given: str) -> AsyncIterator[str]:
    settings = load(
        {},
        {"records": f"sqlite:///{tmp_path}/none.db", "web": "127.0.0.1:0", "web_kubernetes": "on", **given},
    )
    async with WebPage(Source(state, "t", "p", list), settings).serving() as url:
        yield url


@asynccontextmanager
async def proxy(target: str) -> AsyncIterator[str]:
    """A proxy as oauth2-proxy is one: it knows who asks by a password, drops what he says of himself, and
    says who he is."""

    async def forward(request: web.Request) -> web.StreamResponse:
        name = aiohttp.BasicAuth.decode(request.headers["Authorization"]).login
        headers = CIMultiDict(
            (header, value) for header, value in request.headers.items()
            if not header.lower().startswith("x-forwarded-") and header.lower() != "authorization"
        )  # fmt: skip
        headers["X-Forwarded-User"], headers["X-Forwarded-Groups"] = name, PASSWORDS[name]
        async with (
            aiohttp.ClientSession() as client,
            client.get(URL(target).join(request.rel_url), headers=headers) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read(), content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def page_for(url: str, path: str = "gpus", **headers: str) -> str:
    """The status, and the page, of somebody with these headers."""
    async with (
        aiohttp.ClientSession() as client,
        client.get(url + path, headers=headers, allow_redirects=False) as answer,
    ):
        return f"{answer.status} {await answer.text()}"


async def test_tokens_are_reviewed_and_names_are_of_namespaces_in_which_pods_may_be_listed(
    kube: Kube, namespace: str, other_namespace: str, page_account: Client, tmp_path: Path
) -> None:
    account = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    reader = service_account(kube, namespace, "reader")
    may_list_pods(kube, namespace, account)
    await accepted(reader, "GET", f"/api/v1/namespaces/{namespace}/pods")
    service_account(kube, namespace, "nobody")
    tokens = {name: new_token(kube, namespace, name) for name in ("reader", "nobody")}
    tokens["admin"] = kube.admin.access.token
    own, others = f"{namespace}/train-0", f"{other_namespace}/train-1"
    async with served(state_of(namespace, other_namespace), tmp_path) as url:
        pages = {name: await page_for(url, Authorization=f"Bearer {token}") for name, token in tokens.items()}
        assert (own in pages["reader"], others in pages["reader"]) == (True, False)
        assert other_namespace not in pages["reader"]
        assert "another namespace" in pages["reader"]
        assert (own in pages["nobody"], others in pages["nobody"]) == (False, False)
        assert (own in pages["admin"], others in pages["admin"]) == (True, True)
        assert f"You see namespace {namespace}" in pages["reader"]
        assert "sees no namespace" in pages["nobody"]
        for wrong in ("nonsense", "", tokens["reader"][:-4] + "AAAA", page_account.access.token[::-1]):
            assert (await page_for(url, Authorization=f"Bearer {wrong}")).startswith("401"), wrong
        assert (await page_for(url)).startswith("303")
        async with aiohttp.ClientSession(url) as browser:
            browser.cookie_jar.update_cookies({}, URL(url))
            async with browser.post(
                "login", data={"token": tokens["reader"]}, allow_redirects=False
            ) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "fleet")
                cookie = answer.headers["Set-Cookie"].partition(";")[0]
            assert tokens["reader"] not in cookie
        seen = await page_for(url, Cookie=cookie)
        assert (own in seen, others in seen) == (True, False)


async def fleet_with(url: str, text: str) -> str:
    """Returns the page of the fleet once it says that."""
    async with asyncio.timeout(_EFFECT_S):
        while True:
            page = await page_for(url, "fleet")
            if text in page:
                return page
            await asyncio.sleep(0.2)


async def test_pools_are_read_from_labels_of_nodes(
    kube: Kube, namespace: str, page_account: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{namespace}-{at}" for at in range(4)]
    labels: list[dict[str, str]] = [
        {"cloud.google.com/gke-nodepool": "spot"}, {"example.org/pool": "big", "karpenter.sh/nodepool": "x"},
        {"cloud.google.com/gke-nodepool": "spot"}, {},
    ]  # fmt: skip
    for name, of_node in zip(names, labels, strict=True):
        kube.admin.create({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": of_node}
        })  # fmt: skip
    await accepted(page_account, "GET", "/api/v1/nodes")
    samples = (
        nvml(50) | {"node": name, "gpus": [{"uuid": f"GPU-{name}", "index": 0, "gpu_util_pct": 50}]}
        for name in names
    )
    state = fed(*(("nvml-samples", name, sample) for name, sample in zip(names, samples, strict=True)))
    given = {"web_kubernetes": "off", "web_pools": "example.org/pool,known"}

    def grid(page: str) -> list[str]:
        return [name for name in names if f">{name}</a>" in page.partition('id="grid"')[2]]

    async with served(state, tmp_path, **given) as url:
        page = await fleet_with(url, "<option>big</option>")
        assert "<option>(none)</option>" in page
        assert "<option>x</option>" not in page, "of two labels the first counts"
        assert grid(page) == names
        for pool, shown in (("spot", [names[0], names[2]]), ("big", names[1:2]), ("(none)", names[3:])):
            page = await page_for(url, f"fleet?pool={pool}")
            assert grid(page) == shown, pool
            assert f"<option selected>{pool}</option>" in page
        assert "no GPU is like that" in await page_for(url, "fleet?pool=gone")
    powerless = service_account(kube, namespace, "powerless")
    monkeypatch.setenv("KUBECONFIG", str(powerless.access.write_kubeconfig(tmp_path / "powerless")))
    async with served(state, tmp_path, **given) as url:
        page = await fleet_with(url, "Pools are not known")
        assert grid(page) == names, "the fleet is shown all the same"


async def accepted(client: Client, method: str, path: str, body: Object | None = None) -> None:
    """Returns once the account may ask that."""
    async with asyncio.timeout(_EFFECT_S):
        while True:
            with suppress(Refused):
                client.request(method, path, body)
                return
            await asyncio.sleep(0.1)


async def test_whom_a_proxy_names_sees_his_namespaces_until_he_may_not_any_more(
    kube: Kube, namespace: str, other_namespace: str, page_account: Client, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(access, "_REMEMBERED_S", 0.2)
    binding = may_list_pods(kube, namespace, {"apiGroup": _RBAC, "kind": "User", "name": "jane"})
    may_list_pods(kube, other_namespace, {"apiGroup": _RBAC, "kind": "Group", "name": "team-b"})
    given = {"web_proxies": "127.0.0.1", "web_allow": "jane,group:team-b"}

    def login(name: str) -> str:
        return "Basic " + base64.b64encode(f"{name}:x".encode()).decode()

    async def sees(url: str, name: str, **headers: str) -> tuple[bool, bool]:
        page = await page_for(url, Authorization=login(name), **headers)
        assert page.startswith("200"), page
        return f"{namespace}/train-0" in page, f"{other_namespace}/train-1" in page

    async def until_he_sees(name: str, expected: tuple[bool, bool]) -> None:
        async with asyncio.timeout(_EFFECT_S):
            while True:
                if await sees(url, name) == expected:
                    return
                await asyncio.sleep(0.2)

    async with (
        served(state_of(namespace, other_namespace), tmp_path, **given) as target,
        proxy(target) as url,
    ):
        await until_he_sees("jane", (True, False))
        await until_he_sees("tom", (False, True))
        # What he says of himself does not come through.
        smuggled = {"X-Forwarded-User": "jane", "X-Forwarded-Groups": "system:masters"}
        assert await sees(url, "tom", **smuggled) == (False, True)
        assert (await page_for(url, Authorization=login("eve"))).startswith("403")
        # Kubernetes' own groups are not the proxy's to give.
        grand = {"X-Forwarded-User": "jane", "X-Forwarded-Groups": "system:masters,team-c"}
        page = await page_for(target, **grand)
        assert f"{other_namespace}/train-1" not in page
        kube.admin.delete(binding)
        await until_he_sees("jane", (False, False))


async def test_without_the_api_servers_word_nothing_is_shown(
    kube: Kube, namespace: str, page_account: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = kube.admin.access.token
    state, given = state_of(namespace), {"web_proxies": "127.0.0.1", "web_allow": "*"}
    powerless = service_account(kube, namespace, "powerless")
    away = tmp_path / "away"
    away.write_text(
        (tmp_path / "kubeconfig").read_text().replace(page_account.access.url, "https://127.0.0.1:9")
    )
    may_nothing = powerless.access.write_kubeconfig(tmp_path / "powerless")
    for kubeconfig in (away, may_nothing):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        async with served(state, tmp_path, **given) as url:
            for headers in ({"Authorization": f"Bearer {token}"}, {"X-Forwarded-User": "jane"}):
                for path in ("gpus", "fleet", "usage.csv", "changes"):
                    page = await page_for(url, path, **headers)
                    assert page.startswith("503"), page
                    assert "nothing is shown" in page
                    assert namespace not in page.partition("<main")[2]
                    assert "127.0.0.1:9" not in page
