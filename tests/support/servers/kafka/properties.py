"""The server.properties of the test broker."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.kafka.certificates import Certificates

USERNAME = "dutycycle"
PASSWORD = "only-for-tests"
MECHANISM = "SCRAM-SHA-256"

_HOUR_MS = 3_600_000

_SINGLE_NODE: dict[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    # After a SIGKILL the broker is let in again when its former session has expired: 9 s by default.
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 300,
    # Twice a second it would tell replicas of the controller, which it has not, that it lives.
    "metadata.max.idle.interval.ms": 0,
    # A killed worker's partitions go to another in 4 s: see ``session_timeout``.
    "group.min.session.timeout.ms": 2_000,
    # Records of tests carry event times of years ago; a retention check would delete them mid-test.
    "log.initial.task.delay.ms": _HOUR_MS,
    "log.retention.check.interval.ms": _HOUR_MS,
    # Records of years ago beside those of now would close a segment: what is read late would be compacted.
    "log.roll.hours": 1_000_000,
    # The files of a topic that was deleted stay a minute, and would be opened by a broker that starts.
    "log.segment.delete.delay.ms": 1_000,
    # Compacted topics are looked at every 15 s by default: the test of compaction waits for it.
    "log.cleaner.backoff.ms": 500,
    # Of the 128 MiB that it takes by default, a start fills every page with zeros.
    "log.cleaner.dedupe.buffer.size": 2 * 1024**2,
}


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of one broker. ``local`` is plain and for the broker itself when clients come by TLS;
    ``advertised`` is what clients are told, if another one than ``clients``."""

    clients: int
    controller: int
    local: int
    advertised: int | None = None


def render(folder: Path, ports: Ports, certificates: Certificates | None) -> str:
    """The file's text. With certificates, clients need TLS and SCRAM."""
    values = {
        **_SINGLE_NODE,
        "log.dirs": folder / "data",
        "controller.quorum.voters": f"1@127.0.0.1:{ports.controller}",
        "inter.broker.listener.name": "LOCAL",
        "listeners": _listeners(ports.clients, ports.local) + f",CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": _listeners(ports.advertised or ports.clients, ports.local),
        "listener.security.protocol.map": "CLIENTS:{},LOCAL:PLAINTEXT,CONTROLLER:PLAINTEXT".format(
            "SASL_SSL" if certificates else "PLAINTEXT"
        ),
        **(_security(certificates) if certificates else {}),
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _listeners(clients: int, local: int) -> str:
    return f"CLIENTS://127.0.0.1:{clients},LOCAL://127.0.0.1:{local}"


def _security(certificates: Certificates) -> Mapping[str, object]:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            f'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorPrincipalClaimName="{PASSWORD}";'
        ),
        # As on many clusters: no client of ours may make a topic by asking for it.
        "auto.create.topics.enable": "true",
        # The broker itself comes by the plain listener of the loopback, and has no name there.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USERNAME};User:ANONYMOUS",
        f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
    }
