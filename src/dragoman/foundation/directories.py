"""Where the user's own files are, by the XDG rules: a base that is no absolute path is none."""

import os
from pathlib import Path

LOCAL_TOKEN = "local.token"  # of whoever runs the gateway of this machine, in its directory


def config_directory() -> Path:
    """What the user writes: settings, rules, keys."""
    return _in("XDG_CONFIG_HOME", ".config")


def state_directory() -> Path:
    """What our programs write and outlives them: sessions, approvals, logs."""
    return _in("XDG_STATE_HOME", ".local/state")


def gateway_directory() -> Path:
    """Where the gateway of this machine keeps everything, unless it is told otherwise."""
    return state_directory() / "gateway"


def home_directory() -> Path:
    """The user's home; a HOME that is no absolute path would lie in the workspace, so it does not count."""
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return Path(home)
    try:
        import pwd  # which is not there on every system

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # a user without a name, as containers have them
        return Path("/")


def _in(variable: str, usual: str) -> Path:
    base = os.environ.get(variable, "")
    return Path(base if os.path.isabs(base) else home_directory() / usual, "dragoman")
