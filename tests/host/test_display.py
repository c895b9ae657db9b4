"""What is shown for approval is what it is."""

import json
import subprocess
import sys
import time
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from torture.host_display import SEQUENCES, is_safe, read_back, show_all, strings

from dragoman.host.addresses import host_warning
from dragoman.host.display import COMMAND_LIMIT, is_elided, quoted, scripts, shortened, shown_command, visible


def test_nothing_shown_is_hidden_and_everything_can_be_read_back():
    assert show_all(2500) == 2500


@pytest.mark.parametrize("text", SEQUENCES)
def test_a_terminal_sequence_is_written_out(text):
    shown = visible(f"rm {text} x", limit=10_000)
    assert is_safe(shown)
    assert shown.isprintable()
    assert read_back(shown) == f"rm {text} x"


def test_every_character_of_the_planes_that_are_in_use_is_shown_safely():
    for first in (*range(0, 0x20000, 0x400), *range(0xE0000, 0xE1000, 0x400), 0xF0000, 0x10FC00):
        text = "".join(map(chr, range(first, first + 0x400)))
        assert is_safe(visible(text, limit=100_000)), hex(first)


def test_plain_text_stays_as_it_is():
    for text in ("npm test", "grüße, 世界, Ελλάδα", "a\\b", "{x}", "C:\\users", "e\u0301"):
        assert visible(text) == text


def test_a_text_cannot_pretend_to_have_been_written_out():
    assert visible("\\u{202e}") == "\\u{5c}u{202e}"
    assert visible("⟨… 9 characters left out …⟩").startswith("\\u{27e8}")
    assert not is_elided(visible("⟨… 9 characters left out …⟩"))


def test_blanks_that_push_the_rest_out_of_sight_are_counted():
    assert visible("ls" + " " * 300 + "; rm -rf ~") == "ls⟨\u00d7300⟩; rm -rf ~"
    assert visible("ls" + "\t" * 9 + "x") == "ls⟨\\u{9}\u00d79⟩x"
    assert visible("ls" + " " * 8 + "x") == "ls" + " " * 8 + "x"


def test_a_lone_accent_does_not_sit_on_what_stands_before_it():
    assert visible("\u0338=") == "\\u{338}="
    assert visible("a" + "\u0301" * 6).count("\\u{301}") == 2


def test_one_line_stays_one_line_unless_lines_are_wanted():
    text = "a\n            deep\r\n\tb" + "\n" * 30 + "c"
    assert visible(text).isprintable()
    assert visible(text, lines=True) == "a\n            deep\\u{d}\n\tb⟨\\u{a}\u00d730⟩\nc"
    assert visible("a" + " " * 60 + "b", lines=True) == "a⟨\u00d760⟩b"
    assert visible(" " * 60 + "b", lines=True) == "⟨\u00d760⟩b"


@pytest.mark.parametrize("size", [4001, 5000, 70_000, 1_000_000])
def test_a_long_text_loses_its_middle_and_never_its_end(size):
    text = "echo " + "x" * size + "; rm -rf ~"
    shown = visible(text)
    assert shown.startswith("echo xxx")
    assert shown.endswith("x; rm -rf ~")
    assert is_elided(shown)
    assert len(shown) < 4100
    left_out = int(shown.partition("⟨… ")[2].partition(" ")[0])
    assert left_out == len(text) - (len(shown) - len(f"⟨… {left_out} characters left out …⟩"))


def test_the_end_of_a_long_text_full_of_hidden_characters_is_shown():
    shown = visible("\u200b\u200c" * 50_000 + "; rm -rf ~")
    assert shown.endswith("; rm -rf ~")
    assert is_safe(shown)
    assert not shown.partition("⟨… ")[0].endswith(("\\", "\\u", "\\u{"))


def test_showing_a_huge_text_takes_no_time_to_speak_of():
    began = time.process_time()
    visible("\u202e\u202d" * 5_000_000)
    assert time.process_time() - began < 1


# Commands


def test_a_command_is_shown_word_by_word():
    shown = shown_command(["npm", "run", "a b", "it's", "", "--x=1"])
    assert shown == "npm run 'a b' 'it'\\''s' '' --x=1"


def test_a_command_shows_its_shell_its_variables_and_its_directory():
    shown = shown_command(["/bin/sh", "-c", "a | b"], [("CI", "1"), ("LD_PRELOAD", "x y")], "/evil/a b", shell=True)
    first, shell, variables, directory = shown.splitlines()
    assert first == "/bin/sh -c 'a | b'"
    assert "shell" in shell
    assert variables == "with CI=1 LD_PRELOAD='x y'"
    assert directory == "in '/evil/a b'"


