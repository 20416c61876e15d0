"""Settings as flags: ``--topic-prefix`` is ``DUTYCYCLE_TOPIC_PREFIX``."""

import argparse
from collections.abc import Collection
from dataclasses import fields

from contract.settings.settings import Settings

BROKER = ("broker", "tls_ca", "tls_cert", "tls_key", "sasl_mechanism", "sasl_username", "topic_prefix")
TOPICS = ("partitions", "replication")
NODE = ("node", "interval", "host_root", "containers", "prometheus", "kubernetes", "spool", "spool_bytes")
OPERATORS = ("windows", "lateness", "retire")
WORKER = ("session_timeout",)
SINKS = ("annotations", "annotation_prefix", "annotation_interval", "annotation_rate", "kubernetes")
SERVICE = ("listen",)
_PREFIX = "setting_"


def add(parser: argparse.ArgumentParser, names: Collection[str]) -> None:
    """Add a flag for each of the settings ``names``. A secret gets none: a command line is public."""
    if not names:
        return
    group = parser.add_argument_group("settings", "also as environment variables DUTYCYCLE_…")
    by_name = {one.name: one for one in fields(Settings)}
    for name in dict.fromkeys(names):
        one = by_name[name]
        default = "" if one.default in (None, "") else f" (default: {_shown(name, one.default)})"
        group.add_argument(
            "--" + name.replace("_", "-"),
            dest=_PREFIX + name,
            metavar="VALUE",
            help=str(one.metadata["help"]).replace("%", "%%") + default,
        )


def add_containers(parser: argparse.ArgumentParser) -> None:
    """Add ``--containers`` with the default of ``dutycycle up``."""
    parser.add_argument(
        "--containers", dest=_PREFIX + "containers", metavar="VALUE",
        help="which cgroups to report: pods, also other containers, or all, units too (default: all)",
    )  # fmt: skip


def _shown(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value // 1024**2}MB"
    if isinstance(value, tuple):
        return ",".join(f"{item:g}s" for item in value)
    return f"{value:g}s" if isinstance(value, float) else str(value)


def given(args: argparse.Namespace) -> dict[str, str]:
    """The settings that the command line gave, by field name."""
    found = ((name, value) for name, value in vars(args).items() if name.startswith(_PREFIX))
    return {name.removeprefix(_PREFIX): value for name, value in found if value is not None}


def add_records(
    parser: argparse.ArgumentParser, default: str = "default: records.db in your state directory"
) -> None:
    """Add ``--records``. A URL that holds a password is better given by DUTYCYCLE_RECORDS(_FILE)."""
    parser.add_argument(
        "--records", dest=_PREFIX + "records", metavar="URL",
        help=f"the peak records: sqlite:///path/records.db or postgresql+psycopg://… ({default})",
    )  # fmt: skip
