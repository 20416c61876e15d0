"""docs/experiments.ipynb, run from the first cell to the last in a kernel, on the simulated machine."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import warm

NOTEBOOK = Path(__file__).parents[2] / "docs/experiments.ipynb"
WAIT_S = 600


def run_in(folder: Path) -> Any:
    """Run the notebook there, however long a busy machine takes: a kernel that dies ends it.

    Jupyter's imports take seconds, and only these tests need them."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    where = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=None, startup_timeout=WAIT_S, resources=where).execute()


def test_it_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [(cell["outputs"], cell["execution_count"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [([], None)] * len(code)


def test_it_runs_from_a_trace_to_a_scored_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    warm.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    cells = [cell for cell in run_in(tmp_path).cells if cell.cell_type == "code"]
    made = [out for cell in cells for out in cell.outputs]
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
    from nbclient.exceptions import CellExecutionError

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert '\n    "!' not in NOTEBOOK.read_text()
    (tmp_path / "day.jsonl.zst").write_text("this is no trace")
    with pytest.raises(CellExecutionError, match=r"day\.jsonl\.zst:1: not JSON"):
        run_in(tmp_path)
