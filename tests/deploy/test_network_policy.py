"""Whom each component may reach, and at which ports, as the chart's NetworkPolicies say."""

import pytest

from tests.support.deploy.manifests import FROM_PROMETHEUS, FULL, Object, of_kind, render


def ports(things: list[Object], name: str) -> set[int]:
    """That a component's NetworkPolicy lets out."""
    egress = of_kind(things, "NetworkPolicy", name)["spec"]["egress"]
    rules = [[one["port"] for one in rule["ports"] if one["protocol"] == "TCP"] for rule in egress]
    assert all(len(found) == len(set(found)) for found in rules)
    return {port for found in rules for port in found}


KAFKA = {53, 9092, 9093}
API_SERVER = KAFKA | {443, 6443}
PAGE = {"enabled": True, "tokenSecret": "t", "tls": {"existingSecret": "c"}}
URLS = {"http://a:19090": 19090, "https://a.b/main": 443, "http://a": 80, "http://u:p@a:9091/x": 9091}
PORTS: dict[str, tuple[Object, dict[str, set[int]]]] = {
    "the defaults": ({}, {"streams": KAFKA, "topics": KAFKA, "collector": API_SERVER, "sinks": API_SERVER,
                          "metrics": KAFKA}),
    "everything": (FULL, {"sinks": API_SERVER | {5432}, "adapter": API_SERVER, "webhook": API_SERVER,
                          "trials": API_SERVER, "extender": KAFKA, "web": API_SERVER | {5432, 9090, 9443}}),
    "a page with a token asks no API server": ({"web": PAGE}, {"web": KAFKA}),
    "sinks without annotations": ({"sinks": {"annotations": {"enabled": False}}}, {"sinks": KAFKA}),
    "another port of DNS": ({"networkPolicy": {"dnsPorts": [53, 5353]}}, {"streams": KAFKA | {5353}}),
    "values of a release that had none": ({"networkPolicy": {"dnsPorts": None}}, {"streams": KAFKA}),
    "a port of the API server": (
        {"networkPolicy": {"apiServerPorts": [16443]}},
        {"collector": KAFKA | {16443}, "sinks": KAFKA | {16443}, "streams": KAFKA},
    ),
    "a broker at a usual port": ({"kafka": {"broker": "kafka://a:9092"}}, {"streams": KAFKA}),
    "a broker at another": ({"kafka": {"broker": "kafka://a:19092"}}, {"streams": KAFKA | {19092}}),
    "several brokers": ({"kafka": {"broker": "kafka+ssl://a:9094,b.c:9095,b.c:9092"}},
                        {"streams": KAFKA | {9094, 9095}}),
    "the address of a broker": ({"kafka": {"broker": "kafka://[fd00::9:1]:29092"}},
                                {"streams": KAFKA | {29092}}),
    "a trial's broker": ({"kafka": {"broker": "kafka://a:19092", "trial": {"enabled": True}}},
                         {"streams": KAFKA}),
    **{f"a Prometheus at {url}": (
           FROM_PROMETHEUS | {"prometheus": FROM_PROMETHEUS["prometheus"] | {"url": url}},
           {"prometheus": API_SERVER | {9090, port}})
       for url, port in URLS.items()},
    **{f"series that are written to {url}": ({"metrics": {"remoteWrite": {"url": url}}},
                                             {"metrics": KAFKA | {9090, port}})
       for url, port in URLS.items()},
}  # fmt: skip


@pytest.mark.parametrize(("values", "expected"), PORTS.values(), ids=PORTS)
def test_a_part_reaches_what_it_needs_and_no_more(values: Object, expected: dict[str, set[int]]) -> None:
    things = render(values)
    assert {part: ports(things, f"-{part}") for part in expected} == expected


def test_who_may_reach_the_page_is_a_value_and_sinks_without_annotations_have_no_rights() -> None:
    (ingress,) = (
        rule for rule in of_kind(render(FULL | {"networkPolicy": {"webFrom": [{"podSelector": {}}]}}),
                                 "NetworkPolicy", "-web")["spec"]["ingress"]
        if rule["ports"] == [{"protocol": "TCP", "port": "https"}]
    )  # fmt: skip
    assert ingress["from"] == [{"podSelector": {}}]
    silent = render({"sinks": {"annotations": {"enabled": False}}})
    kinds = [one["kind"] for one in silent if one["metadata"]["name"] == "dutycycle-sinks"]
    assert not [kind for kind in kinds if "Role" in kind]
    assert not [one for one in silent if one["kind"].startswith("ValidatingAdmission")]


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
