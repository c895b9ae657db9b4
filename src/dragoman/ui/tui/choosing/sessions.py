"""The list of sessions of all open agents: open, rename, fork, archive or delete one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs
from textual.content import Content

from .... import schema as s
from ....errors import Error
from ...driving.driver import ConversationDriver
from ..words import line, lines, shown
from .picker import Item, Picker, TextPrompt
from .texts import SessionTexts

if TYPE_CHECKING:
    from ..app import DragomanApp

KEYS = [("ctrl+t", "in a new tab"), ("ctrl+d", "delete"), ("ctrl+r", "rename")]
FORK, ARCHIVE = ("ctrl+f", "fork"), ("ctrl+a", "put away")
PREVIEWED = 4000  # characters shown from the end of a session


class Listed(NamedTuple):
    """A session in the list, with the driver of its agent."""

    driver: ConversationDriver
    info: s.SessionInfo

    @property
    def id(self) -> str:
        """The id of the session's item in the list."""
        return f"{self.driver.name} {self.info.session_id}"


async def choose_session(app: "DragomanApp", *, archived: bool = False) -> None:
    """Let the user choose a session, and carry out the action of the key."""
    drivers = _drivers(app)
    if not drivers:
        app.notify("this agent does not list its sessions", markup=False)
        return
    listed = {each.id: each for driver in drivers for each in await _listed(driver, archived)}
    current = app.pane.driver
    items = [_item(each, app, is_grouped=len(drivers) > 1) for each in listed.values()]
    extra = [] if archived else [Item("new", "New session", group=current.name if len(drivers) > 1 else "")]
    if current.can("session_capabilities.archive") and not archived:
        items.append(Item("archived", "Sessions that were put away …", group=" "))
    keys = [*KEYS, *([FORK] if current.can("session_capabilities.fork") else [])]
    if current.can("session_capabilities.archive"):
        keys.append(("ctrl+a", "take out again") if archived else ARCHIVE)
    title = "Sessions that were put away" if archived else "Sessions"
    chosen = await app.push_screen_wait(Picker(title, [*extra, *items], keys, lambda id: _preview(listed.get(id))))
    match chosen:
        case (("enter" | "ctrl+t") as key, "new"):
            _go_to(app, current, None, is_apart=key == "ctrl+t")
        case ("enter", "archived"):
            await choose_session(app, archived=True)
        case (key, id) if (found := listed.get(id)) is not None:
            await _do(app, found, key, is_archived=archived)


def _drivers(app: "DragomanApp") -> Sequence[ConversationDriver]:
    """One open driver for each agent that lists its sessions; the one on the screen is first."""
    found = dict[str, ConversationDriver]()
    for pane in sorted(app.panes, key=lambda pane: pane is not app.pane):
        if pane.driver.can("session_capabilities.list"):
            found.setdefault(pane.driver.options.agent.described(), pane.driver)
    return list(found.values())


async def _listed(driver: ConversationDriver, archived: bool) -> Sequence[Listed]:
    try:
        found = await driver.sessions(archived="only" if archived else None)
    except Error as exc:
        driver.notice(f"the sessions of {driver.name} cannot be listed: {exc}", "warning")
        return ()
    return [Listed(driver, info) for info in found if bool(info.archived) == archived]


def _item(listed: Listed, app: "DragomanApp", *, is_grouped: bool) -> Item:
    driver, info = listed
    text = SessionTexts().read(driver.name, info.session_id)
    is_current = driver is app.pane.driver and info.session_id == driver.model.id
    return Item(
        listed.id,
        info.title or _first_line(text) or "without a title",
        f"{_day(info.updated_at)}  {info.cwd}",
        is_current,
        driver.name if is_grouped else "",
        text,
    )


def _first_line(text: str) -> str:
    return next((each.removeprefix("You: ") for each in text.split("\n") if each.strip()), "")


def _preview(listed: Listed | None) -> Content:
    """The title, directory, people and last messages of a session."""
    if listed is None:
        return Content("")
    driver, info = listed
    head = [line(info.title or "without a title", style="bold"), line(info.cwd, style="$quiet")]
    if people := [person for person in driver.model.people if info.session_id == driver.model.id]:
        head.append(line("here: " + ", ".join(f"{each.name} ({each.role})" for each in people), style="$moving"))
    text = SessionTexts().read(driver.name, info.session_id)
    said = shown(text[-PREVIEWED:]) if text else Content.styled("nothing of it was shown here yet", "$quiet")
    return lines([*head, Content(""), said])


async def _do(app: "DragomanApp", listed: Listed, key: str, *, is_archived: bool) -> None:
    """Carry out the action of a key on a session."""
    driver, info = listed
    id = info.session_id
    is_open = any(pane.driver.name == driver.name and pane.model.id == id for pane in app.panes)
    match key:
        case "enter" | "ctrl+t":
            if is_archived:
                await driver.unarchive(id)
            _go_to(app, driver, id, is_apart=key == "ctrl+t" or driver is not app.pane.driver)
        case "ctrl+f":
            driver.do(driver.fork(id))
        case "ctrl+r":
            if title := await app.push_screen_wait(TextPrompt("Title of the session", info.title or "")):
                driver.do(driver.rename(id, title))
        case "ctrl+a":
            driver.do(driver.unarchive(id) if is_archived else driver.archive(id))
        case "ctrl+d" if is_open:
            app.notify("the session is open; close it first", severity="warning", markup=False)
        case "ctrl+d":
            words = line(info.title or id, 60).plain
            sure = [Item("no", "Keep it"), Item("yes", "Delete it for good")]
            if await app.push_screen_wait(Picker(f"Delete {words}?", sure)) == ("enter", "yes"):
                driver.do(driver.host.delete_session(id))
                SessionTexts().forget(driver.name, id)


def _go_to(app: "DragomanApp", driver: ConversationDriver, id: str | None, *, is_apart: bool) -> None:
    if is_apart:
        app.open_tab(structs.replace(driver.options, session=id, latest=False))
    else:
        driver.do(driver.go_to(id))


def _day(time: str | None) -> str:
    return (time or "")[:16].replace("T", " ")
