"""JSON that is not quite JSON: read on after what is odd; what is cut off stays cut off."""

import codecs
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.profile.lenient import LenientJson
from dutycycle.profile.profile import read
from tests.support.data.profiled import waits_for_data, write_trace


def mended(text: bytes, size: int = 64) -> bytes:
    source, parts = LenientJson(io.BytesIO(text)), []
    while part := source.read(size):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65536])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"[NaN, -Infinity, Infinity, nan, -nan, inf, -inf, INF, nan(ind), -nan(0x1)]", [None] * 10),
        (b'{"a":NaN,"b":-1e5,"c":null,"d":true}', {"a": None, "b": -1e5, "c": None, "d": True}),
        (
            b'["NaN", "x: NaN, Infinity]", "a\\"NaN", "\\\\", NaN]',
            ["NaN", "x: NaN, Infinity]", 'a"NaN', "\\", None],
        ),
        (b'["a\x01b\nc\td\x1f"]', ["a b c d "]),
        (b'["void f<\xff\xc3>", "\xc3\xa9"]', ["void f<\ufffd\ufffd>", "\u00e9"]),
        (b'["C:\\x\\user", "\\u12", "\\u00e9", "\\/"]', ["C:\\x\\user", "\\u12", "\u00e9", "/"]),
        (b"\xef\xbb\xbf[1]", [1]),
        (b"[1, 2 ,\r\n\t ]", [1, 2]),
        (b'{"a": [{"b": ",]", }, ], }', {"a": [{"b": ",]"}]}),
        (b'["a",",","]", "x,]" , ]', ["a", ",", "]", "x,]"]),
        ('["\u00e9", NaN]'.encode("utf-16"), ["\u00e9", None]),
        (codecs.BOM_UTF16_BE + '["\u00e9"]'.encode("utf-16-be"), ["\u00e9"]),
        (b'["' + b"\\\\" * 40 + b'", inf]', ["\\" * 40, None]),
    ],
)
def test_what_is_odd_is_mended(text: bytes, value: Any, size: int) -> None:
    assert json.loads(mended(text, size)) == value


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=ANY_JSON, size=st.integers(1, 40), ascii_only=st.booleans())
def test_what_python_writes_is_read(value: Any, size: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert json.loads(mended(text.encode("utf-8", "replace"), size)) == json.loads(
        text.encode("utf-8", "replace"), parse_constant=lambda _: None
    )


@pytest.mark.parametrize(
    "text", [b'["abc', b"[1, Na", b"[1, ", b"[,", b"[1,,]", b'{"a": "\\', b"[nope, In]", b'["\\u00']
)
def test_what_is_cut_off_or_no_json_stays_so(text: bytes) -> None:
    with pytest.raises(ValueError, match="line 1"):
        json.loads(mended(text, 3))


@pytest.mark.parametrize(
    "odd",
    [
        b'"x": NaN', b'"x": [-Infinity, inf]', b'"x": "a\x02b"', b'"x": "\xff"', b'"x": "C:\\x"',
        b'"x": "\\ud800"',
    ],
)  # fmt: skip
def test_a_trace_with_something_odd_is_read_to_its_end(tmp_path: Path, odd: bytes) -> None:
    path = write_trace(waits_for_data(), tmp_path / "trace.json")
    whole = read(path)
    text = path.read_bytes()
    middle = text.index(b'"args":{', len(text) // 2) + len(b'"args":{')
    path.write_bytes(b"\xef\xbb\xbf" + text[:middle] + odd + b", " + text[middle:])
    found = read(path)
    assert found.notes == whole.notes
    assert found.evidence == whole.evidence


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_trace_that_a_script_put_together_on_windows_is_whole(tmp_path: Path, encoding: str) -> None:
    path = write_trace(waits_for_data(), tmp_path / "trace.json")
    whole = read(path)
    text = path.read_text()
    text = re.sub(r'"(ts|dur)": ?([\d.]+)', r'"\1":"\2"', text)
    path.write_text(text.replace("]}", ",]}"), encoding=encoding)
    found = read(path)
    assert (found.notes, found.evidence) == (whole.notes, whole.evidence)
