"""The page on a Kafka that others administer: its examples are those of the code, its tests are there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dutycycle.cli.commands.topics import ROLES, planned
from dutycycle.contract.settings.load import load
from tests.support.deploy.generate_kustomize import strimzi_topics
from tests.support.processes.commands import dutycycle, environ

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/kafka.md").read_text()
GROUPS = {"stream": "dutycycle.streams", "sink": "dutycycle.sinks"}
PARTS = ("collector", *GROUPS)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_strimzis_examples_have_the_topics_and_rights_of_the_code() -> None:
    things = [thing for block in blocks("yaml") for thing in yaml.safe_load_all(block)]
    (topic,) = [thing for thing in things if thing["kind"] == "KafkaTopic"]
    assert topic in strimzi_topics()
    users = {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == "KafkaUser"}
    assert set(users) == {f"dutycycle-{part}" for part in PARTS}
    for part in PARTS:
        rights = {
            (acl["resource"]["type"], acl["resource"]["name"]): acl["operations"]
            for acl in users[f"dutycycle-{part}"]["spec"]["authorization"]["acls"]
        }
        expected = {("topic", "dutycycle."): list(ROLES[part])}
        if part in GROUPS:
            expected["group", GROUPS[part]] = ["Read"]
        assert rights == expected


def test_terraforms_example_has_the_topics_and_rights_of_the_code(tmp_path: Path) -> None:
    """Its expressions, evaluated by Terraform itself, without the provider."""
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("terraform is not installed (it is in no package of Debian)")
    (text,) = blocks("terraform")
    form = subprocess.run([terraform, "fmt", "-"], input=text, capture_output=True, text=True, check=True)
    assert form.stdout == text, "as terraform fmt writes it"
    (tmp_path / "main.tf").write_text(text.partition("\nresource ")[0])
    command = re.search(r"`dutycycle (topics [^`>]*) > topics.json`", PAGE)
    assert command is not None
    (tmp_path / "topics.json").write_text(dutycycle(*command[1].split(), env=environ()).stdout)
    config = re.search(r"config += (merge\(.*\))", text)
    acls = re.search(r"for_each = (merge\(\[.*?\]\.\.\.\))", text, re.DOTALL)
    assert config is not None
    assert acls is not None
    topics = f"{{ for name, value in local.topics : name => {config[1].replace('each.value', 'value')} }}"
    asked = f"jsonencode([{topics}, {' '.join(acls[1].split())}, local.groups])"
    answer = subprocess.run(
        [terraform, "console"], input=asked, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    configs, rights, groups = json.loads(json.loads(answer.stdout))
    settings = load({"DUTYCYCLE_NODE": "any"})
    assert configs == {
        topic.name: {**topic.config, "min.insync.replicas": "2"} for topic in planned(settings)
    }
    assert {(right["part"], right["operation"]) for right in rights.values()} == {
        (part, operation) for part in PARTS for operation in ROLES[part]
    }
    assert groups == GROUPS


def test_each_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 20
    missing = [
        (file, name)
        for file, name in named
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert missing == []
