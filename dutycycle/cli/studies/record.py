"""Runs ``dutycycle record``: writes topics to a trace or to tables, or what a Prometheus kept to a trace."""

import argparse
import time

from dutycycle.cli import arguments, history
from dutycycle.cli.arguments import duration_s, moment_ms
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS, TOPICS, short_name
from dutycycle.tables.writer import TRACE
from dutycycle.traces.record import RecordRequest, record

EXAMPLE = """dutycycle record --broker kafka://kafka:9092 --from -10m --out last.jsonl.zst
dutycycle record --broker kafka://kafka:9092 --from -1h --topic all --out tables/ --format parquet
dutycycle record --from-prometheus http://prometheus:9090 --since 7d --out week.jsonl.zst"""
SETTINGS = (*arguments.OF_BROKER, *arguments.OF_PROMETHEUS_ACCESS)
_OF_KAFKA = {"topic": "--topic", "duration": "--duration", "start": "--from", "end": "--to"}
_OF_PROMETHEUS = {"since": "--since", "until": "--until", "step": "--step"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to record, and how long."""
    parser.add_argument(
        "--out", required=True, metavar="TRACE|DIR", help="file to write (.gz, .zst by suffix); - is stdout"
    )
    arguments.add_format(parser)
    arguments.add_force(parser)
    arguments.add_timeout(parser)
    parser.add_argument(
        "--topic",
        action="append",
        metavar="NAME",
        help="a topic; again for more; all for every one (default: what collectors write)",
    )
    parser.add_argument("--duration", type=duration_s, metavar="TIME", help="stop after so long, such as 10m")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="first event time: -10m is ten minutes ago, 2026-11-20T10:00:00Z, or Unix milliseconds",
    )
    parser.add_argument("--to", dest="end", metavar="TIME", help="event time to stop before")
    history.add_arguments(parser.add_argument_group("history", "what a Prometheus kept, instead of topics"))


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Record until the end, the duration or a signal."""
    of_prometheus = args.from_prometheus is not None
    for name, flag in (_OF_KAFKA if of_prometheus else _OF_PROMETHEUS).items():
        if getattr(args, name) is not None:
            joined = "does not go with --from-prometheus" if of_prometheus else "needs --from-prometheus"
            raise SettingError(f"{flag} {joined}")
    if of_prometheus:
        if args.format != TRACE:
            raise SettingError(
                f"--format {args.format} does not go with --from-prometheus: replay the trace to tables"
            )
        settings, past = history.prometheus_of(args, settings), history.range_of(args)
        from dutycycle.traces.backfill import backfill  # here, not above: --help need not wait for it

        return backfill(
            args.out, past, settings, overwrite=args.force, patience_s=args.timeout, partial=args.partial
        )
    if settings.broker is None:
        raise SettingError("no broker to record from: give --broker kafka://host:9092 or DUTYCYCLE_BROKER")
    now_ms = time.time_ns() // 1_000_000
    wanted = RecordRequest(
        topics=_topics(args.topic, settings.topic_prefix),
        start_ms=None if args.start is None else moment_ms("--from", args.start, now_ms),
        end_ms=None if args.end is None else moment_ms("--to", args.end, now_ms),
        duration_s=args.duration,
        those_there="all" in (args.topic or ()),
    )
    if wanted.start_ms is not None and wanted.end_ms is not None and wanted.start_ms >= wanted.end_ms:
        raise SettingError(f"--from {args.start} --to {args.end}: the end is not after the beginning")
    return record(args.out, args.format, wanted, settings, overwrite=args.force, timeout_s=args.timeout)


def _topics(given: list[str] | None, prefix: str) -> tuple[str, ...]:
    if given is None:
        return SAMPLE_TOPICS
    if "all" in given:
        return tuple(TOPICS)
    names = [name if name in TOPICS else short_name(prefix, name) for name in given]
    for name, text in zip(names, given, strict=True):
        if name is None:
            raise SettingError(f"--topic {text!r}: expected one of {', '.join(TOPICS)}, or all")
    return tuple(name for name in names if name is not None)
