"""Disks of the host, from ``/proc/diskstats``: whole ones that hold data, each byte counted once."""

import re

_SECTOR_BYTES = 512  # diskstats counts these whatever the disk's own sector is
# Made of other disks, of memory or of files: their bytes are counted below, or are no disk's.
_STACKED = re.compile(r"(loop|ram|zram|dm-|md|drbd|bcache|zd|sr|fd)\d+|nvme\d+c\d+n\d+.*")


def disk_bytes(text: str) -> dict[str, tuple[int, int]]:
    """Bytes read and written since boot of each whole disk, by its ``major:minor``.

    Partitions are left out, and so is what stands on other disks (device mapper, RAID, loop, zram).
    """
    rows = [fields for line in text.splitlines() if len(fields := line.split()) >= 10]
    names = {row[2] for row in rows}
    return {
        f"{row[0]}:{row[1]}": (int(row[5]) * _SECTOR_BYTES, int(row[9]) * _SECTOR_BYTES)
        for row in rows
        if not _STACKED.fullmatch(row[2]) and not _is_partition(row[2], names)
    }


def _is_partition(name: str, names: set[str]) -> bool:
    # sda1 is a part of sda, nvme0n1p2 of nvme0n1; a lone xvda1, as some virtual machines have, is whole.
    disk = name.rstrip("0123456789")
    if disk == name:
        return False
    return disk in names or (disk[-1:] == "p" and disk[-2:-1].isdigit() and disk[:-1] in names)
