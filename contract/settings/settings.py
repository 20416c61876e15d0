"""Every setting: a ``DUTYCYCLE_*`` environment variable, or the same name as a flag. Checked at start.

``load`` reads the environment and the flags of a command into one frozen ``Settings``, which is passed
down; nothing else reads the environment. A secret may come from a file: ``DUTYCYCLE_SASL_PASSWORD_FILE``.
"""

import difflib
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from contract.errors import SettingError
from contract.settings import parsers
from contract.settings.parsers import Parser

PREFIX = "DUTYCYCLE_"
_FOR_TESTS = "DUTYCYCLE_TEST_"


def _setting(default: Any, parse: Parser, help_text: str, *, secret: bool = False) -> Any:
    metadata = {"parse": parse, "help": help_text, "secret": secret}
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. The environment name of ``topic_prefix`` is ``DUTYCYCLE_TOPIC_PREFIX``.

    Durations are seconds, sizes bytes.
    """

    broker: str | None = _setting(
        None, parsers.broker, "Kafka: kafka://host:9092,host:9092, or kafka+ssl://… for TLS"
    )
    tls_ca: str | None = _setting(None, parsers.readable_file, "CA certificates (PEM) that sign the brokers'")
    tls_cert: str | None = _setting(None, parsers.readable_file, "client certificate (PEM) for mutual TLS")
    tls_key: str | None = _setting(None, parsers.readable_file, "private key (PEM) of the client certificate")
    sasl_mechanism: str | None = _setting(
        None, parsers.choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "how to authenticate to Kafka"
    )
    sasl_username: str | None = _setting(None, parsers.text, "user name for SASL")
    sasl_password: str | None = _setting(None, parsers.text, "password for SASL; prefer …_FILE", secret=True)
    topic_prefix: str = _setting("dutycycle.", parsers.topic_prefix, "what topic names begin with")
    partitions: int = _setting(8, parsers.whole(1, 10_000), "partitions of a topic that is created")
    replication: int = _setting(1, parsers.whole(1, 15), "replicas of a topic that is created")

    node: str = _setting("", parsers.node, "this node's name; default: the host's")
    interval: float = _setting(1.0, parsers.seconds(0.05, 3600), "between two ticks of the collector")
    host_root: str = _setting("/", parsers.folder, "where the host's /proc and /sys are mounted")
    containers: str = _setting(
        "pods",
        parsers.choice("pods", "containers", "all"),
        "which cgroups to report: Kubernetes pods, also other containers, or systemd units and slices too",
    )
    prometheus: str | None = _setting(
        None,
        parsers.http_url,
        "a Prometheus that scrapes dcgm-exporter and cAdvisor; read instead of NVML",
        secret=True,
    )
    kubernetes: str = _setting(
        "auto", parsers.choice("auto", "on", "off"), "talk to the API server; auto: where there is one"
    )
    pod_resources: str = _setting(
        "auto", parsers.text, "the kubelet's pod-resources socket; auto: where the host has one; or off"
    )
    spool: str | None = _setting(None, parsers.text, "folder that keeps samples while the broker is away")
    spool_bytes: int = _setting(
        256 * 1024**2, parsers.size(1024**2), "the spool's bound; past it the oldest go"
    )

    windows: tuple[float, ...] = _setting(
        (10.0, 60.0), parsers.several_seconds(1, 600), "lengths of the tumbling windows"
    )
    lateness: float = _setting(10.0, parsers.seconds(0, 3600), "how late a sample may be for its window")
    snapshot_interval: float = _setting(
        2.0, parsers.seconds(0.1, 300), "between two commits of state, outputs and offsets"
    )
    session_timeout: float = _setting(
        10.0,
        parsers.seconds(2, 300),
        "silence after which a worker's partitions go to others; brokers refuse less than 6s by default",
    )
    retire: float = _setting(600.0, parsers.seconds(10, 86_400), "silence after which a series is forgotten")
    evict: float = _setting(
        86_400.0, parsers.seconds(10, 31_536_000), "silence after which a node's state is removed"
    )
    evict_pods: float = _setting(
        3 * 86_400.0, parsers.seconds(10, 31_536_000), "the same for a pod; longer than samples are kept"
    )
    evict_jobs: float = _setting(
        7 * 86_400.0, parsers.seconds(10, 31_536_000), "the same for a job, which may rest over a weekend"
    )
    price_gpu_hour: float | None = _setting(
        None, parsers.price, "what a GPU costs in an hour, in any currency: insights say what idleness cost"
    )
    price_kwh: float | None = _setting(None, parsers.price, "the same for a kilowatt hour of GPUs' energy")

    records: str | None = _setting(
        None, parsers.records_url, "SQLAlchemy URL of the peak records", secret=True
    )
    annotations: str = _setting(
        "auto",
        parsers.choice("auto", "on", "off"),
        "annotate Kubernetes objects; auto: where there is an API",
    )
    annotation_prefix: str = _setting("dutycycle.io", parsers.dns_name, "what annotation keys begin with")
    annotation_interval: float = _setting(
        30.0, parsers.seconds(1, 86_400), "least time between two writes to one object"
    )
    annotation_rate: int = _setting(
        50, parsers.whole(1, 10_000), "most requests a second of one sink to the API server"
    )

    listen: str | None = _setting(
        None,
        parsers.listen,
        "where /healthz, /readyz and /metrics are served: host:port, :0 for any free port, or off; "
        "default: 127.0.0.1, 19470 for collect, 19471 for stream, 19472 for sink",
    )

    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown."""
        return tuple(
            value
            for f in fields(self)
            if f.metadata["secret"] and (value := getattr(self, f.name)) is not None
        )


