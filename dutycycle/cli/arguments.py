"""Parses arguments of several commands: settings as flags, and times and durations as people write them.

``--topic-prefix`` is ``DUTYCYCLE_TOPIC_PREFIX``.
"""

import argparse
from collections.abc import Callable, Collection
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.groups import Settings, ViewerSettings
from dutycycle.contract.settings.parsers import duration
from dutycycle.contract.units import END_OF_TIME_MS
from dutycycle.parser import typed

OF_BROKER = ("broker", "tls_ca", "tls_cert", "tls_key", "sasl_mechanism", "sasl_username", "topic_prefix")
OF_TOPICS = ("partitions", "replication")
OF_NODE = (
    "node", "interval", "host_root", "containers", "kubernetes", "pod_labels", "cuda_logs", "steps_socket",
    "spool", "spool_bytes", "demo",
)  # fmt: skip
OF_PROMETHEUS_ACCESS = ("prometheus_ca", "prometheus_username", "prometheus_cluster", "prometheus_names")
OF_PROMETHEUS = ("prometheus", *OF_PROMETHEUS_ACCESS)
OF_RESULTS = ("analyses",)
OF_OPERATORS = ("windows", "lateness", "retire")
OF_PAGE = ("web", *(field.name for field in fields(ViewerSettings)))
OF_WORKER = ("session_timeout",)
OF_SINKS = (
    "annotations", "annotation_prefix", "annotation_interval", "annotation_heartbeat",
    "kubernetes_events", "node_labels", "annotation_rate",
    "kubernetes",
)  # fmt: skip
OF_USAGE = (
    "price_gpu_hour", "price_gpu_models", "price_cpu_hour", "price_kwh", "usage_hours", "usage_days",
)  # fmt: skip
OF_SERVICE = ("listen", "listen_cert", "listen_key")
_PREFIX = "setting_"
_TIMEOUT_S = 30.0
_METAVARS: dict[object, str] = {
    parsers.readable_file: "FILE", parsers.token_file: "FILE", parsers.folder: "DIR",
    parsers.http_url: "URL", parsers.broker: "URL",
    float: "TIME", int: "N",
}  # fmt: skip
"""By the parser of a setting, or else the type of its default."""


def add_settings(parser: argparse.ArgumentParser, names: Collection[str]) -> None:
    """Add a flag for each of the settings ``names``. A secret gets none: a command line is public."""
    if not names:
        return
    group = parser.add_argument_group("settings", "also as environment variables DUTYCYCLE_…")
    by_name = {field.name: field for field in fields(Settings)}
    for name in dict.fromkeys(names):
        field, parse = by_name[name], by_name[name].metadata["parse"]
        shown = str(field.default)
        if name.endswith("_bytes") and isinstance(field.default, int):
            shown = f"{field.default // 1024**2}MB"
        elif isinstance(field.default, tuple):
            shown = ",".join(item if isinstance(item, str) else f"{item:g}s" for item in field.default)
        elif isinstance(field.default, float):
            shown = f"{field.default:g}s"
        default = "" if field.default in (None, "", ()) else f" (default: {shown})"
        # What the help says that a setting may be, and the shell completes
        values: dict[str, Any] = {
            "metavar": _METAVARS.get(parse) or _METAVARS.get(type(field.default), "VALUE")
        }
        if isinstance(parse, parsers.Choice):
            values = {"choices": parse.allowed}
        elif name.endswith("_bytes"):
            values = {"metavar": "SIZE"}
        group.add_argument(
            "--" + name.replace("_", "-"),
            dest=_PREFIX + name,
            help=str(field.metadata["help"]).replace("%", "%%") + default,
            **values,
            **({} if field.metadata["bare"] is None else {"nargs": "?", "const": field.metadata["bare"]}),
        )


def add_containers(parser: argparse.ArgumentParser) -> None:
    """Add ``--containers`` with the default of ``dutycycle up``."""
    parser.add_argument(
        "--containers", dest=_PREFIX + "containers", choices=("pods", "containers", "all"),
        help="which cgroups to report: pods, also other containers, or all, units too (default: all)",
    )  # fmt: skip


