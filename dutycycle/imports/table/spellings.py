"""Knows how programs and people spell the columns of a log of GPUs, and which field each spelling means.

A spelling is a set of words: ``memory.used [MiB]``, ``gpu_memory_used_mib``, ``used_gpu_memory`` and
``MemUsed(MB)`` are all ``mem`` and ``used``. The names of nvidia-smi are those of ``nvidia-smi
--help-query-gpu`` and ``--help-query-compute-apps``. Those of tables that Weights & Biases exports are no
words: in ``sft-1 - system/gpu.0.memory`` there is the share of time in which memory was read or written.
So it is in ``gpu.0.memory`` beside ``gpu.0.gpu``, where a program has left their beginning out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dutycycle.contract.catalogue import GPU_ROWS, unit_of
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.health import logged
from dutycycle.imports.moments import ELAPSED, EPOCH
from dutycycle.imports.quantities import QUANTITIES, TEXTS

_THOUSANDS = re.compile(r"(?<=\d)['’\s](?=\d{3}(?!\d))")
"""Between digits nothing else is meant by it."""
_MARKED = re.compile(r"[-+]?(\d+(?:[.,]\d+)+)").match
_BRACKETS = re.compile(r"(?P<name>.+?)\s*[\[(](?P<unit>[^\])]*)[\])]\s*").fullmatch
_UNIT_BEHIND = re.compile(r"(?P<name>.*[a-z_])(?P<unit>KiB|MiB|GiB|KB|MB|GB|MHz|GHz|mW|kW|kWh|mJ)").fullmatch
_LAST_NUMBER = re.compile(r"[\W_](\d{1,3})\]?$").search
_PARTS = re.compile(r"[^\W\d_]+|\d+").findall
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+").findall
_SAME = {
    "utilization": "util", "utilisation": "util", "memory": "mem", "vram": "mem", "fb": "mem",
    "framebuffer": "mem", "temperature": "temp", "clocks": "clock", "clk": "clock", "pci": "pcie",
    "graphics": "gr", "idx": "index", "throughput": "rate", "timestamp": "time", "ts": "time",
    "datetime": "time", "timestamps": "time", "times": "time", "asctime": "time", "epoch": "time",
    "consumption": "usage", "use": "usage", "cap": "limit", "pwr": "power",
    "zeit": "time", "zeitstempel": "time", "uhrzeit": "time", "datum": "date",
    "auslastung": "util", "speicher": "mem", "belegt": "used", "leistung": "power",
    "leistungsaufnahme": "power", "temperatur": "temp",
    "horodatage": "time", "heure": "time", "mémoire": "mem", "memoire": "mem",
    "utilisée": "used", "utilisee": "used", "puissance": "power", "température": "temp", "totale": "total",
    "indice": "index", "índice": "index", "fecha": "date", "hora": "time", "uso": "usage",
    "utilización": "util", "memoria": "mem", "memória": "mem", "usada": "used", "potencia": "power",
    "potência": "power", "temperatura": "temp", "時刻": "time", "日時": "time", "時間": "time",
    "时间": "time", "日付": "date", "日期": "date", "番号": "index", "编号": "index", "使用率": "util",
    "利用率": "util", "温度": "temp", "消費電力": "power", "電力": "power", "功耗": "power", "功率": "power",
    "メモリ": "mem", "メモリ使用量": "mem", "使用メモリ": "mem", "显存": "mem", "显存使用": "mem",
    "已用显存": "mem", "显卡": "index", "시간": "time", "사용률": "util", "메모리": "mem", "온도": "temp",
    "전력": "power", "번호": "index", "время": "time", "загрузка": "util", "память": "mem",
    "температура": "temp", "мощность": "power", "индекс": "index", "видеопамять": "mem",
}  # fmt: skip
_SILENT = frozenset({
    "gpu", "gpus", "nvidia", "device", "devices", "cuda", "card", "cards", "current", "gpucurrent", "cur",
    "value", "of", "in", "avg", "mean", "de", "la", "del", "du",
})  # fmt: skip
_UNITS = frozenset(unit for quantity in QUANTITIES.values() for unit in quantity.units if unit)
_GPUS = ("gpu", "device", "cuda", "card")
_LAST = 1000
"""The rank of a column that counts where no other has its field."""
RANK_OF_EPOCH = 2 * _LAST
"""What an epoch has beyond a time, as long as it is not known to be since 1970."""

_SPELLINGS = {
    "time": "time|date time|unix time|wall time|time stamp|time utc|local time|elapsed|elapsed time"
    "|relative time|seconds|t|runtime|query time|t offset|time offset|rel time|time since start|wall clock"
    "|recorded at|sampled at|collected at|created at",
    "date": "date",
    "node": "hostname|host|node|nodename|node name|host name|machine|machine name|server|server name"
    "|computer name|host ip|node ip|ip address|ip",
    "uuid": "uuid|pcie bus id|bus id",
    "index": "index",
    "model": "name|product name|model|product|model name",
    "mem_free_bytes": "mem free|free|mem available",
    "mem_reserved_bytes": "mem reserved",
    "throttle": "clock event reasons active|clock throttle reasons active|throttle reasons|throttle",
    "pid": "pid|process id",
    "process_name": "process name|process",
    **{row.field: row.smi for row in GPU_ROWS if row.smi},
    **logged.SPELLINGS,
    **{
        f"{share}_counter_us": f"clock event reasons counters {reason}"
        for share, reason in {
            "sw_power_cap_pct": "sw power limit", "sync_boost_pct": "sync boost",
            "sw_thermal_pct": "sw thermal slowdown", "hw_thermal_pct": "hw thermal slowdown",
            "power_brake_pct": "hw power brake slowdown|clock event reasons counters hw power brake",
        }.items()
    },
}  # fmt: skip
"""The words of each spelling, in any order; of several in one log the first counts."""
_FIELDS: dict[frozenset[str], tuple[str, int]] = {
    frozenset(spelling.split()): (field, rank)
    for field, spellings in _SPELLINGS.items()
    for rank, spelling in enumerate(spellings.split("|"))
}
_OF_A_MOMENT = re.compile(
    r"stamp|date|zeitstempel|horodatage|(?<![^\W_])(?:ts|at)(?![^\W_])", re.IGNORECASE
).search
"""What only a moment is called: beside it ``time`` may be what a step takes."""
_SINCE_START = frozenset({"elapsed", "relative", "rel", "runtime", "offset", "start"})
_PERCENTAGES = {"mem_used_bytes": "mem_used_pct", "index": "gpu_util_pct"}
"""What a spelling means where its unit is a percentage: ``mem_pct``, ``gpu [%]``."""
KEYS = {
    "time": "time", "date": "date", "index": "index", "uuid": "uuid", "model": "model", "node": "node",
    "util": "gpu_util_pct", "mem_util": "mem_copy_util_pct", "mem_free": "mem_free_bytes",
    "mem_pct": "mem_used_pct",
    "throttle": "throttle", "pid": "pid", "process_name": "process_name",
    **{row.field.removesuffix(unit_of(row.field).suffix): row.field for row in GPU_ROWS},
    **{name: name for name in (*logged.COUNTS, *logged.FLAGS)},
}  # fmt: skip
"""What ``--columns KEY=NAME`` may name, and the field of each."""
WANDB_FIELDS: dict[str, tuple[str, str | None]] = {
    name: (row.field, unit) for row in GPU_ROWS for name, unit in row.wandb.items()
} | {"memoryAllocated": ("mem_used_pct", "%")}
"""What W&B calls the figures of a GPU: their fields and units."""
_TIME_OF_WANDB = re.compile(r"(?P<run>.+) - _timestamp").fullmatch
_OF_WANDB = re.compile(
    r"(?P<begin>(?:(?P<run>.+) - )?system[./])?gpu\.(?P<gpu>\d+)\.(?P<name>\w+?)(?P<bound>__MIN|__MAX)?"
).fullmatch
"""A column of a table that W&B's page exports, or its API, which names no run. ``bound``: of the runs that a
chart has grouped, or of the moments that it has joined."""
_ONLY_OF_WANDB = WANDB_FIELDS.keys() - {"memory", "temp"}
"""What no other program calls so, without the beginning too."""
RUNS_OF_WANDB = (
    "run_id", "run.id", "_run_id", "run id", "run", "run_name", "run.name", "run name", "name",
)  # fmt: skip
"""Columns that tell the run of a row, the surest first."""
_OF_NVITOP = re.compile(
    r"(?:[^/]+/)?(?:cuda:\d+ \()?gpu:(?P<gpu>\d+)\)?/(?P<name>[^/]+)/(?P<statistic>mean|min|max|last)"
).fullmatch
_TIME_OF_NVITOP = re.compile(r"[^/]+/timestamp").fullmatch
"""As its collector of metrics names them, which has statistics of each interval."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Says what a column's name means. ``unit`` is absent where the name has none; ``gpu`` is the number in
    it, as in ``gpu0_util``; ``rank``: of several columns of one field the least counts. ``names_gpu``: it
    says that it is of a GPU. ``run``: the one of W&B that it is of."""

    field: str
    unit: str | None
    gpu: int | None = None
    rank: int = 0
    names_gpu: bool = False
    run: str | None = None


def split_unit(name: str) -> tuple[str, str | None]:
    """Take the unit in brackets from a name: ``power.draw [W]``, ``load(%)``."""
    match = _BRACKETS(name)
    if match and not match["unit"].isdecimal():  # ``util[0]`` is of GPU 0
        again = _BRACKETS(match["name"])  # ``Power (W) [W]``
        is_same = again is not None and again["unit"] == match["unit"]
        return again["name"] if again and is_same else match["name"], match["unit"].strip()
    return (name[:-1].rstrip(), "%") if name.endswith("%") else (name, None)


def read_meaning(name: str) -> Meaning | None:
    """Tell what a column's name means; None for one that means nothing here."""
    time_of_wandb = _TIME_OF_WANDB(name)
    if time_of_wandb is not None:
        return Meaning("time", "s", run=time_of_wandb["run"])
    of_wandb = match_wandb(name)
    if of_wandb is not None:
        return _read_wandb(of_wandb)
    if (of_nvitop := _read_nvitop(name)) is not None:
        return of_nvitop
    bare, unit = split_unit(name)
    words, gpu, names_gpu = _read_words(bare)
    behind = None
    field, rank = _FIELDS.get(frozenset(words), (None, 0))
    if field is None and unit is None and words and words[-1] in _UNITS:
        words, behind = words[:-1], words[-1]
        field, rank = _FIELDS.get(frozenset(words), (None, 0))
    percentage = (unit or behind or "").lower() in ("%", "pct", "percent", "percentage", "ratio", "fraction")
    is_bare = names_gpu and set(words) <= {"id", "number", "num", "no"}
    if field is None and is_bare and (gpu is None or percentage):
        # A column ``gpu``, or ``gpu_id``. Beside one of a number ``card`` is mostly the model.
        field, rank = "index", _LAST if "card" in name.lower() else 0
    if percentage and field in _PERCENTAGES:
        field = _PERCENTAGES[field]
    if field is None or (field in TEXTS and field != "time" and behind is not None):
        return None
    if behind is not None and behind not in QUANTITIES[field].units:
        return None  # such as ``power_s``
    if field == "time":
        rank, unit = _read_time(bare, words, rank, unit or behind)
    return Meaning(field, unit or behind, gpu, rank, names_gpu)


