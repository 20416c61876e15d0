"""A database that is away when a sink starts is waited for; one that refuses us is not."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import URL

from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from sinks import service
from sinks.events import SINK_AWAY
from sinks.records.store import RecordsRefusedError
from sinks.records.url import parse_records_url
from tests.support.servers.postgres import Postgres
from tests.support.waiting import until

AWAY = (SINK_AWAY.name, "records")


def started(url: str, telemetry: Telemetry, stop: asyncio.Event) -> "asyncio.Task[None]":
    """A sink whose broker is not there, so that it gets no further than that."""
    given = {"broker": "kafka://127.0.0.1:9", "records": url, "annotations": "off"}
    return asyncio.create_task(service.run(load({}, given), telemetry, stop))


async def test_it_waits_says_so_and_goes_on(postgres: Postgres) -> None:
    url, telemetry, stop = postgres.new_database(), Telemetry("sink"), asyncio.Event()
    await asyncio.to_thread(postgres.stop)
    working = started(url, telemetry, stop)
    await until(lambda: AWAY in telemetry.conditions, working=working)
    await asyncio.to_thread(postgres.start)
    await until(lambda: "the broker" in (telemetry.status.waiting or ""), working=working)
    assert AWAY not in telemetry.conditions
    stop.set()
    await working


async def test_it_can_be_stopped_meanwhile() -> None:
    telemetry, stop = Telemetry("sink"), asyncio.Event()
    working = started("postgresql+psycopg://u:p@127.0.0.1:9/d", telemetry, stop)
    await until(lambda: AWAY in telemetry.conditions, working=working)
    stop.set()
    await asyncio.wait_for(working, 120)


WRONG: dict[str, Callable[[URL], URL]] = {
    "password": lambda url: url.set(password="wrong"),
    "user": lambda url: url.set(username="nobody"),
    "database": lambda url: url.set(database="none"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_waiting_does_not_mend_ends_it(what: str, postgres_url: str) -> None:
    url = WRONG[what](parse_records_url(postgres_url))
    working = started(url.render_as_string(hide_password=False), Telemetry("sink"), asyncio.Event())
    with pytest.raises(RecordsRefusedError, match="cannot keep peak records"):
        await asyncio.wait_for(working, 120)
