"""What a review must name in each state of a repository, and settings of Git that users have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .git_making import (
    ODD,
    another_owner,
    assumed_unchanged,
    bare_repository,
    changed_by_a_filter,
    changed_in_the_same_second,
    cherry_pick_in_progress,
    commit_in_progress,
    delete_staged,
    deleted,
    detached_head,
    directory_turned_file,
    empty_repository,
    file_turned_directory,
    first_staged,
    first_staged_and_changed_again,
    first_untracked,
    ignored_files,
    in_a_submodule,
    intent_to_add,
    large_binary,
    line_ends_by_attribute,
    line_ends_by_setting,
    link_turned_file,
    linked_worktree,
    links_not_kept,
    merge_conflict,
    mode_changed,
    modes_not_kept,
    name_not_unicode,
    nested_clone,
    no_repository,
    nothing_changed,
    odd_names,
    only_touched,
    other_line_ends,
    packed,
    present_though_sparse,
    rebase_in_progress,
    removed_from_the_index,
    rename_staged,
    rename_with_a_change,
    separate_git_directory,
    sha256_names,
    shallow_clone,
    shared_clone,
    sparse_checkout,
    sparse_index,
    split_index,
    staged_and_changed_again,
    staged_and_deleted,
    staged_and_reverted,
    subdirectory,
    submodule_clean,
    submodule_dirty,
    submodule_new,
    submodule_not_fetched,
    submodule_with_a_commit,
    symbolic_links,
    usual,
    work_tree_skipped,
)
from .git_sites import Site


class Failure(NamedTuple):
    """A request that cannot be met, and the kind of its error."""

    kind: str


Named = Sequence[str] | Failure


class State(NamedTuple):
    """How to make a state, and what must be named in it: `path:line` by reviews, paths by a repair."""

    make: Callable[[Site], None]
    review: Named = ("old.py:1", "old.py:4", "staged.py:1", "new.py:1")
    diff: Named = ("old.py:4", "staged.py:1", "new.py:1")
    staged: Named = ("staged.py:1",)
    fix: Named = ("old.py", "staged.py", "new.py")
    told: Mapping[str, str] = {}  # by prompt: words that must be told besides

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def prompts(self) -> dict[str, Named]:
        return {
            "/review": self.review,
            "/review diff": self.diff,
            "/review staged": self.staged,
            "/fix diff": self.fix,
        }


NOTHING = ()
NEW = ("new.py:1",)
NEW_OR_OLD = ("old.py:1", "new.py:1")
NONE = Failure("no_repository")
BARE = Failure("bare_repository")
OF_ITS_OWN = "sub: another repository"
NO_NEW_LINES = "old.py: changed, but without new lines"
CONFLICT = "there are conflicts to resolve in old.py"


def both(words: str) -> dict[str, str]:
    """Words that are told of what has changed, and of what is staged."""
    return {"/review diff": words, "/review staged": words}


STATES = (
    State(no_repository, ("old.py:1",), NONE, NONE, NONE),
    State(
        *(empty_repository, NOTHING, NOTHING, NOTHING, NOTHING),
        {"/review diff": "Nothing has changed", "/review staged": "Nothing is staged"},
    ),
    State(bare_repository, BARE, BARE, BARE, BARE),
    State(nothing_changed, ("old.py:1",), NOTHING, NOTHING, NOTHING, {"/review diff": "Nothing has changed"}),
    State(only_touched, ("old.py:1",), NOTHING, NOTHING, NOTHING, {"/review diff": "Nothing has changed"}),
    State(first_staged, ("first.py:1",), ("first.py:1",), ("first.py:1",), ("first.py",)),
    State(
        first_staged_and_changed_again,
        ("first.py:1", "first.py:4"), ("first.py:1", "first.py:4"), ("first.py:1",), ("first.py",),
    ),
    State(first_untracked, ("first.py:1",), ("first.py:1",), NOTHING, ("first.py",)),
    *map(State, (usual, sha256_names, detached_head, linked_worktree, separate_git_directory, shallow_clone)),
    *map(State, (shared_clone, split_index, packed, another_owner, subdirectory)),
    State(commit_in_progress, ("old.py:1", "old.py:4"), ("old.py:4",), ("old.py:4",), ("old.py",)),
    State(merge_conflict, ("theirs.py:1",), ("theirs.py:1",), ("theirs.py:1",), ("theirs.py",), both(CONFLICT)),
    State(rebase_in_progress, ("theirs.py:1",), NOTHING, NOTHING, NOTHING, both(CONFLICT)),
    State(
        *(cherry_pick_in_progress, ("theirs.py:1",), ("theirs.py:1",), ("theirs.py:1",), ("theirs.py",)),
        both(CONFLICT),
    ),
    State(submodule_clean, told={"/review": OF_ITS_OWN, "/review diff": OF_ITS_OWN}),
    State(submodule_dirty, told={"/review": OF_ITS_OWN, "/review diff": OF_ITS_OWN}),
    State(submodule_with_a_commit, told={"/review": OF_ITS_OWN, "/review diff": OF_ITS_OWN}),
    State(submodule_new, told={"/review": OF_ITS_OWN, **both(OF_ITS_OWN)}),
    State(submodule_not_fetched, told={"/review": OF_ITS_OWN}),
    State(in_a_submodule),
    State(nested_clone, told=dict.fromkeys(("/review", "/review diff"), "clone: another repository")),
    State(rename_staged, ("renamed.py:1",), NOTHING, NOTHING, NOTHING, both("renamed.py: changed, but without")),
    State(rename_with_a_change, ("renamed.py:1", "renamed.py:4"), *[("renamed.py:4",)] * 2, ("renamed.py",)),
    State(delete_staged, NOTHING, NOTHING, NOTHING, NOTHING, both(NO_NEW_LINES)),
    State(deleted, NOTHING, NOTHING, NOTHING, NOTHING, {"/review diff": NO_NEW_LINES}),
    State(mode_changed, ("old.py:1",), NOTHING, NOTHING, NOTHING, both(NO_NEW_LINES)),
    State(modes_not_kept, NEW_OR_OLD, NEW, NOTHING, ("new.py",), {"/review staged": "Nothing is staged"}),
    State(intent_to_add, NEW_OR_OLD, NEW, NOTHING, ("new.py",)),
    State(
        staged_and_changed_again,
        ("old.py:1", "old.py:4", "old.py:5"), ("old.py:4", "old.py:5"), ("old.py:4",), ("old.py",),
    ),
    State(changed_in_the_same_second, ("old.py:1", "soon.py:1"), ("soon.py:1",), NOTHING, ("soon.py",)),
    State(staged_and_deleted, NOTHING, NOTHING, ("old.py:4",), NOTHING, {"/review diff": NO_NEW_LINES}),
    State(staged_and_reverted, ("old.py:1",), NOTHING, ("old.py:4",), NOTHING),
    State(removed_from_the_index, ("old.py:1",), ("old.py:1",), NOTHING, ("old.py",), both(NO_NEW_LINES)),
    State(
        ignored_files, ("old.py:1", "tracked.py:1", "tracked.py:4"), ("tracked.py:4",), NOTHING, ("tracked.py",)
    ),
    State(
        *(assumed_unchanged, ("old.py:1", "old.py:4"), NOTHING, NOTHING, NOTHING),
        {"/review diff": "old.py: Git was told not to look for changes in it"},
    ),
    State(
        *(work_tree_skipped, ("old.py:1", "old.py:4"), NOTHING, NOTHING, NOTHING),
        {"/review diff": "old.py: Git was told not to look for changes in it"},
    ),
    State(links_not_kept, NEW_OR_OLD, NEW, NOTHING, ("new.py",)),
    State(
        *(sparse_checkout, ("old.py:1", "in/near.py:1", "in/near.py:4"), ("in/near.py:4",), NOTHING),
        ("in/near.py",),
    ),
    State(
        *(sparse_index, ("old.py:1", "in/near.py:1", "in/near.py:4"), ("in/near.py:4",), NOTHING, ("in/near.py",))
    ),
    State(
        present_though_sparse,
        ("old.py:1", "in/near.py:1", "in/near.py:4", "out/far.py:1", "out/far.py:4"),
        ("in/near.py:4", "out/far.py:4"), NOTHING, ("in/near.py", "out/far.py"),
    ),
    State(
        *(symbolic_links, NEW_OR_OLD, NEW, NOTHING, ("new.py",)),
        {"/review diff": "same.py: not a text file", "/review staged": "link.py: changed, but without new lines"},
    ),
    State(
        odd_names,
        ("old.py:1", *(f"{kind} {name}:1" for kind in ("staged", "new") for name in ODD)),
        [f"{kind} {name}:1" for kind in ("staged", "new") for name in ODD],
        [f"staged {name}:1" for name in ODD],
        [f"{kind} {name}" for kind in ("staged", "new") for name in ODD],
    ),
    State(
        *(name_not_unicode, NEW_OR_OLD, NEW, NOTHING, ("new.py",)),
        dict.fromkeys(("/review", "/review diff"), "names are not Unicode"),
    ),
    State(large_binary, NEW_OR_OLD, NEW, NOTHING, ("new.py",)),
    State(
        *(file_turned_directory, ("old.py/inside.py:1",), ("old.py/inside.py:1",), NOTHING, ("old.py/inside.py",)),
        {"/review diff": NO_NEW_LINES},
    ),
    State(directory_turned_file, ("old.py:1",), NOTHING, NOTHING, NOTHING, {"/review diff": "place/inside.py"}),
    State(link_turned_file, ("old.py:1", "link.py:1"), ("link.py:1",), NOTHING, ("link.py",)),
    State(other_line_ends, ("ends.py:1", *State(usual).review), told={"/review diff": "ends.py: changed, but"}),
    State(line_ends_by_attribute, ("old.py:1", "ends.py:1", "ends.py:4"), ("ends.py:4",), NOTHING, ("ends.py",)),
    State(line_ends_by_setting, ("ends.py:1", *NEW_OR_OLD), NEW, NOTHING, ("new.py",)),
    State(changed_by_a_filter, NEW_OR_OLD, NEW, NOTHING, ("new.py",)),
)  # fmt: skip

# What users have in ~/.gitconfig; PROGRAM is one that tells when it is run.
CONFIGURATIONS = {
    "none": "",
    "mnemonic prefixes": "[diff]\n\tmnemonicPrefix = true\n",
    "no prefixes": "[diff]\n\tnoprefix = true\n",
    "names as they are": "[core]\n\tquotePath = false\n",
    "colours": "[color]\n\tui = always\n\tdiff = always\n",
    "another diff program": '[diff]\n\texternal = PROGRAM\n[diff "python"]\n\ttextconv = PROGRAM\n',
    "line ends of Windows": "[core]\n\tautocrlf = true\n\tsafecrlf = false\n",
    "untracked files hidden": "[status]\n\tshowUntrackedFiles = no\n\trelativePaths = false\n",
    "copies and another algorithm": "[diff]\n\trenames = copies\n\talgorithm = histogram\n\tcontext = 10\n",
    "pager": "[core]\n\tpager = PROGRAM\n[interactive]\n\tdiffFilter = PROGRAM\n[pager]\n\tdiff = PROGRAM\n",
    "file system monitor": "[core]\n\tfsmonitor = PROGRAM\n\tfsmonitorHookVersion = 2\n",
    "order of files": "[diff]\n\torderFile = PROGRAM\n\tstatGraphWidth = 1\n",
    "submodules hidden": "[diff]\n\tignoreSubmodules = all\n\tsubmodule = log\n[submodule]\n\trecurse = true\n",
    "many files": "[feature]\n\tmanyFiles = true\n[core]\n\tsplitIndex = true\n\tuntrackedCache = true\n",
    "any owner": "[safe]\n\tdirectory = *\n[core]\n\tcheckStat = minimal\n\ttrustctime = false\n",
}


@contextmanager
def made(state: State, at: Path, configuration: str, earlier: Site) -> Iterator[Site]:
    """A state of a repository, made by somebody with these settings."""
    site = Site(at, CONFIGURATIONS[configuration], earlier)
    with site.left:
        state.make(site)
        site.ran.unlink(missing_ok=True)
        yield site