def match_wandb(name: str) -> re.Match[str] | None:
    """Match a name that is one of W&B's, and can be nothing else; None for others."""
    match = _OF_WANDB(name)
    is_sure = match is not None and (match["begin"] is not None or match["name"] in _ONLY_OF_WANDB)
    return match if is_sure else None


def _read_wandb(match: re.Match[str]) -> Meaning | None:
    """Tell what a column of W&B's means; None for a bound, and for what has no field."""
    field_and_unit = WANDB_FIELDS.get(match["name"])
    if field_and_unit is None or match["bound"]:
        return None
    rank = list(WANDB_FIELDS).index(match["name"])
    return Meaning(*field_and_unit, int(match["gpu"]), rank, names_gpu=True, run=match["run"])


def _read_time(name: str, words: Sequence[str], rank: int, unit: str | None) -> tuple[int, str | None]:
    """Give the rank and the unit of a column of times: a moment by name is surer than a time, that one than
    what has passed, then an epoch, which may be one of a training, and last what may be when a run was
    created."""
    if "created" in words:
        return rank + RANK_OF_EPOCH + _LAST, unit
    if not _OF_A_MOMENT(name):
        rank += _LAST
    if unit is None and "epoch" in name.lower():
        return rank + RANK_OF_EPOCH, EPOCH
    if not _SINCE_START.isdisjoint(words):
        return rank + _LAST, unit or ELAPSED
    return rank, unit


