"""The application: conversations in tabs, lists to choose from, and the keys that work everywhere."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, structs
from textual import on, work
from textual.actions import SkipAction
from textual.app import App, ComposeResult, SystemCommand
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static, TextArea

from ... import schema as s
from ...host.processes import Launch, find_agent
from ..driving.driver import DriveOptions
from ..model import intents as i
from ..model.export import as_document, file_name
from .bindings import EVERYWHERE
from .choosing.agents import choose_agent
from .choosing.options import choose_model, choose_option
from .choosing.picker import Item, Picker, TextPrompt
from .choosing.sessions import choose_session
from .choosing.texts import SessionTexts
from .entries.attachments import AttachmentLine, OpenedPictures
from .entries.command import CommandCard
from .entries.diff import Layout
from .entries.graphics import drawing
from .help import HelpScreen
from .layout import KeptLayout, KeptTab
from .palette import palette_of
from .pane import ConversationPane
from .terminal.driver import SETTLED, TerminalDriver
from .terminal.keys import have_alt_digits
from .terminal.traits import TerminalTraits
from .theme import TERMINAL, THEMES, colours, theme_for
from .words import line
from .writing.completing import Completions
from .writing.composer import PromptEditor
from .writing.history import PromptHistory
from .writing.outside import NO_PICTURE, copied_picture, edited, run_here, show_drawing

MARKS = {"idle": "", "working": " ●", "asking": " ?", "broken": " ✗"}
LAYOUTS: tuple[Layout, ...] = ("auto", "unified", "split")
MAX_TABS = 16


class TuiOptions(Struct, kw_only=True):
    """The options that the program starts with."""

    first: DriveOptions
    theme: str = TERMINAL
    keys: dict[str, str] = {}
    tabs: list[DriveOptions] = []  # further conversations to open
    traits: TerminalTraits = TerminalTraits()
    find: Callable[[str], Launch] = find_agent  # returns an agent by its name


class DragomanApp(App[None]):
    """Shows conversations with agents in tabs."""

    TITLE = "dragoman"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    Screen { background: $ground; color: $words; }
    #tabs { height: 1; padding: 0 1; background: $raised; display: none; }
    #tabs.several { display: block; }
    #panes { height: 1fr; }
    OptionList:nocolor > .option-list--option-highlighted { text-style: bold underline; }
    Checkbox:nocolor:focus > .toggle--label { text-style: bold underline; }
    PlainInput:nocolor > .input--cursor, PromptEditor:nocolor .text-area--cursor { text-style: reverse; }
    PlainInput:nocolor > .input--selection, PromptEditor:nocolor .text-area--selection { text-style: reverse; }
    """
    BINDINGS = EVERYWHERE

    def __init__(self, options: TuiOptions) -> None:
        # With NO_COLOR but without `ansi_color`, the toolkit would draw a theme of RGB colours in greys.
        super().__init__(driver_class=TerminalDriver, ansi_color=True if "NO_COLOR" in os.environ else None)
        self._options = options
        self._history = PromptHistory()
        self._tabs = Static(Content(""), id="tabs")
        self._panes = Vertical(id="panes")
        self._at = 0
        self.panes: list[ConversationPane] = []
        self._has_focus = True
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = options.theme
        self.set_keymap(options.keys)
        self._pictures = OpenedPictures()
        have_alt_digits()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The colours of our roles, for themes that do not define them."""
        return colours()

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield self._panes

    def on_mount(self) -> None:
        for options in (self._options.first, *self._options.tabs):
            self.open_tab(options)
        self.show_tab(0)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell used the screen
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._end)

    def on_resize(self) -> None:
        if isinstance(self._driver, TerminalDriver):
            self.set_timer(SETTLED, self._driver.check_size)

    def _end(self) -> None:
        """Quit as the user would: the program received a signal or lost its terminal."""
        self.run_worker(self.action_quit(), exclusive=True, group="quit")

    def on_unmount(self) -> None:
        self._pictures.close()

    @property
    def pane(self) -> ConversationPane:
        """The conversation on the screen."""
        return self.panes[self._at]

    # Tabs

    def open_tab(self, options: DriveOptions) -> None:
        """Open a conversation and show it."""
        if len(self.panes) >= MAX_TABS:
            self.notify(f"{MAX_TABS} conversations are open already", severity="warning", markup=False)
            return
        pane = ConversationPane(options, self._history)
        pane.driver.login.run_here = self._run_here
        self.panes.append(pane)
        self._panes.mount(pane)
        self.show_tab(len(self.panes) - 1)

    def show_tab(self, at: int) -> None:
        """Show one of the conversations."""
        if 0 <= at < len(self.panes):
            self._at = at
            for number, pane in enumerate(self.panes):
                pane.display = number == at
            self.pane.has_news = False
            self.call_after_refresh(self.pane.focus_input)
            self._draw_tabs()

    def _draw_tabs(self) -> None:
        self._tabs.set_class(len(self.panes) > 1, "several")
        cells = []
        for number, pane in enumerate(self.panes):
            mark = MARKS[pane.model.state.kind] or (" ✓" if pane.has_news else "")
            name = line(pane.model.title or pane.driver.name, 24)
            style = "bold reverse" if number == self._at else ""
            cells.append(Content.assemble((f" {number + 1} ", "$quiet"), name.stylize(style), (mark, "$warn")))
        self._tabs.update(Content("  ").join(cells))

    @on(ConversationPane.StateChanged)
    def _state_changed(self, message: ConversationPane.StateChanged) -> None:
        pane = message.pane
        kind = pane.model.state.kind
        before, pane.last_kind = pane.last_kind, kind
        if not pane.model.turns and len(pane.model.entries) != pane.kept:
            pane.kept = len(pane.model.entries)
            SessionTexts().keep(pane.driver.name, pane.model)
        # A question may arrive before the working state is painted.
        if before != kind and (kind == "asking" or (kind != "working" and before in ("working", "asking"))):
            pane.has_news = pane is not self.pane
            if kind == "asking" or not self._has_focus:
                self._call_person(f"{pane.driver.name}: {'asks you' if kind == 'asking' else 'is done'}")
        self._draw_tabs()

    def _call_person(self, words: str) -> None:
        """Ring the bell and send a desktop notification if the user is in another window."""
        if not self._has_focus:
            self.bell()
            if (driver := self._driver) is not None:
                driver.write(f"\x1b]9;{line(words, 80).plain}\x07")

    def on_app_blur(self) -> None:
        self._has_focus = False

    def on_app_focus(self) -> None:
        self._has_focus = True

    # Keys

    def action_tab(self, at: int) -> None:
        """Show a conversation by its number."""
        self.show_tab(at)

    @work
    async def action_tabs(self) -> None:
        """Choose an open conversation, or start a new one."""
        items = [
            Item(str(at), pane.model.title or pane.driver.name, pane.model.state.kind, at == self._at)
            for at, pane in enumerate(self.panes)
        ]
        chosen = await self.push_screen_wait(Picker("Conversations", [*items, Item("new", "New …", "^N")]))
        if chosen is not None and chosen[1] == "new":
            self.action_new_tab()
        elif chosen is not None:
            self.show_tab(int(chosen[1]))

    @work
    async def action_new_tab(self) -> None:
        """Choose an agent, and open a conversation with it."""
        if (launch := await choose_agent(self, self._options.find)) is not None:
            first = self.pane.driver.options
            self.open_tab(structs.replace(first, agent=launch, session=None, latest=False, is_again=False))

    @work
    async def action_close_tab(self) -> None:
        """Close a conversation; the agent keeps the session if it supports that."""
        if len(self.panes) > 1:
            pane = self.panes.pop(self._at)
            await pane.leave()
            await pane.remove()
            self.show_tab(max(self._at - 1, 0))

    @work
    async def action_model(self) -> None:
        """Choose the model."""
        await choose_model(self)

    @work
    async def action_options(self) -> None:
        """Choose an option and its new value."""
        await choose_option(self)

    def action_next_mode(self) -> None:
        """Switch the session to its next mode; in a form, focus the previous field."""
        if self.pane.has_class("asks"):
            self.screen.focus_previous()
            return
        model = self.pane.model
        modes = [mode.id for mode in model.modes.available_modes] if model.modes else []
        if modes:
            at = modes.index(model.mode) if model.mode in modes else -1
            self.pane.driver.carry_out(i.SetMode(mode=modes[(at + 1) % len(modes)]))

    @work
    async def action_sessions(self) -> None:
        """Choose a session of the open agents."""
        await choose_session(self)

    @work
    async def action_export(self, kind: str) -> None:
        """Write the conversation to a file, as Markdown or JSON."""
        model = self.pane.model
        suggested = os.path.join(model.cwd, f"{file_name(model)}.{kind}")
        if path := await self.push_screen_wait(TextPrompt("Write it to which file?", suggested)):
            try:
                target = os.path.join(model.cwd, os.path.expanduser(path))
                await asyncio.to_thread(_write_new, target, as_document(model, kind))
            except OSError as exc:
                told = f"not written: {exc.strerror}. Choose another name or directory than {path}"
                self.notify(told, severity="error", markup=False)
            else:
                self.notify(f"written: {path}", markup=False)

    @work
    async def action_rename(self) -> None:
        """Give the session another title."""
        if title := await self.push_screen_wait(TextPrompt("Title of the session", self.pane.model.title or "")):
            self.pane.driver.carry_out(i.SetTitle(title=title))

    def action_fork(self) -> None:
        """Continue in a copy of the session."""
        self.pane.driver.do(self.pane.driver.fork())

    @work
    async def action_queue(self) -> None:
        """Show the waiting prompts, and edit or drop one."""
        queue = self.pane.model.queue
        if not queue:
            self.notify("no prompt waits", markup=False)
            return
        items = [Item(each.id, _text(each.prompt), each.author) for each in queue.values()]
        chosen = await self.push_screen_wait(Picker("Waiting prompts: ⏎ edits one", items, [("ctrl+d", "drop")]))
        if chosen is not None and (waiting := queue.get(chosen[1])) is not None:
            self.pane.driver.carry_out(i.DropWaiting(id=waiting.id))
            if chosen[0] == "enter":
                self.pane.composer.write(_text(waiting.prompt))

    def action_panel(self) -> None:
        """Show or hide the side panel."""
        if self.pane.has_class("narrow"):
            self.pane.toggle_class("panel")
        else:
            self.pane.side.display = not self.pane.side.display

    def action_diff_layout(self) -> None:
        """Switch the layout of changes: automatic, unified, or side by side."""
        kind = LAYOUTS[(LAYOUTS.index(self.pane.transcript.layout_kind) + 1) % len(LAYOUTS)]
        self.pane.transcript.set_layout(kind)
        self.notify(f"changes are shown: {'as there is room' if kind == 'auto' else kind}", markup=False, timeout=2)

    def action_give_output(self) -> None:
        """Attach the output of the user's last command to the next prompt."""
        if not self.pane.attach_output():
            self.notify("no command of yours has ended here; !COMMAND runs one", markup=False)

    def action_follow(self) -> None:
        """Start or stop showing the file that the agent works on."""
        following = self.pane.following
        following.follow(not following.is_following)

    @on(AttachmentLine.OpenWanted)
    def _open_wanted(self, message: AttachmentLine.OpenWanted) -> None:
        if (drawn := drawing(message.block, self._options.traits.graphics)) is not None:
            with self.suspend():
                show_drawing(drawn)
        else:
            self.notify(self._pictures.open(message.block), markup=False)

    @work
    async def action_paste_picture(self) -> None:
        """Attach the picture on the user's clipboard to the next prompt."""
        pane = self.pane
        if (data := await asyncio.to_thread(copied_picture)) is not None:
            pane.attach_picture(data)
        else:
            self.notify(NO_PICTURE, markup=False)

    def action_drop_chip(self) -> None:
        """Remove the last attachment."""
        if self._has_own_selection:
            raise SkipAction
        self.pane.drop_chip()

    @property
    def _has_own_selection(self) -> bool:
        """Whether text is selected in the focused input."""
        return isinstance(self.focused, TextArea | Input) and bool(self.focused.selected_text)

    @property
    def _types_into_command(self) -> bool:
        """Whether keys go to a running command of the user."""
        return isinstance(self.focused, CommandCard) and not self.focused.view.is_over

    def action_to_shell(self) -> None:
        """Suspend the program and return to the shell."""
        if self._types_into_command:
            raise SkipAction
        self.action_suspend_process()

    def action_copy(self) -> None:
        """Copy the selected text."""
        if self._has_own_selection or self._types_into_command:
            raise SkipAction
        if selected := self.screen.get_selected_text():
            self.copy_to_clipboard(selected)
            self.notify("copied", markup=False, timeout=2)
        else:
            self.notify("^Q quits; esc stops the turn", markup=False, timeout=3)

    def action_copy_last(self) -> None:
        """Copy the agent's last message."""
        messages = [each for each in self.pane.model.transcript.messages if each.speaker == "agent"]
        if messages:
            self.copy_to_clipboard(messages[-1].text)
            self.notify("the last message is copied", markup=False, timeout=2)

    def action_restart(self) -> None:
        """Reconnect now, or start the agent again if its connection is lost."""
        if self.pane.model.link.kind == "reconnecting":
            self.pane.driver.try_now()
        elif self.pane.model.link.kind == "lost":
            driver = self.pane.driver
            driver.options = structs.replace(
                driver.options, session=self.pane.model.id or None, latest=False, is_again=True
            )
            self.pane.begin()

    def action_help(self) -> None:
        """Show every key."""
        self.push_screen(HelpScreen(self.BINDINGS))

    def action_theme(self, name: str) -> None:
        """Change the theme."""
        self.theme = theme_for(name, is_light=self._options.traits.is_light)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The commands of the palette."""
        return palette_of(self)

    async def action_quit(self) -> None:
        """Save the layout, close all conversations, and quit."""
        KeptLayout(tabs=[_kept(pane) for pane in self.panes]).save()
        for pane in self.panes:
            SessionTexts().keep(pane.driver.name, pane.model)
        await asyncio.gather(*(pane.leave() for pane in self.panes))
        self.exit()

    # The input

    @on(PromptEditor.Moved)
    def _moved(self, message: PromptEditor.Moved) -> None:
        self._complete(message.before)  # not a coroutine: Python warns of one that is cancelled before it starts

    @work(group="completing", exclusive=True)
    async def _complete(self, before: str) -> None:
        await self.pane.completions.update_for(before)

    @on(PromptEditor.CompletionKey)
    def _chosen(self, message: PromptEditor.CompletionKey) -> None:
        self.pane.query_one(Completions).chosen(message.key)

    @on(PromptEditor.EditorWanted)
    def _editor_wanted(self) -> None:
        with self.suspend():
            text = edited(self.pane.composer.text)
        if text is not None:
            self.pane.composer.write(text)

    async def _run_here(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a program at the user's terminal until it ends, and return its exit status."""
        with self.suspend():
            return run_here(command, environment)

    @on(PromptEditor.HelpWanted)
    def _help_wanted(self) -> None:
        self.action_help()

    @on(PromptEditor.HistoryWanted)
    @work
    async def _history_wanted(self) -> None:
        items = [Item(str(at), prompt) for at, prompt in reversed(list(enumerate(self._history.prompts)))]
        chosen = await self.push_screen_wait(Picker("Earlier prompts", items))
        if chosen is not None:
            self.pane.composer.write(self._history.prompts[int(chosen[1])])


def _kept(pane: ConversationPane) -> KeptTab:
    options = pane.driver.options
    return KeptTab(agent=options.agent.name or options.agent.described(), session=pane.model.id, cwd=options.cwd)


def _text(prompt: Iterable[s.ContentBlock]) -> str:
    return "\n".join(block.text for block in prompt if isinstance(block, s.TextContent))


def _write_new(path: str, content: bytes) -> None:
    """Write a new file; raises FileExistsError if it exists."""
    with open(path, "xb") as out:
        out.write(content)
