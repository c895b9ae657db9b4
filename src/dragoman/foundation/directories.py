"""Where the user's own files are, by the XDG rules: a base directory that is not an absolute path is ignored."""

import os
from pathlib import Path

# the token of the user who runs the gateway of this machine, in the gateway's directory
LOCAL_TOKEN = "local.token"


def config_directory() -> Path:
    """The directory for files that the user writes: settings, rules, keys."""
    return _in("XDG_CONFIG_HOME", ".config")


def state_directory() -> Path:
    """The directory for files that our programs write and that outlive them: sessions, approvals, logs."""
    return _in("XDG_STATE_HOME", ".local/state")


def gateway_directory() -> Path:
    """Where the gateway of this machine keeps its files by default."""
    return state_directory() / "gateway"


def home_directory() -> Path:
    """The user's home; a relative HOME is ignored, for it could lie in the workspace."""
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return Path(home)
    try:
        import pwd  # a module that not every system has

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # a user without a name, as containers have them
        return Path("/")


def _in(variable: str, usual: str) -> Path:
    base = os.environ.get(variable, "")
    return Path(base if os.path.isabs(base) else home_directory() / usual, "dragoman")
