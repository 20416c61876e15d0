"""What a log is packed and encoded in, what a crash left in it, and files that are no log."""

import bz2
import gzip
import json
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.cli.main import main
from dutycycle.contract.errors import DutycycleError
from dutycycle.encodings import encoding_of
from dutycycle.imports.log_file import LogFile
from dutycycle.imports.table.json_log import flat_lines
from tests.dutycycle.imports.test_import import HEADING, records, smi_line

LINES = [HEADING, *(smi_line(1000 * second, 0, 50) for second in range(3))]
TEXT = "".join(f"{line}\n" for line in LINES)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstandard.compress, "": bytes,
}  # fmt: skip
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]


def read(path: Path, content: bytes) -> list[tuple[int, str]]:
    path.write_bytes(content)
    return list(LogFile(str(path)).read_lines())


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_the_same_in_each_packing(suffix: str, encoding: str, end: str, tmp_path: Path) -> None:
    text = TEXT.replace("power.draw", "Leistung für °C").replace("\n", end)
    lines = read(tmp_path / "a", PACKED[suffix](text.encode(encoding)))
    assert [line for _, line in lines] == TEXT.replace("power.draw", "Leistung für °C").splitlines(
        keepends=True
    )
    assert [number for number, _ in lines] == [1, 2, 3, 4]


HEADINGS = [
    ("cp932", "時刻,番号,GPU使用率 [%]"), ("gb18030", "时间,编号,GPU利用率 [%]"),
    ("big5", "時間,index,使用率 [%]"),
    ("euc-kr", "시간,번호,사용률 [%]"), ("koi8-r", "время,индекс,загрузка [%]"),
    ("cp1251", "время;индекс;загрузка [%]"),
    # Of six bytes of Big5 four are two letters of UTF-8, and nothing else stands there but ASCII.
    ("big5", "timestamp,GPU使用率,power"), ("big5", "time;使用率 [%];temp"),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "heading"), HEADINGS)
def test_a_heading_is_read_in_the_encoding_in_which_it_has_known_words(
    encoding: str, heading: str, tmp_path: Path
) -> None:
    text = f"{heading}\n2026-03-04 10:00:00,0,5 %\n"
    assert "".join(line for _, line in read(tmp_path / "a", text.encode(encoding))) == text


@pytest.mark.parametrize("encoding", ["iso8859-7", "iso8859-8", "tis-620"])
def test_an_encoding_that_is_not_known_is_named_with_its_mend(encoding: str, tmp_path: Path) -> None:
    words = {"iso8859-7": "ώρα,χρήση", "iso8859-8": "זמן,ניצול", "tis-620": "เวลา,การใช้งาน"}[encoding]
    with pytest.raises(DutycycleError, match=r"iconv -f ENCODING -t UTF-8 .* --columns time=NAME"):
        read(tmp_path / "a", f"{words}\n2026-03-04 10:00:00,5\n".encode(encoding))


@pytest.mark.parametrize("encoding", ["gb18030", "koi8-r"])
def test_a_title_in_another_encoding_keeps_no_log_below_it_from_being_read(
    encoding: str, tmp_path: Path
) -> None:
    title = {"gb18030": "监控日志, 服务器", "koi8-r": "Журнал, видеокарты"}[encoding]
    lines = read(tmp_path / "a", f"{title}\ntime,index,util\n2026-03-04 10:00:00,0,5\n".encode(encoding))
    assert [line for _, line in lines[1:]] == ["time,index,util\n", "2026-03-04 10:00:00,0,5\n"]


def test_a_log_of_metrics_is_no_answer_of_prometheus(tmp_path: Path) -> None:
    (line,) = read(tmp_path / "a", b'{"metric":{"gpu_util":5},"time":1772618400}\n')
    assert "gpu_util" in line[1]