def test_no_word_can_pretend_to_be_a_variable_or_a_directory():
    assert shown_command(["a", "\nin /safe"], cwd="/b").splitlines() == ["a '\\u{a}in /safe'", "in /b"]
    assert shown_command(["a"], [("X", "1\nin /safe")], "/b").splitlines()[1] == "with X='1\\u{a}in /safe'"


def test_what_a_shell_would_make_of_a_shown_command_is_the_command():
    argv = ["printf", "%s\\n", "a b", "$HOME", "`id`", "it's", 'say "x"', "*", "\\", "-n", ";", "&&", "#", "~", "!"]
    out = subprocess.run(["/bin/sh", "-c", shown_command(argv)], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == argv[2:]


def test_different_commands_are_shown_differently():
    words = [
        "a",
        "b",
        "a b",
        "'",
        "''",
        "a'",
        "\\",
        "\\'",
        " ",
        "",
        "\n",
        "\\n",
        "\\u{a}",
        "=",
        "A=b",
        "⟨",
        "\u200b",
    ]
    commands = [(), *((one,) for one in words), *((one, two) for one in words for two in words)]
    assert len({shown_command(argv) for argv in commands if argv}) == len(commands) - 1


def test_the_end_of_a_command_is_shown_however_long_it_is():
    for argv in (["sh", "-c", "x" * 100_000 + "; rm -rf ~"], ["echo", *["word"] * 20_000, "rm -rf ~"]):
        shown = shown_command(argv)
        assert is_elided(shown)
        assert shown.rstrip("'").endswith("rm -rf ~")
        assert len(shown) < 20_000
    assert quoted("x" * 9000, limit=1000).endswith("xxx'")


# Hosts


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://xn--pple-43d.com/login", "\u0430pple.com"),
        ("https://\u0430pple.com/", "CYRILLIC"),
        ("https://\u0430pple.com/", "xn--pple-43d.com"),
        ("https://example.com@evil.example/", "evil.example"),
        ("https://example.com:443@evil.example/", "evil.example"),
        ("https://example.com\\@evil.example/", "alike"),
        ("https://exam\tple.com/", "alike"),
        ("https://exa\x00mple.com/", "alike"),
        ("https://example.com:99999/", "alike"),
        ("https://[::1/", "alike"),
        ("http://2130706433/", "unusual"),
        ("http://0x7f.1/", "unusual"),
        ("http://0177.0.0.1/", "unusual"),
        ("http://127.1/", "unusual"),
        ("https://-a.example/", "not a host name"),
        ("https://a..example/", "not a host name"),
        ("https:///path", "alike"),
    ],
)
def test_a_misleading_host_is_warned_of(url, says):
    warning = host_warning(url)
    assert warning is not None
    assert says in warning
    assert is_safe(warning)


@pytest.mark.parametrize(
    "url",
    ["https://example.com/", "http://localhost:8080", "http://127.0.0.1/", "http://[::1]:80/", "a_b.example.co.uk"],
)
def test_a_plain_host_is_not(url):
    assert host_warning(url) is None


def test_letters_are_named_by_their_scripts():
    assert scripts("\u0441at") == ["CYRILLIC", "LATIN"]


def test_the_strings_of_the_experiment_are_many_and_hold_every_control_and_format_character():
    made = list(strings(2500))
    assert len(made) == 2500
    hidden = {chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) in ("Cc", "Cf")}
    assert hidden <= set("".join(made))


class Counting(Sequence[str]):
    """Very many words, which counts how many of them somebody looked at."""

    seen = 0

    def __len__(self) -> int:
        return 200_000

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError
        self.seen += 1
        return f"it's word {index}"


def test_of_very_many_words_only_those_that_are_shown_are_looked_at() -> None:
    words = Counting()
    shown = shown_command(words)
    assert is_elided(shown)
    assert len(shown) <= COMMAND_LIMIT
    assert shown.startswith("'it'\\''s word 0' ")
    assert shown.endswith("'it'\\''s word 199999'")
    assert words.seen < 2000


@pytest.mark.parametrize(
    "value", ["x" * 101, ["a"] * 1000, {"k": "v" * 200, "l": 1}, {str(n): n for n in range(1000)}, [["x" * 60] * 2]]
)
def test_a_value_is_cut_before_it_is_written_out(value: Any) -> None:
    cut, is_whole = shortened(value, 100)
    assert not is_whole
    assert len(json.dumps(cut)) < 1000


def test_a_short_value_stays_as_it_is() -> None:
    value = {"a": [1, "xy", None, True, 1.5], "b": {}}
    assert shortened(value, 100) == (value, True)


def test_a_value_too_deep_to_be_shown_is_cut() -> None:
    value: Any = "x"
    for _ in range(150):
        value = [value]
    cut, is_whole = shortened(value)
    assert not is_whole
    assert json.dumps(cut).count("[") == 100
