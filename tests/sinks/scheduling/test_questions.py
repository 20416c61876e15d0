"""Goal: whole nodes are read from memory exactly as they would be read from their JSON, whatever comes."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.scheduling import questions
from sinks.scheduling.questions import PlacementQuestion, QuestionReader

POD = {"metadata": {"name": "p"}, "spec": {}}
ODD = ['{"metadata":{"name":"b"', '},{"metadata":{"name":"a"}', "]}}", "ä", '"', "\\", "x"]
"""Texts that look like a part of a question: in JSON they are escaped."""
TEXTS = st.sampled_from(ODD)
KEYS = TEXTS | st.just("metadata")
INSIDE = st.recursive(
    st.none() | TEXTS | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
) | st.just([{"metadata": {"name": "inner"}}, {"metadata": {"name": "inner"}}])  # fmt: skip
NODES = st.builds(
    lambda name, rest, first: {"metadata": {"name": name} | rest if first else rest | {"name": name}} | rest,
    st.sampled_from(["a", "b", "c", 'q"', "ä"]), st.dictionaries(TEXTS, INSIDE, max_size=2), st.booleans(),
)  # fmt: skip
LISTS = st.lists(NODES, max_size=4)


def body_of(nodes: list[Any], spaces: bool = False) -> bytes:
    asked = {"Pod": POD, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    return json.dumps(asked, separators=None if spaces else (",", ":"), ensure_ascii=False).encode()


def outcome(reader: QuestionReader, body: bytes) -> PlacementQuestion | str:
    """What was read, or of what kind the error is."""
    try:
        return reader.read(bytearray(body))
    except (questions.BadRequestError, ValueError) as error:
        return type(error).__name__


def nodes_of(question: PlacementQuestion | str) -> list[bytes]:
    assert isinstance(question, PlacementQuestion)
    return [bytes(node) for node in question.nodes or ()]


@given(st.lists(st.tuples(LISTS, st.booleans()), min_size=2, max_size=4))
def test_nodes_that_came_before_and_new_ones_are_read_alike(asked: list[tuple[list[Any], bool]]) -> None:
    reader = QuestionReader()
    for nodes, spaces in [*asked, *asked]:
        question = reader.read(bytearray(body_of(nodes, spaces)))
        assert question.names == [node["metadata"]["name"] for node in nodes]
        assert [json.loads(node) for node in nodes_of(question)] == nodes
        assert question.pod == POD


@given(LISTS, st.data())
def test_a_body_that_is_damaged_is_refused_as_by_who_remembers_nothing(nodes: list[Any], data: Any) -> None:
    reader, body = QuestionReader(), body_of(nodes)
    reader.read(bytearray(body))
    at = data.draw(st.integers(0, len(body) - 1))
    damaged = body[:at] + data.draw(st.sampled_from([b"", b",", b"}", b"]", b'"', b"x"])) + body[at + 1 :]
    try:
        args = msgspec.json.decode(damaged)
        names = [node["metadata"]["name"] for node in args["Nodes"]["items"]]
    except (msgspec.DecodeError, LookupError, TypeError):
        question = outcome(reader, damaged)
        assert isinstance(question, str) or not question.nodes
    else:
        question = outcome(QuestionReader(), damaged)
        assert outcome(reader, damaged) == question
        assert isinstance(question, str) or question.names == names


A, B = '{"metadata":{"name":"a"}}', '{"metadata":{"name":"b"},"x":[{"metadata":{"name":"a"}}]}'
TWICE = '{"metadata":{"name":"a","name":"b"},"metadata":{"name":"c"}}'


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(f'"Nodes":{{"items":[{A},{B}]}},"Nodes":{{"items":[{B}]}}', id="Nodes twice"),
        pytest.param(f'"Nodes":{{"items":[{A},{B}],"items":[{B}]}}', id="items twice"),
        pytest.param(f'"Nodes":{{"items":[{A},{B}],"items":null}}', id="items twice, then null"),
        pytest.param(f'"Nodes":{{"items":[{TWICE},{A},{TWICE}]}}', id="a name twice"),
        pytest.param(f'"Nodes":{{"items":[{A},{A}]}}', id="a node twice"),
        pytest.param(f'"Nodes":{{"items":[{A}, {B} ]}}', id="spaces"),
        pytest.param(f'"Nodes":{{"items":[{A},{B},]}}', id="a comma too many"),
        pytest.param(f'"Nodes":{{"items":[{A}{B}]}}', id="a comma too few"),
        pytest.param(f'"Nodes":{{"items":[{A},5]}}', id="a number"),
        pytest.param('"Nodes":{"items":[{"metadata":{"name":"\\u0061\\""}}]}', id="escapes"),
        pytest.param(f'"Pod":{{"spec":{{}},"metadata":{{}},"Nodes":{{"items":[{A}]}}}},"Nodes":{{"items":[]}}',
                     id="nodes in the pod, and none that are asked about"),
        pytest.param(f'"x":{{"Nodes":{{"items":[{A}]}}}},"Nodes":{{"items":[{B}]}}', id="nodes elsewhere"),
        pytest.param(f'"x":{{"Nodes":{{"items":[{A}]}}}},"Nodes":{{"items":["{"0" * 32}"]}}', id="a text"),
    ],
)  # fmt: skip
def test_odd_json_is_read_as_by_who_knows_nothing_of_go(rest: str) -> None:
    body = f'{{"Pod":{json.dumps(POD)},{rest}}}'.encode()
    try:
        asked = json.loads(body)
        items = (asked["Nodes"]["items"]) or []
        expected = (asked["Pod"], [node["metadata"]["name"] for node in items], items)
    except (ValueError, TypeError):
        expected = None
    reader = QuestionReader()
    for _ in range(2):
        question = outcome(reader, body)
        if expected is None:
            assert isinstance(question, str)
        else:
            assert isinstance(question, PlacementQuestion)
            nodes = [json.loads(node) for node in nodes_of(question)]
            assert (question.pod, question.names, nodes) == expected
        reader.read(bytearray(body_of([json.loads(A), json.loads(B)])))


def test_nodes_that_are_long_gone_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(questions, "LARGEST", 10_000)
    reader = QuestionReader()
    most = 0
    for number in range(1000):
        reader.read(bytearray(body_of([{"metadata": {"name": f"node-{number}", "uid": "u" * 1000}}])))
        remembered_bytes = sum(len(node.raw) for node in reader._remembered.values())
        most = max(most, remembered_bytes)
    assert 8_000 < most <= 10_000
