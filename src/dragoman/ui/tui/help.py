"""The help screen, which lists every key."""

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

WRITING = (
    ("enter", "send; while the agent works: wait behind what runs"),
    ("alt+enter", "send into the turn that runs, where the agent takes that"),
    ("ctrl+j", "new line (also shift+enter, and a backslash before enter)"),
    ("up  down", "earlier and later prompts"),
    ("ctrl+r", "look for an earlier prompt; start an agent again that is gone"),
    ("ctrl+g", "write in your own editor ($VISUAL, $EDITOR)"),
    ("@", "name a file, which goes along with the prompt"),
    ("/", "a command of the agent"),
    ("!", "run a command of your own"),
    ("escape", "stop the turn"),
)
READING = (
    ("pageup  pagedown", "scroll"),
    ("ctrl+up  ctrl+down", "go to the entry above or below that opens; enter opens it"),
    ("home  end", "earlier entries, and back to the end, while the transcript has the keys"),
)
DECIDING = (
    ("y s w a", "allow once, in this session, in this workspace, always"),
    ("n d", "deny, and deny everything for the rest of the turn"),
    ("left  right", "the other open questions"),
    ("ctrl+s  ctrl+d", "send a form, or decline it"),
)


class HelpScreen(ModalScreen[None]):
    """Lists every key; escape, F1 and q close it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $ground 60%; }
    HelpScreen > VerticalScroll { width: 90%; max-width: 90; height: 90%; background: $raised; border: round $line;
        padding: 0 2; }
    """
    BINDINGS = [Binding("escape,f1,q", "leave", "close", show=False)]

    def __init__(self, bindings: Iterable[BindingType]) -> None:
        super().__init__()
        self._everywhere = [each for each in bindings if isinstance(each, Binding) and each.id]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Content("\n").join(self._lines()))

    def _lines(self) -> Iterable[Content]:
        everywhere = [(binding.key, binding.description) for binding in self._everywhere]
        for title, keys in (
            ("Writing", WRITING),
            ("Reading", READING),
            ("Deciding", DECIDING),
            ("Everywhere", everywhere),
        ):
            yield Content.styled(title, "bold")
            for key, words in keys:
                yield Content.assemble(("  " + key.ljust(22), "$moving"), words)
            yield Content("")

    def action_leave(self) -> None:
        """Close the screen."""
        self.dismiss(None)
