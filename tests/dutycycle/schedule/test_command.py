"""``dutycycle schedule`` as a user meets it: tables, files, traces of others, and what is wrong in them."""

import csv
import json
from pathlib import Path

import pytest

from dutycycle.cli.main import main

SMALL = ["schedule", "--simulate", "generated", "--jobs", "120", "--nodes", "3"]
COLUMNS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time"
PODS = f"""{COLUMNS},scheduled_time
p0,8000,1024,1,1000,,LS,Succeeded,100,400,100
p1,8000,1024,1,460,T4|A10,BE,Running,110,300,120
p2,8000,1024,8,1000,,LS,Succeeded,120,500,130
p3,8000,1024,1,1000,,LS,Pending,130,,
p4,eight,1024,1,1000,,LS,Succeeded,140,200,150
p5,8000,1024,1
p6,8000,1024,16,1000,,LS,Succeeded,150,200,160
p7,8000,1024,1,2000,,LS,Succeeded,150,200,160
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,T4\nn1,64000,262144,8,P100\n"
TASKS = """j0,worker,2.0,Terminated,1000.0,1600.0,600.0,29.296875,100.0,T4
j1,ps,1.0,Terminated,1010.0,1200.0,600.0,10,,MISC
j2,tensorflow,,Terminated,1020.0,1100.0,100,1,50.0,MISC
j3,tensorflow,1.0,Running,1020.0,,100,1,50.0,MISC
j4,tensorflow,1.0,Terminated,1020.0,-5,100,1,50.0,MISC
"""
NODE = {"ip": "m1", "gpus": ["gpu0", "gpu1"]}
RAN = {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09", "detail": [NODE]}
LOG = [
    {"jobid": "a", "vc": "v", "user": "u", "submitted_time": "2017-10-07 01:11:39", "attempts": [RAN, RAN]},
    {"jobid": "b", "vc": "v", "user": "u", "submitted_time": "2017-10-07 01:11:39", "attempts": []},
    {"jobid": "c", "vc": "v", "user": "u", "submitted_time": "yesterday", "attempts": [RAN]},
    {"jobid": "d", "vc": "v", "user": "u", "submitted_time": "2017-10-07 01:11:39",
     "attempts": [RAN, RAN | {"end_time": "2017-10-07 01:12:00"}]},
    {"jobid": "e", "vc": "v", "submitted_time": "2017-10-07 01:11:39", "attempts": [RAN]},
    {"jobid": "f", "vc": "v", "user": "u", "submitted_time": "2017-10-07 01:11:39",
     "attempts": [RAN, RAN | {"detail": []}]},
    {"jobid": "g", "attempts": None},
]  # fmt: skip


def test_a_table_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "compared"
    assert main([*SMALL, "--seeds", "1-2,5", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    rows = list(csv.DictReader((out / "figures.csv").open()))
    assert [(one["seed"], one["way"]) for one in rows][:7] == [
        ("1", "fifo"), ("1", "default"), ("1", "priorities"), ("1", "scores"), ("1", "ours"), ("1", "oracle"),
        ("2", "fifo"),
    ]  # fmt: skip
    assert len(rows) == 18
    assert all(float(one["mean_completion_s"]) > float(one["mean_wait_s"]) >= 0 for one in rows)
    assert (out / "schedule.png").read_bytes().startswith(b"\x89PNG")
    assert "ours" in said
    assert "1.00x" in said


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        assert main([*SMALL, "--ways", "default,ours", "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "one" / "figures.csv").read_bytes() == (
        tmp_path / "other" / "figures.csv"
    ).read_bytes()


@pytest.mark.slow
def test_a_policy_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    figures, out = [], ["--out", str(tmp_path)]
    for text in ("stretch = 0\nfairness = 0", "stretch = 4"):
        file.write_text(text)
        assert main([*SMALL, "--load", "3", "--ways", "oracle", "--policy", str(file), *out]) == 0
        figures.append((tmp_path / "figures.csv").read_text())
    assert figures[0] != figures[1]


@pytest.mark.parametrize(
    ("form", "trace", "nodes", "said"),
    [
        (
            "alibaba-2023", PODS, NODES,
            [
                "pods.csv:6: cpu_milli: 'eight' is no number", "pods.csv:7: 4 values for 11 columns",
                "pods.csv:9: num_gpu 1, gpu_milli 2000: expected whole GPUs, or parts of one",
                "3 jobs on 2 nodes; 1 jobs fit on no node and are left out; 1 rows of what never ran",
            ],
        ),
        (
            "alibaba-2020", TASKS, "m0,T4,96,512,2\n",
            ["pods.csv:5: end_time: '-5': expected 0 or more", "3 jobs on 1 nodes; 1 rows of what never ran"],
        ),
        (
            "philly", json.dumps(LOG), "m1,8, 24GB\n",
            [
                "pods.csv: job c: time data", "pods.csv: job d: an attempt ends before it begins",
                "pods.csv: job e: has no user", "pods.csv: job g: is no job as cluster_job_log has them",
                "2 jobs on 1 nodes; 1 rows of what never ran",
            ],
        ),
        (
            "philly", json.dumps(LOG[:1]), "Number of GPUs,single GPU mem,machineId\n8,24GB,m1\n",
            ["1 jobs on 1 nodes\n"],
        ),
        (
            "alibaba-2023", f"{PODS.splitlines()[0]}\n" + "".join(
                f"{name},1,1,1,1000,,LS,Running,0,{ended},1\n" for name, ended in (("a", ""), ("b", "60"))
            ), NODES,
            ["1 jobs on 2 nodes; 1 rows of what never ran, or did not end, are passed over\n"],
        ),
        (
            "alibaba-2023", f"{PODS.splitlines()[0]}\na,1,1,1,1000,NaN,LS,Running,0,60,1\n"
            "b,1,1,1,1000,None,LS,Running,0,null,1\n", NODES,
            ["1 jobs on 2 nodes; 1 rows of what never ran, or did not end, are passed over\n"],
        ),
    ],
    ids=["alibaba-2023", "alibaba-2020", "philly", "philly-heading", "alibaba-running", "words-for-nothing"],
)  # fmt: skip
def test_traces_of_others(
    form: str, trace: str, nodes: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pods.csv").write_text(trace)
    (tmp_path / "nodes.csv").write_text(nodes)
    files = ["--simulate", str(tmp_path / "pods.csv"), "--machines", str(tmp_path / "nodes.csv")]
    assert main(["schedule", *files, "--format", form, "--ways", "default,ours"]) == 0
    errors = capsys.readouterr().err
    assert [line for line in said if line not in errors] == []


def test_a_damaged_row_costs_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading, first, *others = PODS.splitlines()[:4]
    path = tmp_path / "pods.csv"
    path.write_text("\n".join([heading, first, '"' + first, "x" * 200_000 + "," * 10, *others]) + "\n")
    assert main(["schedule", "--simulate", str(path), "--format", "alibaba-2023", "--ways", "fifo"]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "pods.csv:" in line] == [
        "dutycycle: left out: pods.csv:3: no row of CSV: unexpected end of data",
        "dutycycle: left out: pods.csv:4: no row of CSV: field larger than field limit (131072)",
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_columns_are_found_by_their_heading_however_it_is_written(
    encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows writes marks and UTF-16, and spreadsheets put columns in another order."""
    rows = [row.split(",")[::-1] for row in PODS.splitlines()[:4]]
    rows[0] = [name.upper() for name in rows[0]]
    path = tmp_path / "pods.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows), encoding=encoding)
    arguments = ["schedule", "--simulate", str(path), "--format", "alibaba-2023", "--ways", "fifo"]
    assert main(arguments) == 0
    read = capsys.readouterr()
    path.write_text("\n".join(PODS.splitlines()[:4]) + "\n")
    assert main(arguments) == 0
    assert capsys.readouterr() == read


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["--simulate", "x.csv"],
            "--simulate x.csv: needs --format, one of alibaba-2020, alibaba-2023, philly",
        ),
        (["--simulate", "nowhere.csv", "--format", "philly"], "nowhere.csv: No such file or directory"),
        (["--simulate", "generated", "--format", "philly"], "--format and --machines are of a file"),
        (["--simulate", "generated", "--policy", "nowhere.toml"], "--policy nowhere.toml: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", *args]) in (1, 2)
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b\x08", "is packed by gzip: unpack it"), (b"PK\x03\x04", "is a zip archive: unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS: git lfs pull"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["alibaba-2020", "philly"])
def test_a_file_that_has_its_text_packed(
    form: str, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").write_bytes(content)
    assert main(["schedule", "--simulate", str(tmp_path / "jobs"), "--format", form]) == 1
    assert f"jobs: {said}\n" in capsys.readouterr().err


def test_json_that_is_too_deep_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs").write_text("[" * 100_000)
    assert main(["schedule", "--simulate", str(tmp_path / "jobs"), "--format", "philly"]) == 1
    assert "jobs: is no JSON: maximum recursion depth" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "thing"), [("--simulate", "jobs"), ("--machines", "nodes")])
