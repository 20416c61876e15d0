"""PriorityClasses on the real API server: made ahead of time, deleted when none can get them; and who may."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import yaml

from dutycycle.kube.discovery import PRIORITY_CLASS
from dutycycle.kube.errors import RefusedError
from dutycycle.telemetry.events import Telemetry
from sinks.scheduling.core.classes import wanted
from sinks.scheduling.core.policy import Band, Policy
from sinks.scheduling.webhook.classes import OURS, PriorityClasses
from tests.support.deploy.manifests import NAMESPACE, WITH_WEBHOOK, of_kind, render
from tests.support.kube.api_server import api_server
from tests.support.kube.shipped import account, without
from tests.support.servers.kube.accounts import new_token
from tests.support.servers.kube.client import Client, Object, Refused
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube
POLICY = Policy(bands={"": Band(50_000_000, 60_000_000)}, longest_s=1200.0)
PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"
ALL = f"{PATH}?labelSelector=" + "%2C".join(f"{name}%3D{value}" for name, value in OURS.items())
"""Ours."""


@pytest.fixture(autouse=True)
def clean(kube: Kube) -> Iterator[None]:
    yield
    kube.admin.request("DELETE", ALL)


def there(kube: Kube) -> set[int]:
    return {one["value"] for one in kube.admin.request("GET", ALL)["items"]}


def shipped() -> list[Object]:
    return list(of_kind(render(WITH_WEBHOOK), "ClusterRole", "webhook")["rules"])


@asynccontextmanager
async def keeping(client: Client, telemetry: Telemetry, now_s: list[float]) -> AsyncIterator[PriorityClasses]:
    server = await api_server(client.kubeconfig)
    yield PriorityClasses(server, POLICY, telemetry, wall=lambda: now_s[0], kept_s=100.0)
    await server.close()


async def test_classes_come_and_go_and_pods_keep_their_priority(kube: Kube, namespace: str) -> None:
    now_s, telemetry = [0.0], Telemetry("test")
    client = account(kube, namespace, "webhook", shipped())
    async with keeping(client, telemetry, now_s) as classes:
        await classes.refresh()
        assert classes.name("", 60_000_000) is None  # an API server may not have heard of it yet
        await classes.refresh()
        assert there(kube) == wanted(POLICY, 0.0)
        assert classes.name("", 60_000_000) == "dutycycle-60000000"
        made = kube.admin.create(gpu_pod(namespace, "a", priorityClassName=classes.name("", 60_000_000)))
        assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (60_000_000, "Never")
        for now_s[0] in (600.0, 660.0, 701.0):
            await classes.refresh()
        assert wanted(POLICY, 701.0) <= there(kube)
        assert max(there(kube)) == 60_000_000 - 10  # useless for a moment: another replica may still give it
        assert classes.name("", 60_000_000) == f"dutycycle-{60_000_000 - 11}"
    changed = kube.admin.patch(made, {"metadata": {"labels": {"a": "b"}}})
    assert changed["spec"]["priority"] == 60_000_000


async def refreshed(classes: PriorityClasses, now_s: list[float]) -> None:
    for now_s[0] in (0.0, 600.0, 701.0):
        await classes.refresh()


@pytest.mark.parametrize("verb", ["list", "create", "delete"])
async def test_each_permission_is_needed(verb: str, kube: Kube, namespace: str) -> None:
    now_s, telemetry = [0.0], Telemetry("test")
    rules = without(shipped(), (verb, "scheduling.k8s.io", "priorityclasses"))
    everything = account(kube, namespace, "webhook", shipped())
    async with keeping(everything, telemetry, now_s) as classes:
        await classes.refresh()
    less = account(kube, namespace, "less", rules)
    async with keeping(less, telemetry, now_s) as classes:
        with pytest.raises(RefusedError, match=f"cannot {verb} resource"):
            await refreshed(classes, now_s)


def priority_class(name: str, **more: object) -> Object:
    made = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.name, "value": 7}
    return {**made, "metadata": {"name": name, "labels": OURS}, "preemptionPolicy": "Never", **more}


def refusal(client: Client, thing: Object) -> str:
    try:
        client.delete(client.create(thing))
    except Refused as answer:
        return str(answer)
    return ""


def test_the_account_can_neither_touch_other_classes_nor_make_ones_that_preempt(kube: Kube) -> None:
    kinds = ("ServiceAccount", "ClusterRole", "ValidatingAdmissionPolicy")
    things = [
        one
        for one in render(WITH_WEBHOOK)
        if one["kind"].startswith(kinds)
        and one["metadata"]["labels"]["app.kubernetes.io/component"] == "webhook"
    ]
    kube.admin.kubectl("create", "namespace", NAMESPACE, check=False)
    kube.admin.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(things))
    webhook = kube.client(new_token(kube, NAMESPACE, "dutycycle-webhook"), NAMESPACE)
    foreign = kube.admin.create(priority_class("production", metadata={"name": "production"}))
    try:
        # The API server learns of a policy by a watch of its own, a moment after it was made.
        wait_until(lambda: "the webhook" in refusal(webhook, priority_class("production-2")), lambda: "it")
        for wrong in (
            priority_class("dutycycle-7", metadata={"name": "dutycycle-7"}),
            priority_class("dutycycle-7", preemptionPolicy="PreemptLowerPriority"),
            priority_class("dutycycle-7", globalDefault=True),
        ):
            with pytest.raises(Refused, match="the webhook"):
                webhook.create(wrong)
        with pytest.raises(Refused, match="its own PriorityClasses alone"):
            webhook.delete(foreign)
        webhook.delete(webhook.create(priority_class("dutycycle-7")))
    finally:
        kube.admin.delete(foreign)