def given_settings(args: argparse.Namespace) -> dict[str, str]:
    """Return the settings that the command line gave, by field name."""
    given = ((name, value) for name, value in vars(args).items() if name.startswith(_PREFIX))
    return {
        name.removeprefix(_PREFIX): ";".join(value) if isinstance(value, list) else value
        for name, value in given
        if value is not None
    }


def add_model(parser: argparse._ActionsContainer) -> None:
    """Add ``--model``, once for each model."""
    parser.add_argument(
        "--model", action="append", dest=_PREFIX + "models", metavar="NAME=METRIC: SPEC",
        help="a River model to run as well, such as 'hw=gpu_util_pct: time_series.HoltWinters(alpha=0.3)'; "
        "may be given several times",
    )  # fmt: skip


def add_records(
    parser: argparse._ActionsContainer, default: str = "default: records.db in your state directory"
) -> None:
    """Add ``--records``. A URL that holds a password is better given by DUTYCYCLE_RECORDS(_FILE)."""
    parser.add_argument(
        "--records", dest=_PREFIX + "records", metavar="URL",
        help=f"the peak records: sqlite:///path/records.db or postgresql+psycopg://… ({default})",
    )  # fmt: skip


def add_cluster(group: argparse._ActionsContainer) -> None:
    """Add where the cluster is, as kubectl has it."""
    group.add_argument("--kubeconfig", metavar="FILE", help="as for kubectl")
    group.add_argument("--context", metavar="NAME", help="as for kubectl")


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add ``--force``, for ``--out``."""
    parser.add_argument("--force", action="store_true", help="replace --out if it is there")


def add_title(parser: argparse.ArgumentParser) -> None:
    """Add ``--title``, of ``--out``."""
    parser.add_argument("--title", metavar="TEXT", help="what stands above it (default: what it is about)")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format``, of ``--out``."""
    from dutycycle.tables.writer import NAMES, TRACE  # here, not above: few commands write tables

    parser.add_argument(
        "--format", choices=NAMES, default=TRACE,
        help="a trace, or tables: --out DIR gets a folder a topic and hour (default: %(default)s)",
    )  # fmt: skip


def add_once(parser: argparse.ArgumentParser) -> None:
    """Add ``--once`` and its ``--format``, of a live view."""
    parser.add_argument("--once", action="store_true", help="print one picture, without a screen, and end")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="of --once (default: %(default)s)"
    )


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout``, in seconds, of a command that is done in a moment once the broker answers."""
    parser.add_argument(
        "--timeout", type=duration_s, default=_TIMEOUT_S, metavar="TIME",
        help=f"give up if no broker answers for this time (default: {_TIMEOUT_S:g}s)",
    )  # fmt: skip


_LEAST_SECONDS = 10**9
"""Of these seconds on, from 2001, a number has ten digits; as milliseconds it is of early 1970."""


def moment_ms(flag: str, text: str, now_ms: int) -> int:
    """Return the Unix milliseconds that ``flag`` was given: of ``2026-11-20T10:00:00Z``, of ``-10m`` (before
    now), or of their own number.

    A time without a zone is UTC. Raises ``SettingError``.
    """
    try:
        if text.isdecimal():
            ts_ms = int(text)
        elif text.startswith("-"):
            ts_ms = now_ms - round(duration(text[1:]) * 1000)
        else:
            moment = datetime.fromisoformat(text)
            ts_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise SettingError(
            f"{flag} {text!r}: expected 2026-11-20T10:00:00Z, -10m, or Unix milliseconds"
        ) from error
    if text.isdecimal() and _LEAST_SECONDS <= ts_ms < 10 * _LEAST_SECONDS:
        raise SettingError(f"{flag} {text}: looks like Unix seconds: expected milliseconds, {text}000")
    if not 0 <= ts_ms <= END_OF_TIME_MS:
        raise SettingError(f"{flag} {text!r}: is before 1970 or after 2100")
    return ts_ms


duration_s = typed(duration)
"""Parses ``20s`` or ``5m`` into seconds, for argparse."""


def whole_number(most: int | None = None) -> Callable[[str], int]:
    """Return a parser for argparse of whole numbers from 1 on, to ``most``."""

    def parsed(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= (most or int(text)):
            bounds = "on" if most is None else f"to {most}"
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 {bounds}")
        return int(text)

    return parsed
