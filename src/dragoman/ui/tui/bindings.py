"""The key bindings that work everywhere; the user's settings assign other keys to their ids."""

from textual.binding import Binding, BindingType

EVERYWHERE: list[BindingType] = [
    Binding("ctrl+q", "quit", "quit", show=False, priority=True, id="quit"),
    Binding("ctrl+c", "copy", "copy", show=False, priority=True, id="copy"),
    Binding("f1", "help", "help", show=False, priority=True, id="help"),
    Binding("ctrl+o", "model", "model", show=False, priority=True, id="model"),
    Binding("f2", "options", "options", show=False, priority=True, id="options"),
    Binding("shift+tab", "next_mode", "mode", show=False, priority=True, id="next_mode"),
    Binding("f3", "sessions", "sessions", show=False, priority=True, id="sessions"),
    Binding("ctrl+t", "tabs", "tabs", show=False, priority=True, id="tabs"),
    Binding("ctrl+n", "new_tab", "new tab", show=False, priority=True, id="new_tab"),
    Binding("f4", "close_tab", "close tab", show=False, priority=True, id="close_tab"),
    Binding("f6", "panel", "side panel", show=False, priority=True, id="panel"),
    Binding("f7", "queue", "queue", show=False, priority=True, id="queue"),
    Binding("f8", "diff_layout", "changes side by side", show=False, priority=True, id="diff_layout"),
    Binding("f10", "paste_picture", "attach the copied picture", show=False, priority=True, id="paste_picture"),
    Binding("ctrl+x", "drop_chip", "take off", show=False, priority=True, id="drop_chip"),
    Binding("ctrl+y", "copy_last", "copy the last message", show=False, priority=True, id="copy_last"),
    Binding("ctrl+r", "restart", "start again", show=False, id="restart"),
    Binding("f5", "give_output", "give your command's output", show=False, priority=True, id="give_output"),
    Binding("f9", "follow", "follow the agent", show=False, priority=True, id="follow"),
    Binding("ctrl+z", "to_shell", "to the shell", show=False, priority=True, id="suspend"),
    *(Binding(f"alt+{at + 1}", f"tab({at})", show=False, priority=True) for at in range(9)),
]
