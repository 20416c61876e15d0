"""Writes the trials as a table, and which was best in words. Pure."""

from collections.abc import Iterator, Sequence

from dutycycle.measures.change import SIGMAS
from dutycycle.trial.results.verdict import TrialRow, TrialVerdict
from dutycycle.words import UNKNOWN, aligned, capitalized

_GOAL_WORDS = {"gpu-seconds": "GPU-seconds", "joules": "joules", "rate": "rate"}


def lines_of(verdict: TrialVerdict) -> Iterator[str]:
    """Yield the table, and below it what follows from it."""
    unit = verdict.unit or "step"
    heads = ["trial", "GPUs", f"{unit}s/s", f"GPU-s a {unit}", f"J a {unit}", "held back by", "ended"]
    rows = []
    for row in verdict.rows:
        outcome = row.outcome
        held = outcome.figures.bottleneck if outcome.figures is not None else None
        figures_of_row = []
        for value in (row.rate, row.gpu_s, row.joules):
            if value is None:
                figures_of_row.append(UNKNOWN)
            elif value.error is None or not value.value:
                figures_of_row.append(f"{number(value.value)} ?")
            else:
                pct = 100 * SIGMAS * value.error / value.value
                figures_of_row.append(f"{number(value.value)} ±{pct:.1f} %")
        name = f"{outcome.variant.name} *" if row is verdict.best else outcome.variant.name
        bottleneck = (held or UNKNOWN).replace("_", " ")
        rows.append([name, str(outcome.variant.total), *figures_of_row, bottleneck, outcome.ended])
    yield from aligned(heads, rows, gap="  ").splitlines()
    yield ""
    yield f"{capitalized(sentence_of(verdict))}."
    if verdict.unit == "cycle":
        yield (
            "The training reports no steps, so cycles of GPU utilization were counted, and each is taken to "
            "be the same work."
        )
    elif verdict.unit == "step":
        yield "A step is taken to be the same work in all trials."
    for row in verdict.rows:
        figures, variant = row.outcome.figures, row.outcome.variant
        if figures is not None and figures.idle_gpus:
            yield (
                f"{variant.name}: {figures.idle_gpus} of its {variant.total} GPUs did "
                "nothing: does the program take its number of GPUs from $(TRIAL_GPUS)?"
            )


def sentence_of(verdict: TrialVerdict) -> str:
    """Tell which is best, in a sentence."""
    by = f"by {_GOAL_WORDS[verdict.goal]}"
    if verdict.goal != "rate":
        by += f" a {verdict.unit or 'step'}"
    if verdict.best is None:
        why = "power was not measured"
        if all(row.outcome.figures is None for row in verdict.rows):
            why = "no trial ran to its end and was measured"
        elif verdict.unit is None:
            why = "no steps were reported, and no cycle was found; try a longer --for"
        return f"which is best {by} is not known: {why}"
    sentence = f"best {by}: {verdict.best.outcome.variant}"
    if verdict.ties:
        names = _names(verdict.ties)
        sentence += f"; {names} differ{'s' if len(verdict.ties) == 1 else ''} from it by no more than noise"
        sentence += ", and it needs no more GPUs"
    if verdict.unsure:
        sentence += f"; {_names(verdict.unsure)}: too short to tell from it"
    return sentence


def number(value: float) -> str:
    """Return a number as text with three digits, and no exponent of a large one."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def figures_words(row: TrialRow, unit: str | None) -> str:
    """Return the figures of one trial in a line, those that are known."""
    unit = unit or "step"
    parts = [
        (row.rate, f"{unit}s/s"), (row.gpu_s, f"GPU-s a {unit}"), (row.joules, f"J a {unit}"),
    ]  # fmt: skip
    words = [f"{number(value.value)} {name}" for value, name in parts if value is not None]
    held = row.outcome.figures.bottleneck if row.outcome.figures is not None else None
    return ", ".join([*words, *([f"held back by {'nothing' if held == 'none' else held}"] if held else [])])


def _names(rows: Sequence[TrialRow]) -> str:
    return ", ".join(str(row.outcome.variant) for row in rows)
