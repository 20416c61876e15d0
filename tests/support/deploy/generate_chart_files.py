"""``python -m tests.support.deploy.generate_chart_files``: copies rules and dashboards into the chart.

A chart can read files only from its own folder. The tests beside this compare them again.
"""

from pathlib import Path

from tests.support.deploy.manifests import CHART, ROOT

FOLDERS = {"rules": ROOT / "deploy/prometheus/rules", "dashboards": ROOT / "deploy/grafana/dashboards"}


def main() -> None:
    for path, text in wanted().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in there() - wanted().keys():
        path.unlink()


def wanted() -> dict[Path, str]:
    """The text of each file in the chart."""
    return {
        CHART / "files" / name / file.name: file.read_text()
        for name, folder in FOLDERS.items()
        for file in folder.iterdir()
    }


def there() -> set[Path]:
    """The files that the chart has."""
    return {path for path in (CHART / "files").rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
