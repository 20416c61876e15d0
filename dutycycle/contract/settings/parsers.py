"""Parses setting values: text in, value out, ``ValueError`` saying what would be right."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_network
from math import inf, nan
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dutycycle.contract.analyses import choose
from dutycycle.contract.catalogue import ACTIVITY_METRICS, ENGINE_METRICS, USUAL_ACTIVITY
from dutycycle.contract.settings.models import ModelSetting, model
from dutycycle.contract.settings.secret import LINE_END, Secret, header_lines

Parser = Callable[[str], Any]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_DNS = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"(?:[a-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SERIES_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*([^\"]+)")
_CLUSTER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*(?:=(?!~)[^,\"\\\x00-\x1f]+)?")
_NAME_PAIR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*=\s*([a-zA-Z_:][a-zA-Z0-9_:]*)")
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,60}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]*")
_LONGEST_PREFIX = 200
_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
KAFKA_SCHEMES = ("kafka", "kafka+ssl")


def non_empty(value: str) -> str:
    """Return any text that is not empty."""
    if not value.strip():
        raise ValueError("is empty")
    return value


def name(value: str) -> str:
    """Return a name that is not empty. Quotes around it are those of a file that keeps them."""
    if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
        raise ValueError("stands in quotes, which are part of it where no shell reads them: take them away")
    return non_empty(value)


def path(value: str) -> str:
    """Return a path that is not empty. ``~`` is known to shells alone."""
    if value.startswith("~"):
        raise ValueError("begins with ~, which only a shell knows: give the whole path")
    return name(value)


def token(value: str) -> Secret:
    """Return a token: a line that a header of HTTP can have."""
    if not re.fullmatch(r"[\x20-\x7e]+", non_empty(value)):
        raise ValueError("expected one line of ASCII")
    if value.lower().startswith("bearer "):
        raise ValueError("expected the token alone, without Bearer before it")
    return Secret(value)


def password(value: str) -> Secret:
    """Return a password, with the spaces at its ends."""
    return Secret(non_empty(value), around=LINE_END)


def password_for_good(value: str) -> str:
    """Return a password, with the spaces at its ends, that is not read again as its file changes."""
    return non_empty(value)


PASSWORDS = frozenset({password, password_for_good})
"""What reads passwords: their spaces count, and a line end of their file does not."""


def http_headers(value: str) -> Secret:
    """Check HTTP headers, one a line: ``X-Scope-OrgID: team-a``."""
    header_lines(non_empty(value))
    return Secret(value)


def cluster_label(value: str) -> str:
    """Return the name of a label, or ``LABEL=VALUE``."""
    if not _CLUSTER.fullmatch(value):
        raise ValueError("expected the name of a label, such as cluster, or one cluster, such as cluster=eu")
    return value


def name_pairs(value: str) -> tuple[tuple[str, str], ...]:
    """Return names with what each stands for, separated by commas: ``my_gpu_busy=DCGM_FI_DEV_GPU_UTIL``."""
    matches = [_NAME_PAIR.fullmatch(part) for part in _parts(value)]
    pairs = {match[1]: match[2] for match in matches if match}
    if not matches or len(pairs) < len(matches):
        raise ValueError(
            "expected pairs of different names, separated by commas, such as my_gpu_busy=DCGM_FI_DEV_GPU_UTIL"
        )
    return tuple(pairs.items())


@dataclass(frozen=True, slots=True)
class Whole:
    """Parses an integer from ``low`` to ``high``."""

    low: int
    high: int

    def __call__(self, value: str) -> int:
        if not re.fullmatch(r"-?\d+", value) or not self.low <= int(value) <= self.high:
            raise ValueError(f"expected a whole number from {self.low} to {self.high}")
        return int(value)


def multiple_of_4(low: int, high: int) -> Parser:
    """Return a multiple of 4 from ``low`` to ``high``."""
    parse_whole = Whole(low, high)

    def parse(value: str) -> int:
        number: int = parse_whole(value)
        if number % 4:
            raise ValueError(f"expected a multiple of 4, such as {number - number % 4}")
        return number

    return parse


def number(fits: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    """Return a parser of numbers that ``fits`` takes; ``wanted`` says in its message which these are."""

    def parse(value: str) -> float:
        try:
            parsed = float(value)
        except ValueError:
            parsed = nan
        if not fits(parsed):
            raise ValueError(f"{value!r}: expected {wanted}")
        return parsed

    return parse


def duration(value: str) -> float:
    """Return seconds, from ``90``, ``90s``, ``1.5m``, ``200ms``, ``2h``."""
    match = _DURATION.fullmatch(value.strip())
    if not match:
        raise ValueError("expected a duration such as 500ms, 10s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def price(value: str) -> float:
    """Return an amount of money: a number, 0 or more."""
    if not re.fullmatch(r"\d+\.?\d*|\.\d+", value.strip(), re.ASCII) or float(value) > 1e9:
        raise ValueError("expected a number, such as 2.5")
    return float(value)


def model_prices(value: str) -> tuple[tuple[str, float], ...]:
    """Return names of GPU models, or parts of them, with a price each: ``H200=4.1,A100=2.5``."""
    prices: dict[str, float] = {}
    for pair in filter(None, map(str.strip, value.split(","))):
        name, equals, amount = (part.strip() for part in pair.partition("="))
        if not equals or not name or {"%", "_", ";"} & set(name) or name.lower() in map(str.lower, prices):
            raise ValueError(f"{pair}: expected each model once, with its price, such as H200=4.1,A100=2.5")
        prices[name] = price(amount)
    return tuple(prices.items())


def share(value: str) -> float:
    """Return a number from 0 to 1."""
    if not re.fullmatch(r"[01]|[01]?\.\d+", value.strip()) or not 0 <= float(value) <= 1:
        raise ValueError("expected a number from 0 to 1, such as 0.95")
    return float(value)


def gpu_activity(value: str) -> str:
    """Check what is read of GPUs' activity: ``on`` for all metrics of what GPUs really do, ``off`` for none,
    or their names; with names behind a minus the usual ones without these."""
    if value in ("on", "off"):
        return value
    parts = {part.strip() for part in value.split(",")}
    left_out = {part[1:].strip() for part in parts if part.startswith("-")}
    chosen = {part for part in parts if not part.startswith("-")}
    chosen |= set(USUAL_ACTIVITY) if left_out else set()
    known = (*ACTIVITY_METRICS, *ENGINE_METRICS)
    if others := (chosen | left_out) - set(known):
        names = ",".join(known)
        raise ValueError(
            f"expected on, off, or some of {names}, with -name to leave one out; {min(others)!r} is none "
            "of them"
        )
    return ",".join(sorted(chosen - left_out)) or "off"


def roles(value: str) -> tuple[str, ...]:
    """Return names, separated by commas; ``sinks.serve.roles`` knows which there are."""
    if not (names := _parts(value)):
        raise ValueError("expected roles, separated by commas, such as metrics,extender")
    return names


def analyses(value: str) -> tuple[str, ...]:
    """Return names of analyses, separated by commas, with what each needs; in the order of the catalogue."""
    return choose(_parts(value))


def metric_names(value: str) -> tuple[str, ...]:
    """Return names of metrics, separated by commas, each once and in order."""
    names = sorted(set(_parts(value)))
    if not names or not all(_METRIC.fullmatch(name) for name in names):
        raise ValueError("expected names of metrics, separated by commas, such as gpu_util_pct,power_w")
    return tuple(names)


def models(value: str) -> tuple[ModelSetting, ...]:
    """Parse models that a user brings, separated by semicolons, each of another name."""
    models = tuple(model(text) for text in value.split(";") if text.strip())
    names = [parsed.name for parsed in models]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two models are called {min(twice)}")
    return models


@dataclass(frozen=True, slots=True)
class Seconds:
    """Parses a duration from ``low`` to ``high``, in seconds."""

    low: float
    high: float

    def __call__(self, value: str) -> float:
        parsed = duration(value)
        if not self.low <= parsed <= self.high:
            raise ValueError(f"expected a duration from {self.low:.10g}s to {self.high:.10g}s")
        return parsed


@dataclass(frozen=True, slots=True)
class SeveralSeconds:
    """Parses different durations of whole seconds, ascending, separated by commas; each as ``each`` says."""

    each: Seconds

    def __call__(self, value: str) -> tuple[float, ...]:
        parsed = tuple(self.each(part) for part in value.split(","))
        if list(parsed) != sorted(set(parsed)) or any(length != int(length) for length in parsed):
            raise ValueError("expected whole seconds, each larger than the one before, such as 10s,60s")
        return parsed


def size(low: int) -> Parser:
    """Return bytes, from ``64MB`` or ``1GiB`` (both binary), at least ``low``."""

    def parse(value: str) -> int:
        match = _SIZE.fullmatch(value.strip())
        size = float(match[1]) * _SIZES[match[2].upper()] if match else -1
        if not low <= size < inf:
            raise ValueError(f"expected a size such as 64MB, at least {low} bytes")
        return int(size)

    return parse


@dataclass(frozen=True, slots=True)
class Choice:
    """Takes one of a few words."""

    allowed: tuple[str, ...]

    def __call__(self, value: str) -> str:
        if value not in self.allowed:
            raise ValueError(f"expected one of {', '.join(self.allowed)}")
        return value


def choice(*allowed: str) -> Parser:
    """Return one of the words ``allowed``."""
    return Choice(allowed)


def node(value: str) -> str:
    """Return a node's name."""
    if not _NODE.fullmatch(value):
        raise ValueError("expected a host name of letters, digits, '.', '_' and '-'")
    return value


