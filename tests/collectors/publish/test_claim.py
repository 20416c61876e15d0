"""Two collectors on one machine claim one node: the second is refused while the first one lives."""

from pathlib import Path

import pytest

from collectors.publish.claim import NodeClaimedError, claim_node
from collectors.publish.spool_location import EMBEDDED
from contract.settings.settings import Settings, load

HERE = {"DUTYCYCLE_BROKER": "kafka://k:9092", "DUTYCYCLE_NODE": "a"}


def to(**changed: str) -> Settings:
    return load(HERE | {f"DUTYCYCLE_{name.upper()}": value for name, value in changed.items()})


def test_a_second_collector_of_a_node_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    first = claim_node(to(), environ)
    with pytest.raises(NodeClaimedError, match=r"reports node a .*DUTYCYCLE_NODE"):
        claim_node(to(spool=str(tmp_path / "another")), environ)
    first.release()
    first.release()
    claim_node(to(), environ).release()


@pytest.mark.parametrize("other", [{"node": "b"}, {"topic_prefix": "team-b."}], ids=str)
def test_other_nodes_and_topics_are_others(other: dict[str, str], tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    first = claim_node(to(), environ)
    claim_node(to(**other), environ).release()
    first.release()


def test_a_broker_is_the_same_however_it_is_spelled(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    first = claim_node(to(broker="kafka://localhost:9092"), environ)
    with pytest.raises(NodeClaimedError, match=r"DUTYCYCLE_TOPIC_PREFIX"):
        claim_node(to(broker="kafka://127.0.0.1:9092"), environ)
    first.release()


def test_embedded_brokers_are_others(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    embedded = environ | {EMBEDDED: "1"}
    first = claim_node(to(), environ)
    second = claim_node(to(broker="kafka://127.0.0.1:4001"), embedded)
    claim_node(to(broker="kafka://127.0.0.1:4002"), embedded).release()
    with pytest.raises(NodeClaimedError):
        claim_node(to(broker="kafka://127.0.0.1:4001"), embedded)
    second.release()
    first.release()


def test_where_nothing_can_be_written_nothing_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "dutycycle").write_text("a file, where a folder would have to be")
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    claim_node(to(), environ).release()
    claim_node(to(), environ).release()
