"""Names of others are text on a terminal, whatever stands in them."""

import pytest
from rich.table import Table

from dutycycle.cli.printing import print_table
from dutycycle.live.screen.question import Question


def test_a_name_in_a_table_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("node", box=None)
    table.add_row("[bold]a[/] [/b] :smile:")
    print_table(table, "")
    assert capsys.readouterr().out.splitlines()[1].strip() == "[bold]a[/] [/b] :smile:"


def test_a_name_in_a_question_is_text() -> None:
    question = Question()
    question.update("End python [bold]a[/] (17)?", layout=False)
    assert str(question.content) == str(question.visual) == "End python [bold]a[/] (17)?"
