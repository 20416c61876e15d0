"""What is listed is what is there, whether or not anything was listed anew."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.cgroup.tree import FolderListing


def present(root: Path) -> dict[str, int]:
    return {f"/{one.relative_to(root)}": one.stat().st_ino for one in root.rglob("*") if one.is_dir()}


def test_nothing_is_listed_anew_while_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    listing = FolderListing(str(tmp_path))
    assert listing.refresh()
    assert not listing.refresh()
    (tmp_path / "a/file").write_text("x")
    assert not listing.refresh(), "files are no folders"


def test_one_leaves_as_another_comes(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    listing = FolderListing(str(tmp_path))
    listing.refresh()
    (tmp_path / "a/b").rename(tmp_path / "a/c")
    assert listing.refresh()
    assert listing.folders == present(tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    listing = FolderListing(str(tmp_path))
    listing.refresh()
    assert set(listing.folders) == {"/a"}


def test_a_root_that_is_gone_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    listing = FolderListing(str(root))
    listing.refresh()
    root.rmdir()
    with pytest.raises(FileNotFoundError, match="root"):
        listing.refresh()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("listing")


folders = st.lists(st.sampled_from(["a", "b", "a/a", "a/b", "a/b/a", "b/b", "b/b/b", "c/c/c"]), unique=True)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(folders, max_size=6), counted=st.booleans())
def test_any_changes_are_noticed(empty: Path, steps: list[list[str]], counted: bool) -> None:
    """``counted`` False: a file system whose link counts say nothing of sub-folders."""
    listing = FolderListing(str(empty), leaf_links=2 if counted else 1)
    for wanted in [*steps, []]:
        for folder in sorted(present(empty), reverse=True):
            if not any(one == folder[1:] or one.startswith(f"{folder[1:]}/") for one in wanted):
                (empty / folder[1:]).rmdir()
        for folder in wanted:
            (empty / folder).mkdir(parents=True, exist_ok=True)
        listing.refresh()
        assert listing.folders == present(empty)
