"""Where stores are, and the kind of disk they are on."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..foundation.directories import state_directory

FILE, TIP, REBUILT, QUARANTINE = "sessions.db", "tip", "rebuilt.db", "damaged-"
NOT_OURS = "not-ours-"  # foreign files found in place of ours; they are never removed

REMOTE = ("nfs", "9p", "virtiofs", "cifs", "smb", "fuse.sshfs", "afs", "ceph", "glusterfs")


def default_path() -> Path:
    """The user's own store: `$XDG_STATE_HOME/dragoman/sessions`."""
    return state_directory() / "sessions"


def is_store(path: Path) -> bool:
    """Whether a directory holds a store, or remains of one."""
    return any((path / name).exists() for name in (FILE, TIP, REBUILT)) or any(path.glob(f"{QUARANTINE}*/{FILE}*"))


@contextlib.contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of a store that cannot be written: before it can be read, its log may have to be written back."""
    with tempfile.TemporaryDirectory(prefix="dragoman-store-") as directory:
        for name in (FILE, f"{FILE}-wal", TIP):
            if (path / name).is_file():
                shutil.copyfile(path / name, Path(directory) / name)
        yield Path(directory)


def is_remote(path: Path) -> bool:
    """Whether a directory is on a network disk, where a write-ahead log's shared memory does not work."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    real = os.path.realpath(path)
    found, kind = "", ""
    for line in mounts.splitlines():
        fields, _, after = line.partition(" - ")
        point = fields.split()[4].encode().decode("unicode_escape")
        is_above = point == "/" or real == point or real.startswith(point + "/")
        if is_above and len(point) >= len(found):
            found, kind = point, after.split()[0]
    return kind.startswith(REMOTE)
