"""The environment commands get: by allow-list, never the host's own as it is.

A secret in the host's environment reaches a command only when it is named in full.  What an agent sets itself is
passed on, but `dangerous` tells which of it can change what runs, so that somebody is asked.
"""

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

INHERITED = (
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
)
SECRET = ("*KEY*", "*SECRET*", "*TOKEN*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*")

# Each of these has a loader, an interpreter, a shell or a tool run something else than what was shown.
DANGEROUS = (
    *("LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "MALLOC_*"),
    *("PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_*", "SHELLOPTS", "BASHOPTS", "PS[0-4]", "PROMPT_COMMAND"),
    *("CDPATH", "ZDOTDIR", "FPATH", "KSH_ENV", "XDG_CONFIG_*", "XDG_DATA_*", "TERMINFO*", "TERMCAP"),
    *("PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "LUA_*", "PHP*"),
    *("NODE_*", "NPM_CONFIG_*", "YARN_*", "BUN_*", "DENO_*", "COREPACK_*"),
    *("CLASSPATH", "*JAVA_*OPTIONS", "JAVA_HOME", "JAVA_OPTS", "MAVEN_*", "MVN_*", "GRADLE_*"),
    *("DOTNET_*", "CORECLR_*", "COMPLUS_*", "GO[BEFMPRT]*", "CGO_*", "CARGO*", "RUST*"),
    *("PIP_*", "UV_*", "CONDA_*", "VIRTUAL_ENV"),
    *("CC", "CXX", "CPP", "LD", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "GCC_*", "COMPILER_PATH"),
    *("CMAKE_*", "MAKEFLAGS", "MAKEFILES", "MFLAGS", "CONFIG_SITE", "PKG_CONFIG*", "CCACHE_*", "SCCACHE_*"),
    *("GIT_*", "HG*", "SVN_*", "SSH_*", "*_ASKPASS", "GPG_*", "GNUPGHOME", "DOCKER_*", "KUBECONFIG", "KUBE_*"),
    *("EDITOR", "VISUAL", "*_EDITOR", "PAGER", "*PAGER", "BROWSER", "LESS", "LESSOPEN", "LESSCLOSE", "MANOPT"),
    *("*_PROXY", "SSL_CERT_*", "CURL_*", "REQUESTS_CA_BUNDLE", "OPENSSL_*", "*_BASE_URL", "*_ENDPOINT"),
    *("TAR_OPTIONS", "RSYNC_*", "WGETRC", "NETRC", "VIMINIT", "EXINIT", "VIMRUNTIME", "EMACS*", "INPUTRC", "TMUX*"),
)
HARMLESS = (
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED"),
    *("PYTHONFAULTHANDLER", "NODE_ENV", "NODE_NO_WARNINGS", "RUST_BACKTRACE", "RUST_LOG", "GOMAXPROCS"),
    *("CARGO_TERM_COLOR",),
)
EXPORTED_FUNCTION = "()"  # a value that old shells run


def environment(
    set_by_agent: Iterable[tuple[str, str]] = (),
    *,
    inherit: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a command gets: the allowed part of ours, then what the agent sets.

    `inherit` adds names to the allow-list, `*` standing for any letters; a secret has to be named in full.
    """
    ours = os.environ if environ is None else environ
    named = tuple(inherit)
    kept = {
        name: value
        for name, value in ours.items()
        if _inherited(name, named) and not value.startswith(EXPORTED_FUNCTION)
    }
    return {**kept, **dict(set_by_agent)}


def dangerous(set_by_agent: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The names among these that can change what runs, in the order they were given."""
    found = (name for name, value in set_by_agent if _is_dangerous(name, value))
    return tuple(dict.fromkeys(found))


def _inherited(name: str, named: tuple[str, ...]) -> bool:
    if name in named:
        return True
    return _matches(name, (*INHERITED, *named)) and not _matches(name.upper(), SECRET)


def _is_dangerous(name: str, value: str) -> bool:
    # npm and the proxies are read in either case.
    known = _matches(name.upper(), DANGEROUS) and name.upper() not in HARMLESS
    return known or value.startswith(EXPORTED_FUNCTION)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
