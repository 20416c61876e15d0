"""Parses arguments of commands that look back: since when, until when, and from which Prometheus."""

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from dutycycle.cli.arguments import duration_s, moment_ms
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.groups import Settings

if TYPE_CHECKING:
    from dutycycle.traces.backfill import Range

_LEAST_STEP_S = 1
_MOST_STEP_S = 3600


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add ``--since``, ``--until``, ``--from-prometheus`` and its ``--step``."""
    group.add_argument(
        "--from-prometheus", nargs="?", const="", metavar="URL",
        help="a Prometheus that scrapes dcgm-exporter; without a URL the one of DUTYCYCLE_PROMETHEUS(_FILE)",
    )  # fmt: skip
    group.add_argument(
        "--partial", action="store_true",
        help="take answers that lack samples, such as those of a store of Thanos that is away, with status 0",
    )  # fmt: skip
    group.add_argument(
        "--since", metavar="TIME", help="where to begin: 7d is a week ago, or 2026-11-20T10:00:00Z"
    )
    group.add_argument("--until", metavar="TIME", help="where to end (default: now)")
    group.add_argument(
        "--step", type=duration_s, metavar="TIME",
        help="take one sample of Prometheus per step, such as 1m (default: every sample, as it was scraped)",
    )  # fmt: skip


def since_until(args: argparse.Namespace) -> tuple[int, int]:
    """Return ``--since`` and ``--until`` in Unix milliseconds. Raises ``SettingError``."""
    end_ms, start_ms = ago_ms("--until", args.until or "now"), ago_ms("--since", args.since)
    if start_ms >= end_ms:
        raise SettingError(
            f"--since {args.since} --until {args.until or 'now'}: the end is not after the beginning"
        )
    return start_ms, end_ms


def ago_ms(flag: str, text: str) -> int:
    """Return the Unix milliseconds of ``7d`` (before now), ``now``, or what ``moment_ms`` takes. Raises
    ``SettingError``."""
    now_ms = time.time_ns() // 1_000_000
    if text == "now":
        return now_ms
    if text[:1].isdigit() and text[-1:].isalpha() and not text.endswith("Z"):
        try:
            parsers.duration(text)
        except ValueError as error:
            raise SettingError(f"{flag} {text!r}: {error}, or 2026-11-20T10:00:00Z") from error
        text = f"-{text}"
    return moment_ms(flag, text, now_ms)


def prometheus_of(args: argparse.Namespace, settings: Settings) -> Settings:
    """Return the settings with the Prometheus that was given, if one was. Raises ``SettingError``."""
    if args.from_prometheus:
        try:
            settings = replace(settings, prometheus=parsers.http_url(args.from_prometheus))
        except ValueError as error:
            raise SettingError(f"--from-prometheus: {error}") from error
    if settings.prometheus is None:
        raise SettingError("no Prometheus is known: give --from-prometheus http://host:9090")
    return settings


def range_of(args: argparse.Namespace) -> "Range":
    """Return what of it is wanted. Raises ``SettingError``."""
    if args.since is None:
        raise SettingError("--from-prometheus needs --since, such as --since 7d")
    from dutycycle.traces.backfill import Range  # here, not above: --help need not wait for it

    start_ms, end_ms = since_until(args)
    end_ms = min(end_ms, ago_ms("--until", "now"))  # nothing of the future is there to be asked for
    step_s: int | None = None
    if args.step is not None:
        step_s = int(args.step)
        if step_s != args.step or not _LEAST_STEP_S <= step_s <= _MOST_STEP_S:
            raise SettingError(
                f"--step {args.step:g}s: expected whole seconds, from {_LEAST_STEP_S} to {_MOST_STEP_S}"
            )
    grid_ms = 1000 * (step_s or 1)
    given = ("--since", args.since, "--until", args.until or "now", "--step", f"{step_s or 'every'}")
    return Range(
        start_ms=start_ms // grid_ms * grid_ms, end_ms=end_ms // grid_ms * grid_ms, step_s=step_s, given=given
    )
