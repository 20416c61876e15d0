"""GPU files of the MIT SuperCloud dataset: one of each job, below ``gpu/``; every 100 ms, by nvidia-smi.

The columns are those that the dataset's own notebook lists, and its timestamps are seconds: see
https://github.com/MIT-AI-Accelerator/MIT-Supercloud-Dataset, README.md ("GPU utilization"),
notebooks/Intro-to-MIT-Supercloud-Dataset.ipynb and notebooks/Generating-the-labelled-dataset.ipynb.
"""

from dutycycle.imports.columns import Column, CsvReader, mib, number

_TABLE = {
    "gpu_index": Column("index"),
    "utilization_gpu_pct": Column("gpu_util_pct"),
    "utilization_memory_pct": Column("mem_copy_util_pct"),
    "memory_used_MiB": Column("mem_used_bytes", read=mib),
    "temperature_gpu": Column("temp_c"),
    "power_draw_W": Column("power_w"),
    "pcie_link_width_current": Column("pcie_width"),
}


def reader() -> CsvReader:
    """Of one file."""
    return CsvReader(_TABLE, lambda text: round(number(text) * 1000))
