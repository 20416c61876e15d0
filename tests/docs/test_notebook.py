"""docs/experiments.ipynb, run from the first cell to the last in a kernel, on the simulated machine."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.support.processes import warm

NOTEBOOK = Path(__file__).parents[2] / "docs/experiments.ipynb"


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]


def test_it_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert outputs(notebook) == []
    assert all(cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_it_runs_from_a_trace_to_a_scored_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DUTYCYCLE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "bin").mkdir()
    warm.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    made = outputs(notebook)
    assert sum("image/png" in out.get("data", {}) for out in made) == 4
    printed = "".join(out.text for out in made if out.output_type == "stream" and out.name == "stdout")
    found = re.search(r"gpu/demo/GPU-simulated-4 +gpu_util_pct +([\d.]+) s, \d+ % sure", printed)
    assert found is not None, printed
    assert float(found[1]) == pytest.approx(6, rel=0.03)
    assert set(re.findall(r" 10 s ahead  (\w+) +lags (\d+)", printed)) == {
        *(("linear", lags) for lags in ("4", "12", "24")), ("hw", "12"), ("trends", "12"),
    }  # fmt: skip
    assert re.search(r"best: \w+ with \d+ lags", printed)


@pytest.mark.slow  # it starts a kernel of Jupyter
def test_a_command_that_fails_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells run commands by ``%%sh``, which raises where a ``!`` would go on."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(line.startswith("!") for cell in notebook.cells for line in cell.source.splitlines())
    (tmp_path / "day.jsonl.zst").write_text("this is no trace")
    with pytest.raises(CellExecutionError, match=r"day\.jsonl\.zst:1: not JSON"):
        NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
