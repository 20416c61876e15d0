"""The import rules of .importlinter refuse what they are there to refuse.

Each case is a module in the wrong place: it is added to a copy of the packages, and the check that passes
without it names the contract that it breaks.
"""

import ast
import configparser
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = configparser.ConfigParser()
RULES.read(ROOT / ".importlinter")
PACKAGES = RULES["importlinter"]["root_packages"].split()

WRONG = [
    ("dutycycle/contract/wrong.py", "import dutycycle.telemetry.events", "layers"),
    ("collectors/wrong.py", "import sinks.app", "layers"),
    ("dutycycle/kube/wrong.py", "import dutycycle.kafka.errors", "layers"),
    ("streams/operators/columns/wrong.py", "import streams.operators.cycles.bank", "operators"),
    ("streams/operators/node/wrong.py", "import time", "pure"),
    ("streams/state/wrong.py", "import asyncio", "pure"),
    ("sinks/annotations/core/wrong.py", "import random", "pure"),
    ("collectors/prometheus/wrong.py", "import collectors.nvml.types", "sources"),
    ("streams/state/wrong.py", "import streams.runtime.stage_task", "acyclic"),
    ("collectors/publish/wrong.py", "import aiokafka", "driver-kafka"),
    ("sinks/wrong.py", "import faust", "driver-faust"),
    ("collectors/pods/wrong.py", "import kubernetes", "driver-kubernetes"),
    ("streams/wrong.py", "import sqlalchemy", "driver-sql"),
    ("collectors/nvml/wrong.py", "import pynvml", "driver-nvml"),
]


def check(folder: Path) -> tuple[bool, str]:
    """Whether the packages in ``folder`` keep the rules, and what the check says."""
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as f; f()", "--no-cache"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    return done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and their rules, without tests, which pass as they are."""
    folder = tmp_path_factory.mktemp("packages")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", folder)
    passed, said = check(folder)
    assert passed, said
    return folder


@pytest.mark.parametrize(
    ("place", "line", "contract"), WRONG, ids=[f"{place}: {line}" for place, line, _ in WRONG]
)
def test_a_module_in_the_wrong_place_is_refused(copy: Path, place: str, line: str, contract: str) -> None:
    wrong = copy / place
    wrong.write_text(f'"""In the wrong place."""\n\n{line}\n')
    try:
        passed, said = check(copy)
    finally:
        wrong.unlink()
    assert not passed
    assert f"{RULES[f'importlinter:contract:{contract}']['name']} BROKEN" in said


def test_no_list_of_modules_is_kept_by_hand() -> None:
    """A contract names packages and drivers; a single module only where it is the gate to a driver."""
    gates = {RULES[name]["allowed_importers"] for name in RULES if "driver-" in name}
    modules = {path.with_suffix("").as_posix().replace("/", ".") for path in files()}
    named = {
        word
        for name in RULES
        if name not in ("DEFAULT", "importlinter:contract:layers")
        for value in RULES[name].values()
        for word in value.split()
    }
    assert {one for one in named & modules if not any(one in gate.split() for gate in gates)} == set()
    assert not any("ignore_imports" in RULES[name] for name in RULES)


def test_no_folder_has_become_a_maze() -> None:
    """At most about a dozen modules in a folder: a reader finds the one they look for by its name."""
    folders = [path.parent for path in files() if path.name != "__init__.py"]
    crowded = {
        folder.as_posix(): folders.count(folder) for folder in set(folders) if folders.count(folder) > 13
    }
    assert crowded == {}