@pytest.mark.parametrize(
    "text",
    [
        "Messzeit;Größe;Überlastung\n1;2;3\n",
        "2026/03/04 10:00:00, C:\\用户\\python.exe, 50 %\n",
        '{"process": "用户程序", "util": 3}\n',
        "用户程序开始\ntimestamp, index\n",
    ],
)
def test_other_letters_than_those_of_a_heading_are_left(text: str, tmp_path: Path) -> None:
    content = text.encode("cp1252" if "Größe" in text else "gb18030")
    assert len(read(tmp_path / "a", content)) == text.count("\n")


@pytest.mark.parametrize(
    "written",
    [
        "{time} stdout F {line}\n", "[pod/gpu-log-x/main] {line}\n", "[pod/gpu-log-x/main] {time} {line}\n",
        "{time} {line}\n", '{{"log":"{line}\\n","stream":"stdout","time":"{time}"}}\n',
        "\x1b[2J\x1b[1;31m{line}\x1b(B\x1b[m\n",
    ],
)  # fmt: skip
def test_what_a_container_or_a_terminal_adds_to_lines_is_left_out(written: str, tmp_path: Path) -> None:
    lines = [
        written.format(line=line, time=f"2026-11-20T10:00:0{at}.123456789Z") for at, line in enumerate(LINES)
    ]
    assert [line for _, line in read(tmp_path / "a", "".join(lines).encode())] == TEXT.splitlines(
        keepends=True
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["2026-11-20T10:00:00Z 50 250\n", "2026-11-20T10:00:01Z 60 250\n"],
        ["2026-11-20T10:00:00Z,50,250\n"],
        ["time util\n", "2026-11-20T10:00:00Z 50\n"],
    ],
)
def test_a_time_of_the_line_itself_stays(lines: list[str], tmp_path: Path) -> None:
    assert [line for _, line in read(tmp_path / "a", "".join(lines).encode())] == lines


