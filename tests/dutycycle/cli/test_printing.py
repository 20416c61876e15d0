"""Names of others are text on a terminal, whatever stands in them."""

import pytest

from dutycycle.cli.printing import print_table
from dutycycle.live.screen.app import Question


def test_a_name_in_a_table_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["node"], [["[bold]a[/] [/b] :smile:"]], "")
    assert capsys.readouterr().out.splitlines()[1].strip() == "[bold]a[/] [/b] :smile:"


def test_a_name_in_a_question_is_text() -> None:
    question = Question()
    question.update("End python [bold]a[/] (17)?", layout=False)
    assert str(question.content) == str(question.visual) == "End python [bold]a[/] (17)?"
