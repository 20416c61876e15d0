"""Compares what all workers of a consumer group have in common, or are refused: release and settings of
results.

A partition moves from worker to worker, and its state and results with it: with other windows, another
database or a state of another release, figures would depend on who has it. A group's protocol has a name that
all its members must offer, else the broker refuses the newest. So what has to be equal is that name.
"""

import fcntl
import json
import os
import socket
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import admin_client
from dutycycle.kafka.errors import BrokerError, BrokerRefusedError
from dutycycle.telemetry.metrics import release

_PREFIX = "dutycycle "
_RELEASE = "release"
_EMBEDDED = "mockCluster"
"""How the embedded broker's cluster id begins (librdkafka, ``rd_kafka_mock_cluster_new``)."""
_claims: dict[Path, IO[bytes]] = {}
"""Locks of this process on groups of embedded brokers: they end with it, however it ends."""


def name_protocol(settings: Settings, names: Iterable[str]) -> str:
    """Return the name of the protocol: the release, and those of the settings ``names`` that are no defaults.

    A secret is there by a digest. A SQLite file is another one on each host.
    """
    terms: dict[str, Any] = {_RELEASE: release()}
    wanted = set(names)
    for setting in fields(Settings):
        value = getattr(settings, setting.name)
        if setting.name not in wanted or value == setting.default:
            continue
        if setting.metadata["secret"]:
            where = socket.gethostname() if str(value).startswith("sqlite") else ""
            url = urlsplit(str(value))  # who logs in, and by which password, decides no result
            value = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
            value = f"#{sha256(f'{value}{where}'.encode()).hexdigest()[:8]}"
        terms[setting.name] = value
    return _PREFIX + json.dumps(terms, default=str)


class NamedProtocol:
    """Shows one of the driver's assignors, under another name."""

    def __init__(self, assignor: Any, name: str) -> None:
        self.name = name
        self._assignor = assignor

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._assignor, attribute)


async def verify_membership(settings: Settings, group: str, protocol: str) -> None:
    """Raise ``BrokerRefusedError`` if the group has members with another protocol, and say what differs.

    Nothing is known, and nothing raised, while the group is in a rebalance, or where the user may not ask:
    then the broker refuses, and with fewer words. The embedded broker tells nothing, and a second member
    with another protocol ends it: there a group has one process.
    """
    try:
        async with admin_client(settings, "group") as admin:
            cluster = await admin.describe_cluster()
            is_embedded = str(cluster.get("cluster_id")).startswith(_EMBEDDED)
            answers = [] if is_embedded else await admin.describe_consumer_groups([group])
    except BrokerError:
        return
    if is_embedded:
        _claim(f"{cluster['brokers'][0]['port']}-{group}", settings)
    for _, _, _, _, theirs, *_ in (description for answer in answers for description in answer.groups):
        if theirs and theirs != protocol:
            raise BrokerRefusedError(
                "group", f"consumer group {group}: {describe_difference(theirs, protocol)}"
            )


def _claim(name: str, settings: Settings) -> None:
    path = Path(tempfile.gettempdir()) / f"dutycycle-{os.getuid()}-{name}.lock"
    if path in _claims:
        return
    # The folder is everybody's: a link that another user put there is not followed, and nothing is emptied.
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise BrokerRefusedError(
            "group",
            f"{settings.broker} is the broker of a `dutycycle up`, whose own worker does this already, and "
            "it bears no second one: give that `up` the settings that you want, or run both on a Kafka",
        ) from error
    _claims[path] = lock


def describe_difference(theirs: str, ours: str) -> str:
    """Say in words what the members of a group have that a worker has not, and what to do."""
    end = "or take another DUTYCYCLE_TOPIC_PREFIX"
    if not theirs.startswith(_PREFIX):
        return f"another program uses this consumer group, with the protocol {theirs!r}: stop it, {end}"
    there, here = _terms(theirs), _terms(ours)
    differences = []
    for name in {**there, **here}:
        if there.get(name) != here.get(name):
            term = name if name == _RELEASE else f"DUTYCYCLE_{name.upper()}"
            values = f"{there.get(name, 'the default')} (here {here.get(name, 'the default')})"
            differences.append(f"{term} {values}")
    return (
        f"its workers have {', '.join(differences)}, and all workers of a group must have the same: "
        f"stop those first, {end}"
    )


def _terms(protocol: str) -> Mapping[str, Any]:
    terms: Mapping[str, Any] = json.loads(protocol.removeprefix(_PREFIX))
    return terms
