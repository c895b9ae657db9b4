"""How repositories come into states, each made with Git itself."""

import os
import shutil
import subprocess
import time

from .git_sites import BAD, WORSE, Site

ODD = ("a b.py", "nämé.py", "tab\t.py", "line\nend.py", 'quo"te.py', "back\\slash.py", "-dash.py", "[star]*.py")


# Where there is nothing to compare with, or nothing that differs


def no_repository(site: Site) -> None:
    site.write("old.py")


def empty_repository(site: Site) -> None:
    site.git("init", "-q")


def bare_repository(site: Site) -> None:
    site.start(at=site.at / "main")
    site.cwd = site.at / "bare"
    site.git("clone", "-q", "--bare", "main", "bare", at=site.at)


def nothing_changed(site: Site) -> None:
    site.start()


def only_touched(site: Site) -> None:
    os.utime(site.start() / "old.py", (1, 1))


# Before the first commit


def first_staged(site: Site) -> None:
    site.git("init", "-q")
    site.write("first.py")
    site.git("add", ".")


def first_staged_and_changed_again(site: Site) -> None:
    first_staged(site)
    site.write("first.py", WORSE)


def first_untracked(site: Site) -> None:
    site.git("init", "-q")
    site.write("first.py")


# Where the repository's data are elsewhere, or of another kind


def usual(site: Site) -> None:
    site.start()
    site.change()


def sha256_names(site: Site) -> None:
    site.start("--object-format=sha256")
    site.change()


def detached_head(site: Site) -> None:
    site.start()
    site.git("checkout", "-q", "--detach")
    site.change()


def linked_worktree(site: Site) -> None:
    site.start(at=site.at / "main")
    site.cwd.rmdir()
    site.git("worktree", "add", "-q", str(site.cwd), at=site.at / "main")
    site.change()


def separate_git_directory(site: Site) -> None:
    site.start("--separate-git-dir", str(site.at / "data"))
    site.change()


def shallow_clone(site: Site) -> None:
    main = site.start(at=site.at / "main")
    site.write("later.txt", at=main)
    site.commit(at=main)
    site.git("clone", "-q", "--depth=1", main.as_uri(), str(site.cwd))
    site.change()


def shared_clone(site: Site) -> None:
    site.start(at=site.at / "main")
    site.git("clone", "-q", "--shared", str(site.at / "main"), str(site.cwd))
    site.change()


def split_index(site: Site) -> None:
    site.start()
    site.git("update-index", "--split-index")
    site.change()


def packed(site: Site) -> None:
    site.start()
    site.git("gc", "-q")
    site.change()


def another_owner(site: Site) -> None:
    usual(site)
    if os.geteuid() == 0:
        for path in (site.cwd, *site.cwd.rglob("*")):
            os.chown(path, 12345, 12345, follow_symlinks=False)


def subdirectory(site: Site) -> None:
    site.start()
    site.write("above.py")
    site.cwd = site.cwd / "below"
    site.write("old.py")
    site.write(".gitignore", "ignored.py\n")
    site.commit(".")
    site.change()


def commit_in_progress(site: Site) -> None:
    """`git commit -a`, seen by its hook: what is being committed is in an index of its own."""
    site.start()
    site.write("old.py", WORSE)
    told, tells = os.pipe()
    waits, go_on = os.pipe()
    site.left.callback(os.close, told)
    hook = site.write(
        "pre-commit",
        f"#!/bin/sh\nenv -0 >/dev/fd/{tells}\necho >/dev/fd/{tells}\ncat </dev/fd/{waits}\n",
        at=site.at / "hooks",
    )
    hook.chmod(0o755)
    command = ["git", "-c", f"core.hooksPath={hook.parent}", "commit", "-qam", "a commit"]
    site.left.enter_context(subprocess.Popen(command, cwd=site.cwd, env=site.env, pass_fds=[tells, waits]))
    site.left.callback(os.close, go_on)  # which ends the hook
    os.close(tells)
    os.close(waits)
    heard = b""
    while not heard.endswith(b"\0\n"):
        heard += (more := os.read(told, 65536))
        assert more, "the hook was not run"
    site.env = dict(entry.split("=", 1) for entry in heard.decode().rstrip().split("\0") if entry)


