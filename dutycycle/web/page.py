"""Opens the page beside a screen, where it is asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from dutycycle.contract.settings.groups import Settings
from dutycycle.live.source import Source


@asynccontextmanager
async def with_page(source: Source, settings: Settings) -> AsyncIterator[Source]:
    """Serve the page while the block runs, if one is asked for; the source, whose place names it.

    Raises ``SettingError``.
    """
    if settings.web is None:
        yield source
        return
    from dutycycle.web.server import WebPage  # here, not above: a screen needs nothing of it

    async with WebPage(source, settings).serving() as url:
        yield replace(source, place=f"page: {url}  {source.place}")
