"""The documents: links that lead somewhere, and an index of decisions that is complete."""

import re
from pathlib import Path

import pytest

from dutycycle.contract.topics import TOPICS

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs/decisions"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PLACE = re.compile(
    r"`((?:contract|telemetry|bus|kube|collectors|streams|sinks|dutycycle|tests|bench|deploy)/[\w./*-]*)"
)


def anchors(document: Path) -> set[str]:
    """The fragments that a link may name: headings as GitHub turns them into ids."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", document.read_text())):
        if link.startswith(("https://", "http://")):
            continue
        name, _, fragment = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        assert not fragment or fragment in anchors(target), link


def test_the_index_has_every_decision_with_its_title_and_status() -> None:
    index = (DECISIONS / "README.md").read_text()
    for page in sorted(DECISIONS.glob("0*.md")):
        title = re.match(r"# (\d+)\. (.+)\n\nStatus: (.+)\n", page.read_text())
        assert title, f"{page.name} begins with its number, title and status"
        number, decision, status = title.groups()
        assert page.name.startswith(f"{int(number):04}-")
        assert f"| [{number}]({page.name}) | {decision} | {status} |" in index


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_places_in_the_code_exist(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    missing = [place for place in _PLACE.findall(text) if not list(ROOT.glob(place.rstrip("/.")))]
    assert missing == []


def test_the_table_of_topics_is_complete() -> None:
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| `")]
    for topic in TOPICS.values():
        assert topic.internal or any(f"`{topic.name}`" in row.split("|")[1] for row in rows), topic.name