@pytest.mark.parametrize(
    "encodings",
    [
        ("utf-8", "utf-16-le"), ("utf-8", "utf-16-be"), ("utf-8", "utf-16"), ("utf-8", "utf-16-le", "utf-8"),
        ("utf-16", "utf-8"), ("utf-16-le", "utf-8", "utf-16-le"), ("utf-16-be", "utf-8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("times", [1, 500])
def test_what_another_program_added_in_another_encoding_is_read(
    encodings: tuple[str, ...], end: str, times: int, tmp_path: Path
) -> None:
    rows = [smi_line(1000 * second, 0, 50) for second in range(4)] * times  # an even number of bytes
    part = "".join(f"{row}\n" for row in rows)
    content = f"{HEADING}\n".replace("\n", end).encode(encodings[0])
    content += b"".join(part.replace("\n", end).encode(encoding) for encoding in encodings)
    if encodings[0] == "utf-16":  # each part has begun with a mark of its own
        content = (
            f"{HEADING}\n{part}".replace("\n", end).encode("utf-16")
            + content[-len(rows) * (len(rows[0]) + len(end)) :]
        )
    lines = [line.strip("\n\ufeff") for _, line in read(tmp_path / "a", content)]
    assert [line for line in lines if line] == [HEADING, *rows * len(encodings)]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [suffix for suffix in PACKED if suffix])
def test_what_stands_before_the_end_of_a_cut_file_is_read(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, trace = tmp_path / f"a.csv.{suffix}", tmp_path / "t.jsonl"
    rows = [smi_line(1000 * second, 0, second * 7919 % 101) for second in range(3_000)]
    whole = PACKED[suffix]("".join(f"{line}\n" for line in [HEADING, *rows]).encode())
    log.write_bytes(whole[: len(whole) * 9 // 10])
    if suffix in ("bz2", "xz"):  # one block: nothing of it may come before its end
        log.write_bytes(PACKED[suffix](TEXT.encode()) + whole[:-100])
    assert main(["import", "nvidia-smi", str(log), "--out", str(trace)]) == 0
    samples = records(trace)
    assert len(samples) >= 3
    assert {sample["node"] for sample in samples} == {"a"}
    assert "cannot be unpacked to its end" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("goal", "text", "util", "wrong"),
    [
        ("at the end", f"{TEXT}{chr(0) * 5000}", 3, 0),
        ("at the begin: emptied while it was written", f"{chr(0) * 70_000}{TEXT}", 3, 0),
        ("between lines", TEXT.replace(LINES[2], chr(0) * 500 + LINES[2]), 3, 0),
        (
            "within a line, which goes on",
            TEXT.replace(LINES[2], LINES[2][:30] + chr(0) * 500 + LINES[2]),
            3,
            1,
        ),
        ("after a line without its end", TEXT.replace(LINES[2] + "\n", LINES[2] + chr(0) * 9 + "\n"), 2, 1),
    ],
)
def test_nuls_of_a_crash_cost_no_line_that_is_whole(
    goal: str, text: str, util: int, wrong: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, trace = tmp_path / "a.csv", tmp_path / "t.jsonl"
    log.write_text(text)
    assert main(["import", "nvidia-smi", str(log), "--out", str(trace)]) == 0, goal
    assert [sample["gpus"][0]["gpu_util_pct"] for sample in records(trace)] == [50] * util
    assert ("1 wrong line" in capsys.readouterr().err) is bool(wrong)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("Zeit;Temperatur [°C]\n".encode() + b"1;45\n\xff\xfe\n", "utf-8"),
        ("time,Temp\n1,45 °C\n2,45 °C\n".encode() + b"\xc3\n", "utf-8"),
        (b"Zeit;Temperatur [\xb0C];Gr\xf6\xdfe\n1;45;2\n", "cp1252"),
        (b"time,name\n1,RTX\xae\n", "cp1252"),
        ("時間,GPU 使用率 [%],記憶體 [MB]\n".encode() + b"1,2,\xe4\xbd\n", "utf-8"),
    ],
)
def test_a_wrong_byte_takes_no_language_from_a_text(content: bytes, encoding: str) -> None:
    assert encoding_of(content) == encoding


@pytest.mark.parametrize(
    "before",
    [
        "Starting\n",
        "/usr/lib/x.py:6: FutureWarning: The pynvml package is deprecated. Install it.\n  import pynvml\n",
        "[info] to log.jsonl\n\n",
    ],
)
def test_what_a_program_says_before_its_json_costs_itself(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, trace = tmp_path / "a.jsonl", tmp_path / "t.jsonl"
    objects = [f'{{"time": {1772618400 + at}, "gpu": 0, "util": {at}}}\n' for at in range(3)]
    log.write_text(before + "".join(objects) + "Done.\n")
    assert main(["import", "nvidia-smi", str(log), "--out", str(trace)]) == 0
    assert [sample["gpus"][0]["gpu_util_pct"] for sample in records(trace)] == [0, 1, 2]
    wrong = sum(bool(line.strip()) for line in before.splitlines()) + 1
    assert f"left out: {wrong} wrong lines" in capsys.readouterr().err


def test_a_line_of_json_makes_no_table_one_of_json(tmp_path: Path) -> None:
    """As another program writes it into the log, below a heading and without one."""
    for first in ("time,gpu,util", "2026-03-04 10:00:00,0,5", "#gpu sm", "| 0 RTX |"):
        (tmp_path / "a").write_text(f'{first}\n{{"a": 1}}\n')
        log = LogFile(str(tmp_path / "a"))
        assert len(list(log.read_lines())) == 2
        assert not log.is_json


@pytest.mark.parametrize(
    "settings", ['{"every": 1, "node": "a"}\n', '{\n  "every": [\n    1\n  ]\n}\n', "[]\n"]
)
@pytest.mark.parametrize(
    "table",
    [
        "timestamp, index, utilization.gpu [%]\n2026/11/20 10:00:00.000, 0, 5 %\n",
        "# gpu sm\n# Idx %\n0 5\n", "+---+\n| 0 |\n+---+\n",
    ],
)  # fmt: skip
def test_settings_in_json_below_a_word_make_no_table_one_of_json(
    settings: str, table: str, tmp_path: Path
) -> None:
    """Nor does the same above a log of JSON make that a table."""
    (tmp_path / "a").write_text(f"Starting\n{settings}{table}")
    log = LogFile(str(tmp_path / "a"))
    assert "".join(line for _, line in log.read_lines()) == f"Starting\n{settings}{table}"
    assert not log.is_json
    (tmp_path / "a").write_text(f'Starting\n{settings}{{"time": 1772618400, "gpu": 0, "util": 5}}\n')
    list(log.read_lines())
    assert log.is_json


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=50), st.integers(0, 200))
def test_a_head_of_utf_8_is_known_wherever_it_is_cut(text: str, cut: int) -> None:
    content = (HEADING + text).encode()
    assert encoding_of(content[: len(HEADING) + cut]) == "utf-8"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04\x14\0", "is a zip archive, or a workbook: unpack it"),
        (b"a" * 257 + b"ustar\0", "is a tar archive: unpack it"),
        # A time would be in the test's name.
        (gzip.compress(b"a" * 257 + b"ustar\0", mtime=0), "is a tar archive: unpack it"),
        (b"PAR1\x15\x04\x15", "is Parquet: write its values as CSV with a heading"),
        (gzip.compress(b"ARROW1\0\0", mtime=0), "is a file of Arrow: write its values as CSV"),
        (b"SQLite format 3\0\x10\0", "is a database of SQLite: write its values as CSV"),
        (b"\x89HDF\r\n\x1a\n", "is HDF5: write its values as CSV"),
        (b"\x80\x04\x95\xff\0", "is a pickle of Python: write its values as CSV"),
        (b'\n<?xml version="1.0" ?>\n', "is XML, and not of nvidia-smi -q -x: of nvidia-smi its CSV"),
        (b"======= ROCm System Management Interface =======\n", "is text of rocm-smi: give CSV"),
        (b'{"topic":"dutycycle.pods"}\n', "is a trace already: dutycycle replay FILE"),
        (b'{"status":"success","data":{}}\n', "is an answer of Prometheus: see dutycycle record"),
        (
            b'{"data":{"resultType":"matrix","result":[]}}\n',
            "is an answer of Prometheus: see dutycycle record",
        ),
        (b'[{"metric":{"gpu":"0"},"values":[]}]\n', "is an answer of Prometheus: see dutycycle record"),
        (
            b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 5 1772618400000\n',
            "is a page of a Prometheus exporter",
        ),
        (
            b"nvidia_smi,index=0,host=n1 utilization_gpu=5i,power=100 1772618400000000000\n",
            "is line protocol of InfluxDB: write its values as CSV",
        ),
        (b'{"schemaVersion": 1, "traceEvents": []}\n', "is a profile: dutycycle profile FILE"),
        (b'{\n  "schemaVersion": 1,\n  "traceEvents": [\n', "is a profile: dutycycle profile FILE"),
        (b'{"schemaVersion": 1,\n "deviceProperties": [\n', "is a profile: dutycycle profile FILE"),
        (b'[\n {"ts": 1772618400, "ph": "X", "pid": 7}]\n', "is a profile: dutycycle profile FILE"),
        (b"\0\0# HELP DCGM_FI_DEV_GPU_UTIL GPU\n", "is a page of a Prometheus exporter"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
            "is a pointer of Git LFS: git lfs pull",
        ),
        (b"FEA1\0\0", "is a file of Feather: write its values as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "is a workbook of Excel: write its values as CSV"),
        (b"\x7fELF\x02\x01\x01" + bytes(range(1, 9)) * 40, "is no text: unpack it, or write"),
        (b"Time,11-20-2026 10:00:00.123,Watts,250.5,Volts,230.1\n", "is a log of a power meter"),
        (b":W&B\xe1\xbe\0", "is a run of Weights & Biases: dutycycle import wandb"),
    ],
)
def test_a_file_that_is_no_log_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(DutycycleError, match=reason):
        read(tmp_path / "a", content)


JSON = [{"time": 10 * at, "gpu": {"0": {"util": at}}, "users": [{"pid": at}]} for at in range(3)]
FLAT = [{"time": 10 * at, "gpu.0.util": at, "users": None} for at in range(3)]


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("".join(f"{json.dumps(part)}\n" for part in JSON), FLAT),
        ("\n".join(map(json.dumps, JSON)), FLAT),
        ("\n".join(json.dumps(part, indent=2) for part in JSON), FLAT),
        (json.dumps(JSON), FLAT),
        (json.dumps(JSON, indent=2), FLAT),
        (json.dumps(JSON)[:-5], FLAT[:2]),
        (json.dumps(JSON, indent=2)[:-30], FLAT[:2]),
        ("[\n{],\n" + json.dumps(JSON, indent=2)[1:], FLAT),
        ('{"time": [1, 2], "util": [3, 4]}', [{"time": 1, "util": 3}, {"time": 2, "util": 4}]),
        ('{"time": {"0": 1, "5": 2}, "util": {"0": 3, "5": null}}',
         [{"time": 1, "util": 3}, {"time": 2, "util": None}]),
        ('{"time": {"0": 1, "5": 2}, "util": {"5": 3, "0": 4}}',
         [{"time.0": 1, "time.5": 2, "util.5": 3, "util.0": 4}]),
        ('{"time": 1, "gpus": [{"util": 2}, {"util": 3, "time": 4, "jobs": [{}]}]}',
         [{"time": 1, "util": 2, "index": 0}, {"time": 4, "util": 3, "jobs": None, "index": 1}]),
        ('{"time": 1, "gpus": {"0": {"util": 2}, "1": {"util": 3}}}',
         [{"time": 1, "index": "0", "util": 2}, {"time": 1, "index": "1", "util": 3}]),
        ('{"time": 1, "GPU-aa-bb": {"util": 2}, "load": 4}',
         [{"time": 1, "load": 4, "uuid": "GPU-aa-bb", "util": 2}]),
        ('{"host": "a", "samples": [{"time": 1, "util": 2}, {"time": 2, "util": 3}]}',
         [{"host": "a", "time": 1, "util": 2}, {"host": "a", "time": 2, "util": 3}]),
        ('{"gpus": {"0": [{"time": 1, "util": 2}, {"time": 2, "util": 3}], "1": [{"time": 1}, {"time": 2}]}}',
         [{"index": "0", "time": 1, "util": 2}, {"index": "0", "time": 2, "util": 3},
          {"index": "1", "time": 1}, {"index": "1", "time": 2}]),
        ('{"GPU-aa-bb": [{"time": 1, "util": 2}], "run.GPU 1": [{"time": 1}], "run 2": [{"time": 3}]}',
         [{"uuid": "GPU-aa-bb", "time": 1, "util": 2}, {"index": "1", "time": 1}, {"time": 3}]),
        ('{"time": [1, 2], "gpus": [[{"util": 2}], [{"util": 3}]]}',
         [{"time": 1, "util": 2, "index": 0}, {"time": 2, "util": 3, "index": 0}]),
        ('{"1764403200": {"util": 2}, "1764403201": {"util": 3}}',
         [{"time": "1764403200", "util": 2}, {"time": "1764403201", "util": 3}]),
        ('{"2026-11-20 10:00:00": {"0": {"util": 2}, "1": {"util": 3}}}',
         [{"time": "2026-11-20 10:00:00", "index": "0", "util": 2},
          {"time": "2026-11-20 10:00:00", "index": "1", "util": 3}]),
        ('{"util": {"1764403200000": 2, "1764403201000": 3}}',
         [{"time": "1764403200000", "util": 2}, {"time": "1764403201000", "util": 3}]),
        ('{"0": {"time": 1, "util": 2}, "1": {"time": 2, "util": 3}}',
         [{"time": 1, "util": 2}, {"time": 2, "util": 3}]),
        ('{"columns": ["time", "util"], "index": [0, 1], "data": [[1, 2], [2, 3]]}',
         [{"time": 1, "util": 2}, {"time": 2, "util": 3}]),
        ('{"columns": ["util"], "index": [1764403200000, 1764403201000], "data": [[2], [3]]}',
         [{"time": 1764403200000, "util": 2}, {"time": 1764403201000, "util": 3}]),
        ('{"schema": {"primaryKey": ["index"]}, "data": [{"index": 0, "time": 1, "util": 2}]}',
         [{"time": 1, "util": 2}]),
        ('[["time", "util"], [1, 2], [2, 3]]', [{"time": 1, "util": 2}, {"time": 2, "util": 3}]),
        (json.dumps({"time": 1, "name": "n" * 100_000}), [{"time": 1, "name": "n" * 100_000}]),
        ('{"time": 1, "name": "a\tb"}\n', [{"time": 1, "name": "a\tb"}]),
        ('{"time": 1, "util": 2,}\n{"time": 2, "name": ",}\\",]"}\n{"time": 3, "users": [4, ], }\n',
         [{"time": 1, "util": 2}, {"time": 2, "name": ',}",]'}, {"time": 3, "users": [4]}]),
        ('[\n{"time": 1,\n "util": 2,\n},\n{"time": 2, "name": ",]",},\n]',
         [{"time": 1, "util": 2}, {"time": 2, "name": ",]"}]),
    ],
)  # fmt: skip
def test_objects_of_json_are_lines_of_names_and_values(text: str, flat: list[object], tmp_path: Path) -> None:
    """However they are written, and those that are whole of what is cut off."""
    lines = [line for _, line in read(tmp_path / "a", text.encode())]
    parts = [json.loads(line) for line in lines if line.endswith("}\n")]
    assert parts == flat
    assert (len(lines) > len(parts)) == (text[-1] not in "]}\n" or "{]" in text)