def files() -> list[Path]:
    return [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def test_every_part_of_dutycycle_has_a_floor() -> None:
    """The layers name the parts of ``dutycycle`` one by one, so a new part must be put on a floor."""
    floors = set(RULES["importlinter:contract:layers"]["layers"].split())
    parts = {".".join(path.with_suffix("").parts[:2]) for path in files() if path.parts[0] == "dutycycle"}
    assert parts - {"dutycycle.__init__", "dutycycle.__main__"} - floors == set()


def test_no_class_name_stands_twice() -> None:
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for path in files():
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    # A callback of each framework of trainings: a user imports that of the own framework.
    assert all(path.is_relative_to("dutycycle/callbacks") for path in twice.pop("StepTimes"))
    assert twice == {}


NO_NAMES = {"one", "found", "said", "told"}
PLAIN = ["collectors", "dutycycle", "sinks", "streams"]  # fmt: skip
"""Folders, with all below, whose variables are called by their nouns."""


def bound_names(text: str) -> list[tuple[int, str]]:
    """Return the line and name of each variable and parameter that the source binds."""
    nodes = list(ast.walk(ast.parse(text)))
    variables = [(node.lineno, node.id) for node in nodes
                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]  # fmt: skip
    return variables + [(node.lineno, node.arg) for node in nodes if isinstance(node, ast.arg)]


@pytest.mark.parametrize("folder", PLAIN)
def test_a_variable_is_called_by_its_noun(folder: str) -> None:
    paths = [ROOT / path for path in files() if path.is_relative_to(folder)]
    assert paths
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, name in bound_names(path.read_text())
        if name in NO_NAMES
    ]
    assert wrong == []


def test_every_way_to_bind_a_name_is_seen() -> None:
    text = "for one in a: pass\ndef f(found): return [told for told in (lambda one: one)(found)]\none = 1\n"
    assert sorted(bound_names(text)) == [(1, "one"), (2, "found"), (2, "one"), (2, "told"), (3, "one")]


VERBS = """
    Add Allow Analyse Announce Answer Append Apply Ask Assign Avoid Be Begin Belong Bound Bring Buffer
    Build Call Carry Change Charge Check Choose Clear Close Code Collect Commit Compare Compile Complete
    Compute Configure Connect Correct Count Create Cull Cut Deal Decide Declare Decode Decompress Define
    Delete Describe Detect Disconnect Divide Do Draw Drop Encode End Enter Evaluate Execute Feed Fetch
    Fill Filter Find Fit Flush Fold Follow Forecast Forget Forward Free Gather Generate Give Go Grade
    Hand Handle Have Hear Hold Identify Ignore Implement Import Is Join Judge Keep Know Lay Learn Leave
    Let List Listen Load Lock Log Look Loop Make Measure Mend Merge Meter Mirror Move Name Narrow Need
    Note Offer Open Order Pack Parse Pass Place Plan Predict Prefer Print Publish Put Query Queue Quit
    Raise Rank Read Rearrange Rebuild Receive Record Refuse Register Release Remember Remove Renew
    Replace Replay Report Return Roll Round Run Sample Say Score Scrape Scroll Search See Send Serve Set
    Show Shut Simulate Sort Stand Start Stop Store Stream Sum Take Tell Tick Train Translate Try Turn
    Unpack Wait Walk Warn Watch Weigh Work Wrap Write Yield
"""
"""What docstrings begin with, as an order or in the third person: a new verb is added, a noun is not."""
FIRST_WORDS = {form for verb in VERBS.split() for form in (verb, verb + "s", verb + "es", verb[:-1] + "ies")}
LEAST_SHARE = 0.95
"""Of all docstrings, of modules, classes and functions: it goes up from change to change."""


def test_docstrings_begin_with_a_verb() -> None:
    docstrings = [
        docstring
        for path in files()
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
    ]
    first_words = [docstring.split()[0].strip(".,:;") for docstring in docstrings]
    nouns = Counter(word for word in first_words if word not in FIRST_WORDS)
    share = 1 - nouns.total() / len(docstrings)
    assert share >= LEAST_SHARE, f"{share:.3f}: the words that are no verbs: {nouns.most_common(9)}"


def test_a_noun_is_no_verb() -> None:
    assert {"Take", "Takes", "Carries", "Passes"} <= FIRST_WORDS
    assert not {"The", "Rows", "``x``", "What", "Plain"} & FIRST_WORDS
