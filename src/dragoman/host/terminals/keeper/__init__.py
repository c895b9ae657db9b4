"""A separate program, started by `children.py`: runs commands, whose processes never outlive their owner.

    keeper              one per host; ends the processes that remain when a supervisor was killed
    └─ supervisor       one per command; adopts the processes that the command leaves behind, daemons included
       └─ command

Reasons for a separate program: only a parent learns how a child ended; only a parent that adopts orphans finds a
daemon that left its process group; only a process that outlives the host can clean up after `kill -9` of the host;
and a small process without threads can fork safely and fast.  It therefore imports the standard library only.

For each command, the keeper is sent one byte with a descriptor: the supervisor's link.  Over the link, the host
sends further descriptors, some with each byte MORE (the command's stdin, stdout, stderr and directory, and those
that the spec counts); then the spec (`CommandSpec`) as a line of JSON; then single bytes, each a signal's number,
or 0 to end everything.  The supervisor answers with lines of JSON: `group` with the path of the command's control
group, if it has one; `pid` or `failed`; then `exit`; and at the end `left` with the processes that cannot be
ended.  When the owner ends or the link is closed, all processes are killed.

A command can stop and kill both the keeper and the supervisor.  So the keeper continues stopped supervisors and
ends the processes that killed ones leave behind.  The host waits for neither without a limit, and finds a command's
processes by their control group, if there is one (`control_groups`), and by a mark that they carry.
"""
