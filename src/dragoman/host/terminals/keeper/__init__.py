"""A program of its own, started by `children.py`: runs commands, and none of what they start outlives its owner.

    keeper              one a host; ends what is left when a supervisor was killed
    └─ supervisor       one a command; adopts whatever the command leaves behind, daemons included
       └─ command

Why a program of its own: only a parent learns how a child ended, only a parent that adopts orphans finds a daemon
that left its process group, only a process that outlives the host can clean up after `kill -9` of it, and a small
process without threads can fork safely and fast.  It therefore imports the standard library and nothing else.

To the keeper goes one byte with a descriptor for each command: the supervisor's link.  Over the link go more, some
with each byte MORE: the command's stdin, stdout, stderr and directory, and what else the spec counts; then the
spec (`CommandSpec`), as a line of JSON, and then single bytes: a signal's number, or 0 to end everything.  Back
come lines of JSON: `group` with the path of the command's control group, where it has one; `pid` or `failed`, then
`exit`, and `left` with the processes that cannot be ended, when all is over.  Owner gone, link closed: all are
killed.

A command can stop and kill both of them.  So the keeper continues stopped supervisors and ends what killed ones
leave behind.  The host waits for neither without an end, and finds a command's processes by their control group,
where there is one (`control_groups`), and by a mark they carry.
"""