# Sequences that have stopped half-way


def diverged(site: Site) -> None:
    site.start()
    site.git("checkout", "-qb", "other")
    site.write("old.py", BAD + "import json\n")
    site.write("theirs.py")
    site.commit()
    site.git("checkout", "-q", "-")
    site.write("old.py", BAD + "import re\n")
    site.commit()


def merge_conflict(site: Site) -> None:
    diverged(site)
    site.fails("merge", "-q", "other")


def rebase_in_progress(site: Site) -> None:
    diverged(site)
    site.fails("rebase", "-q", "other")


def cherry_pick_in_progress(site: Site) -> None:
    diverged(site)
    site.fails("cherry-pick", "other")


# Repositories in the repository


def submodule_clean(site: Site) -> None:
    site.submodule()
    site.change()


def submodule_dirty(site: Site) -> None:
    site.write("old.py", WORSE, at=site.submodule())
    site.change()


def submodule_with_a_commit(site: Site) -> None:
    sub = site.submodule()
    site.write("inside.py", at=sub)
    site.commit(at=sub)
    site.change()


def submodule_new(site: Site) -> None:
    site.start(at=site.at / "other")
    site.start()
    site.git("submodule", "--quiet", "add", str(site.at / "other"), "sub")
    site.change()


def submodule_not_fetched(site: Site) -> None:
    site.submodule()
    site.git("submodule", "--quiet", "deinit", "--all")
    site.change()


def in_a_submodule(site: Site) -> None:
    site.cwd = site.submodule()
    site.change()


def nested_clone(site: Site) -> None:
    site.start()
    site.start(at=site.cwd / "clone")
    site.change()


# Kinds of changes


def rename_staged(site: Site) -> None:
    site.start()
    site.git("mv", "old.py", "renamed.py")


def rename_with_a_change(site: Site) -> None:
    rename_staged(site)
    site.write("renamed.py", WORSE)
    site.git("add", ".")


def delete_staged(site: Site) -> None:
    site.start()
    site.git("rm", "-q", "old.py")


def deleted(site: Site) -> None:
    site.start()
    (site.cwd / "old.py").unlink()


def mode_changed(site: Site) -> None:
    (site.start() / "old.py").chmod(0o755)
    site.git("add", ".")


def modes_not_kept(site: Site) -> None:
    """A file system that has no modes: all files look executable, and Git was told not to care."""
    site.start()
    site.git("config", "core.fileMode", "false")
    (site.cwd / "old.py").chmod(0o755)
    site.write("new.py")


def intent_to_add(site: Site) -> None:
    site.start()
    site.write("new.py")
    site.git("add", "-N", "new.py")


def staged_and_changed_again(site: Site) -> None:
    site.start()
    site.write("old.py", WORSE)
    site.git("add", ".")
    site.write("old.py", WORSE + "import re\n")


def changed_in_the_same_second(site: Site) -> None:
    """A file of the same size as before, written when the index was: nothing but its content tells."""
    site.start()
    for number in range(100):  # until a second is long enough
        path = site.write("soon.py", f"value = 1\nVALUE = {100 + number}\n")
        site.commit("soon.py")
        with path.open("r+") as file:
            file.write("import os")
        status, index = path.stat(), (site.cwd / ".git" / "index").stat()
        if int(index.st_mtime) == int(status.st_mtime) == int(status.st_ctime):
            while time.time() < int(index.st_mtime) + 1:  # only then nothing else tells
                time.sleep(0.02)
            return
    raise AssertionError("every second was too short")


def staged_and_deleted(site: Site) -> None:
    site.start()
    site.write("old.py", WORSE)
    site.git("add", ".")
    (site.cwd / "old.py").unlink()


def staged_and_reverted(site: Site) -> None:
    site.start()
    site.write("old.py", WORSE)
    site.git("add", ".")
    site.write("old.py")


def removed_from_the_index(site: Site) -> None:
    site.start()
    site.git("rm", "-q", "--cached", "old.py")


def ignored_files(site: Site) -> None:
    site.start()
    site.write(".gitignore", "ignored.py\nmade/\ntracked.py\n")
    for name in ("ignored.py", "made/inside.py", "tracked.py"):
        site.write(name)
    site.git("add", "-f", "tracked.py")
    site.commit(".gitignore", "tracked.py")
    site.write("tracked.py", WORSE)