def _read_nvitop(name: str) -> Meaning | None:
    """Tell what a column of nvitop's collector means; None for other names, and for what is no mean."""
    if _TIME_OF_NVITOP(name):
        return Meaning("time", None)
    match = _OF_NVITOP(name)
    meaning = read_meaning(match["name"]) if match and match["statistic"] == "mean" else None
    return replace(meaning, gpu=int(match["gpu"]), names_gpu=True) if match and meaning else None


def may_be_share_of_memory(name: str) -> bool:
    """Tell whether a name may mean the memory in use: ``mem_util`` does with some programs, and
    ``utilization.memory`` is always nvidia-smi's, the time in which memory was read or written."""
    words = _read_words(split_unit(name)[0])[0]
    return {"mem", "util"} <= set(words) and words.index("mem") < words.index("util")


def is_share_of_memory(name: str) -> bool:
    """Tell whether a name means the memory in use whatever its values: GPUtil's, and all of VRAM, a word that
    nvidia-smi does not have."""
    return name == "memoryUtil" or (may_be_share_of_memory(name) and "vram" in name.lower())


def read_gpu_number(name: str) -> int | None:
    """Give the number of the GPU in a name that ``--columns`` chose: ``GPU0``, ``util_0``, ``util[0]``."""
    of_wandb = _OF_WANDB(name) or _OF_WANDB(split_unit(name)[0])
    if of_wandb:
        return int(of_wandb["gpu"])
    bare = split_unit(name)[0]
    number, last = _read_words(bare)[1], _LAST_NUMBER(bare)
    return int(last[1]) if number is None and last else number


