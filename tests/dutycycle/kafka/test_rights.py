"""A Kafka with ACLs: what ``dutycycle topics --acls`` prints suffices, and what is missing is named."""

import asyncio
import json
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are there
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dutycycle.cli.commands.topics import ROLES
from dutycycle.contract.topics import full_name
from tests.support.data.traces import write_trace
from tests.support.data.training_job import training_job
from tests.support.kafka import settings_of
from tests.support.processes.commands import derived, environ, run_to_end, running
from tests.support.processes.figures import readiness
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.properties import PASSWORD as PRINCIPAL_CLAIM
from tests.support.servers.kafka.properties import USERNAME
from tests.support.waiting import wait_until

PASSWORD = "only-for-tests-too"
OPERATIONS = {
    "Read": AclOperation.READ, "Write": AclOperation.WRITE, "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS, "Create": AclOperation.CREATE,
}  # fmt: skip


class User:
    """A user of a broker with ACLs, who may do nothing yet."""

    def __init__(self, kafka: RunningBroker) -> None:
        self.name = f"user-{uuid.uuid4().hex[:8]}"
        self.prefix = kafka.new_prefix()
        self._admin = kafka.admin()
        credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        upsertion = UserScramCredentialUpsertion(self.name, credentials, PASSWORD.encode())
        for answer in self._admin.alter_user_scram_credentials([upsertion]).values():
            answer.result(60)
        # The controller has it now; the broker, which asks for passwords and rights, has it a little later.
        login = {"sasl_username": self.name, "sasl_password": PASSWORD}
        wait_until(lambda: kafka.answers(**login), lambda: f"the broker to know {self.name}")
        self.env = environ(topic_prefix=self.prefix, partitions="2", session_timeout="6s") | kafka.settings()
        self.env |= {"DUTYCYCLE_SASL_USERNAME": self.name, "DUTYCYCLE_SASL_PASSWORD": PASSWORD}

    def may(self, operations: Iterable[str], *, allow: bool = True, topic: str = "") -> None:
        """Allow, or deny, operations on all topics with the prefix, or on one of them."""
        pattern = ResourcePatternType.LITERAL if topic else ResourcePatternType.PREFIXED
        name = self.prefix + topic
        self._change(ResourceType.TOPIC, name, pattern, operations, allow=allow)

    def may_read_by(self, group: str) -> None:
        """Allow to be a member of a consumer group, by its name without the prefix."""
        self._change(
            ResourceType.GROUP, self.prefix + group, ResourcePatternType.LITERAL, ["Read"], allow=True
        )

    def _change(
        self,
        kind: ResourceType,
        name: str,
        pattern: ResourcePatternType,
        operations: Iterable[str],
        *,
        allow: bool,
    ) -> None:
        permission = AclPermissionType.ALLOW if allow else AclPermissionType.DENY
        bindings = [
            AclBinding(kind, name, pattern, f"User:{self.name}", "*", OPERATIONS[operation], permission)
            for operation in operations
        ]
        for answer in self._admin.create_acls(bindings).values():
            answer.result(60)
        wait_until(lambda: self._rights().issuperset(bindings), lambda: f"the broker to know {bindings}")

    def _rights(self) -> set[AclBinding]:
        anything = AclBindingFilter(  # the stubs do not know that None is any
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            f"User:{self.name}",
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return set(self._admin.describe_acls(anything).result(60))

    def runs(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command of this user, to its end."""
        return run_to_end(*arguments, env=self.env)


@pytest.fixture
def user(secure_kafka: RunningBroker) -> User:
    return User(secure_kafka)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.jsonl", training_job(40))


def test_the_printed_rights_suffice_for_a_collector_and_a_worker(
    user: User, secure_kafka: RunningBroker, trace: Path, tmp_path: Path
) -> None:
    user.may(ROLES["stream"])
    user.may_read_by("streams")
    made = user.runs("topics")
    assert (made.returncode, made.stderr) == (0, "")
    collector = User(secure_kafka)
    collector.prefix = user.prefix
    collector.env["DUTYCYCLE_TOPIC_PREFIX"] = user.prefix
    collector.may(ROLES["collector"])
    sent = collector.runs("replay", str(trace), "--broker", secure_kafka.url)
    assert sent.returncode == 0, sent.stderr
    log = tmp_path / "stream.log"
    settings = settings_of(user.env)
    with running("stream", env=user.env, log=log):
        wait_until(lambda: bool(asyncio.run(derived(settings, ["window-aggregates"]))), log.read_text)


def test_no_right_is_said(user: User) -> None:
    done = user.runs("topics")
    assert done.returncode == 1
    assert "creating topic" in done.stderr
    assert "dutycycle topics --acls" in done.stderr


def test_topics_that_cannot_be_seen_are_no_endless_wait(user: User) -> None:
    user.may(["Create"])
    done = user.runs("topics")
    assert done.returncode == 1
    assert f"seeing topic {user.prefix}" in done.stderr
    assert "(Describe)" in done.stderr


def test_settings_that_cannot_be_read_are_unknown(user: User) -> None:
    user.may(["Create", "Describe"])
    done = user.runs("topics")
    assert done.returncode == 0
    assert f"{user.prefix}nvml-samples\tpartitions=2\t?\t?\n" in done.stdout
    assert "DescribeConfigs" in done.stderr


def test_a_worker_without_its_group_says_which(user: User) -> None:
    user.may(ROLES["stream"])
    done = user.runs("stream")
    assert done.returncode == 1
    assert f"consumer group {user.prefix}streams: the user may not read by this consumer group" in done.stderr
    assert "Error(" not in done.stderr


def test_a_worker_that_may_not_write_names_the_topic(
    user: User, secure_kafka: RunningBroker, trace: Path
) -> None:
    user.may(ROLES["stream"])
    user.may_read_by("streams")
    assert user.runs("topics").returncode == 0
    assert user.runs("replay", str(trace), "--broker", secure_kafka.url).returncode == 0
    user.may(["Write"], allow=False, topic="window-aggregates")
    done = user.runs("stream")
    assert done.returncode == 1
    assert f"{full_name(user.prefix, 'window-aggregates')}: the user may not do this" in done.stderr
    assert "Traceback" not in done.stderr


def test_readers_are_told_that_it_may_be_rights(
    user: User, secure_kafka: RunningBroker, tmp_path: Path
) -> None:
    done = user.runs(
        "record", "--broker", secure_kafka.url, "--from", "-1h", "--out", str(tmp_path / "x.jsonl")
    )
    assert done.returncode == 1
    assert "may the user see it (Kafka's ACLs, Describe)?" in done.stderr


def unsecured_token(user: str, expires_s: float) -> str:
    """A token without a signature, which Kafka takes where nobody has set up more; the test broker looks for
    the user's name under a claim that is its password."""
    claims = {PRINCIPAL_CLAIM: user, "sub": user, "iat": 0, "exp": expires_s}
    parts = ({"alg": "none"}, claims)
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def test_a_token_is_as_good_as_a_password_and_read_again_as_it_changes(
    secure_kafka: RunningBroker, tmp_path: Path
) -> None:
    file, log = tmp_path / "token", tmp_path / "stream.log"
    env = environ(topic_prefix=secure_kafka.new_prefix(), partitions="2", session_timeout="6s")
    env |= {name: value for name, value in secure_kafka.settings().items() if "SASL" not in name}
    env |= {"DUTYCYCLE_SASL_MECHANISM": "OAUTHBEARER", "DUTYCYCLE_SASL_TOKEN_FILE": str(file)}
    file.write_text(unsecured_token(USERNAME, expires_s=1_000_000_000))
    expired = run_to_end("topics", env=env)
    assert (expired.returncode, "token is wrong (DUTYCYCLE_SASL_*)" in expired.stderr) == (1, True)
    file.write_text(unsecured_token(USERNAME, expires_s=time.time() + 3600))
    with running("stream", env=env, log=log):
        wait_until(lambda: readiness(log).startswith("ready"), log.read_text)


def test_no_topic_comes_by_being_asked_for(secure_kafka: RunningBroker, tmp_path: Path, trace: Path) -> None:
    """This broker makes topics that a client asks for by name, of one partition."""
    prefix = secure_kafka.new_prefix()
    env = environ(topic_prefix=prefix, partitions="2", session_timeout="6s") | secure_kafka.settings()
    admin = secure_kafka.admin()

    def counts() -> dict[str, int]:
        topics = admin.list_topics(timeout=30).topics
        return {name: len(topics[name].partitions) for name in topics if name.startswith(prefix)}

    def runs(*arguments: str) -> int:
        return run_to_end(*arguments, env=env).returncode

    assert runs("record", "--from", "-1h", "--out", str(tmp_path / "x.jsonl")) == 1
    assert runs("top", "--once", "--timeout", "2s") == 1
    assert counts() == {}
    assert runs("replay", str(trace), "--broker", secure_kafka.url) == 0
    log = tmp_path / "stream.log"
    with running("stream", env=env, log=log):
        wait_until(lambda: readiness(log).startswith("ready"), log.read_text)
    assert set(counts().values()) == {2}
