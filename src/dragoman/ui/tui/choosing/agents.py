"""The list of agents for a new conversation."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....errors import Error
from ....host.processes import Launch, broken_agents, known_agents
from .picker import Item, Picker

if TYPE_CHECKING:
    from ..app import DragomanApp

GROUPS = ("Installed", "Elsewhere", "Not installed", "Cannot be read")


async def choose_agent(app: "DragomanApp", find: Callable[[str], Launch]) -> Launch | None:
    """Let the user choose an agent; a notification says why an agent cannot be started."""
    current = app.pane.driver.options.agent.name
    items = [_item(name, launch, name == current) for name, launch in known_agents().items()]
    items += [Item(name, name, str(why), group=GROUPS[3]) for name, why in broken_agents().items()]
    items.sort(key=lambda item: GROUPS.index(item.group))
    chosen = await app.push_screen_wait(Picker("Which agent?", items))
    if chosen is None:
        return None
    item = next(item for item in items if item.id == chosen[1])
    if item.group in GROUPS[2:]:
        app.notify(f"{item.words}: {item.more}", severity="warning", markup=False)
        return None
    try:
        return find(item.id)
    except Error as exc:
        app.notify(str(exc), severity="error", markup=False)
        return None


def _item(name: str, launch: Launch, is_current: bool) -> Item:
    title = launch.title if launch.title != name else ""
    if launch.url:
        return Item(name, name, f"{title}  {launch.url}".strip(), is_current, GROUPS[1])
    if launch.is_installed:
        return Item(name, name, title, is_current, GROUPS[0])
    return Item(name, name, f"not installed; to install it: {launch.install}", is_current, GROUPS[2])
