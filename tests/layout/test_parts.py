"""What a part is: a folder that can be deleted with its one entry, and nothing else misses it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS: dict[str, str | tuple[str, ...]] = {
    "sinks/scheduling": ("dutycycle/web/jobs.py", "sinks/serve/roles.py"),
    "sinks/scheduling/webhook": "sinks/serve/roles.py",
    "sinks/adapter": "sinks/serve/roles.py",
    "sinks/culling": "dutycycle/cli/services/cull.py",
    "sinks/prometheus/remote_write.py": "sinks/prometheus/role.py",
    "collectors/cuda": "collectors/service.py",
    "dutycycle/compare": ("dutycycle/cli/studies/compare.py", "dutycycle/web/studies/study.py"),
    "dutycycle/experiments": "dutycycle/cli/studies/replay.py",
    "dutycycle/imports": "dutycycle/cli/studies/import_.py",
    "dutycycle/plot": "dutycycle/cli/studies/plot.py",
    "dutycycle/profile": ("dutycycle/cli/studies/report.py", "dutycycle/run/nsys.py"),
    "dutycycle/trial": "dutycycle/cli/studies/trial.py",
    "dutycycle/web": (
        "dutycycle/cli/commands/top.py",
        "dutycycle/cli/commands/up.py",
        "sinks/serve/roles.py",
    ),
    "dutycycle/kubectl": "",
    "streams/operators/models": "streams/topology.py",
    "streams/operators/estimators": "",
}
"""By folder or file the one module that names it, or those of its ways in; none where a script of
pyproject.toml or a user does."""
GOES_WITH = {
    "sinks/scheduling": (
        "dutycycle/schedule", "dutycycle/cli/commands/schedule.py", "dutycycle/cli/commands/predict.py",
        "dutycycle/web/subject/predicted.py",
    ),
    "dutycycle/profile": ("dutycycle/cli/studies/profile.py",),
    "streams/operators/models": ("streams/models.py", "streams/construction.py"),
}  # fmt: skip
"""What is deleted with a part: commands over it, which ``dutycycle.cli.main`` knows by their names alone."""
FILES = [
    path for top in ("collectors", "streams", "sinks", "dutycycle") for path in (ROOT / top).rglob("*.py")
]


def named_in(source: str, module: str) -> bool:
    """Whether a source imports a module or what is in it, or has it in a text, as ``sinks.serve.roles``."""
    pattern = re.compile(re.escape(module) + r"\b")
    return any(
        pattern.match(name)
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom)
            else [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str)
            else []
        )
    )  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_named_by_its_entry_alone(part: str) -> None:
    deleted = (part, *GOES_WITH.get(part, ()))
    modules = [place.removesuffix(".py").replace("/", ".") for place in deleted]
    assert all((ROOT / place).exists() for place in deleted)
    others = [
        place
        for path in FILES
        if not (place := path.relative_to(ROOT).as_posix()).startswith(deleted)
        and any(
            module in (source := path.read_text(encoding="utf-8")) and named_in(source, module)
            for module in modules
        )
    ]
    entries = PARTS[part]
    assert sorted(others) == sorted(entries if isinstance(entries, tuple) else filter(None, [entries]))


def test_a_module_is_named_by_imports_and_by_texts() -> None:
    for source in ("import a.b", "from a.b import c", "from a import b", 'x = "a.b.c:D"', "import a.b.c"):
        assert named_in(source, "a.b"), source
    for source in ("import a", "from a import bc", '"""See a.b."""', "import c.a.b"):
        assert not named_in(source, "a.b"), source
