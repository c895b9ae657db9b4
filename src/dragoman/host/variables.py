"""Classifies variables: dangerous ones change the programs that run or are trusted, others are harmless or secret.

A variable is dangerous by its family (all that git, Python or the loader read), or by its meaning: names consist of
words, and some words say that the value names a program, code, settings, a place or a trusted party.  So unknown
programs are covered too, as far as they name their variables like others.
"""

import functools
import os
import re
from collections.abc import Iterable
from fnmatch import translate

# All variables that one program or library reads.
_FAMILIES = {
    "the loader, the C library, memory, name resolution": """
        LD LD_* DYLD_* GLIBC_* GCONV_* MALLOC_* HOSTALIASES LOCALDOMAIN RESOLV_* RES_*
    """,
    "shells, terminals, where the user's files are": """
        HOME PWD TMP TEMP IFS ENV BASH* SHELLOPTS PS[0-4] ZDOTDIR KSH_ENV FCEDIT PROMPT PROMPT_* RPROMPT HIST*
        EXECIGNORE GLOBIGNORE XDG_* TERMINFO* TERMCAP INPUTRC DBUS_* DISPLAY XAUTHORITY ZSH ZSH_* DIRENV_* MISE_*
        ASDF_* HUSKY
    """,
    "languages and their package managers": """
        PYTHON* PYTEST* PIP_* PIPX_* PIPENV_* UV_* POETRY_* PDM_* HATCH_* TOX_* NOX* CONDA_* MAMBA_* VIRTUAL_ENV*
        PYENV* IPYTHON* JUPYTER_* MPL* COVERAGE_* DJANGO_* FLASK_APP GUNICORN_* UVICORN_* CELERY_* PERL* RUBY* GEM_*
        BUNDLE_* RBENV_* RVM_* RAKE* LUA* PHP* COMPOSER* TCL* NODE* NPM_* PNPM_* YARN_* BUN_* DENO_* COREPACK_*
        NVM_* VOLTA_* ELECTRON_* TS_NODE_* BABEL_* ESLINT_* JEST_* MOCHA_* PUPPETEER_* PLAYWRIGHT_* CYPRESS_*
        *JAVA_* JDK_* CLASSPATH MAVEN_* MVN_* GRADLE_* SBT_* SCALA_* KOTLIN_* GROOVY_* ANT_* LEIN_* CATALINA_*
        ANDROID_* DOTNET_* CORECLR_* COMPLUS_* NUGET_* MSBUILD* MONO_* PSMODULE* GO[BEFMPRT]* GO_* GOWORK GOAUTH
        GOVCS GOCACHE* GODEBUG GOSUMDB GONO* GOINSECURE HARNESS_* SETUPTOOLS_* VSTEST_* CGO_* CARGO* RUST* SWIFT_*
        ZIG_* DART_* PUB_* FLUTTER_* ERL_* ELIXIR_* MIX_* HEX_* REBAR_* JULIA_* R_* GHC* CABAL_* STACK_* OCAML*
        CAML_* OPAM* GUILE_* PLT* EMACS* OCTAVE_* NIM* CLISP* SBCL_*
    """,
    "compilers and builds": """
        CC CXX CPP FC F77 AR AS NM RANLIB STRIP YACC LEX MAKE LIBTOOL AUTOM4TE AUTOMAKE ACLOCAL* INSTALL AWK SED
        GREP PERL RUBY M4 OBJC* CROSS_* GCC_* CLANG_* LLVM_* CMAKE_* CTEST_* MAKE* MFLAGS MESON* BAZEL* *_FOR_TARGET
        *_FOR_BUILD *_FOR_HOST USE_BAZEL* PKG_CONFIG* CCACHE_* SCCACHE_* DISTCC_* ICECC* SDKROOT TOOLCHAINS DESTDIR
        PREFIX NIX_* GUIX_* HOMEBREW_*
    """,
    "version control, keys, other machines, clouds": """
        GIT_* HG* SVN_* CVS* BZR_* JJ_* GH_* SSH_* GPG* GNUPG* SUDO_* KRB5* SASL_* DOCKER_* COMPOSE_* PODMAN_*
        BUILDKIT_* CONTAINER* KUBE* HELM_* TF_* ANSIBLE_* VAGRANT_* AWS_* AZURE_* GOOGLE_* GCLOUD_* CLOUDSDK_*
        PULUMI_* VAULT_* CONSUL_* SSL_* CURL_* OPENSSL_* P11_* PKCS11_*
    """,
    "programs that read, show and edit": """
        BROWSER LESS* MAN* BAT_* FZF_* RSYNC_* EXINIT VIM* NVIM_* TMUX* TEX* BIBINPUTS MAGICK_* GS_* GTK* GDK_*
        GIO_* GST_* QT_* VK_* LIBGL_* OCL_* ODBC* TNS_* SQLITE_* WINE* QEMU_* FLATPAK_* GAWK* GDB* STRACE_*
        VALGRIND_* SYSTEMD_* DRAGOMAN_*
    """,
}
# Words in a name, or endings of it, that show what its value is.
_WORDS = {
    "options for a program nobody sees": """
        OPT OPTS OPTION OPTIONS SWITCHES ADDOPTS FLAGS ARGS ARGUMENTS PARAMS
    """,
    "a program, or code, to run or load": """
        COMMAND CMD PROGRAM BINARY BIN EXE EXEC EXECUTABLE SHELL EDITOR VISUAL PAGER ASKPASS WRAPPER LAUNCHER
        RUNNER COMPILER LINKER INTERPRETER HELPER HOOK HOOKS PLUGIN PLUGINS MODULE MODULES EXTENSION EXTENSIONS
        ADDON ADDONS PRELOAD REQUIRE IMPORT LOADER LIB LIBS LIBRARY LIBRARIES BACKEND DRIVER DRIVERS SCRIPT
        SCRIPTS STARTUP INIT PROFILE PROLOGUE EVAL TEMPLATE TEMPLATES
    """,
    "settings, and where they are": """
        CONFIG CONFIGS CONFIGURATION CONF CFG RC RCFILE SETTINGS ENVIRON MAKEFILES PATH PATHS FILE FILES DIR DIRS
        DIRECTORY ROOT HOME SOCKET SOCK PREFIX
    """,
    "somebody to trust, or to send everything through": """
        PROXY BASE_URL ENDPOINT REGISTRY MIRROR INDEX_URL REPOSITORY CERT CERTS BUNDLE CA
    """,
}
FAMILIES = tuple(" ".join(_FAMILIES.values()).split())
_MEANING = re.compile(
    rf"(?:^|.*_)(?:{'|'.join(' '.join(_WORDS.values()).split())})[0-9]*(?:_.*)?",
    re.DOTALL,
)
_ENDS = re.compile(
    r".*(?:OPTS?|OPTIONS|FLAGS|ARGS|PATH|CONFIG|CONF|HOME|INIT|SHELL|EDITOR|PAGER|PRELOAD|PLUGINS?|ASKPASS|CMD|COMMAND"
    r"|PROXY|LIBS?|INPUTS|DIR|FILE|RC)",
    re.DOTALL,
)
_HARMLESS = """
    PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUTF8 PYTHONHASHSEED PYTHONFAULTHANDLER
    NODE_ENV NODE_NO_WARNINGS RUST_BACKTRACE RUST_LOG GOMAXPROCS CARGO_TERM_COLOR NPM_CONFIG_COLOR
    PIP_NO_COLOR UV_NO_PROGRESS DOTNET_CLI_TELEMETRY_OPTOUT PYTHONWARNDEFAULTENCODING PYTHONNODEBUGRANGES
    PIP_DISABLE_PIP_VERSION_CHECK PIP_PROGRESS_BAR NPM_CONFIG_PROGRESS NPM_CONFIG_FUND NPM_CONFIG_AUDIT
    HOMEBREW_NO_AUTO_UPDATE TF_IN_AUTOMATION
"""
HARMLESS = frozenset(_HARMLESS.split())
_SWITCH = r"[01]?|true|false|yes|no|on|off"
_SYSTEM_SHELL = r"(?:/usr)?/bin/(?:sh|bash|dash|zsh|ksh|fish)"
_NO_EDITOR = r"(?:(?:/usr)?/bin/)?(?:true|false)|:?"
# Variables that are harmless with one of these values: judged by name and value.
_HARMLESS_VALUES = {
    "GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GCM_INTERACTIVE": _SWITCH + "|never",
    "PIP_NO_INPUT PIP_QUIET UV_NO_COLOR COMPOSER_NO_INTERACTION COMPOSER_DISABLE_XDEBUG_WARN": _SWITCH,
    "HOMEBREW_NO_ANALYTICS HOMEBREW_NO_COLOR HOMEBREW_NO_ENV_HINTS HOMEBREW_NO_EMOJI DOTNET_NOLOGO": _SWITCH,
    "BASH_SILENCE_DEPRECATION_WARNING NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE": _SWITCH + "|[0-9]",
    "SHELL": _SYSTEM_SHELL,
    "PAGER GIT_PAGER MANPAGER GH_PAGER AWS_PAGER SYSTEMD_PAGER BAT_PAGER DELTA_PAGER": r"(?:(?:/usr)?/bin/)?cat|",
    "EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR": _NO_EDITOR,
    "GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS": _NO_EDITOR + "|echo",
    "LESS": r"-?[FRXSKeiM]*",
    "HISTFILE": r"/dev/null|",
    "TERM COLORTERM": r"[a-z0-9][a-z0-9-]*",
    "COLUMNS LINES": r"[0-9]{1,5}",
    "DEBIAN_FRONTEND": r"noninteractive",
    "CARGO_TERM_PROGRESS_WHEN": r"never|auto|always",
}
_ALLOWED_VALUES = {name: re.compile(values) for names, values in _HARMLESS_VALUES.items() for name in names.split()}
_INHERITED_ANYWAY = ("HOME", "SHELL", "TMPDIR", "USER", "LOGNAME")  # every command inherits them from us
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|COOKIE", re.IGNORECASE)
EXPORTED_FUNCTION = "()"  # the start of a value that old shells execute
MAX_NAME = 256  # longer than the name of any program's variable


def is_dangerous(name: str, value: str) -> bool:
    """Whether setting this changes what a program runs, loads or trusts."""
    if len(name) > MAX_NAME or value.startswith(EXPORTED_FUNCTION):
        return True
    if is_harmless(name, value):
        return False
    known = name.upper()  # npm and the proxies are read in either case
    return known not in HARMLESS and (matches(known, FAMILIES) or _means_danger(known))


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable is known to be harmless: by its value, or because commands inherit it anyway."""
    if name in _INHERITED_ANYWAY and os.environ.get(name) == value:
        return True
    allowed = _ALLOWED_VALUES.get(name)
    return allowed is not None and allowed.fullmatch(value) is not None


def _means_danger(name: str) -> bool:
    return _MEANING.fullmatch(name) is not None or _ENDS.fullmatch(name) is not None


def is_secret_name(name: str) -> bool:
    """Whether a variable, a header or a field of this name holds a secret."""
    return _SECRET.search(name) is not None


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, `*` standing for any letters."""
    return _any_of(tuple(patterns)).fullmatch(name) is not None


@functools.lru_cache(64)
def _any_of(patterns: tuple[str, ...]) -> "re.Pattern[str]":
    return re.compile("|".join(map(translate, patterns)))
