"""``python -m tests.support.deploy.generate_kustomize``: writes the kustomize base from the chart's defaults.

One file for each component, as the chart has them; the trial's broker; and the topics as Strimzi's objects,
from the code. The tests beside this compare them all again.
"""

import re
from itertools import groupby

import yaml

from dutycycle.cli.commands.topics import planned
from dutycycle.contract.settings.load import load
from tests.support.deploy.manifests import KUSTOMIZE, NAMESPACE, TRIAL, TRIALS, Object, render

_HEAD = (
    "# Written by `python -m tests.support.deploy.generate_kustomize`. "
    "What it says is changed by an overlay.\n"
)
_FIRST = (
    "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "PersistentVolumeClaim",
)  # fmt: skip
_CLUSTER = "dutycycle"
_REPLICAS = 3
_PARTITIONS = 24


def main() -> None:
    for name, text in files().items():
        (KUSTOMIZE / name).parent.mkdir(parents=True, exist_ok=True)
        (KUSTOMIZE / name).write_text(text)


def files() -> dict[str, str]:
    """All that is written: text by path below ``deploy/kustomize``."""
    broker = [portable(one) for one in render(TRIAL) if _component(one) == "kafka"]
    return {
        **_base(),
        "examples/trial/kafka.yaml": _text(broker),
        "examples/job-trials/trials.yaml": _text(
            [portable(one) for one in render(TRIALS) if _component(one) == "trials"]
        ),
        "examples/strimzi/topics.yaml": _text(strimzi_topics()),
    }


def _base() -> dict[str, str]:
    things = sorted(map(portable, render()), key=_order)
    parts = {f"{name}.yaml": list(group) for name, group in groupby(things, _component)}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(parts),
    }
    return {
        f"base/{name}": _text(one) for name, one in (parts | {"kustomization.yaml": [kustomization]}).items()
    }


def strimzi_topics() -> list[Object]:
    """One KafkaTopic for each topic of the code, in a cluster of three brokers."""
    settings = load({"DUTYCYCLE_NODE": "any"})
    return [
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaTopic",
            "metadata": {
                "name": re.sub(r"[^a-z0-9.-]", "-", topic.name),
                "namespace": NAMESPACE,
                "labels": {"strimzi.io/cluster": _CLUSTER},
            },
            "spec": {
                "topicName": topic.name,
                "partitions": _PARTITIONS,
                "replicas": _REPLICAS,
                "config": {**topic.config, "min.insync.replicas": "2"},
            },
        }
        for topic in planned(settings)
    ]


def portable(thing: Object) -> Object:
    """Without what only Helm reads."""
    meta = dict(thing["metadata"])
    annotations = {k: v for k, v in meta.pop("annotations", {}).items() if not k.startswith("helm.sh/")}
    return thing | {"metadata": meta | ({"annotations": annotations} if annotations else {})}


def _component(thing: Object) -> str:
    return str(thing["metadata"]["labels"]["app.kubernetes.io/component"])


def _order(thing: Object) -> tuple[str, int, str]:
    kind = thing["kind"]
    return _component(thing), _FIRST.index(kind) if kind in _FIRST else len(_FIRST), kind


def _text(things: list[Object]) -> str:
    return _HEAD + yaml.safe_dump_all(things, sort_keys=False, width=110)


if __name__ == "__main__":
    main()
