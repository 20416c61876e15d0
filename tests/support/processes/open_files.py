"""Which files this process holds open."""

from pathlib import Path


def open_files(below: str | Path) -> list[Path]:
    """Return those at or below a path: the number of all changes whenever garbage is collected."""
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [file for file in links if file.is_relative_to(below)]