def dns_name(value: str) -> str:
    """Return a DNS name, as the prefix of an annotation key has to be."""
    if not _DNS.fullmatch(value) or len(value) > 253:
        raise ValueError("expected a DNS name in lower case, such as dutycycle.io")
    if re.search(r"(^|\.)(kubernetes|k8s)\.io$", value):
        raise ValueError("this name is reserved for Kubernetes itself: give one of your own")
    return value


def namespaces(value: str) -> tuple[str, ...]:
    """Return names of namespaces, separated by commas."""
    names = _parts(value)
    if not all(_NAMESPACE.fullmatch(name) for name in names):
        raise ValueError("expected names of namespaces, separated by commas, such as ml,vision")
    return names


def networks(value: str) -> tuple[str, ...]:
    """Return addresses and networks, separated by commas."""
    try:
        return tuple(str(ip_network(part, strict=False)) for part in _parts(value))
    except ValueError as error:
        raise ValueError(f"expected addresses or networks, such as 10.1.0.0/16,fd00::7: {error}") from error


def header_name(value: str) -> str:
    """Return the name of an HTTP header."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", value):
        raise ValueError("expected the name of a header, such as X-Forwarded-User")
    return value


def names(value: str) -> tuple[str, ...]:
    """Return names of people or groups, separated by commas."""
    if not value.isprintable():
        raise ValueError("expected names without control characters, separated by commas")
    return _parts(value)


def label_name(key: str) -> str:
    """Return what a pod's label ``key`` is called on a series, as kube-state-metrics calls it."""
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)


