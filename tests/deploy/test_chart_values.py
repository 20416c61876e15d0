"""Goal: no value that the chart accepts ends in a CrashLoopBackOff: Helm refuses what a process would.

Values are made from the chart's own schema. Each process of what is rendered is begun in this one as its
container begins it, with its arguments, its environment and its files, and is told to stop while it waits.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dutycycle.cli import service
from dutycycle.cli.arguments import given_settings
from dutycycle.cli.main import build_parser, command_module
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from dutycycle.kafka.security import security_kwargs
from sinks.scheduling.core.policy import RANGES
from sinks.scheduling.policy_file import policy_of_cluster
from tests.support.deploy.manifests import (
    CHART,
    FROM_PROMETHEUS,
    FULL,
    TRIAL,
    Object,
    containers,
    environment,
    helm,
    objects,
    pod_specs,
    render,
)
from tests.support.servers.kafka.certificates import make_certificate
from tests.support.servers.kube.client import kubeconfig

SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS: Object = yaml.safe_load((CHART / "values.yaml").read_text())
SWITCHED_ON: Object = {
    part: {"enabled": True} for part in ("adapter", "extender", "webhook", "metrics", "certManager")
}
BASES: tuple[Object, ...] = ({}, SWITCHED_ON, FULL, FROM_PROMETHEUS, TRIAL)
OF_KUBERNETES = frozenset({
    "affinity", "global", "extraEnv", "extraVolumeMounts", "extraVolumes", "image", "labels", "metricLabels",
    "metricRelabelings", "namespaceSelector", "networkPolicy", "nodeSelector", "podAnnotations", "rbac",
    "relabelings", "resources", "serviceAccountAnnotations", "tlsConfig", "tolerations", "updateStrategy",
})  # fmt: skip
"""Names of values that no process of ours sees."""
DURATIONS = st.sampled_from(
    ["0s", "1ms", "0.5s", "1s", "5", "10s", "60s", "1m", "90.5s", "300s", "1h", "1d", "400d"]
)
_NUMBERS = st.sampled_from([
    "0", "1", "-1", "0.5", "8", "60", "3600", "3601", "1e5", "1e12", "1_000", "0x10", "nan", "inf", "-inf",
    "true", '"8"', "[]", "1979-05-27", "10_000_000", "10_000_001", "20_000_000", "1_000_000_001", "9e9",
    "1767225600",
])  # fmt: skip
_BOUNDS = st.one_of(
    st.tuples(st.integers(-10, 120), st.integers(-10, 120)).map(
        lambda ends: f"[{ends[0]}_000_000, {ends[1]}_000_000]"
    ),
    st.lists(_NUMBERS, max_size=3).map(lambda numbers: f"[{', '.join(numbers)}]"),
    _NUMBERS,
)
_LINES = st.one_of(
    st.tuples(st.sampled_from([*(name for name, *_ in RANGES), "strech", "Error", "bands"]), _NUMBERS),
    st.tuples(st.sampled_from(["shares.a", "shares", 'shares."team a.b"', "shares.a.b"]), _NUMBERS),
    st.sampled_from([("# nothing", ""), ("nonsense",), ("a", ""), ("[[shares]]",)]),
)
_BAND_LINES = st.one_of(
    st.tuples(st.sampled_from(['""', "high", "ä.b", "'a b'"]), _BOUNDS),
    st.sampled_from([('""', "[10_000_001, 20_000_000]"), ("high", "[20_000_001, 30_000_000]")]),
)


def _unique(lines: st.SearchStrategy[tuple[str, ...]]) -> st.SearchStrategy[str]:
    """No name twice, nor one that is a table already: Helm's TOML takes what an older line has."""
    several = st.lists(lines, max_size=3, unique_by=lambda line: line[0])
    plain = several.filter(lambda taken: len({line[0][:7] for line in taken} & {"shares", "shares."}) < 2)
    return plain.map(lambda taken: "\n".join(map(" = ".join, taken)))


