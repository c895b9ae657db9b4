"""The audit log: every record on its own line, in a chain that shows what was done to it, without secrets."""

import asyncio
import errno
import json
import os
import subprocess
import sys

import pytest
from patience import PATIENCE
from torture.host_audit import kills, records, share, tamper, tears, written

from dragoman.host.audit import AuditError, AuditLog, Redactor, shown, verified, verify
from dragoman.host.audit import log as audit
from dragoman.host.audit.chain import seal_path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "audit.jsonl"


# Writing


def test_a_record_is_one_line_of_printable_ascii(path):
    with AuditLog(path) as log:
        log.append({"event": "note", "text": 'a\nb\r\x1b[31m\x7f\x9b\u2028\u202e"}\ud800é漢', "n": float("nan")})
    data = path.read_bytes()
    assert data.count(b"\n") == 2
    assert all(32 <= byte < 127 or byte == 10 for byte in data)
    assert records(path)[1]["text"].startswith("a\nb\r\x1b[31m")


def test_a_log_can_only_be_read_by_its_user(path):
    before = os.umask(0)  # a mask that takes nothing away
    try:
        written(path, 1)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert seal_path(path).stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    written(path, 1)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_or_a_pipe_in_the_place_of_the_log_is_refused(path, tmp_path):
    path.parent.mkdir()
    (tmp_path / "elsewhere").write_text("mine")
    path.symlink_to(tmp_path / "elsewhere")
    with AuditLog(path) as log, pytest.raises(AuditError):
        log.append({"event": "note"})
    assert (tmp_path / "elsewhere").read_text() == "mine"
    path.unlink()
    os.mkfifo(path)
    with AuditLog(path) as log, pytest.raises(AuditError, match="plain file"):
        log.append({"event": "note"})


def test_records_name_the_one_before_them(path):
    written(path, 5)
    lines = records(path)
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["prev"] for line in lines[1:]] == [line["hash"] for line in lines[:-1]]
    assert verify(path) == []


async def test_what_allows_something_is_on_the_disk_before_it_counts(path, monkeypatch):
    synced = []
    monkeypatch.setattr(audit.os, "fsync", lambda fd, real=os.fsync: (synced.append(fd), real(fd)))
    with AuditLog(path) as log:
        await log.record({"event": "decision", "decision": "deny"})
        synced.clear()
        await log.record({"event": "decision", "decision": "deny"})
        assert not synced
        await log.record({"event": "decision", "decision": "allow"})
        assert synced
        synced.clear()
        await log.record({"event": "exit"}, durable=True)
        assert synced


async def test_a_hundred_records_at_once_are_a_hundred_records(path):
    with AuditLog(path) as log:
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(log.record({"event": "note", "number": number}))
    assert sorted(record["number"] for record in records(path)[1:]) == list(range(100))
    assert verify(path) == []


def test_the_names_the_log_uses_itself_cannot_be_taken(path):
    with AuditLog(path) as log:
        for event in ({"event": "repaired"}, {"event": "start"}, {"event": "a", "hash": "x"}, {"prev": "x"}):
            with pytest.raises(ValueError, match="reserved for the log"):
                log.append(event)
    assert not path.exists()


def test_a_huge_record_is_cut_and_still_sound(path):
    huge = {f"field{i}": ["\u202e" * 10_000] * 300 for i in range(300)}
    deep = {}
    for _ in range(200):
        deep = {"deeper": deep}
    with AuditLog(path) as log:
        log.append({"event": "note", "text": "x" * 1_000_000})
        log.append({"event": "note", "argv": ["a"] * 10_000, "deep": deep, "odd": object(), "big": 10**30})
        log.append({"event": "note", **huge})
        log.append({"event": "note", **{f"f{i}": "\U0001f600" * 4000 for i in range(256)}})
    assert all(len(line) <= 256 * 1024 for line in path.read_bytes().splitlines())
    assert len(records(path)) == 5
    assert verify(path) == []


# Sharing


def test_two_processes_append_to_one_chain(tmp_path):
    count, problems = share(tmp_path, 3, 40)
    assert (count, problems) == (121, [])


