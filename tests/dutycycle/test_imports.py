"""What commands import decides how soon they begin: compiled loops, SQL and matrices take seconds."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("dutycycle.live.up", {"textual", "numba", "numpy", "sqlalchemy", "faust", "streams.topology"}),
        ("dutycycle.cli.commands.topics", {"numba", "numpy", "sqlalchemy", "faust", "streams.topology"}),
        ("dutycycle.submit.run", {"numba", "numpy", "sqlalchemy", "faust", "streams.topology", "plotly"}),
        ("dutycycle.cli.studies.profile", {"numpy", "aiokafka", "aiohttp", "sqlalchemy"}),
        ("dutycycle.experiments.tables", {"dutycycle.report.charts.pictures", "plotly", "matplotlib"}),
        ("dutycycle.traces.replay", {"sqlalchemy", "faust", "aiokafka", "kubernetes", "pyarrow"}),
        ("streams.ahead", {"numba", "numpy", "sqlalchemy", "faust", "streams.topology"}),
        ("streams.service", {"river", "scipy.linalg", "scipy.stats", "numpy.f2py"}),
        ("streams.operators.estimators.exhaustion",
         {"faust", "mode", "aiokafka", "confluent_kafka", "kubernetes"}),
    ],
)  # fmt: skip
def test_what_is_not_needed_is_not_imported(module: str, absent: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True)
    assert absent & set(done.stdout.split()) == set()
