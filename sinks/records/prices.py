"""Keeps what a GPU-hour, a CPU-hour and a kilowatt hour cost, and since when: a change never rewrites the
past."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from dutycycle.contract.settings.groups import Settings
from sinks.records.rows import moment, written
from sinks.records.tables.schema import prices


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Holds prices in any one currency, None for none. ``gpu_models``: of GPUs whose name contains a text."""

    gpu_hour: float | None = None
    gpu_models: tuple[tuple[str, float], ...] = ()
    cpu_hour: float | None = None
    kwh: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> "PriceList":
        """Return the prices as they are set."""
        return cls(
            gpu_hour=settings.price_gpu_hour, gpu_models=settings.price_gpu_models,
            cpu_hour=settings.price_cpu_hour, kwh=settings.price_kwh,
        )  # fmt: skip

    def rows(self) -> set[tuple[str, str, float | None]]:
        """Return what has a price, of which GPUs, and the price."""
        listed = {("gpu_hour", "", self.gpu_hour), ("cpu_hour", "", self.cpu_hour), ("kwh", "", self.kwh)}
        return listed | {("gpu_hour", model, price) for model, price in self.gpu_models}


def given_prices(settings: Settings) -> PriceList | None:
    """Return the prices that are set; None if there are none, and those of the database are to stay."""
    prices = PriceList.of(settings)
    return None if prices == PriceList() else prices


def set_prices(connection: Connection, wanted: PriceList, now: datetime | None = None) -> None:
    """Make these the prices from this hour on, if they are others than the last. The first ones hold for all
    that was before, too; no prices at all change nothing as long as there never were any."""
    since = connection.scalar(select(func.max(prices.c.since)))
    newest = select(prices.c.what, prices.c.gpu_model, prices.c.price).where(prices.c.since == since)
    known = {tuple(row) for row in connection.execute(newest)}
    if known == wanted.rows() or (since is None and wanted == PriceList()):
        return
    hour = (now or datetime.now(UTC)).replace(minute=0, second=0, microsecond=0)
    from_now = moment(0) if since is None else written(hour)
    connection.execute(prices.delete().where(prices.c.since == from_now))
    new: list[dict[str, Any]] = [
        {"since": from_now, "what": what, "gpu_model": model, "price": price}
        for what, model, price in wanted.rows()
    ]
    connection.execute(insert(prices), new)