def assumed_unchanged(site: Site) -> None:
    site.start()
    site.git("update-index", "--assume-unchanged", "old.py")
    site.write("old.py", WORSE)


def work_tree_skipped(site: Site) -> None:
    site.start()
    site.git("update-index", "--skip-worktree", "old.py")
    site.write("old.py", WORSE)


def links_not_kept(site: Site) -> None:
    """A file system that has no links: Git writes files with the names that they lead to."""
    site.start()
    site.git("config", "core.symlinks", "false")
    (site.cwd / "link").symlink_to("old.py")
    site.commit()
    (site.cwd / "link").unlink()
    site.git("checkout", "-q", "link")
    os.utime(site.cwd / "link", (1, 1))
    site.write("new.py")


def sparse_checkout(site: Site) -> None:
    site.start()
    site.write("out/far.py")
    site.write("in/near.py")
    site.commit()
    site.git("sparse-checkout", "set", "in")
    site.write("in/near.py", WORSE)


def sparse_index(site: Site) -> None:
    site.start()
    site.write("out/deep/far.py")
    site.write("in/near.py")
    site.commit()
    site.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    site.write("in/near.py", WORSE)


def present_though_sparse(site: Site) -> None:
    """A file that is there though it need not be: Git looks at it all the same."""
    sparse_checkout(site)
    site.write("out/far.py", WORSE)


# Kinds of files


def symbolic_links(site: Site) -> None:
    site.start()
    (site.at / "outside.py").write_text(BAD)
    (site.cwd / "link.py").symlink_to(site.at / "outside.py")
    (site.cwd / "same.py").symlink_to("old.py")
    site.git("add", "link.py")
    site.write("new.py")


def odd_names(site: Site) -> None:
    site.start()
    for name in ODD:
        site.write(f"staged {name}")
    site.git("add", ".")
    for name in ODD:
        site.write(f"new {name}")


def name_not_unicode(site: Site) -> None:
    site.start()
    with open(os.fsencode(site.cwd) + b"/\xe9t\xe9.py", "w") as file:
        file.write(BAD)
    site.write("new.py")


def large_binary(site: Site) -> None:
    site.start()
    (site.cwd / "data.bin").write_bytes(bytes(range(256)) * 20_000)
    site.git("add", ".")
    (site.cwd / "more.bin").write_bytes(bytes(range(256)) * 20_000)
    site.write("new.py")


def file_turned_directory(site: Site) -> None:
    site.start()
    (site.cwd / "old.py").unlink()
    site.write("old.py/inside.py")


def directory_turned_file(site: Site) -> None:
    site.start()
    site.write("place/inside.py")
    site.commit()
    shutil.rmtree(site.cwd / "place")
    site.write("place", "plain text\n")


def link_turned_file(site: Site) -> None:
    site.start()
    (site.cwd / "link.py").symlink_to("old.py")
    site.commit()
    (site.cwd / "link.py").unlink()
    site.write("link.py")


def other_line_ends(site: Site) -> None:
    site.start()
    site.git("config", "core.autocrlf", "false")  # or there would be no change
    site.write("ends.py")
    site.commit()
    site.write("ends.py", BAD.replace("\n", "\r\n"))
    site.change()


def line_ends_by_attribute(site: Site) -> None:
    site.start()
    site.write(".gitattributes", "*.py text eol=crlf\n")
    site.write("ends.py")
    site.commit()
    site.write("ends.py", WORSE.replace("\n", "\r\n"))


def line_ends_by_setting(site: Site) -> None:
    site.start()
    site.git("config", "core.autocrlf", "true")
    path = site.write("ends.py", BAD.replace("\n", "\r\n"))
    site.commit()
    os.utime(path, (1, 1))
    site.write("new.py")


def changed_by_a_filter(site: Site) -> None:
    """Files that a filter keeps elsewhere, as large files are: the work tree is not what was committed."""
    site.start()
    site.write(".gitattributes", "*.dat filter=far\n")
    site.git("config", "filter.far.clean", "echo pointer")
    site.git("config", "filter.far.smudge", "echo content")
    site.write("large.dat", "content\n")
    site.commit()
    site.write("new.py")
