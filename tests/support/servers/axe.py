"""axe-core, which looks at a page for what keeps people out: fetched once, kept in the cache folder.

The package of PyPI is a binding for another browser driver; only the script that it ships is used.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.missing import run_or_miss

_PINNED = (
    "axe-playwright-python==0.1.8 "
    "--hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8\n"
)
_SCRIPT = "axe_playwright_python/axe.min.js"
_VERSION = "4.12.1"
_DOWNLOAD_S = 300
SERIOUS = """(() => {
  const alike = ['.node', 'tbody tr'].map((each) => `${each}:nth-child(n+61):nth-last-child(n+41)`);
  for (const each of document.querySelectorAll(alike.join())) each.remove();
  return axe.run(document, {resultTypes: ['violations'], elementRef: false})
    .then((seen) => seen.violations.filter((each) => ['serious', 'critical'].includes(each.impact))
      .map((each) => [each.id, each.nodes.length, each.nodes[0].html.slice(0, 200),
        each.nodes[0].failureSummary]));
})()"""
"""What of an open page to which the script was given is serious, for a browser to work out. Of the grid of a
fleet and of a table it looks at the first 60 and the last 40. Those between are as these are, and are taken
off the page: axe reads also what it is told to leave out, and took 25 s of CPU for a page of 1,250 nodes."""


def axe_script() -> str:
    """The script as text. Raises ``ServerMissingError`` where it cannot be fetched."""
    file = cache_folder() / f"axe-{_VERSION}.js"
    with locked("axe"):
        if not file.exists():
            _download(file)
    return file.read_text(encoding="utf-8")


def _download(file: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=file.name) as temporary:
        wanted = Path(temporary) / "requirements.txt"
        wanted.write_text(_PINNED, encoding="utf-8")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
            "--require-hashes", "--dest", temporary, "--requirement", str(wanted),
        ]  # fmt: skip
        run_or_miss(command, "fetching axe", _DOWNLOAD_S, folder=file.parent)
        wheel = next(Path(temporary).glob("*.whl"))
        script = Path(temporary) / "axe.js"
        script.write_bytes(zipfile.ZipFile(wheel).read(_SCRIPT))
        assert f"axe v{_VERSION}" in script.read_text(encoding="utf-8")[:200]
        script.rename(file)  # only a whole one gets the name