def test_a_process_and_its_fork_append_to_one_chain(path):
    code = """
import os, sys
from dragoman.host.audit import AuditLog
log = AuditLog(sys.argv[1])
log.append({"event": "note"})
child = os.fork()
for number in range(60):
    log.append({"event": "note", "number": number})
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=PATIENCE)
    assert len(records(path)) == 122
    assert verify(path) == []


def test_a_log_that_was_moved_away_is_begun_anew_in_the_same_chain(path):
    with AuditLog(path) as log:
        for number in range(4):
            log.append({"event": "note", "number": number})
            path.rename(path.with_name(f"audit.jsonl.{number}"))
    last = path.with_name("audit.jsonl.3")
    seal_path(path).rename(seal_path(last))
    assert records(last)[0] | {"time": ""} == records(last)[0] | {"time": "", "event": "start", "continues": 6}
    assert verify(last) == []
    assert verified(last)[0][0].startswith("8 records")


def test_a_missing_older_part_is_named(path):
    with AuditLog(path) as log:
        log.append({"event": "note"})
        path.rename(path.with_name("audit.jsonl.1"))
        log.append({"event": "note"})
    assert verify(path) == []
    path.with_name("audit.jsonl.1").rename(path.with_name("gone"))
    assert [problem.what for problem in verify(path)] == ["records 1 to 2 are in an older file, which is not here"]
    assert verify(path.with_name("gone"), path) == []


def test_a_log_emptied_in_place_is_found(path):
    written(path, 3)
    os.truncate(path, 0)
    assert "records 1 to 4" in verify(path)[0].what
    written(path, 1)
    assert "records 1 to 4" in verify(path)[0].what


def test_a_log_held_by_somebody_else_is_an_error_after_a_while(path, monkeypatch):
    import fcntl

    from dragoman.host import disk

    monkeypatch.setattr(disk, "PATIENCE", 0.05)
    written(path, 1)
    with open(seal_path(path)) as other, AuditLog(path) as log:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match="another process"):
            log.append({"event": "note"})
        fcntl.flock(other, fcntl.LOCK_UN)
        log.append({"event": "note"})
    assert verify(path) == []


# Failing


def test_a_full_disk_is_an_error_and_leaves_the_chain_sound(path):
    code = """
import resource, sys
from dragoman.host.audit import AuditError, AuditLog
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
failed = 0
with AuditLog(sys.argv[1]) as log:
    log.append({"event": "note"})
    for size in range(700, 1400):  # the limit falls on every byte of a record
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            log.append({"event": "decision", "decision": "allow", "size": size})
        except AuditError:
            failed += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append({"event": "note"})