POLICIES = st.tuples(_unique(_LINES), st.just("") | _unique(_BAND_LINES).map("[bands]\n{}".format)).map(
    "\n".join
)
"""What is usual and what is odd: several of its names are judged together."""
ODD: dict[str, st.SearchStrategy[Any]] = {
    "streams.windows": st.lists(DURATIONS, min_size=1, max_size=3).map(",".join),
    "sinks.annotations.prefix": st.sampled_from(["kubernetes.io", "a.k8s.io", "x", "a..b", "a" * 300]),
    "kafka.topicPrefix": st.sampled_from(["", "a_", "..", ".", "-x", "a" * 190]),
    "kafka.broker": st.sampled_from(
        ["kafka://a:1,b:2", "kafka://a", "kafka+ssl://a:1", "kafka://a:b", "kafka:// :1"]
    ),
    "prometheus.url": st.sampled_from(
        ["http://a:x", "http://", "http://a b", "https://u:p@a/x", "http://[::1"]
    ),
    "metrics.remoteWrite.url": st.sampled_from(
        ["http://a:x", "https://", "https://u:p@a/x", "http://a/b c"]
    ),
    "metrics.remoteWrite.labels": st.dictionaries(
        st.sampled_from(["cluster", "a-b", "__name__", "", "9", "le", "a b"]),
        st.sampled_from(["", "x", "a,b=c", "ä"]), max_size=2,
    ),
    "streams.windowsMetrics": st.sampled_from(
        ["gpu_util_pct", "gpu_utl_pct", "power_w,power_w", "cpu_util_pct,x", "energy_j"]
    ),
    "web.pools": st.lists(st.sampled_from(["team", "a/b", "a_b", "a.b", "node"]), max_size=3),
    "podLabels": st.lists(
        st.sampled_from(["team", "-bad-", "a/b", "a_b", "a.b", "t" * 80, "node"]), max_size=3
    ),
    "webhook.policy": POLICIES,
    "webhook.teamLabel": st.sampled_from(["", "team", "a/b", "a b", "a/b/c", "-x"]),
    "trials.budget": st.sampled_from([0.001, 1, 60, 2_000_000, 1e9]),
    "analyses": st.sampled_from(
        ["windows", "peaks", "windows,windows", "insights", "usage,cycles,trends,insights"]
    ),
}  # fmt: skip
"""Of these the schema says too little to find what is odd about them."""


