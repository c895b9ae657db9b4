"""Rereads the configuration of a running gateway on SIGHUP."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...gateway.serving import ServeOptions
    from .config_file import Configuration

log = logging.getLogger("dragoman")


class Reread:
    """A call returns the gateway's new options, and logs which settings need a restart."""

    def __init__(self, read: "Callable[[], Configuration]", found: "Configuration") -> None:
        self._read = read
        self._running = dict(found.values)

    def __call__(self) -> "ServeOptions":
        from .serve import options_of
        from .settings import all_settings

        found = self._read()
        options = options_of(found)
        reloads = {setting.key for setting in all_settings() if setting.reloads}
        changed = [key for key, value in found.values.items() if value != self._running[key]]
        applied = [key for key in changed if key in reloads]
        self._running |= {key: found.values[key] for key in applied}
        self.set_log()
        log.info(
            "configuration read again: %s", ", ".join(applied) or "no setting that can be reloaded has changed"
        )
        if waiting := [key for key in changed if key not in reloads]:
            log.warning("these settings have changed and need a restart: %s", ", ".join(waiting))
        return options

    def set_log(self) -> None:
        """Set the format of the log from the configuration."""
        from ...gateway.log_context import ACCESS
        from ...gateway.operations.log_lines import JsonLines
        from .logs import log_to_stderr

        log_to_stderr(JsonLines() if self._running["log_format"] == "json" else None)
        logging.getLogger(ACCESS).setLevel(logging.INFO if self._running["access_log"] else logging.WARNING)
