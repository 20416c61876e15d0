"""Goal: pods of one template have one hash, whoever shows them; another program has another."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.kube.resources import parse_quantity, quantity_text
from dutycycle.kube.templates import template_of
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.servers.kube.server import Kube

TRAIN: dict[str, Any] = {
    "name": "main", "image": "train:1", "command": ["python", "train.py"], "args": ["--epochs", "3"],
    "resources": {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "1"}},
}  # fmt: skip


def spec(**changes: Any) -> dict[str, Any]:
    return {"containers": [TRAIN | changes]}


@pytest.mark.parametrize(
    ("other", "program", "template"),
    [
        pytest.param(spec(name="other"), True, True, id="names do not count"),
        pytest.param(spec(env=[{"name": "RUN", "value": "7"}]), True, True, id="nor does the environment"),
        pytest.param(spec() | {"nodeName": "a", "priority": 0}, True, True, id="nor where it runs"),
        pytest.param(spec(args=["--epochs", "4"]), True, False, id="arguments"),
        pytest.param(spec(resources={"limits": {"nvidia.com/gpu": "2"}}), True, False, id="requests"),
        pytest.param(spec(command=["python", "serve.py"]), False, False, id="command"),
        pytest.param(spec(image="train:2"), False, False, id="image"),
        pytest.param({"containers": [TRAIN, TRAIN]}, False, False, id="a container more"),
        pytest.param({}, False, False, id="nothing"),
    ],
)
def test_what_counts(other: dict[str, Any], program: bool, template: bool) -> None:
    one, two = template_of(spec()), template_of(other)
    assert (one.program == two.program, one.template == two.template) == (program, template)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (8, "8"), ("8000m", "8"), (8.0, "8"), (0.5, "500m"), ("0.5", "500m"), ("1e3", "1k"), ("64G", "64G"),
        ("65536Mi", "64Gi"), ("1.5Gi", "1536Mi"), (68719476736, "64Gi"), (0, "0"), ("1.1n", "1m"),
        (" 8 ", "8"), ("1.0001Gi", "1073849198183m"), ("8\n", "8\n"),
        ("much", "much"),
    ],
)  # fmt: skip
def test_an_amount_has_one_text_however_it_is_written(written: object, shown: str) -> None:
    assert quantity_text(written) == quantity_text(shown) == shown
    asked = [spec(resources={"limits": {"memory": amount}}) for amount in (written, shown)]
    assert template_of(asked[0]) == template_of(asked[1])


def test_an_amount_of_null_is_0() -> None:
    none, zero = (spec(resources={"limits": {"memory": amount}}) for amount in (None, "0"))
    assert template_of(none) == template_of(zero)


AMOUNTS = st.builds(
    lambda number, suffix: f"{number}{suffix}",
    st.integers(0, 10**7),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e2", "E3"]),
)


@given(AMOUNTS, AMOUNTS)
def test_texts_are_equal_where_amounts_are(one: str, other: str) -> None:
    assert parse_quantity(quantity_text(one)) == parse_quantity(one)
    same = parse_quantity(one) == parse_quantity(other)
    assert (quantity_text(one) == quantity_text(other)) == same
    assert quantity_text(one) == quantity_text(f"{parse_quantity(one) or Decimal(0):f}")


@pytest.mark.kube
def test_the_api_server_changes_nothing(kube: Kube, namespace: str) -> None:
    """It adds a request for each limit, and defaults."""
    written = gpu_pod(namespace, "train")
    assert template_of(kube.admin.create(written)["spec"]) == template_of(written["spec"])


@pytest.mark.kube
@pytest.mark.parametrize("memory", [1e10, " 10Gi ", "1.0001Gi", "5e-10", None])
def test_nor_do_amounts_in_another_form_change_it(kube: Kube, namespace: str, memory: object) -> None:
    written = gpu_pod(namespace, "train")
    written["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": 8, "memory": "65536Mi", "nvidia.com/gpu": 1},
        "requests": {"cpu": "7500m", "memory": memory},
    }
    assert template_of(kube.admin.create(written)["spec"]) == template_of(written["spec"])
