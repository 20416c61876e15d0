"""``python -m tests.support.deploy.generate_schema``: writes the chart's values.schema.json from its values,
limits.json with the bounds of durations from the settings that they become, analyses.json with what each
analysis needs, and policy.json with what a policy of priorities may say.

A name that is not in values.yaml is refused: Helm would ignore a mistyped one, and nobody would know. A value
has the type of its default, or what ``_RULES`` says of its name where the type says too little.
"""

import json
from dataclasses import fields
from typing import Any

import yaml

from dutycycle.contract.analyses import ANALYSES, MISSED_BY, NEEDED_BY
from dutycycle.contract.catalogue import WINDOW_METRICS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.parsers import Seconds, SeveralSeconds, Whole
from sinks.scheduling.core.policy import HIGHEST_PRIORITY, LEAST_YEARS, RANGES, YEAR_S, Policy
from sinks.scheduling.policy_file import EPOCH_S
from tests.support.deploy.manifests import CHART, Object

_PARSERS = {field.name: field.metadata["parse"] for field in fields(Settings)}
_TEXT: Object = {"type": "string"}
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_DNS = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_KEY = r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DURATION = r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?"


def _matching(pattern: str, **bounds: int) -> Object:
    return {"type": "string", "pattern": f"^({pattern})$", **bounds}


def _one_of(*words: str) -> Object:
    return {"type": "string", "enum": list(words)}


def _whole(least: int, most: int | None = None) -> Object:
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most})}


def _whole_of(setting: str) -> Object:
    """The bounds of the setting that the value becomes."""
    parser = _PARSERS[setting]
    assert isinstance(parser, Whole), setting
    return _whole(parser.low, parser.high)


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


def _object(*required: str, **properties: Object) -> Object:
    found: Object = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**found, "required": list(required)} if required else found


def _map(values: Object) -> Object:
    return {"type": "object", "additionalProperties": values}


_ANY: Object = {"type": "object"}
_PORT = _whole(1, 65535)
_QUANTITY: Object = {
    "type": ["string", "number"],
    "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
    "minimum": 0,
}
_AT_ONCE: Object = {"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+%?$"}
_SECRET = _matching(f"|{_DNS}")
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"({_OCTET}\.){{3}}{_OCTET}(/(3[0-2]|[12]?[0-9]))?"
_WORD = "[0-9a-fA-F]{1,4}"
_IPV6 = (
    f"(({_WORD}:){{7}}{_WORD}|({_WORD}:){{1,4}}:({_WORD}(:{_WORD}){{0,2}})?|::({_WORD})?)"
    "(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"
)
_HEADER = _matching(r"[A-Za-z0-9-]{1,64}")

