"""Reads logs of JSON: objects line by line, one after another, or in an array, also of those that a cut-off
file has; and tables as pandas writes them: by column, by row, or split in names and values.

Each object becomes a line of its own with names and values, in which a name has the names above it before
it: ``system.gpu.0.gpu``, as Weights & Biases writes it. An object with a list of GPUs, or with GPUs by their
number or uuid, becomes one line a GPU. Of several machines in one object each line names its own: as the list
or the object that holds them names it, else by where its GPUs stand.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from dutycycle.imports.quantities import Row
from dutycycle.imports.table.csv_log import CsvReader
from dutycycle.imports.table.spellings import read_meaning

_decoder = json.JSONDecoder(strict=False)  # a name of a process may have any character
_NO_JSON = (ValueError, RecursionError)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
"""A comma behind the last value, as scripts leave it; texts are passed over."""
_VALUE = re.compile(r"[^\s,\[\]]")
_NEXT = re.compile(r"\n\s*(?=\{)")
_LIST_OF_GPUS = re.compile(r"gpus?|devices?|cards?", re.IGNORECASE).fullmatch
_NAMES_GPUS = re.compile(r"(?!.*(?:hist|sample|series|trace)).*gpu", re.IGNORECASE).match
"""Not what are figures of one GPU at several times."""
_GPUS_BY_NUMBER = re.compile(r"gpus|devices|cards?", re.IGNORECASE).fullmatch
"""Below ``gpu`` and ``device`` the name of a value has the number in it."""
_HOSTS = re.compile(r"hosts|nodes|machines|servers|workers|instances", re.IGNORECASE).fullmatch
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F]+-\S+").fullmatch
_GPU_NUMBER = re.compile(r"(?:.*\.)?(?:gpu|device|card)s?[._ -]?(\d+)", re.IGNORECASE).fullmatch
_IS_A_NUMBER_OF_A_GPU = re.compile(r"\d\d?").fullmatch
_IDENTITY = ("index", "uuid")
_NO_FIGURES = frozenset({*_IDENTITY, "time", "date", "node", "model", "pid", "process_name"})
_SHARED = _NO_FIGURES | {"mem_total_bytes", "power_limit_w"}
"""What one value may say of all GPUs: another beside lists of them is a mean or of the host, perhaps."""
_MOMENT = re.compile(r"\d{9,19}|\d{4}[-/.]\d\d[-/.]\d\d[ T]\d\d:\d\d.*").fullmatch
"""What may be the name of a row: seconds or less since 1970, or a time."""
is_json = re.compile(r'[\[{]\s*($|[{"\]}])|\[\s*\[\s*($|["\d\]-])').match
"""Tells whether a log that begins with this line is of JSON."""


def flat_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Give a line for each GPU of each object: its names and values. What is no JSON stays as it is.

    Objects on a line of their own are read one by one; of all else the whole log is held.
    """
    whole = _joined(lines)
    number, first = next(whole)
    try:
        value = _decode(first)
    except _NO_JSON:
        text = _LAST_COMMA.sub(r"\1", "".join(chain([first], (line for _, line in whole))))
        at = counted = 0
        while begin := _VALUE.search(text, at):
            at = begin.start()
            number += text.count("\n", counted, at)
            counted = at
            try:
                value, end = _decoder.raw_decode(text, at)
            except _NO_JSON:
                yield number, text[at:].partition("\n")[0] + "\n"
                following = _NEXT.search(text, at)
                at = following.end() if following else len(text)
                continue
            yield from _of_value(value, number)
            at = end
        return
    yield from _of_value(value, number)
    for number, line in whole:
        try:
            value = _decode(line)
        except _NO_JSON:
            yield number, line
            continue
        yield from _of_value(value, number)


def _decode(text: str) -> Any:
    """Read a value, also with a comma behind the last one in it. Raises ``_NO_JSON``."""
    try:
        return _decoder.decode(text)
    except _NO_JSON:
        return _decoder.decode(_LAST_COMMA.sub(r"\1", text))


