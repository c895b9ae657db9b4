"""What the name of a variable tells: that it changes what runs or is trusted unseen, or that it holds a secret."""

import functools
import re
from collections.abc import Iterable
from fnmatch import translate

DANGEROUS = (
    *("LD", "LD_*", "DYLD_*", "GLIBC_*", "GCONV_*", "LOCPATH", "NLSPATH", "MALLOC_*", "HOSTALIASES", "RESOLV_*"),
    *("PATH", "HOME", "TMPDIR", "SHELL", "IFS", "ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "PS[0-4]"),
    *("PROMPT_COMMAND", "CDPATH", "ZDOTDIR", "FPATH", "KSH_ENV", "XDG_*", "TERMINFO*", "TERMCAP", "INPUTRC"),
    *("PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "LUA*", "PHP*"),
    *("NODE_*", "NPM_CONFIG_*", "YARN_*", "BUN_*", "DENO_*", "COREPACK_*"),
    *("CLASSPATH", "*JAVA_*", "JDK_*", "MAVEN_*", "MVN_*", "GRADLE_*"),
    *("DOTNET_*", "CORECLR_*", "COMPLUS_*", "GO[BEFMPRT]*", "GO_*", "CGO_*", "CARGO*", "RUST*"),
    *("PIP_*", "UV_*", "POETRY_*", "CONDA_*", "VIRTUAL_ENV*"),
    *("CC", "CXX", "CPP", "AR", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "GCC_*", "COMPILER_PATH"),
    *("CMAKE_*", "MAKEFLAGS", "MAKEFILES", "MFLAGS", "CONFIG_SITE", "PKG_CONFIG*", "CCACHE_*", "SCCACHE_*"),
    *("GIT_*", "HG*", "SVN_*", "SSH_*", "*_ASKPASS", "GPG_*", "GNUPGHOME", "SUDO_*", "DRAGOMAN_*"),
    *("DOCKER_*", "KUBECONFIG", "KUBE_*", "AWS_*", "AZURE_*", "GOOGLE_*"),
    *("EDITOR", "VISUAL", "*_EDITOR", "*PAGER", "BROWSER", "LESS*", "MANOPT", "MANPATH", "MAN_*"),
    *("*_COMMAND", "*_WRAPPER", "*_PROXY", "*_BASE_URL", "*_ENDPOINT"),
    *("SSL_CERT_*", "CURL_*", "REQUESTS_CA_BUNDLE", "OPENSSL_*"),
    *("TAR_OPTIONS", "RSYNC_*", "WGETRC", "NETRC", "VIMINIT", "EXINIT", "VIMRUNTIME", "EMACS*", "TMUX*"),
)
HARMLESS = (
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED"),
    *("PYTHONFAULTHANDLER", "NODE_ENV", "NODE_NO_WARNINGS", "RUST_BACKTRACE", "RUST_LOG", "GOMAXPROCS"),
    *("CARGO_TERM_COLOR",),
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|COOKIE", re.IGNORECASE)
EXPORTED_FUNCTION = "()"  # what a value begins with that old shells run


def is_dangerous(name: str, value: str) -> bool:
    """Whether setting this changes what a program runs, loads or trusts."""
    known = name.upper()  # npm and the proxies are read in either case
    return (matches(known, DANGEROUS) and known not in HARMLESS) or value.startswith(EXPORTED_FUNCTION)


def is_secret_name(name: str) -> bool:
    """Whether a variable, a header or a field of this name holds a secret."""
    return _SECRET.search(name) is not None


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, `*` standing for any letters."""
    return _any_of(tuple(patterns)).fullmatch(name) is not None


@functools.lru_cache(64)
def _any_of(patterns: tuple[str, ...]) -> "re.Pattern[str]":
    return re.compile("|".join(map(translate, patterns)))
