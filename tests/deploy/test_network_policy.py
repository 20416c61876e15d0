"""Whom each component may reach, and at which ports, as the chart's NetworkPolicies say."""

import pytest

from tests.support.deploy.manifests import FROM_PROMETHEUS, FULL, Object, of_kind, render


def ports(things: list[Object], name: str) -> set[int]:
    """That a component's NetworkPolicy lets out."""
    egress = of_kind(things, "NetworkPolicy", name)["spec"]["egress"]
    rules = [[one["port"] for one in rule["ports"] if one["protocol"] == "TCP"] for rule in egress]
    assert all(len(found) == len(set(found)) for found in rules)
    return {port for found in rules for port in found}


def test_a_worker_reaches_kafka_and_only_who_needs_more_gets_more() -> None:
    default, full = render(), render(FULL)
    assert ports(default, "-streams") == ports(default, "-topics") == {53, 9092, 9093}
    assert ports(default, "-collector") == ports(default, "-sinks") == {53, 9092, 9093, 443, 6443}
    assert ports(full, "-sinks") == {53, 9092, 9093, 443, 6443, 5432}
    assert (
        ports(full, "-adapter")
        == ports(full, "-webhook")
        == ports(full, "-trials")
        == {53, 9092, 9093, 443, 6443}
    )
    assert ports(full, "-extender") == {53, 9092, 9093}
    assert ports(full, "-web") == {53, 9092, 9093, 443, 6443, 5432, 9090, 9443}
    page = {"enabled": True, "tokenSecret": "t", "tls": {"existingSecret": "c"}}
    assert ports(render({"web": page}), "-web") == {53, 9092, 9093}, "a page with a token asks no API server"
    (ingress,) = (
        rule for rule in of_kind(render(FULL | {"networkPolicy": {"webFrom": [{"podSelector": {}}]}}),
                                 "NetworkPolicy", "-web")["spec"]["ingress"]
        if rule["ports"] == [{"protocol": "TCP", "port": "https"}]
    )  # fmt: skip
    assert ingress["from"] == [{"podSelector": {}}]
    assert ports(render({"networkPolicy": {"dnsPorts": [53, 5353]}}), "-streams") == {53, 5353, 9092, 9093}
    old = {"networkPolicy": {"dnsPorts": None}}  # as with --reuse-values of a release that had none
    assert ports(render(old), "-streams") == {53, 9092, 9093}
    silent = render({"sinks": {"annotations": {"enabled": False}}})
    assert ports(silent, "-sinks") == {53, 9092, 9093}
    assert not [one for one in silent if one["kind"].startswith("ValidatingAdmission")]
    assert not [
        one for one in silent if one["metadata"]["name"] == "dutycycle-sinks" and "Role" in one["kind"]
    ]


def test_a_list_of_no_ports_lets_nothing_out_and_not_everything() -> None:
    """A rule without ports is one for all of them."""
    kinds = ("dns", "kafka", "database", "prometheus", "apiServer")
    none: Object = {f"{kind}Ports": [] for kind in kinds}
    things = render(FULL | {"networkPolicy": none})
    policies = [one["spec"] for one in things if one["kind"] == "NetworkPolicy"]
    assert all(rule["ports"] for policy in policies for rule in policy["egress"])
    assert ports(things, "-sinks") == {9093}
    assert ports(things, "-web") == {9093, 9443}


def test_who_answers_is_let_in_and_nobody_else() -> None:
    let_in = {
        policy["metadata"]["name"].removeprefix("dutycycle-")
        for policy in render(FULL)
        if policy["kind"] == "NetworkPolicy"
        for rule in policy["spec"].get("ingress", [])
        if {"protocol": "TCP", "port": "https"} in rule["ports"]
    }
    assert let_in == {"adapter", "extender", "webhook", "web"}


BROKERS: dict[str, tuple[Object, set[int]]] = {
    "one that is listed": ({"broker": "kafka://a:9092"}, {9092, 9093}),
    "another": ({"broker": "kafka://a:19092"}, {9092, 9093, 19092}),
    "several": ({"broker": "kafka+ssl://a:9094,b.c:9095,b.c:9092"}, {9092, 9093, 9094, 9095}),
    "an address": ({"broker": "kafka://[fd00::9:1]:29092"}, {9092, 9093, 29092}),
    "a trial": ({"broker": "kafka://a:19092", "trial": {"enabled": True}}, {9092, 9093}),
}


@pytest.mark.parametrize(("kafka", "expected"), BROKERS.values(), ids=BROKERS.keys())
def test_the_brokers_ports_are_let_out(kafka: Object, expected: set[int]) -> None:
    assert ports(render({"kafka": kafka}), "-streams") == {53, *expected}


def test_the_api_server_s_ports_are_a_value() -> None:
    things = render({"networkPolicy": {"apiServerPorts": [16443]}})
    assert ports(things, "-collector") == ports(things, "-sinks") == {53, 9092, 9093, 16443}
    assert ports(things, "-streams") == {53, 9092, 9093}


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://a:19090", 19090), ("https://a.b/main", 443), ("http://a", 80), ("http://u:p@a:9091/x", 9091)],
)
def test_the_port_of_prometheus_is_let_out(url: str, port: int) -> None:
    of = FROM_PROMETHEUS["prometheus"] | {"url": url}
    things = render(FROM_PROMETHEUS | {"prometheus": of})
    assert ports(things, "-prometheus") == {53, 9092, 9093, 9090, port, 443, 6443}
    written = render({"metrics": {"remoteWrite": {"url": url}}})
    assert ports(written, "-metrics") == {53, 9092, 9093, 9090, port}
    assert ports(render(), "-metrics") == {53, 9092, 9093}
