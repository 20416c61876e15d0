"""Who the API server says it is, and for whom it asks."""

import pytest
from multidict import CIMultiDict

from sinks.adapter.front_proxy import FrontProxy, NoFrontProxyError
from sinks.reviews import User

DATA = {
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
PROXY = FrontProxy.of(DATA)
ALL = "system:authenticated"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([("X-Remote-Group", "g")], None),
        ([("X-Remote-User", "u")], User("u", (ALL,))),
        ([("x-remote-user", "u"), ("X-Remote-Group", "g"), ("X-Remote-Group", ALL)], User("u", ("g", ALL))),
        ([("X-Remote-User", "system:anonymous")], User("system:anonymous")),
        (
            [("X-Remote-User", "u"), *(("X-Remote-Extra-Acme.com%2FProject", one) for one in "ab")],
            User("u", (ALL,), {"acme.com/project": ("a", "b")}),
        ),
    ],
)  # fmt: skip
def test_the_user_is_in_the_headers(headers: list[tuple[str, str]], expected: User | None) -> None:
    assert PROXY.user(CIMultiDict(headers)) == expected


@pytest.mark.parametrize(
    ("names", "common_name", "admitted"),
    [
        ('["front-proxy-client"]', "front-proxy-client", True),
        ('["front-proxy-client"]', "kubelet", False),
        ("[]", "kubelet", True),  # whoever the authority signs
    ],
)
def test_the_certificate_has_an_allowed_name(names: str, common_name: str, admitted: bool) -> None:
    certificate = {"subject": ((("organizationName", "front-proxy-client"),), (("commonName", common_name),))}
    assert FrontProxy.of(DATA | {"requestheader-allowed-names": names}).admits(certificate) is admitted


@pytest.mark.parametrize("data", [{}, DATA | {"requestheader-client-ca-file": ""}])
def test_without_an_authority_nobody_is_recognised(data: dict[str, str]) -> None:
    with pytest.raises(NoFrontProxyError, match="aggregation layer is not configured"):
        FrontProxy.of(data)


@pytest.mark.parametrize("text", ['["front-proxy-client"', '"front-proxy-client"', '{"a": 1}', "[1]", "7"])
def test_what_cannot_be_read_is_named_and_admits_nobody(text: str) -> None:
    with pytest.raises(NoFrontProxyError, match="requestheader-allowed-names is") as caught:
        FrontProxy.of(DATA | {"requestheader-allowed-names": text})
    assert repr(text) in str(caught.value)