def load(environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Settings:
    """Settings from flags (by field name) over environment variables over defaults.

    Raises ``SettingError`` that names the flag or variable, its value (unless that may hold a password),
    and what would be right.
    """
    given = flags or {}
    values = {}
    for one in fields(Settings):
        source, text = _source(one.name, environ, given)
        if text is None:
            continue
        shown = "…" if one.metadata["secret"] or "@" in text else repr(text)
        try:
            values[one.name] = one.metadata["parse"](text)
        except ValueError as error:
            raise SettingError(f"{source}={shown}: {error}") from error
    if "node" not in values:
        values["node"] = _host_name()
    return _checked(Settings(**values))


def _source(name: str, environ: Mapping[str, str], flags: Mapping[str, str]) -> tuple[str, str | None]:
    if name in flags:
        return "--" + name.replace("_", "-"), flags[name]
    variable = PREFIX + name.upper()
    if variable in environ:
        return variable, environ[variable]
    if (path := environ.get(variable + "_FILE")) is not None:
        try:
            return variable + "_FILE", Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{variable}_FILE={path!r}: cannot be read: {error}") from error
    return variable, None


def _host_name() -> str:
    try:
        return parsers.node(socket.gethostname())
    except ValueError as error:
        raise SettingError(f"the host's name is no node name ({error}): give DUTYCYCLE_NODE") from error


def _checked(settings: Settings) -> Settings:
    if settings.sasl_mechanism and not (settings.sasl_username and settings.sasl_password):
        raise SettingError(
            "DUTYCYCLE_SASL_MECHANISM is set: DUTYCYCLE_SASL_USERNAME and DUTYCYCLE_SASL_PASSWORD(_FILE) "
            "must be, too"
        )
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingError("DUTYCYCLE_TLS_CERT and DUTYCYCLE_TLS_KEY go together: one of them is missing")
    return settings


def near_misses(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that look like a mistyped setting, each with the setting that it resembles."""
    known = {PREFIX + one.name.upper() for one in fields(Settings)}
    known |= {name + "_FILE" for name in known}
    found = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and not name.startswith(_FOR_TESTS) and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            found += [(name, match) for match in close]
    return found