def _read_words(name: str) -> tuple[list[str], int | None, bool]:
    """Return the words that tell something, the number of the GPU, and whether it is of a GPU by name."""
    unit = _UNIT_BEHIND(name)
    tail = [unit["unit"].lower()] if unit else []
    words: list[str] = []
    gpu, names_gpu = None, False
    before = ""
    for part in _PARTS(unit["name"] if unit else name):
        if part.isdecimal():
            if before in _GPUS and gpu is None:
                gpu = int(part)
                continue
            words.append(part)
        lower = part.lower()
        whole = lower in _SAME or lower in _SILENT or lower in _UNITS
        for word in [lower] if whole else [hump.lower() for hump in _HUMPS(part)]:
            before = word
            names_gpu = names_gpu or word in _GPUS
            if word not in _SILENT:
                words.append(_SAME.get(word, word))
    if words[-1:] == ["s"] and words[-2:-1] and f"{words[-2]}/s" in _UNITS:
        words[-2:] = [f"{words[-2]}/s"]  # ``pcie_rx_bytes_s``
    return words + tail, gpu, names_gpu


@dataclass
class DecimalMark:
    """Decides which of point and comma stands before the decimals of a file; the other one parts thousands.

    ``mark``: as it was given, else as the amounts of the file tell: ``1.234,5`` and ``12,5`` do. ``seen``:
    the marks that do. ``doubtful``: by mark the first amount that may be either, such as ``1.234``.
    ``remark``: what a user has to know of the choice; absent where it is clear.
    """

    mark: str | None = None
    seen: set[str] = field(default_factory=set)
    doubtful: dict[str, str] = field(default_factory=dict)
    remark: str | None = None

    def note_amount(self, cell: str) -> None:
        """Take one amount of the file."""
        match = _MARKED(_THOUSANDS.sub("", cell))
        if match is None:
            return
        number = match[1]
        marks, (first, *groups) = re.findall("[.,]", number), re.split("[.,]", number)
        if len(set(marks)) > 1:
            self.seen.add(marks[-1])
        elif len(marks) > 1:
            self.seen.add("," if marks[0] == "." else ".")
        elif len(groups[0]) != 3 or len(first) > 3 or first.startswith("0"):
            self.seen.add(marks[0])
        else:
            self.doubtful.setdefault(marks[0], number)

    def decide(self, file: str, delimiter: str | None) -> None:
        """Choose after the last amount. Where amounts have both marks, each is before decimals.

        Raises ``DutycycleError`` where an amount may be a thousand times another: a comma then, or a point
        between semicolons, which stand where commas are decimal. Between tabs, bars and spaces a point is
        mostly decimal.
        """
        if self.mark is None and len(self.seen) == 1:
            (self.mark,) = self.seen
        doubtful = self.doubtful.get(",") or self.doubtful.get(".")
        if self.mark is not None or doubtful is None:
            return
        digits = re.sub("[.,]", "", doubtful)
        if delimiter == ";" or "," in doubtful:
            raise DutycycleError(
                f"{file}: {doubtful} may be {digits} or {int(digits) / 1000:.3f}, and nothing in the file "
                "tells which: give --decimal point or --decimal comma"
            )
        self.remark = (
            f"{doubtful} and the like were not taken for {digits}: if they are, give --decimal comma"
        )

    def rewrite(self, cell: str) -> str:
        """Give an amount as ``float`` reads it; what is no such number as it is."""
        cell = _THOUSANDS.sub("", cell)
        match = _MARKED(cell)
        if match is None:
            return cell
        number, rest = match[1], cell[match.end() :]
        if self.mark is None:
            is_doubtful = re.fullmatch(r"[1-9]\d{0,2},\d{3}", number)
            return cell if is_doubtful else cell.replace(",", ".", 1)
        whole, decimal, part = number.rpartition(self.mark)
        if not decimal:
            whole, part = number, ""
        parting = "," if self.mark == "." else "."
        if re.fullmatch(rf"\d{{1,3}}(?:[{parting}]\d{{3}})+", whole):
            whole = whole.replace(parting, "")
        return cell[: match.start(1)] + whole + ("." if decimal else "") + part + rest
