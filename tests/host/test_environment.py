"""What commands get of our environment, and which variables of an agent's have to be asked about."""

import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.terminals.environment import dangerous, environment

USUAL = {
    "HOME": "/home/ada",
    "LOGNAME": "ada",
    "PATH": "/usr/bin",
    "SHELL": "/bin/sh",
    "TERM": "xterm",
    "USER": "ada",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LC_TIME": "C",
    "TZ": "UTC",
    "TMPDIR": "/var/tmp",
}
PLANTED = [
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN", "PYPI_TOKEN", "HF_TOKEN"),
    *("DATABASE_URL", "PGPASSWORD", "MYSQL_PWD", "REDIS_URL", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO"),
    *("DOCKER_HOST", "KUBECONFIG", "VAULT_TOKEN", "CONSUL_HTTP_TOKEN", "AZURE_CLIENT_SECRET", "SLACK_WEBHOOK"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "STRIPE_SECRET", "TWILIO_AUTH", "SENTRY_DSN", "COOKIE", "JWT", "SESSION"),
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS"),
    *("BASH_ENV", "ENV", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_DIR", "GIT_SSH_COMMAND", "EDITOR"),
    *(
        "PAGER",
        "HTTP_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "NO_PROXY",
        "DISPLAY",
        "XAUTHORITY",
        "DBUS_SESSION_BUS_ADDRESS",
    ),
    *("VIRTUAL_ENV", "OLDPWD", "CDPATH", "MAIL", "HOME_KEY", "PATHS", "LC_TOKEN", "LC_SECRET_KEY", "TERM_PROGRAM"),
]
CAN_CHANGE_WHAT_RUNS = [
    *(
        "LD_PRELOAD",
        "LD_AUDIT",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "NODE_OPTIONS",
    ),
    *("NODE_PATH", "BASH_ENV", "ENV", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_GLOBAL", "PATH", "HOME"),
    *("PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "EDITOR", "PAGER", "GIT_PAGER", "LESSOPEN"),
    *("SSH_ASKPASS", "npm_config_script_shell", "IFS", "PROMPT_COMMAND", "MAKEFLAGS", "https_proxy", "GCONV_PATH"),
]


def test_the_usual_variables_are_inherited() -> None:
    assert environment(environ=USUAL) == USUAL


def test_of_sixty_planted_variables_none_is_inherited() -> None:
    assert len(PLANTED) >= 60
    assert environment(environ={**USUAL, **dict.fromkeys(PLANTED, "planted")}) == USUAL


def test_ours_is_the_process_environment_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_PAPER", "A4")
    monkeypatch.setenv("PLANTED", "1")
    assert environment()["LC_PAPER"] == "A4"
    assert "PLANTED" not in environment()
    assert environment()["PATH"] == os.environ["PATH"]


def test_a_named_variable_is_inherited_even_when_it_is_a_secret() -> None:
    ours = {"API_KEY": "1", "CI": "true"}
    assert environment(inherit=["API_KEY", "CI"], environ=ours) == ours


def test_a_pattern_names_no_secrets() -> None:
    ours = {"CARGO_HOME": "/c", "CARGO_REGISTRY_TOKEN": "t", "cargo_api_key": "k"}
    assert environment(inherit=["CARGO_*", "cargo_*"], environ=ours) == {"CARGO_HOME": "/c"}


def test_a_value_that_old_shells_would_run_is_dropped() -> None:
    assert environment(inherit=["X"], environ={"TERM": "() { :;}; echo", "X": "() {", "TZ": "UTC"}) == {"TZ": "UTC"}


def test_what_the_agent_sets_comes_last() -> None:
    assert environment([("TERM", "dumb"), ("CI", "1")], environ=USUAL) == {**USUAL, "TERM": "dumb", "CI": "1"}


@pytest.mark.parametrize("name", CAN_CHANGE_WHAT_RUNS)
def test_a_variable_that_can_change_what_runs_is_dangerous(name: str) -> None:
    assert dangerous([("CI", "1"), (name, "x")]) == (name,)


@pytest.mark.parametrize("name", ["CI", "DEBUG", "NO_COLOR", "FORCE_COLOR", "NODE_ENV", "PYTHONUNBUFFERED", "PORT"])
def test_an_ordinary_variable_is_not_dangerous(name: str) -> None:
    assert dangerous([(name, "1")]) == ()


def test_an_exported_function_is_dangerous_under_any_name() -> None:
    assert dangerous([("CI", "() { evil; }")]) == ("CI",)


def test_dangerous_names_keep_their_order_and_come_once() -> None:
    assert dangerous([("PATH", "a"), ("LD_PRELOAD", "b"), ("PATH", "c")]) == ("PATH", "LD_PRELOAD")


@given(st.dictionaries(st.text(string.ascii_uppercase + "_", min_size=1), st.text(max_size=5)))
def test_nothing_but_the_allowed_is_ever_inherited(ours: dict[str, str]) -> None:
    inherited = environment(environ=ours)
    assert all(name in USUAL or name.startswith("LC_") for name in inherited)
    assert not any("KEY" in name or "TOKEN" in name or "SECRET" in name for name in inherited)