def test_an_object_that_is_too_deep_costs_no_other(tmp_path: Path) -> None:
    deep = '{"a": ' + "[" * 100_000 + "\n"
    lines = [line for _, line in read(tmp_path / "a", f"{deep}{json.dumps(JSON[0])}\n".encode())]
    assert lines[0] == deep
    assert [json.loads(line) for line in lines[1:]] == FLAT[:1]


@pytest.mark.parametrize("first", ["[2026-01-05 10:00:00] begun", "# comment", "<none>", "{'lr': 0.1}"])
def test_a_word_before_the_heading_is_no_other_format(first: str, tmp_path: Path) -> None:
    assert len(read(tmp_path / "a", f"{first}\n{TEXT}".encode())) == 5


@pytest.mark.parametrize("kind", ["rows", "gpus", "hosts"])
def test_a_list_of_json_is_not_held_twice(kind: str) -> None:
    rows = [{"util": number % 100, "power": 300.5 + number} for number in range(4000)]
    text = json.dumps({
        "rows": {"samples": [{"time": 1_772_618_400 + at, **row} for at, row in enumerate(rows)]},
        "gpus": {"time": 1_772_618_400, "gpus": rows},
        "hosts": {
            "time": 1_772_618_400, "hosts": [{"id": f"a{at}", "gpu0": row} for at, row in enumerate(rows)],
        },
    }[kind])  # fmt: skip
    tracemalloc.start()
    value = json.loads(text)
    held_bytes, _ = tracemalloc.get_traced_memory()
    del value
    tracemalloc.reset_peak()
    assert sum(1 for _ in flat_lines([(1, f"{text}\n")])) == len(rows)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The log as it is read, its text once more, and one line.
    assert peak_bytes < 1.4 * held_bytes + 2 * len(text)
