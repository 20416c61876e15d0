"""Runs the screen as an application of Textual: views, keys and the mouse, and questions on one line."""

import signal
import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Footer, Input, Static

from dutycycle.live.model.state import LiveState
from dutycycle.live.screen.drawing import Content, Page, text_of_line
from dutycycle.live.screen.rows import Rows
from dutycycle.live.source import Source
from dutycycle.live.views.depth import brief, depth
from dutycycle.live.views.pages import help_page, process_page, signal_question, summary, warnings_page
from dutycycle.live.views.spans import Line, Style, fit
from dutycycle.live.views.tables.columns import TableView
from dutycycle.live.views.tables.gpus import GPUS
from dutycycle.live.views.tables.jobs import JOBS
from dutycycle.live.views.tables.nodes import NODES
from dutycycle.live.views.tables.pods import PODS
from dutycycle.live.views.tables.processes import PROCESSES
from dutycycle.live.views.warnings import warning_line, warnings

_SHOWN_S = 6.0
"""How long an answer stays."""
VIEWS: tuple[TableView, ...] = (GPUS, PODS, JOBS, NODES, PROCESSES)
_AROUND = 4
"""Lines that are neither of the table nor below it."""
_EVERY_S = 1.0
_WHOLE_S = 10.0
"""Between two frames that are drawn as a whole: others may have written on the terminal."""
_WAITING_S = 0.2
"""Until the first sample is there."""


