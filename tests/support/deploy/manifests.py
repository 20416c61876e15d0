"""The chart and the kustomize base as objects, rendered by the real Helm and the real kubectl."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.helm.build import find_helm
from tests.support.servers.kube.build import find_programs

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/dutycycle"
KUSTOMIZE = ROOT / "deploy/kustomize"
NAMESPACE = "dutycycle"

Object = dict[str, Any]
Key = tuple[str, str, str]

# Everything that can be switched on at once, as a cluster with its own Kafka and PostgreSQL would have it.
FULL: Object = {
    "image": {"pullSecrets": [{"name": "registry"}]},
    "commonLabels": {"team": "platform"},
    "listen": {"tls": {"existingSecret": "metrics-tls"}, "auth": {"existingSecret": "metrics-token"}},
    "kafka": {
        "broker": "kafka+ssl://kafka.example:9093",
        "sasl": {"mechanism": "SCRAM-SHA-512", "username": "dutycycle", "existingSecret": "kafka-user"},
        "tls": {"caSecret": "kafka-ca", "clientSecret": "kafka-client"},
    },
    "collector": {
        "runtimeClassName": "nvidia", "podResources": {"enabled": True},
        "cudaLogs": {"hostPath": "/var/lib/alnair/workspace"}, "steps": {"hostPath": "/run/dutycycle"},
        "software": {"enabled": True},
        "priorityClassName": "system-node-critical",
        "extraEnv": [{"name": "TZ", "value": "UTC"}], "podAnnotations": {"a.io/b": "c"},
        "extraVolumes": [{"name": "cache", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"},
    },
    "streams": {"autoscaling": {"enabled": True}, "replicas": 3},
    "sinks": {
        "autoscaling": {"enabled": True}, "replicas": 2, "records": {"existingSecret": "records"},
        "annotations": {"nodeLabels": True},
    },
    "metrics": {
        "remoteWrite": {
            "url": "https://mimir.example/api/v1/push", "labels": {"cluster": "eu-1", "env": "test"},
            "auth": {"existingSecret": "mimir"}, "tls": {"caSecret": "mimir-ca"},
        }
    },
    "adapter": {"enabled": True, "apis": ["custom.metrics.k8s.io", "external.metrics.k8s.io"]},
    "extender": {"enabled": True, "tls": {"clientCaSecret": "scheduler-ca"}},
    "webhook": {"enabled": True, "policy": "stretch = 4.0\n", "tls": {"clientCaSecret": "api-server-ca"}},
    "web": {"enabled": True, "tokenSecret": "web-token", "kubernetes": True,
            "pools": ["example.org/pool", "known"],
            "records": {"existingSecret": "records-reader"},
            "prometheus": {"url": "https://prometheus.monitoring:9443",
                           "auth": {"existingSecret": "prometheus-reader"},
                           "tls": {"caSecret": "prometheus-ca"}}},
    "trials": {"enabled": True, "namespaces": ["ml", "vision"], "atOnce": 2, "budget": 120.5},
    "cull": {"enabled": True, "namespaces": ["ml"], "dryRun": False, "after": "12h"},
    "podMonitor": {
        "enabled": True, "labels": {"release": "prometheus"},
        "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"}],
        "tlsConfig": {"ca": {"secret": {"name": "metrics-tls", "key": "ca.crt"}}, "serverName": "metrics"},
    },
    "certManager": {"enabled": True},
}  # fmt: skip
WITH_WEBHOOK: Object = {"webhook": {"enabled": True, "tls": {"existingSecret": "webhook"}}}
TRIAL: Object = {
    "kafka": {"trial": {"enabled": True}},
    "collector": {"spool": {"hostPath": ""}},
    "sinks": {"records": {"persistence": {"enabled": False}}},
}
FROM_PROMETHEUS: Object = {
    "collector": {"enabled": False},
    "prometheus": {
        "enabled": True, "url": "https://prometheus.monitoring:9443/main",
        "auth": {"existingSecret": "prometheus", "username": "reader"}, "tls": {"caSecret": "prometheus-ca"},
    },
}  # fmt: skip
TRIALS: Object = {"trials": {"enabled": True, "namespaces": ["ml"]}}
SHAPES: dict[str, Object] = {
    "default": {}, "full": FULL, "trial": TRIAL, "prometheus": FROM_PROMETHEUS
}  # fmt: skip


def helm(*arguments: str, values: Object | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Helm on the chart. Raises ``ServerMissingError``."""
    command = [str(find_helm()), *arguments, *(["--values=-"] if values is not None else [])]
    text = None if values is None else json.dumps(values)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=240)


def render(
    values: Object | None = None, release: str = "dutycycle", kubeconfig: Path | None = None
) -> list[Object]:
    """What ``helm install`` would send; with ``kubeconfig`` it asks that cluster for what is there."""
    return objects(_rendered(release, json.dumps(values or {}), kubeconfig))


@cache
def _rendered(release: str, values: str, kubeconfig: Path | None) -> str:
    # Other tests apply things of the chart without Helm: then they are there, and are not Helm's.
    asking = ["--dry-run=server", "--take-ownership", f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    done = helm(
        "template", release, str(CHART), f"--namespace={NAMESPACE}", *asking, values=json.loads(values)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kustomize(folder: Path) -> list[Object]:
    """What ``kubectl apply -k`` would send. Raises ``ServerMissingError`` without kubectl."""
    kubectl = shutil.which("kubectl") or str(find_programs().kubectl)
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def objects(text: str) -> list[Object]:
    """The documents of a YAML stream."""
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]  # ten times as fast


def by_key(things: Iterable[Object]) -> dict[Key, Object]:
    """Each once, or the test fails."""
    every = list(things)
    found = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in every
    }
    assert len(found) == len(every), "an object is there twice"
    return found


def of_kind(things: Iterable[Object], kind: str, ending: str = "") -> Object:
    """The only object of a kind whose name ends so."""
    (found,) = (one for one in things if one["kind"] == kind and one["metadata"]["name"].endswith(ending))
    return found


def pod_specs(things: Iterable[Object]) -> dict[str, Object]:
    """The pod templates' specs, by the component that they are."""
    return {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]["spec"]
        for one in things
        if "template" in one.get("spec", {})
    }


def containers(spec: Object) -> list[Object]:
    """All containers of a pod, those that run first too."""
    return [*spec.get("initContainers", ()), *spec["containers"]]


def environment(container: Object) -> dict[str, str]:
    """Variables that are given as they are."""
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}
