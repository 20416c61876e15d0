"""Two collectors on one machine claim one node: the second is refused while the first one lives."""

from pathlib import Path

import pytest

from collectors.claim import NodeClaimedError, claim_node
from wire.settings import Settings, load

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


@pytest.mark.parametrize(
    "other", [{"broker": "kafka://k:9093"}, {"node": "b"}, {"topic_prefix": "team-b."}], ids=str
)
def test_other_brokers_nodes_and_topics_are_others(other: dict[str, str], tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    first = claim_node(to(), environ)
    claim_node(to(**other), environ).release()
    first.release()


def test_where_nothing_can_be_written_nothing_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "dutycycle").write_text("a file, where a folder would have to be")
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    claim_node(to(), environ).release()
    claim_node(to(), environ).release()