_RULES: dict[str, Object] = {
    "analyses": _matching("({0})(,({0}))*".format("|".join(ANALYSES))),
    "after": _matching(_DURATION),
    "affinity": _object(nodeAffinity=_ANY, podAffinity=_ANY, podAntiAffinity=_ANY),
    "apiServerPorts": _list(_PORT),
    "apiServiceAnnotations": _map(_TEXT),
    "atOnce": _whole(1, 10_000),
    "commonLabels": _map(_TEXT),
    "addresses": _list(_matching(f"{_IPV4}|{_IPV6}")),
    "allow": _list(_matching(r"[!-+\--~]([ -+\--~]*[!-+\--~])?")),
    "apis": _list(_one_of("custom.metrics.k8s.io", "external.metrics.k8s.io")),
    # What is wrong with the rest of it the templates say in better words; so of `digest`.
    "broker": _matching(r"|kafka(\+ssl)?://.+"),
    "containers": _one_of("pods", "containers", "all"),
    "daily": _whole_of("cull_daily"),
    "databasePorts": _list(_PORT),
    "existingSecret": _SECRET,
    "budget": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e9},
    "caBundle": _matching("[A-Za-z0-9+/=]*"),
    "caSecret": _SECRET,
    "clientCaSecret": _SECRET,
    "clientSecret": _SECRET,
    "extraEnv": _list(_object("name", name=_matching(r"[A-Za-z_]\w*"), value=_TEXT, valueFrom=_ANY)),
    "heartbeat": _matching(_DURATION),
    "extraVolumeMounts": _list(_ANY),
    "extraVolumes": _list(_ANY),
    "fullnameOverride": _matching("|[a-z]([-a-z0-9]{0,38}[a-z0-9])?"),
    "hostPath": _matching("|/.*"),
    "interval": _matching(_DURATION),
    "issuer": _object(kind=_one_of("Issuer", "ClusterIssuer"), name=_matching(f"|{_DNS}")),
    "jobKinds": _list(
        _object("apiGroups", "resources", apiGroups=_list(_TEXT), resources=_list(_matching("[a-z0-9]+")))
    ),
    "kafkaPorts": _list(_PORT),
    "labels": _map(_TEXT),
    "lateness": _matching(_DURATION),
    "maxReplicas": _whole(1),
    "maxUnavailable": _AT_ONCE,
    "mechanism": _one_of("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "metricLabels": _map(_TEXT),
    "metricRelabelings": _list(_ANY),
    "nameOverride": _matching("|[a-z]([-a-z0-9]{0,38}[a-z0-9])?"),
    "relabelings": _list(_ANY),
    "serviceAccountAnnotations": _map(_TEXT),
    "tlsConfig": _ANY,
    "metricsFrom": _list(_object(namespaceSelector=_ANY, podSelector=_ANY, ipBlock=_ANY)),
    "webFrom": _list(_object(namespaceSelector=_ANY, podSelector=_ANY, ipBlock=_ANY)),
    "tokenSecret": _SECRET,
    "userHeader": _HEADER,
    "groupsHeader": _HEADER,
    "namespaces": _list(_matching(_LABEL, maxLength=63)),
    "namespaceSelector": _object(matchLabels=_map(_TEXT), matchExpressions=_list(_ANY)),
    "nodeSelector": _map(_TEXT),
    "notice": _matching(_DURATION),
    "partitions": _whole_of("partitions"),
    "podAnnotations": _map(_TEXT),
    "podLabels": _list(_matching(_LABEL_KEY)),
    "pools": _list(_matching(_LABEL_KEY)),
    "pods": _whole_of("metrics_pods"),
    "port": _PORT,
    "prefix": _matching(_DNS, maxLength=253),
    "priorityClassName": _matching(f"|{_DNS}"),
    "dnsPorts": _list(_PORT),
    "prometheusPorts": _list(_PORT),
    "pullPolicy": _one_of("Always", "IfNotPresent", "Never"),
    "pullSecrets": _list(_object("name", name=_matching(_DNS))),
    "replicas": _whole(0),
    "replication": _whole_of("replication"),
    "repository": _matching(r"[^\s]+"),
    "resources": _object(limits=_map(_QUANTITY), requests=_map(_QUANTITY), claims=_list(_ANY)),
    "runtimeClassName": _matching(f"|{_DNS}"),
    "size": _QUANTITY,
    "sizeMegabytes": _whole(1, 1_000_000),
    "stale": _matching(_DURATION),
    "start": _matching(_DURATION),
    "storageClassName": _matching(f"|-|{_DNS}"),
    "tag": _matching(r"|[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"),
    "teamLabel": _matching(_LABEL_KEY),
    "targetLagPerReplica": _matching("[1-9][0-9]*"),
    "timeoutSeconds": _whole(1, 30),
    "tolerations": _list(
        _object(
            key=_TEXT, operator=_one_of("Exists", "Equal", "Lt", "Gt"), value=_TEXT,
            effect=_one_of("NoSchedule", "PreferNoSchedule", "NoExecute"), tolerationSeconds=_whole(0),
        )
    ),
    "topicPrefix": _matching("[A-Za-z0-9._-]{0,200}"),
    "url": _matching(r"|https?://[^\s#]+"),
    "updateStrategy": _object(
        type=_one_of("RollingUpdate", "OnDelete"),
        rollingUpdate=_object(maxUnavailable=_AT_ONCE, maxSurge=_AT_ONCE),
    ),
    "webhookAnnotations": _map(_TEXT),
    "window": _matching(_DURATION),
    "without": _list(_TEXT),
    "windowsMetrics": _matching("|({0})(,({0}))*".format("|".join(sorted(WINDOW_METRICS)))),
    "windows": _matching(f"{_DURATION}(,{_DURATION})*"),
}  # fmt: skip
_DURATIONS = {
    "collector.interval": "interval", "prometheus.interval": "interval", "streams.windows": "windows",
    "streams.lateness": "lateness", "sinks.annotations.interval": "annotation_interval",
    "sinks.annotations.heartbeat": "annotation_heartbeat", "metrics.window": "metrics_window",
    "metrics.stale": "metrics_stale", "cull.after": "cull_after", "cull.notice": "cull_notice",
    "metrics.remoteWrite.interval": "remote_write_interval",
}  # fmt: skip
"""The setting that each duration of the values becomes."""
_TYPES = {bool: "boolean", int: "integer", str: "string", list: "array"}


def main() -> None:
    (CHART / "values.schema.json").write_text(text())
    (CHART / "limits.json").write_text(limits())
    (CHART / "analyses.json").write_text(needs())
    (CHART / "policy.json").write_text(policy())


def limits() -> str:
    """Give the bounds of each duration in seconds, as the process that gets it has them."""
    bounds: dict[str, list[float]] = {}
    for path, setting in _DURATIONS.items():
        parser = _PARSERS[setting]
        each = parser.each if isinstance(parser, SeveralSeconds) else parser
        assert isinstance(each, Seconds), setting
        bounds[path] = [each.low, each.high]
    return json.dumps(bounds, indent=1) + "\n"


def needs() -> str:
    """Give the analyses that each analysis and each service needs, what services miss without others, and the
    seconds of silence after which a series is dropped."""
    needs = {name: analysis.needs for name, analysis in ANALYSES.items()}
    relations = {"needs": needs, "neededBy": NEEDED_BY, "missedBy": MISSED_BY, "retire": Settings().retire}
    return json.dumps(relations, indent=1) + "\n"


def policy() -> str:
    """Give the bounds of a policy's numbers, its defaults, and what is asked of its bands."""
    usual = Policy()
    found = {
        "ranges": {name: [low, high] for name, low, high in RANGES},
        "defaults": {name: getattr(usual, name) for name, *_ in RANGES},
        "bands": {name: [band.low, band.high] for name, band in usual.bands.items()},
        "highest": HIGHEST_PRIORITY, "years": LEAST_YEARS, "yearSeconds": YEAR_S, "epoch": EPOCH_S,
    }  # fmt: skip
    return json.dumps(found, indent=1) + "\n"


def text() -> str:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    # What Helm itself hands to a chart that is part of another.
    found = _schema("", values)
    found["properties"]["global"] = {"type": "object"}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **found}, indent=1) + "\n"


def _schema(name: str, value: Any) -> Object:
    if name in _RULES:
        return _RULES[name]
    if not isinstance(value, dict):
        return {"type": _TYPES[type(value)]}
    return _object(**{key: _schema(key, one) for key, one in value.items()})


if __name__ == "__main__":
    main()