print(failed)
"""
    result = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True)
    assert int(result.stdout) > 500
    assert verify(path) == []
    assert [record["event"] for record in records(path)].count("repaired") == 0


def test_after_a_failed_sync_nothing_more_is_written(path, monkeypatch):
    with AuditLog(path) as log:
        log.append({"event": "decision", "decision": "allow"})

        def fail(fd):
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(audit.os, "fsync", fail)
            with pytest.raises(AuditError, match="cannot be written"):
                log.append({"event": "decision", "decision": "allow"})
        with pytest.raises(AuditError, match="disk failed"):
            log.append({"event": "decision", "decision": "deny"})


def test_a_torn_line_is_kept_and_told_of_wherever_it_was_torn(tmp_path):
    for size, problems, repairs in tears(tmp_path):
        assert problems == [], size
        assert repairs == (size > 0), size


@pytest.mark.parametrize("added", [b"x", b"\n", b"\0\0\0", b'{"seq":9', b'{"seq":5,"time":"2026\nx'])
def test_what_no_crash_can_have_left_at_the_end_is_found_though_the_log_went_on(path, added):
    written(path, 3)
    with path.open("ab") as log:
        log.write(added)
    written(path, 1)
    assert any("torn" in problem.what for problem in verify(path))


def test_a_torn_line_that_is_changed_afterwards_is_found(path):
    written(path, 2)
    with open(path, "ab") as file:
        file.write(b'{"seq":4,"time":"20')
    written(path, 1)
    assert verify(path) == []
    path.write_bytes(path.read_bytes().replace(b'{"seq":4,"time":"20\n', b'{"seq":4,"time":"21\n'))
    assert [problem.line for problem in verify(path)] == [4, 5]


def test_garbage_instead_of_a_log_is_found_also_after_it_was_written_on(path):
    written(path, 3)
    path.write_bytes(b"\x00" * 500)
    assert verify(path)
    written(path, 2)
    assert verify(path)
    assert len(records(path)) == 3


def test_a_log_whose_very_first_write_was_torn_goes_on(path):
    path.parent.mkdir()
    path.write_bytes(b'{"seq":1,"ti')
    seal_path(path).write_bytes(b"%020d %s\n" % (0, b"0" * 64))
    written(path, 2)
    assert verify(path) == []
    assert records(path)[0]["torn"]["bytes"] == 12


def test_killing_writers_loses_nothing_and_breaks_no_chain(tmp_path):
    acknowledged, lost, problems = kills(tmp_path, 5)
    assert acknowledged > 5
    assert (lost, problems) == (0, [])


# Tampering


def test_tampering_is_found_at_once_and_after_the_log_was_written_on(tmp_path):
    assert tamper(tmp_path, 240) == []


def test_every_changed_byte_is_found(path):
    written(path, 2)
    original = path.read_bytes()
    for place in range(len(original)):
        changed = bytearray(original)
        changed[place] ^= 0x01
        path.write_bytes(changed)
        assert verify(path), place


def test_a_removed_line_is_named(path):
    written(path, 9)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[6:]))
    (problem,) = verify(path)
    assert (problem.line, problem.what) == (5, "records 5 to 6 are missing before this line")
    assert str(problem) == f"{path}:5: records 5 to 6 are missing before this line"


def test_a_changed_line_is_named(path):
    written(path, 9)
    path.write_bytes(path.read_bytes().replace(b'"test","5"', b'"test","6"'))
    assert [(problem.line, problem.what) for problem in verify(path)] == [(7, "this line was changed")]


def test_moved_lines_are_named(path):
    written(path, 9)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4], lines[5] = lines[5], lines[4]
    path.write_bytes(b"".join(lines))
    assert [problem.line for problem in verify(path)] == [5, 6, 7]


@pytest.mark.parametrize("kept", [1, 5, 9])
def test_a_missing_end_is_named(path, kept):
    written(path, 9)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))
    assert [problem.what for problem in verify(path)] == [f"the end is missing: records {kept + 1} to 10"]
    written(path, 3)
    assert any("had come to record 10" in problem.what for problem in verify(path))


def test_a_missing_beginning_is_named(path):
    written(path, 9)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[3:]))
    assert verify(path)[0].what == "the beginning is missing: the first record here is number 4"


def test_a_rewritten_end_is_found_by_its_seal(path, tmp_path):
    written(path, 9)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:8]))
    forged = AuditLog(tmp_path / "forged.jsonl")
    (tmp_path / "forged.jsonl").write_bytes(b"".join(lines[:8]))
    seal_path(tmp_path / "forged.jsonl").write_text(f"{8:020d} {json.loads(lines[7])['hash']}\n")
    with forged:
        for _ in range(2):
            forged.append({"event": "innocent"})
    path.write_bytes((tmp_path / "forged.jsonl").read_bytes())
    assert [problem.what for problem in verify(path)] == [
        "this is not the record that was written: its seal differs"
    ]


@pytest.mark.parametrize("spoil", [b"", b"rubbish", b"%020d %s\n" % (10, b"f" * 64), None])
def test_a_spoilt_seal_is_found_also_after_it_was_written_anew(path, spoil):
    written(path, 9)
    if spoil is None:
        seal_path(path).unlink()
    else:
        seal_path(path).write_bytes(spoil)
    assert verify(path)
    written(path, 1)
    assert verify(path)


def test_a_log_that_is_not_there_is_a_problem(path):
    assert "cannot be read" in verify(path)[0].what


# Showing


def test_what_is_printed_is_readable_and_safe(path):
    with AuditLog(path) as log:
        log.append({"event": "decision", "decision": "deny", "argv": ["rm", "\x1b[2J\u202e"], "why": "no"})
    with open(path, "ab") as file:
        file.write(b"rubbish\n")
    start, record, rubbish = shown(path)
    assert "start" in start
    assert "decision=deny" in record
    assert "\\u{202e}" in record
    assert record.isprintable()
    assert rubbish == "line 3 is not what was written"


def test_a_log_that_cannot_be_read_is_said_so(path):
    assert list(shown(path)) == [f"{path}: the log cannot be read: No such file or directory"]


def test_the_verdict_counts_the_records_and_gives_the_last_hash(path):
    written(path, 2)
    lines, is_sound = verified(path)
    assert is_sound
    assert lines == [f"3 records as they were written; the last hash is {records(path)[-1]['hash']}"]
    os.truncate(path, 100)
    lines, is_sound = verified(path)
    assert not is_sound
    assert lines[-1].endswith("this log is not what was written")


# Secrets


CANARY = "c4n4ry-{}-Zx9-{}"


def canaries(count):
    """Secrets that look like nothing, each known only by where it comes in."""
    return [CANARY.format(number, f"{number * 7919:x}") for number in range(count)]


def test_no_secret_reaches_the_log_by_any_way(path):
    known = canaries(200)
    ways = [
        lambda c: {"env": {"API_KEY": c, "GITHUB_TOKEN": c, "DB_PASSWORD": f"{c} with blanks", "MY_SECRET": c}},
        lambda c: {"argv": ["curl", "-H", f"Authorization: Bearer {c}", "https://example.com"]},
        lambda c: {"argv": ["login", "--token", c, "--password", c, f"--api-key={c}"]},
        lambda c: {"argv": ["/bin/sh", "-c", f"API_TOKEN={c} make; export DB_PASSWORD='{c} {c}'"]},
        lambda c: {"url": f"https://user:{c}@example.com/"},
        lambda c: {"headers": {"Authorization": f"Basic {c}", "Cookie": f"session={c}", "X-Api-Key": c}},
        lambda c: {"arguments": {"nested": [{"client_secret": c}, {"credentials": {"a": c}}]}},
        lambda c: {"text": f'{{"password": "{c}", "token":"{c}"}}'},
        lambda c: {"text": f"-----BEGIN RSA PRIVATE KEY-----\n{c}\n-----END RSA PRIVATE KEY-----"},
        lambda c: {"text": f"sk-ant-{c}xxxxxxxxxxxxxxxx ghp_{c.replace('-', '')}xxxxxxxxxxxxxxxx"},
    ]
    with AuditLog(path) as log:
        for number, canary in enumerate(known):
            log.append({"event": "note", **ways[number % len(ways)](canary)})
    data = path.read_text()
    assert [canary for canary in known if canary in data or canary.replace("-", "") in data] == []


def test_a_known_secret_is_taken_out_wherever_it_stands(path):
    import base64
    from urllib.parse import quote

    secret = "correct horse/battery+staple"
    coded = base64.b64encode(secret.encode()).decode()
    log = AuditLog(path, Redactor([secret]))
    with log:
        log.append({"event": "note", "a": f"x{secret}y", "b": [quote(secret), {"c": coded}], secret: 1})
        log.append({"event": "note", "a": "x" * 15_990 + secret + "x" * 20_000})
    data = path.read_text()
    for form in (secret, quote(secret), coded.rstrip("="), "correct", "staple"):
        assert form not in data


def test_secrets_of_the_environment_are_taken_out_and_nothing_else_of_it(path, monkeypatch):
    monkeypatch.setenv("X_TOKEN", "in-the-env-0")
    monkeypatch.setenv("MAX_TOKENS", "123456")
    monkeypatch.setenv("SSH_KEY", "/home/ada/id")
    monkeypatch.setenv("PLAIN", "plain-value")
    with AuditLog(path) as log:
        log.append({"event": "note", "a": "in-the-env-0 123456 /home/ada/id plain-value"})
    assert "[redacted] 123456 /home/ada/id plain-value" in path.read_text()


def test_innocent_text_stays(path):
    texts = [
        "npm test -- --grep monkey",
        "git commit -m 'fix: the keyboard'",
        "a=1 b=2",
        "https://example.com/a:b@c",
    ]
    redactor = Redactor(["abc"])  # too short to be told from text
    assert [redactor.text(text) for text in texts] == texts