def test_a_file_without_any_right_row_says_what_is_wrong_first(
    option: str, thing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "right.csv").write_text(PODS)
    (tmp_path / "wrong.csv").write_text("\na;b\n")
    files = {"--simulate": tmp_path / "right.csv", option: tmp_path / "wrong.csv"}
    args = [str(part) for pair in files.items() for part in pair]
    assert main(["schedule", *args, "--format", "alibaba-2023"]) == 1
    error = capsys.readouterr().err
    assert f"wrong.csv: has no {thing}: is it " in error
    assert "; wrong.csv:2: 1 values for " in error


def test_what_is_wrong_of_one_file_is_not_said_of_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes.csv").write_text(f"{NODES}a;b\n")
    (tmp_path / "pods.csv").write_text(PODS.splitlines()[0])
    files = ["--simulate", str(tmp_path / "pods.csv"), "--machines", str(tmp_path / "nodes.csv")]
    assert main(["schedule", *files, "--format", "alibaba-2023"]) == 1
    error = capsys.readouterr().err
    assert "pods.csv: has no jobs: is it a trace in the format alibaba-2023?\n" in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("strech = 1", "policy: there is no 'strech'"),
        ("stretch =", "is no TOML"),
        ("bands = 3", "policy bands: 3"),
    ],
)
def test_a_wrong_policy_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text(text)
    assert main([*SMALL, "--policy", str(tmp_path / "policy.toml")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--seeds", "x", "expected seeds such as 1,2,5 or 1-5"),
        ("--seeds", "5-1", "expected 1 to 1000 seeds"),
        ("--seeds", "1-9999999999999999", "expected 1 to 1000 seeds"),
        ("--ways", "ours,best", "'best': expected some of fifo, default"),
        ("--load", "0", "expected a number from 0.01 to 10"),
        ("--nodes", "0", "expected a whole number from 1"),
    ],
)
def test_wrong_flags(flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*SMALL, flag, value])
    assert said in capsys.readouterr().err


def test_rows_of_one_name_are_jobs_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = "p0,8000,1024,1,1000,,LS,Succeeded,100,400,100\n"
    (tmp_path / "pods.csv").write_text(f"{COLUMNS},scheduled_time\n{row}{row}")
    trace = ["--simulate", str(tmp_path / "pods.csv"), "--format", "alibaba-2023"]
    assert main(["schedule", *trace, "--nodes", "1", "--ways", "ours"]) == 0
    assert "2 jobs on 1 nodes" in capsys.readouterr().err
