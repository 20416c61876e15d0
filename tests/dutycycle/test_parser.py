"""Goal: who mistypes a command or a flag reads three lines: its own usage, what was meant, where help is."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

import pytest

from dutycycle.cli.main import main as dutycycle
from dutycycle.kubectl.cli import main as plugin

Main = Callable[[Sequence[str]], int]
ALL = "usage: dutycycle COMMAND [OPTIONS]"
IMPORT = "usage: dutycycle import --out TRACE [OPTIONS] FORMAT FILE …"
REPLAY = "usage: dutycycle replay [OPTIONS] TRACE …"
RUN = "usage: dutycycle run [OPTIONS] (FILE.yaml … | -- COMMAND …)"
TOP = "usage: kubectl dutycycle top [OPTIONS] pods|nodes|jobs [NAME]"
MISTAKES = [
    ("", ALL, "the following arguments are required: COMMAND"),
    ("--versoin", ALL, "unknown flag --versoin: did you mean --version?"),
    ("-x up", ALL, "unknown flag -x"),
    ("replya t.jsonl", ALL, "unknown command replya: did you mean replay?"),
    ("nonsense", ALL, "unknown command nonsense"),
    ("replay --ot=x t.jsonl", REPLAY, "unknown flag --ot: did you mean --out?"),
    ("replay", REPLAY, "the following arguments are required: TRACE"),
    ("import --ot x nvidia-smi a.csv", IMPORT, "unknown flag --ot: did you mean --out?"),
    ("up extra", "usage: dutycycle up [OPTIONS]", "unrecognized arguments: extra"),
    ("up -z", "usage: dutycycle up [OPTIONS]", "unknown flag -z"),
    ("run --otu x -- ls --otu", RUN, "unknown flag --otu: did you mean --out?"),
    ("run job.yaml --tiemout 2h", RUN, "unknown flag --tiemout: did you mean --timeout?"),
]
PLUGIN_MISTAKES = [
    ("tpo pods", "usage: kubectl dutycycle COMMAND [OPTIONS]", "unknown command tpo: did you mean top?"),
    ("top pods --sort-yb cpu", TOP, "unknown flag --sort-yb: did you mean --sort-by?"),
    ("top pods a b", TOP, "unrecognized arguments: b"),
]


@pytest.mark.parametrize(
    ("main", "given", "usage", "mistake"),
    [(dutycycle, *one) for one in MISTAKES] + [(plugin, *one) for one in PLUGIN_MISTAKES],
)
def test_a_mistake_takes_three_lines(
    main: Main, given: str, usage: str, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(given.split())
    prog = usage.removeprefix("usage: ").partition(" COMMAND [")[0]
    prog = prog.partition(" --")[0].partition(" [")[0]
    assert (end.value.code, *capsys.readouterr()) == (
        2,
        "",
        f"{usage}\n{prog}: {mistake}\nsee {prog} --help\n",
    )


def test_flags_of_another_program_are_not_looked_at() -> None:
    assert dutycycle(["run", "--out", "/dev/null/x", "--", "true", "--nonsense"]) != 2


@pytest.mark.parametrize("main", [dutycycle, plugin])
def test_version(main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    out = capsys.readouterr().out
    assert (end.value.code, out.endswith(f"dutycycle {version('dutycycle')}\n")) == (0, True)