def _joined(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Give lines that a limit has cut in one piece."""
    text, begun = "", 0
    for number, line in lines:
        begun = begun if text else number
        text += line
        if line.endswith("\n"):
            if not text.isspace():
                yield begun, text
            text = ""
    if text:
        yield begun, text


def _of_value(value: Any, number: int) -> Iterator[tuple[int, str]]:
    if isinstance(value, list):
        lists = [part for part in value if isinstance(part, list)]
        if len(lists) <= 1 or lists != value:
            for part in value:
                yield from _of_value(part, number)
            return
        # Rows under their names; one of another length is as it is.
        names, *rows = lists
        records: Iterable[Any] = (
            dict(zip(names, cells, strict=True)) if len(cells) == len(names) else cells for cells in rows
        )
        if not all(isinstance(name, str) for name in names) or not any(map(read_meaning, names)):
            records = [lists]  # each row alone would be wrong alike
    else:
        records = _records(value)
    for record in records:
        yield number, json.dumps(record) + "\n"


def _records(value: Any) -> Iterator[Any]:
    """Give flat objects; what is none as it is."""
    if not isinstance(value, dict):
        yield value
    elif (rows := _rows_of_table(value)) is not None:
        for row in rows:
            yield from _records(row)
    else:
        flat, lists = dict[str, Any](), dict[str, list[Any]]()
        _flatten("", value, flat, lists)
        hosts = _pop(lists, lambda name, members: _HOSTS(_last(name)) and all(map(_fields_in, members)))
        gpus = _pop(lists, lambda name, members: _LIST_OF_GPUS(_last(name)))
        is_of_gpu = any(
            (meaning := read_meaning(name)) is not None and meaning.field == "index" and str(cell).isdecimal()
            for name, cell in flat.items()
        )
        if not gpus and _has_time(flat) and not is_of_gpu:  # what is of one GPU lists its fans, or clocks
            stats = _name_of_stats(lists)
            gpus = _pop(lists, lambda name, members: _last(name) == stats)
        timed = _pop(lists, lambda name, rows: not _has_time(flat) and _has_time(rows[0]))
        flat |= dict.fromkeys(lists)  # their names are told as those of what is not used
        of_timed = _nodes_of_lists([name for name in timed if not _gpu_of_list(name)], timed)
        of_gpus = _nodes_of_lists(list(gpus), gpus)
        # One by one: a log may be one object, with all its rows in a list.
        records: Iterator[dict[str, Any]] = chain(
            (
                record
                for name, members in hosts.items()
                for place, member in enumerate(members)
                for record in _records(_of_host(member, f"{_last(name)}-{place}"))
            ),
            (
                of_timed.get(name, {}) | _gpu_of_list(name) | record
                for name, rows in timed.items()
                for record in chain.from_iterable(map(_records, rows))
            ),
            (
                of_gpus.get(name, {}) | _gpu_of_member(member, place)
                for name, members in gpus.items()
                for place, member in enumerate(members)
            ),
        )
        for record in records if hosts or gpus or timed else [{}]:
            yield from _of_each_place(flat | record)


def _of_each_place(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give an object for each GPU, or time, where it has the figures of all in lists: GPUs in the order of
    their numbers, where none of the lists tells these. One with lists of several lengths stays as it is."""
    lists = {
        name: value for name, value in record.items()
        if isinstance(value, list) and not any(isinstance(cell, dict | list) for cell in value)
        and (meaning := read_meaning(name)) is not None and meaning.gpu is None
    }  # fmt: skip
    fields = {meaning.field for name in lists if (meaning := read_meaning(name)) is not None}
    lengths = {len(cells) for cells in lists.values()}
    if not fields - _NO_FIGURES or len(lengths) > 1 or 0 in lengths:
        yield record
        return
    of_all = {
        name: None for name in record.keys() - lists.keys()
        if (meaning := read_meaning(name)) is not None and meaning.field not in _SHARED
    }  # fmt: skip
    for place, cells in enumerate(zip(*lists.values(), strict=True)):
        number = {} if fields & {*_IDENTITY, "time"} else {"index": place}
        yield number | record | of_all | dict(zip(lists, cells, strict=True))


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _pop(lists: dict[str, list[Any]], is_such: Callable[[str, list[Any]], Any]) -> dict[str, list[Any]]:
    """Take the lists that are such out of ``lists``."""
    return {name: lists.pop(name) for name in list(lists) if is_such(name, lists[name])}


def _name_of_stats(lists: Mapping[str, list[Any]]) -> str | None:
    """Give the last name of the lists of a moment that tell most of each GPU, by a name such as
    ``gpu_stats``; None where no list does. Processes are no GPUs."""
    counts = {
        _last(name): len(set.intersection(*map(_fields_in, members)))
        for name, members in lists.items()
        if _NAMES_GPUS(_last(name)) and not any(map(_has_time, members))
        and not any((meaning := read_meaning(part)) and meaning.field == "pid" for part in members[0])
    }  # fmt: skip
    name = max(counts, key=lambda name: counts[name], default=None)
    return name if name is not None and counts[name] else None


def _gpu_of_member(member: Any, place: int) -> dict[str, Any]:
    """Give a GPU of a list, whose number is its place where it does not say which it is."""
    of_gpu, inner_lists = dict[str, Any](), dict[str, list[Any]]()
    _flatten("", member, of_gpu, inner_lists)
    if not any((meaning := read_meaning(name)) and meaning.field in _IDENTITY for name in of_gpu):
        of_gpu["index"] = of_gpu.pop("id", place)
    return of_gpu | dict.fromkeys(inner_lists)


def _fields_in(member: Any) -> set[str]:
    """Give the fields of a GPU that an object, or the objects of a list, have figures of, also in what lies
    within."""
    fields = set[str]()
    members = member if _are_objects(member) else [member]
    for record in chain.from_iterable(map(_records, members)):
        meanings = map(read_meaning, record) if isinstance(record, dict) else ()
        fields |= {meaning.field for meaning in meanings if meaning is not None}
    return fields - _NO_FIGURES


def _of_host(member: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Give what is of a machine with its name: as it says it itself, by a name that elsewhere may be of a
    model, or by its ``place``."""
    if any((meaning := read_meaning(name)) and meaning.field == "node" for name in member):
        return member
    key = next((key for key in ("id", "name") if isinstance(member.get(key), str)), None)
    others = {name: part for name, part in member.items() if name != key}
    return {"node": place if key is None else member[key], **others}


def _nodes_of_lists(names: Sequence[str], lists: Mapping[str, list[Any]]) -> dict[str, dict[str, str]]:
    """Give the machine of each list by what sets its name apart, where two lists tell the same figures of
    the same GPU: else they were one GPU with twice the lines. Nothing where the lines name machines."""
    if len(names) < 2:
        return {}
    in_lists: set[tuple[Any, ...]] = set()
    is_of_several = False
    for name in names:
        in_list = set[tuple[Any, ...]]()
        for place, member in enumerate(lists[name]):
            for record in _records(member) if isinstance(member, dict) else ():
                by_field = {
                    meaning.field: value for column, value in record.items()
                    if value is not None and (meaning := read_meaning(column)) is not None
                }  # fmt: skip
                if "node" in by_field:
                    return {}
                gpu = by_field.get("uuid", by_field.get("index", place if _LIST_OF_GPUS(_last(name)) else 0))
                in_list |= {(str(gpu), field) for field in by_field.keys() - _NO_FIGURES}
        is_of_several = is_of_several or not in_lists.isdisjoint(in_list)
        in_lists |= in_list
    if not is_of_several:
        return {}
    paths = [name.split(".") for name in names]
    for end, rest in ((0, slice(1, None)), (-1, slice(-1))):
        while min(map(len, paths)) > 1 and len({path[end] for path in paths}) == 1:
            paths = [path[rest] for path in paths]
    return {name: {"node": ".".join(path)} for name, path in zip(names, paths, strict=True)}


def _rows_of_table(value: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Give the rows of a table as pandas and others write it: by column, by row, split in names and values,
    or with its schema; None for any other object.

    The name of a row is its time where it is one and the row has no other; else it is left out.
    """
    parts = list(value.values())
    headings, lines = value.get("columns"), value.get("data")
    if (
        isinstance(headings, list) and all(isinstance(name, str) for name in headings)
        and isinstance(lines, list)
        and all(isinstance(line, list) and len(line) == len(headings) for line in lines)
    ):  # fmt: skip
        rows = [dict(zip(headings, line, strict=True)) for line in lines]
        return _name_rows(value.get("index") or [], rows)
    if value.keys() == {"schema", "data"} and _are_objects(value["data"]):
        schema = value["schema"]
        keys = schema.get("primaryKey", ()) if isinstance(schema, dict) else ()
        return [
            {name: cell for name, cell in row.items() if name not in keys or _is_time(name)}
            for row in value["data"]
        ]
    if not parts:
        return None
    names = [*parts[0]] if isinstance(parts[0], dict) else []
    are_named = all(name.isdecimal() or _MOMENT(name) for name in names)
    if names and are_named and all(isinstance(part, dict) and [*part] == names for part in parts):
        columns = [list(part.values()) for part in parts]
    else:
        columns = parts
    # Without times of its own, lists of objects are no cells, but the rows of each GPU.
    is_timed = any(map(_is_time, value)) or (bool(names) and all(map(_MOMENT, names)))
    if all(
        isinstance(column, list) and len(column) == len(columns[0]) > 1
        and not any(isinstance(cell, dict) or (not is_timed and _are_objects(cell)) for cell in column)
        for column in columns
    ):  # fmt: skip
        return _name_rows(
            names, [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
        )
    if all(map(_MOMENT, value)) and all(isinstance(part, dict) or _are_objects(part) for part in parts):
        rows = [part if isinstance(part, dict) and not _are_gpus(part) else {"gpus": part} for part in parts]
        return _name_rows(list(value), rows)
    if all(name.isdecimal() for name in value) and _are_objects(parts) and all(map(_has_time, parts)):
        return parts
    return None


def _name_rows(names: Sequence[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the rows with the time that their names tell, if they tell one."""
    if len(names) != len(rows) or not all(_MOMENT(str(name)) for name in names) or any(map(_has_time, rows)):
        return rows
    return [{"time": name, **row} for name, row in zip(names, rows, strict=True)]


def _is_time(name: str) -> bool:
    return (meaning := read_meaning(name)) is not None and meaning.field in ("time", "date")


def _has_time(row: Mapping[str, Any]) -> bool:
    return any(_is_time(name) for name, value in row.items() if value is not None)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) for part in value)


def _are_gpus(value: Mapping[str, Any]) -> bool:
    """Tell whether the names in an object are numbers or uuids, and so of GPUs below a name that says it."""
    return bool(value) and all(
        isinstance(part, dict) and (name.isdecimal() or _UUID(name)) for name, part in value.items()
    )


def _gpu_of_list(name: str) -> dict[str, str]:
    """Give which GPU the rows of a list are of, where its name tells that."""
    last, number = _last(name), _GPU_NUMBER(name)
    if _UUID(last):
        return {"uuid": last}
    if _IS_A_NUMBER_OF_A_GPU(name):
        return {"index": name}
    return {"index": number[1]} if number else {}


def _flatten(name: str, value: Any, flat: dict[str, Any], lists: dict[str, list[Any]]) -> None:
    if isinstance(value, dict):
        objects = {inner: part for inner, part in value.items() if isinstance(part, dict)}
        uuids = {inner: part for inner, part in objects.items() if _UUID(inner)}
        if uuids or (_GPUS_BY_NUMBER(_last(name)) and _are_gpus(value)):
            gpus = uuids or value
            lists[f"{name}.gpus" if name else "gpus"] = [
                {"uuid" if inner in uuids else "index": inner, **part} for inner, part in gpus.items()
            ]
            value = {inner: part for inner, part in value.items() if inner not in gpus}
        elif (
            not name
            and objects
            and all(inner.isdecimal() and _fields_in(part) for inner, part in objects.items())
        ):
            # What has a number for its name, and figures of a GPU, is one; beside them there are no objects.
            lists["gpus"] = [{"index": inner, **part} for inner, part in objects.items()]
            value = {inner: part for inner, part in value.items() if inner not in objects}
        if _HOSTS(_last(name)) and value and all(map(_fields_in, value.values())):
            lists[name] = [
                {"id": inner, **(part if isinstance(part, dict) else {"gpus": part})}
                for inner, part in value.items()
            ]
            return
        for inner, part in value.items():
            _flatten(f"{name}.{inner}" if name else inner, part, flat, lists)
    elif _are_objects(value):
        lists[name] = value
    else:
        flat[name] = value


class JsonReader:
    """Reads such lines by the reader of tables, whose columns are the ``names`` of all lines."""

    def __init__(self, table: CsvReader, names: Iterable[str]) -> None:
        self.notes = table.notes
        self._table, self._names = table, list(names)
        self._has_heading = False

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of a line. Raises ``ValueError``."""
        if not line.strip():
            return []
        cells = read_cells(line, self._names)  # a log without any object has no names for a heading
        if not self._has_heading:
            self._table.read_heading(self._names)
            self._has_heading = True
        return self._table.read_cells(cells)


def read_names(line: str) -> list[str]:
    """Give the names of a line's values. Raises ``ValueError``."""
    return list(_record(line))


def read_cells(line: str, names: Iterable[str]) -> list[str]:
    """Give the values of a line in the order of ``names``, as text; empty where it has none. Raises
    ``ValueError``."""
    record = _record(line)
    values = (record.get(name) for name in names)
    return [
        "" if value is None else value.strip() if isinstance(value, str) else json.dumps(value)
        for value in values
    ]


def _record(line: str) -> Mapping[str, Any]:
    """Read a line. Raises ``ValueError``, also for what is no object."""
    try:
        record = json.loads(line)
    except _NO_JSON as error:
        raise ValueError(f"is no JSON: {error}") from error
    if isinstance(record, dict):
        return record
    raise ValueError(f"is no object of JSON, and so its values have no names: {line.strip()[:60]}")