def leaves(schema: Object, defaults: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Each value that a process may see: its path, and its schema."""
    for name, of_it in schema["properties"].items():
        place = f"{path}.{name}" if path else name
        if name in OF_KUBERNETES and place not in ODD:
            continue
        inside = defaults[name]
        if isinstance(inside, dict) and "properties" in of_it and inside.keys() == of_it["properties"].keys():
            yield from leaves(of_it, inside, place)
        else:
            yield place, of_it


def values_of(path: str, schema: Object) -> st.SearchStrategy[Any]:
    """What the schema allows at a path, the odd rather than the usual."""
    if path in ODD:
        return ODD[path]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "boolean":
        return st.booleans()
    if kind in ("integer", "number"):
        least = schema.get("minimum", 0 if kind == "integer" else 0.5)
        most = schema.get("maximum", 5_000_000)
        return st.sampled_from([least, least + 1, most]) | st.integers(max(least, 1), most)
    if kind == "array":
        return st.lists(values_of("", schema["items"]), max_size=3)
    if kind == "object":
        return st.just({})
    if pattern := schema.get("pattern"):
        if "ms|s|m|h|d" in pattern:
            return DURATIONS
        return st.from_regex(
            pattern.replace("$", r"\Z"), alphabet=st.characters(min_codepoint=33, max_codepoint=126)
        )
    return st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)


LEAVES = {path: values_of(path, schema) for path, schema in leaves(SCHEMA, DEFAULTS)}


@st.composite
def some_values(draw: st.DrawFn) -> Object:
    """A few values beside those of an installation."""
    values: Object = json.loads(json.dumps(draw(st.sampled_from(BASES))))
    for path in draw(st.lists(st.sampled_from(sorted(LEAVES)), min_size=1, max_size=4, unique=True)):
        *parts, name = path.split(".")
        place = values
        for part in parts:
            place = place.setdefault(part, {})
        place[name] = draw(LEAVES[path])
    return values


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files that a pod may mount from Secrets, in one folder."""
    folder = tmp_path_factory.mktemp("files")
    make_certificate(folder, "tls", "d", "ca")
    for name in ("password", "secret", "token"):
        (folder / name).write_text("secret-of-many-letters")
    (folder / "url").write_text("postgresql+psycopg://dutycycle:secret@127.0.0.1:1/dutycycle")
    kubeconfig(folder / "kubeconfig", "http://127.0.0.1:1")
    return folder


def start(things: list[Object], container: Object, files: Path, folder: Path) -> None:
    """What its container does until it waits for others. Raises ``SettingError`` or ``SystemExit`` where it
    would end, and begin again for ever."""
    for thing in things:
        if thing["kind"] == "ConfigMap" and "policy.toml" in thing.get("data", {}):
            (files / "policy.toml").write_text(thing["data"]["policy.toml"])
    of_pod = environment(container) if "env" in container else {}
    variables: dict[str, str] = {
        "DUTYCYCLE_NODE": "n",
        "KUBECONFIG": str(files / "kubeconfig"),
        "HOME": str(folder),
    }
    for name, text in of_pod.items():
        if text.startswith("/etc/dutycycle/"):
            variables[name] = str(files / Path(text).name)
        elif name == "DUTYCYCLE_CUDA_LOGS":
            variables[name] = str(folder)
        elif name == "DUTYCYCLE_STEPS_SOCKET":
            variables[name] = str(folder / Path(text).name)
        elif name not in ("DUTYCYCLE_HOST_ROOT", "DUTYCYCLE_SPOOL", "DUTYCYCLE_LISTEN"):
            variables[name] = text
    variables |= {"DUTYCYCLE_SPOOL": str(folder / "spool"), "DUTYCYCLE_LISTEN": "127.0.0.1:0"}
    with patch.dict(os.environ, variables):
        args = build_parser({container["args"][0]}).parse_args(container["args"])
        taken = load(os.environ, given_settings(args))
        with patch.object(service, "stop_on_signals", asked_to_stop):
            if args.command in ("trial", "topics"):  # which ask at once, and say of what they get no answer
                security_kwargs(taken)
            else:
                command_module(args.command).run(args, taken)


def asked_to_stop() -> asyncio.Event:
    stop = asyncio.Event()
    stop.set()
    return stop


@given(values=some_values())
@settings(max_examples=60)
def test_what_the_chart_accepts_each_process_takes(
    values: Object, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    done = helm("template", "d", str(CHART), values=values)
    if done.returncode:
        event("refused")
        assert len([line for line in done.stderr.splitlines() if line.startswith("Error")]) == 1
        return
    event("accepted")
    things = objects(done.stdout)
    for part, spec in pod_specs(things).items():
        for container in containers(spec):
            if container.get("args"):
                start(things, container, files, tmp_path_factory.mktemp(part))


@given(text=POLICIES)
@settings(max_examples=60)
def test_a_policy_is_refused_by_the_chart_as_by_the_webhook(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    values = {**SWITCHED_ON, "webhook": {"enabled": True, "policy": text}}
    done = helm("template", "d", str(CHART), values=values)
    file = tmp_path_factory.mktemp("policy") / "policy.toml"
    file.write_text(text)
    reason = ""
    try:
        policy_of_cluster(str(file), "policy", time.time())
    except SettingError as error:
        reason = str(error)
    event("refused" if reason else "accepted")
    assert ("webhook.policy: " in done.stderr) == bool(reason), (reason, done.stderr)


@pytest.mark.parametrize("base", BASES)
def test_each_process_begins_with_the_usual_values(
    base: Object, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    things = render(base | {"certManager": {"enabled": True}})
    begun = []
    for part, spec in pod_specs(things).items():
        for container in containers(spec):
            if container.get("args"):
                start(things, container, files, tmp_path_factory.mktemp(part))
                begun.append(part)
    assert {"streams", "sinks", "metrics"} <= set(begun)


@pytest.mark.parametrize(
    ("part", "change", "says"),
    [
        ("streams", {"DUTYCYCLE_WINDOWS": "10s,10s"}, "DUTYCYCLE_WINDOWS"),
        ("collector", {"DUTYCYCLE_REPLICATION": "2e+06"}, "DUTYCYCLE_REPLICATION"),
        ("webhook", {"DUTYCYCLE_WEBHOOK_TEAM_LABEL": ""}, "DUTYCYCLE_WEBHOOK_TEAM_LABEL"),
        ("adapter", {"DUTYCYCLE_ANALYSES": "peaks"}, "adapter needs windows"),
        ("adapter", {"DUTYCYCLE_SERVE_CERT": ""}, "DUTYCYCLE_SERVE"),
    ],
)
def test_what_would_crash_is_seen_here(
    part: str, change: dict[str, str], says: str, files: Path, tmp_path: Path
) -> None:
    """Otherwise the test above could not fail."""
    things = render(SWITCHED_ON)
    (container,) = pod_specs(things)[part]["containers"]
    for variable in container["env"]:
        if variable["name"] in change:
            variable["value"] = change[variable["name"]]
    with pytest.raises(SettingError, match=says):
        start(things, container, files, tmp_path)
