"""Reads the tables that ``TableWriter`` wrote, of either format."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import orjson

from dutycycle.contract.errors import DutycycleError
from dutycycle.tables.columns import Row, table
from dutycycle.tables.formats import FORMATS, scalar_types


def has_tables(folder: Path) -> bool:
    """Tell whether tables were written there."""
    return any(folder.glob("topic=*"))


def batches(folder: Path, topic: str, columns: Sequence[str]) -> Iterator[list[Row]]:
    """Yield the rows of a topic, some thousand at a time, with these columns; none of a topic that is not
    there. A moment is a ``datetime``, a list is a list, what is absent None.

    Raises ``DutycycleError`` for a file that cannot be read, ``ModuleNotFoundError`` without pyarrow.
    """
    import pyarrow as pa  # here, not above: only this needs it
    from pyarrow import dataset

    for name in FORMATS:
        files = sorted(map(str, (folder / f"topic={topic}").glob(f"*/*.{name}")))
        if not files:
            continue
        kinds = table(topic).columns
        lists = [column for column in columns if kinds[column].word == "list"]
        schema, form = None, name
        if name == "csv":  # empty cells are absent there
            from pyarrow import csv

            schema = pa.schema([(column, scalar_types(pa)[kinds[column].word]) for column in columns])
            options = csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
            form = dataset.CsvFileFormat(convert_options=options)
        try:
            files_found = dataset.dataset(files, schema=schema, format=form)
            for batch in files_found.to_batches(columns=list(columns)):
                rows = batch.to_pylist()
                for row, column in product(rows, lists):  # JSON in CSV
                    if isinstance(row[column], str):
                        row[column] = orjson.loads(row[column])
                yield rows
        except (pa.ArrowException, OSError) as error:
            raise DutycycleError(f"{folder}: the table of {topic} cannot be read: {error}") from error
