"""Opens the templates of pages: what is put into one is escaped, and a name that is not given is an error."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from dutycycle.words import moment, short_duration


def templates_of(package: str) -> Environment:
    """Return the templates in the folder ``templates`` of a package, with filters that all pages have."""
    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"moment": moment, "duration": short_duration}
    return environment