class Question(Static, can_focus=True):
    """Asks a question, and is hidden until then; ``y`` is yes, every other key that it knows is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", show=False),
        Binding("n,N,enter,escape,q", "answer(False)", "no", show=False),
    ]

    class Answered(Message):
        """Says that the keys are free again."""

    def __init__(self) -> None:
        super().__init__(markup=False)  # a process may be called [so]
        self._on_yes: Callable[[], str] | None = None

    def ask(self, text: str, on_yes: Callable[[], str]) -> None:
        """Ask, and wait for a key. ``on_yes`` does it, and gives what is said of it."""
        self._on_yes = on_yes
        self.update(text, layout=False)
        self.display = True
        self.focus()

    def say(self, text: str) -> None:
        """Say something for a moment."""
        self.update(text, layout=False)
        self.display = True

        def hide() -> None:
            if self._on_yes is None:
                self.display = False

        self.set_timer(_SHOWN_S, hide)

    def action_answer(self, yes: bool) -> None:
        """Do it, or leave it."""
        on_yes, self._on_yes = self._on_yes, None
        self.post_message(self.Answered())
        if yes and on_yes is not None:
            self.say(on_yes())
        else:
            self.display = False

    def on_blur(self) -> None:
        """Take it as a no that somebody turns to something else."""
        if self._on_yes is not None:
            self._on_yes = None
            self.display = False


def _help(_: int) -> list[Line]:
    return help_page()


class Screen(App[None]):
    """Draws once a second what changed; ``leave`` ends it, nothing else does."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen, Rows, Page, Static, Footer { background: ansi_default; color: ansi_default; }
    Screen { layers: base; }
    #summary, #tabs, #warnings { height: 1; }
    Rows, Page { height: 1fr; }
    #brief { height: auto; }
    Question { height: 1; display: none; }
    Input { height: 1; border: none; padding: 0; background: ansi_default; }
    Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "leave", "quit", key_display="q", priority=False),
        Binding("question_mark,h,f1", "help", "help", key_display="?"),
        Binding("w", "warnings", "warnings"),
        Binding("tab", "turn(1)", "next view", show=False, priority=True),
        Binding("shift+tab", "turn(-1)", "previous view", show=False, priority=True),
        *(Binding(str(at + 1), f"view({at})", view.title, show=False) for at, view in enumerate(VIEWS)),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("s", "sort(1)", "sort"),
        Binding("S", "sort(-1)", "sort by the column before", show=False),
        Binding("r", "reverse", "reverse"),
        Binding("space", "freeze", "freeze"),
        Binding("t", "signal('SIGTERM')", "end a process", show=False),
        Binding("K", "signal('SIGKILL')", "kill a process", show=False),
        Binding("escape", "back", "back", show=False),
        Binding("ctrl+l", "whole", "draw all of it", show=False),
    ]

    def __init__(self, source: Source, clock: Callable[[], float] = time.time) -> None:
        super().__init__(ansi_color=True)
        self._source = source
        self._clock = clock
        self._frozen: LiveState | None = None
        self._is_leaving = False
        self._page: Content | None = None
        """What is shown in place of the table."""
        self._is_chosen = False
        """Whether somebody has chosen a view: before that, a machine without GPUs shows its pods."""

    def compose(self) -> ComposeResult:
        """Yield the widgets from top to bottom."""
        yield Static(id="summary")
        yield Static(id="tabs")
        yield Rows()
        yield Page()
        yield Page(id="brief")
        yield Input(
            placeholder="words that a row has; Enter keeps the filter, Escape removes it", id="filter"
        )
        yield Static(id="warnings")
        yield Question()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Draw the first frame, and start the clock."""
        self._lines: dict[str, Line] = {}
        self.query_one(Input).display = False
        self._open(None)

        def draw_first() -> None:
            if self._source.state.ticks:
                waiting.stop()
                self.draw()

        waiting = self.set_interval(_WAITING_S, draw_first)
        self.set_interval(_EVERY_S, self.draw)
        self.set_interval(_WHOLE_S, self.action_whole)

    @property
    def rows(self) -> Rows:
        """Return the table."""
        return self.query_one(Rows)

    @property
    def state(self) -> LiveState:
        """Return what is shown: as it is, or as it was when it was frozen."""
        return self._frozen or self._source.state

    @property
    def page(self) -> Page:
        """Return what is in the table's place when it is asked for."""
        return self.query_one(Page)

    def on_resize(self) -> None:
        """Draw anew once all have their new places."""
        self.set_timer(_WAITING_S, self.action_whole)

    def action_whole(self) -> None:
        """Draw all of it, whatever is there."""
        self.draw()
        if self.is_running:
            self.screen.refresh()

    def draw(self) -> None:
        """Draw what changed. While all is taken down the timers go on, and there is nothing to draw on."""
        if not self.is_running:
            return
        if self._frozen is None:
            self._source.state.at(int(self._clock() * 1000))
        if not self._is_chosen and self.state.ticks:
            self.rows.view = GPUS if self.state.gpus() else PODS
        self._put("summary", summary(self.state, self._source.title))
        line: Line = []
        for at, view in enumerate(VIEWS):
            style: Style = "here" if view is self.rows.view else ""
            line += [(f" {at + 1} {view.title} ", style)]
        if self._frozen is not None:
            line += [("  frozen: space goes on", "warn")]
        if self.rows.words:
            line += [(f"  /{self.rows.words}", "info")]
        self._put("tabs", [*line, (f"  {self._source.place}", "dim")])
        lines = warnings(self._source.state, self._source.degraded())
        self._put("warnings", [("stopping …", "warn")] if self._is_leaving else warning_line(lines))
        if self._page is None:
            self.rows.show(self.state)
        else:
            self.page.show(self._page)
        self._draw_brief()

    def on_rows_moved(self) -> None:
        """Show below the table what the cursor is on."""
        self._draw_brief()

    def _draw_brief(self) -> None:
        """Draw the subject of the cursor in a few lines, where the table leaves room for them."""
        below = self.query_one("#brief", Page)
        row = self.state.row(self.rows.subject) if self._page is None else None
        lines = [] if row is None else brief(self.state, row, self.size.width)
        below.display = bool(lines) and self.rows.count() + 1 + len(lines) <= self.size.height - _AROUND
        if below.display:
            below.styles.height = len(lines)
            below.show(lambda _: lines)

    def _open(self, content: Content | None) -> None:
        """Show a page, or without one the table."""
        self._page = content
        self.page.display, self.rows.display = content is not None, content is None
        (self.rows if content is None else self.page).focus()
        self.page.scroll_to(y=0, animate=False)
        self.draw()

    def _put(self, name: str, line: Line) -> None:
        line = fit(line, self.size.width)  # a figure that is cut says so
        if self._lines.get(name) != line:
            self._lines[name] = line
            self.query_one(f"#{name}", Static).update(text_of_line(line), layout=False)

    def leave(self) -> None:
        """End it, and give the terminal back."""
        self.exit()

    def action_leave(self) -> None:
        """Quit: what has to end first is ended meanwhile, and keys still come here."""
        self._is_leaving = True
        self.draw()
        self._source.stop.set()

    async def action_quit(self) -> None:
        """Leave, under Textual's own name for it."""
        self.action_leave()

    def action_view(self, number: int) -> None:
        """Show another table."""
        self._is_chosen = True
        self.rows.view = VIEWS[number]
        self.rows.scroll_to(y=0, animate=False)
        self._open(None)

    def action_turn(self, step: int) -> None:
        """Show the next table."""
        self.action_view((VIEWS.index(self.rows.view) + step) % len(VIEWS))

    def action_sort(self, step: int) -> None:
        """Sort by the next column."""
        self.rows.sort_by(step)

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self.rows.reverse()

    def action_freeze(self) -> None:
        """Stand still, or go on."""
        self._frozen = None if self._frozen is not None else self._source.state.frozen()
        self.draw()

    def action_filter(self) -> None:
        """Ask for words."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self.rows.words = event.value
        self.draw()

    def on_input_submitted(self) -> None:
        """Keep it."""
        self.query_one(Input).display = False
        self.rows.focus()

    def action_help(self) -> None:
        """Show keys, and what is meant by what; or go back."""
        self._open(_help if self._page is not _help else None)

    def action_warnings(self) -> None:
        """Show all warnings, or go back."""
        shown = self._page == self._warnings
        self._open(None if shown else self._warnings)

    def _warnings(self, width: int) -> list[Line]:
        return warnings_page(warnings(self._source.state, self._source.degraded()), width)

    def on_rows_opened(self, event: Rows.Opened) -> None:
        """Show one subject in depth."""
        if self.rows.view is PROCESSES:
            key = PROCESSES.key(self.rows.current)
            self._open(lambda width: process_page(self.state, key, width))
            return

        def content(width: int) -> list[Line]:
            row = self.state.row(event.key)
            return (
                [[("this is gone: Escape leads back", "warn")]]
                if row is None
                else depth(self.state, row, width)
            )

        self._open(content)

    def on_page_turned(self, event: Page.Turned) -> None:
        """Show the neighbour of a subject."""
        if self._page not in (_help, self._warnings):
            self.rows.action_move(event.step)
            self.rows.action_open()

    def action_signal(self, name: str) -> None:
        """Ask whether the process of the cursor is to get a signal, and send it after a yes."""
        local, row = self._source.state.local, self.rows.current
        if self.rows.view is not PROCESSES or row is None:
            return
        question, pid = self.query_one(Question), row.process.pid
        if local is None or row.facts is None:
            question.say(f"process {pid} is not of this machine: no signal can be sent")
        elif not local.may_signal:
            question.say("signals are switched off: DUTYCYCLE_SIGNALS=off")
        else:
            number = signal.Signals[name]
            question.ask(
                signal_question(row, name), lambda: local.send(pid, number) or f"{name} was sent to {pid}"
            )

    def on_question_answered(self) -> None:
        """Let the keys go to the table or the page again."""
        (self.rows if self._page is None else self.page).focus()

    async def action_back(self) -> None:
        """Go out of a page, or of the filter."""
        if self._page is not None:
            self._open(None)
            return
        field = self.query_one(Input)
        field.value = ""
        field.display = False
        self.rows.focus()

    def on_click(self, event: events.Click) -> None:
        """Show the table whose tab was clicked."""
        if getattr(event.widget, "id", None) == "tabs":
            begin = 0
            for at, view in enumerate(VIEWS):
                begin += len(view.title) + 4
                if event.x < begin:
                    self.action_view(at)
                    return
