"""The embedded broker's own process: ``python -m bus.kafka.embedded_server``, driven by lines of JSON.

It answers each line of standard input with one of standard output, and ends when standard input does:
however its parent dies, the pipe closes.

    {"do": "topic", "name": "dutycycle.pods", "partitions": 8}    {"do": "down"}    {"do": "up"}
"""

import json
import signal
import sys
from typing import IO, Any

from bus.kafka.embedded_mock import MockCluster
from contract.errors import DutycycleError


def serve(cluster: MockCluster, commands: IO[str], answers: IO[str]) -> None:
    """Say where the broker listens, then obey until ``commands`` ends."""
    _answer(answers, {"bootstrap": cluster.bootstrap})
    for line in commands:
        try:
            _obey(cluster, json.loads(line))
        except (DutycycleError, ValueError, KeyError, TypeError) as error:
            _answer(answers, {"error": str(error)})
        else:
            _answer(answers, {"ok": True})


def _obey(cluster: MockCluster, command: dict[str, Any]) -> None:
    match command["do"]:
        case "topic":
            cluster.create_topic(command["name"], int(command["partitions"]))
        case "down":
            cluster.set_down()
        case "up":
            cluster.set_up()
        case other:
            raise ValueError(f"{other!r} is no command of the embedded broker")


def _answer(answers: IO[str], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def main() -> None:
    """Run until standard input ends."""
    # Ctrl-C goes to the whole foreground group, and the others still have to hand in what they hold.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        cluster = MockCluster()
    except DutycycleError as error:
        _answer(sys.stdout, {"error": str(error)})
        raise SystemExit(1) from error
    try:
        serve(cluster, sys.stdin, sys.stdout)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
