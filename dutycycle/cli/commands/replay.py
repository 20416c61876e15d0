"""``dutycycle replay``: the same operators over a trace, in process; or the trace back into Kafka."""

import argparse

from contract.errors import SettingError
from contract.settings.groups import Settings
from dutycycle.cli import arguments

EXAMPLE = """dutycycle replay day.jsonl.zst --out derived.jsonl.gz --records sqlite:///day.db
dutycycle replay day.jsonl.zst --broker kafka://127.0.0.1:9092 --speed 10"""
SETTINGS = (*arguments.OF_BROKER, *arguments.OF_OPERATORS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Traces, and where the results go."""
    parser.add_argument(
        "trace", nargs="+", metavar="TRACE", help="trace files, one after the other; - is stdin"
    )
    parser.add_argument("--out", metavar="FILE", help="write every derived record as a trace; - is stdout")
    arguments.add_force(parser)
    arguments.add_records(parser, default="default: none are written")
    parser.add_argument(
        "--keep-open", action="store_true", help="leave open windows open, as a live stream would"
    )
    parser.add_argument("--speed", metavar="N", type=_positive, help="with --broker: N times real time")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0, such as 10")
    return value


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Replay; 0 when every line of every trace was read."""
    to_broker = args.setting_broker is not None
    if to_broker and (args.out or args.setting_records or args.keep_open):
        raise SettingError("--broker publishes the trace: --out, --records and --keep-open do not go with it")
    if to_broker:
        from dutycycle.traces.republish import republish  # here, not above: --help need not wait for it

        return republish(args.trace, settings, args.speed)
    if args.speed:
        raise SettingError("--speed needs --broker: in process a replay runs as fast as it can")
    from dutycycle.traces.replay import replay_in_process  # here, not above: --help need not wait for it

    records = settings.records if args.setting_records else None
    return replay_in_process(
        args.trace, settings, out=args.out, overwrite=args.force, records=records, keep_open=args.keep_open
    )
