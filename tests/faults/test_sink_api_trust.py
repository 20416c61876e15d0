"""Credentials and certificates change while the sink runs, a server accepts and hangs, and SIGKILL."""

import shutil
from functools import partial
from pathlib import Path

from tests.support.fakes.api_server import FakeApi, Trouble, tls_of
from tests.support.kafka import PUBLIC, make_topics, settings_of
from tests.support.processes.commands import begun
from tests.support.processes.sinking import (
    Worker,
    add_pods,
    kept,
    pod_path,
    pods,
    pods_carry,
    publish,
    sinking,
    worker,
)
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.certificates import Certificates, make_certificates
from tests.support.waiting import until

PODS = 12
FIRST, LAST = "1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z"


def all_kept_since(one: Worker, last_ms: int) -> bool:
    return all(row.last_ms >= last_ms for row in kept(one.env))


def wrote_more_than(api: FakeApi, count: int) -> bool:
    return len(api.writers) > count


def certificates(folder: Path) -> Certificates:
    folder.mkdir()
    return make_certificates(folder)


async def test_a_new_token_and_a_new_authority_are_read_from_the_disk(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    old, new = certificates(tmp_path / "old"), certificates(tmp_path / "new")
    authority = tmp_path / "ca.crt"
    shutil.copy(old.authority, authority)
    add_pods(api, PODS)
    await api.stop()
    await api.start(tls_of(old))
    api.tokens = {"first"}
    one = worker(kafka, topic_prefix, api, tmp_path, "first", authority=authority)
    await make_topics(settings_of(one.env), PUBLIC)
    async with sinking(one):
        await publish(one, pods(PODS, 100))
        await until(lambda: pods_carry(api, PODS, 100, FIRST))
        # The token on the disk is replaced, and the old one is not taken any more.
        one.token.write_text("second")
        api.tokens = {"second"}
        refused = api.count("PATCH")
        await publish(one, pods(PODS, 1000, last_ms=20_000))
        await until(lambda: pods_carry(api, PODS, 1000, LAST))
        assert {who for who, _ in api.writers} == {"first", "second"}
        assert "sink_away" not in one.said, "one 401 is no outage: the token is read anew at once"
        assert api.count("PATCH") - refused <= 2 * PODS
        # The server comes back with a certificate of another authority, which then comes to our disk, too.
        await api.stop()
        await api.start(tls_of(new))
        *others, last = pods(PODS, 5000, final=True, last_ms=30_000)
        await publish(one, [last])  # alone: after the failures of eight writers it waits for up to a minute
        await until(lambda: "no TLS connection" in one.said)
        assert "certificate" in one.said.partition("no TLS connection")[2]
        shutil.copy(new.authority, authority)
        await publish(one, others)
        await until(lambda: pods_carry(api, PODS, 5000, "1970-01-01T00:00:30Z"))
    assert "Traceback" not in one.said


async def test_a_server_that_hangs_slows_nothing_else_and_is_not_stormed(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    add_pods(api, PODS)
    one = worker(kafka, topic_prefix, api, tmp_path)
    await make_topics(settings_of(one.env), PUBLIC)
    async with sinking(one):
        await publish(one, pods(PODS, 100))
        await until(lambda: pods_carry(api, PODS, 100, FIRST))
        api.always, asked = Trouble(delay_s=3600, method="*"), len(api.seen)
        await publish(one, pods(PODS, 1000, last_ms=15_000))
        await until(lambda: len(api.seen) > asked)
        for round_ in range(3):  # the records next to it arrive as ever
            await publish(one, pods(PODS, 1000, last_ms=16_000 + round_, final=round_ == 2))
            await until(partial(all_kept_since, one, 16_000 + round_))
        await until(lambda: "sink_away" in one.said)
        assert len(api.seen) - asked <= 16, "two rounds of eight writers, and then everybody waits"
        api.always = None
        await until(lambda: pods_carry(api, PODS, 1000, "1970-01-01T00:00:16Z"))
    assert "Traceback" not in one.said


async def test_killed_between_the_write_and_the_commit_it_converges_and_makes_nothing_anew(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    """Killed while answers are on their way: the server has taken some patches, and nothing is committed."""
    add_pods(api, PODS)
    one = worker(kafka, topic_prefix, api, tmp_path)
    await make_topics(settings_of(one.env), PUBLIC)
    for round_ in (1, 2):
        last = round_ == 2
        async with begun("sink", env=one.env, log=one.log):
            api.always = Trouble(delay_s=0.3, after=True, drip_s=0.3)  # it does what was asked, answers late
            already = len(api.writers)
            await publish(one, pods(PODS, 1000.0 * round_, final=last, last_ms=18_000 + 1000 * round_))
            await until(partial(wrote_more_than, api, already + 2))
        api.always = None
    del api.objects[pod_path(PODS - 1)]
    patches = len(api.patches)
    async with sinking(one):
        await until(lambda: pods_carry(api, PODS - 1, 2000, LAST))
        await until(lambda: "object_gone" in one.said or ("GET", pod_path(PODS - 1)) in api.seen)
    assert pod_path(PODS - 1) not in api.objects
    assert len(api.patches) - patches <= PODS
    assert "Traceback" not in one.said
