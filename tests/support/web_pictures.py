"""``python -m tests.support.web_pictures``: draw the pictures of docs/web.md anew, in a real browser."""

import asyncio
import re
import tempfile
from pathlib import Path

from tests.support.tab import tab
from tests.support.web_worlds import records_of_teams, shown, usual

DOCS = Path(__file__).parents[2] / "docs"
_GPU = "subject?key=gpu/gpu-a/GPU-gpu-a-0"
PICTURES = {
    "web_fleet.png": ("fleet", 1100, 860, "light"),
    "web_gpu.png": (_GPU, 1100, 1240, "light"),
    "web_past.png": (f"{_GPU}#past", 1100, 820, "light"),
    "web_node.png": ("subject?key=node/gpu-a", 1100, 900, "dark"),
    "web_jobs.png": ("history", 1400, 460, "light"),
    "web_usage.png": ("usage?by=team&since=7d", 1100, 420, "light"),
    "web_idle.png": ("idle", 1300, 320, "light"),
    "web_telephone.png": (_GPU, 390, 800, "dark"),
}
"""By name: the page, width and height, and the scheme of its colors."""


def named_in_docs() -> set[str]:
    """The pictures that docs/web.md shows."""
    return set(re.findall(r"pictures/(web_\w+\.png)", (DOCS / "web.md").read_text(encoding="utf-8")))


async def draw_pictures(folder: Path) -> None:
    """Write all of them there."""
    with tempfile.TemporaryDirectory() as temporary:
        world = usual(records_of_teams(Path(temporary)), gpus=32)
        async with shown(world) as url, tab(Path(temporary) / "profile") as page:
            for name, (path, width, height, scheme) in PICTURES.items():
                await page.look(width, scheme)
                await page.resize(width, height)
                await page.open(url + path)
                await page.wait_for("document.getElementById('live').textContent === 'live'")
                await page.wait_for(
                    "[...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('.main-svg'))"
                )
                (folder / name).write_bytes(await page.picture())


if __name__ == "__main__":
    asyncio.run(draw_pictures(DOCS / "pictures"))
