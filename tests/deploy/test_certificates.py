"""The certificates of adapter, extender and webhook: who makes them, and that they stay the same."""

from functools import partial

import pytest

from tests.support.deploy.manifests import CHART, NAMESPACE, Object, by_key, helm, objects, of_kind
from tests.support.servers.cert_manager import cert_manager_kinds
from tests.support.servers.kube.client import Refused
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until

PARTS = ("adapter", "extender", "webhook")
TRUSTED = {"adapter": "APIService", "webhook": "MutatingWebhookConfiguration"}
"""By what the API server is told whom it is to trust."""
KUBE_ONLY: Object = {
    "webhook": {"enabled": True, "replicas": 0},
    "collector": {"enabled": False}, "streams": {"replicas": 0}, "metrics": {"enabled": False},
    "sinks": {"replicas": 0, "records": {"persistence": {"enabled": False}}},
    "topics": {"job": {"enabled": False}},
}  # fmt: skip
"""What has certificates, and starts nothing."""


def rendered(values: Object) -> str:
    """What ``helm template`` prints, as Argo CD runs it at each sync."""
    done = helm("template", "dutycycle", str(CHART), f"--namespace={NAMESPACE}", values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def enabled() -> Object:
    return {part: {"enabled": True} for part in PARTS}


OWN: Object = {part: {"enabled": True, "tls": {"existingSecret": "own"}} for part in PARTS}
OWN["extender"]["tls"]["clientCaSecret"] = "own-clients"


@pytest.mark.parametrize(
    ("part", "values", "says"),
    [*((part, {}, (f"{part}.tls: ", f"{part}.tls.existingSecret", "certManager.enabled")) for part in PARTS),
     ("extender", {"tls": {"existingSecret": "own"}},  # that of the scheduler
      ("extender.tls.clientCaSecret", "extender.tls.clientAuth=false"))],
)  # fmt: skip
def test_what_would_be_another_one_at_each_render_is_not_rendered(
    part: str, values: Object, says: tuple[str, ...]
) -> None:
    done = helm("template", "d", str(CHART), values={part: {"enabled": True, **values}})
    assert done.returncode == 1
    assert all(text in done.stderr for text in says)


@pytest.mark.parametrize(
    ("values", "issuer"),
    [
        (OWN, None),
        (enabled() | {"certManager": {"enabled": True}}, ("Issuer", "dutycycle-ca")),
        (
            enabled() | {"certManager": {"enabled": True, "issuer": {"name": "corporate"}}},
            ("ClusterIssuer", "corporate"),
        ),
    ],
    ids=["existing", "cert-manager", "named issuer"],
)
def test_two_renders_are_the_same(values: Object, issuer: tuple[str, str] | None) -> None:
    once, again = rendered(values), rendered(values)
    assert once == again
    things = objects(once)
    by_key(things)
    assert not [thing for thing in things if thing["kind"] == "Secret"]
    for part in PARTS:
        deployment = of_kind(things, "Deployment", f"-{part}")
        (mounted,) = (
            volume["secret"]["secretName"]
            for volume in deployment["spec"]["template"]["spec"]["volumes"]
            if volume["name"] == "certificate"
        )
        if issuer is None:
            assert mounted == "own"
            continue
        if part == "extender":
            client = of_kind(things, "Certificate", "-extender-client-tls")["spec"]
            assert (client["commonName"], client["issuerRef"]["name"]) == ("kube-scheduler", "dutycycle-ca")
            assert "server auth" not in client["usages"]
        certificate = of_kind(things, "Certificate", f"-{part}-tls")
        assert certificate["spec"]["secretName"] == mounted
        assert f"dutycycle-{part}.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
        signer = certificate["spec"]["issuerRef"]
        assert (signer["kind"], signer["name"]) == issuer
        for thing in things:
            if thing["kind"] == TRUSTED.get(part):
                injected = thing["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
                assert injected == f"{NAMESPACE}/{certificate['metadata']['name']}"
    made = {thing["metadata"]["name"] for thing in things if thing["kind"] == "Issuer"}
    assert made == ({"dutycycle-ca", "dutycycle-self-signed"} if issuer else set())


def test_a_bundle_or_a_secret_of_ones_own_goes_before_cert_managers() -> None:
    values = {
        "certManager": {"enabled": True},
        "webhook": {"enabled": True, "tls": {"caBundle": "QQ==", "webhookAnnotations": {"a.io/b": "c"}}},
        "extender": {"enabled": True, "tls": {"existingSecret": "own"}},
    }
    things = objects(rendered(values))
    configuration = of_kind(things, "MutatingWebhookConfiguration")
    assert configuration["webhooks"][0]["clientConfig"]["caBundle"] == "QQ=="
    assert configuration["metadata"]["annotations"] == {"a.io/b": "c"}
    names = {thing["metadata"]["name"] for thing in things if thing["kind"] == "Certificate"}
    assert names == {"dutycycle-ca", "dutycycle-webhook-tls", "dutycycle-extender-client-tls"}


@pytest.mark.kube
def test_helm_itself_makes_one_and_keeps_it(kube: Kube, namespace: str) -> None:
    """On the real API server; what only prints, and asks it, prints the same one."""
    admin, release = kube.admin, "certified"
    asking = [f"--kubeconfig={admin.kubeconfig}", f"--namespace={namespace}"]
    secret = f"/api/v1/namespaces/{namespace}/secrets/{release}-dutycycle-webhook-tls"
    webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    made = []
    try:
        for command in ("install", "upgrade"):
            done = helm(command, release, str(CHART), *asking, values=KUBE_ONLY)
            assert done.returncode == 0, done.stderr
            configuration = admin.request("GET", f"{webhooks}/{release}-dutycycle-webhook")
            bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"]
            made.append((admin.request("GET", secret)["data"], bundle))
        assert made[0] == made[1]
        assert made[0][0]["ca.crt"] == made[0][1]
        shown = helm("template", release, str(CHART), "--dry-run=server", *asking, values=KUBE_ONLY)
        assert shown.returncode == 0, shown.stderr
        assert f"caBundle: {made[0][1]}" in shown.stdout
    finally:
        helm("uninstall", release, *asking)


@pytest.mark.kube
def test_cert_manager_takes_what_the_chart_asks_it_for(kube: Kube, namespace: str) -> None:
    """Its own schemas on the real API server, to the letter: a field that it does not know is refused."""
    admin, kinds = kube.admin, [*cert_manager_kinds()]
    strict = "?dryRun=All&fieldValidation=Strict"
    path = f"/apis/cert-manager.io/v1/namespaces/{namespace}"
    try:
        for kind in kinds:
            admin.create(kind)
        plurals = {kind["spec"]["names"]["kind"]: kind["spec"]["names"]["plural"] for kind in kinds}
        for plural in ("certificates", "issuers", "clusterissuers"):
            wait_until(partial(admin.answers, f"/apis/cert-manager.io/v1/{plural}"), lambda: "the kinds")
        asked = [
            thing
            for thing in objects(rendered(enabled() | {"certManager": {"enabled": True}}))
            if thing["apiVersion"] == "cert-manager.io/v1"
        ]
        assert {thing["kind"] for thing in asked} == {"Certificate", "Issuer"}
        for thing in asked:
            thing["metadata"]["namespace"] = namespace
            admin.request("POST", f"{path}/{plurals[thing['kind']]}{strict}", thing)
        for odd in ({"secretNames": "x"}, {"privateKey": {"algorithm": "RSB"}}):
            certificate = next(thing for thing in asked if thing["kind"] == "Certificate")
            changed = certificate | {"spec": certificate["spec"] | odd}
            with pytest.raises(Refused, match=next(iter(odd))):
                admin.request("POST", f"{path}/certificates{strict}", changed)
    finally:
        for kind in kinds:
            admin.delete(kind)