def label_keys(value: str) -> tuple[str, ...]:
    """Return keys of labels on Kubernetes objects, separated by commas."""
    keys = _parts(value)
    if not all(_LABEL_KEY.fullmatch(key) for key in keys):
        raise ValueError("expected keys of labels, separated by commas, such as team,cost-centre")
    if len(set(map(label_name, keys))) < len(keys):
        raise ValueError("two of these keys would have the same name on a series")
    return keys


def series_labels(value: str) -> tuple[tuple[str, str], ...]:
    """Parse labels of series: ``name=value``, separated by commas."""
    matches = [_SERIES_LABEL.fullmatch(part) for part in _parts(value)]
    if not all(matches):
        raise ValueError("expected labels of series, separated by commas, such as cluster=a,__replica__=1")
    pairs = {match[1]: match[2] for match in matches if match}
    if len(pairs) < len(matches):
        raise ValueError("a label is there twice")
    return tuple(pairs.items())


def topic_prefix(value: str) -> str:
    """Return what a topic name may begin with."""
    if len(value) > _LONGEST_PREFIX:
        raise ValueError(f"expected at most {_LONGEST_PREFIX} characters: names of topics have 249 at most")
    if not _TOPIC.fullmatch(value):
        raise ValueError("expected letters, digits, '.', '_' and '-', such as dutycycle.")
    return value


def broker(value: str) -> str:
    """Parse ``kafka://host:port,host:port`` or ``kafka+ssl://…``; a bare ``host:port`` is taken as
    ``kafka://``."""
    scheme, mark, listed = value.rpartition("://")
    hosts = re.sub(r"\s*,\s*", ",", listed)
    good = scheme in KAFKA_SCHEMES if mark else True
    if not good or not hosts or not all(map(_is_host_port, hosts.split(","))):
        raise ValueError("expected kafka://host:9092,host:9092, or kafka+ssl://… for TLS")
    return f"{scheme or 'kafka'}://{hosts}"


def _is_host_port(value: str, least: int = 1) -> bool:
    return bool(_HOST_PORT.fullmatch(value)) and least <= int(value.rpartition(":")[2]) < 65_536


def address(value: str) -> str:
    """Parse ``host:port``, or ``:port`` on loopback; port 0 is any free one."""
    address = f"127.0.0.1{value}" if value.startswith(":") else value
    if not _is_host_port(address, least=0):
        raise ValueError("expected host:port such as 127.0.0.1:19471, or :0 for any free port of loopback")
    return address


def listen(value: str) -> str:
    """Parse what ``address`` does, or ``off``."""
    try:
        return value if value == "off" else address(value)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from error


def http_url(value: str) -> str:
    """Return an ``http://`` or ``https://`` URL."""
    try:
        parts = urlsplit(value)
        is_whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        if "@" not in value:
            raise
        is_whole = False  # the text of the error has what may be of a password
    if not is_whole or parts.fragment or re.search(r"\s", value):
        raise ValueError(
            "expected a URL such as http://prometheus:9090, in whose password # / ? are %23 %2F %3F"
        )
    return value.rstrip("/")


def records_url(value: str) -> str:
    """Return an SQLAlchemy URL of SQLite or PostgreSQL."""
    scheme = value.partition("://")[0].partition("+")[0]
    if "://" not in value or scheme not in ("sqlite", "postgresql"):
        raise ValueError(
            "expected sqlite:///path/records.db or postgresql+psycopg://user:password@host/database"
        )
    return value


def readable_file(value: str) -> str:
    """Return a file that exists and can be read."""
    try:
        with Path(path(value)).open("rb"):
            return value
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from error


def token_file(value: str) -> str:
    """Return a file that can be read, or one that is not there yet, in a folder that is."""
    file = Path(value)
    return value if file.name and not file.exists() and file.parent.is_dir() else readable_file(value)


def folder(value: str) -> str:
    """Return a folder that exists."""
    if not Path(path(value)).is_dir():
        raise ValueError("there is no such folder")
    return value


def _parts(value: str) -> tuple[str, ...]:
    """Give what stands between the commas, without what is empty."""
    return tuple(part.strip() for part in value.split(",") if part.strip())
