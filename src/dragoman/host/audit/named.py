"""Secrets that are recognised by the text before them: a name, a header, an option, a program.

A text is read from left to right.  After a name whose value is not secret, reading goes on right behind the name,
because `note: password=x` and `--env=KEY=x` have a name within a value.  Every pattern takes linear time.
"""

import re

from .looks import REDACTED

# A name is that of a secret if it contains these letters anywhere, or these words as whole words.
_LETTERS = re.compile(
    r"key|token|secret|passw|passphrase|credential|authorization|cookie|signature|jwt|sessid"
    r"|(?:ssh|store|user|root|admin|db|become|trust|cert|ldap|smtp|ftp)_?pass(?![a-z])",
    re.I,
)
_WORDS = {
    *("pass", "pwd", "pw", "auth", "sig", "sid", "psk", "otp", "totp", "bearer", "sas", "pat", "cred", "creds"),
    *("csrf", "xsrf", "dsn"),
}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Other words with these letters, and facts about a secret that do not reveal it.
_OTHERS = re.compile(
    r"(?:mon|don|tur|hoc|joc|whis|hot)key"
    r"|key(?:board|word|frame|note|stroke|map|of|code|press|down|up|bind|space|stone|set)"
    r"|(?:public|primary|foreign|partition|sort|cache|unique|group)[_.-]?key|tokeni[sz]|secretary|cookie_?cutter"
    r"|(?:key|token|secret|passw(?:or)?d|cookie|signature|auth)s?[_.-]?"
    r"(?:count|limit|type|name|size|length|file|path|policy|stdin|endpoint|ttl|expir\w{0,8}|ur[il]|usage|ring|method)s?$",
    re.I,
)
_EXACTLY = {"PWD": False, "OLDPWD": False, "sessionid": True}  # two directories; a cookie, while sessionId is an id
_EMPTY = re.compile(
    r"(?i:|true|false|null|none|nil|yes|no|on|off|required|optional|basic|oauth2?|expired|invalid|missing|wrong):?"
    r"|\$\{?[A-Z_][A-Z0-9_]*\}?|%[A-Z_]+%|\*+|<[\w -]*>|\[redacted\][])}>]*"
)
_NUMBER = re.compile(r"[0-9][0-9_,.]{0,11}[])}]*")
_COUNTED = re.compile(r"(?:tokens|keys|cookies|passwords|secrets)$", re.I)
_KEY = re.compile(r"-*keys?", re.I)  # says little by itself
_WORD_ALONE = re.compile(r"[A-Za-z]{1,20}")
_ONLY_KEY = re.compile(r"[-_.]*(?:\w+[-_.])?keys?", re.I)
_PLACE = re.compile(r"[0-9]{1,4}|(?:~|\.{0,2})/\S*|\S+\.(?:pem|key|crt|pub|json)")

_QUOTED = r"\\{1,3}\"[^\"\\]*+(?:\\{1,3}\")?|\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|`[^`]*+`?"  # or to the end
_PLAIN = r"[^\s'\"`&;|,]"
_VALUE = re.compile(rf"(?:{_QUOTED})|{_PLAIN}++(?:(?:\"[^\"'\s]*+\"|'[^\"'\s]*+'){_PLAIN}*+)*+", re.DOTALL)
_ELEMENTS = re.compile(r"[^<]++")
_HEADERS = {
    '"': re.compile(r"(?:[^\"\\\r\n]|\\.)++"),
    "'": re.compile(r"[^'\r\n]++"),
    "": re.compile(rf"(?:{_QUOTED})|[^\r\n]++", re.DOTALL),
}
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Digest|Negotiate|NTLM|Token|ApiKey|Api-Token|AWS4-HMAC-SHA256|SSWS|GenieKey|Splunk)[ \t]++",
    re.I,
)
_HEADER = re.compile(r"authorization|cookie", re.I)  # their value is all of the line

_ASSIGNED = re.compile(
    r"(?<![\w.-])([\w.-]++)"
    r"((?:\\{0,3}[\"'`]?[ \t]*+(?:=>|:=|={1,3}|:(?!:)|%3[AD])|[\"'][ \t]*+,(?=[ \t]*+[\"']))[ \t]*+)",
    re.I,
)
_OPTION = re.compile(r"(?<![\w.-])(--?[A-Za-z][\w.-]*+)([ \t]++)(?!-)")
_SET = re.compile(
    r"\b(?:set(?=[ \t]++-)|setx|setenv|(?:config(?:ure)?|secrets?|env)[ \t]++set)[ \t]++"
    r"(?:-[\w-]++[ \t]++){0,3}([^\s=]{1,200}+)([ \t]++)(?!-)"
)
_ELEMENT = re.compile(r"<([\w.:-]{1,100}+)()>(?=[^<\s])")

# Programs, the option their password follows, which may come late, and the password.
_COMMANDS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(rf"(\b(?:{programs})\b[^\n;|&]{{0,300}}?[\s\"'](?:{option}))({_VALUE.pattern})", re.DOTALL)
    for programs, option in (
        (r"sshpass|mongo(?:sh|dump|restore)?|twine|cqlsh|rdesktop|user(?:add|mod)", r"-p[ \t]*+"),
        (r"(?:docker|podman|buildah|skopeo|oc|az|registry) login", r"-p[ \t]*+"),
        (r"mysql(?:dump|admin|import|show)?|mariadb(?:-dump)?|7z[ar]?", r"-p(?=\S)"),
        (r"redis-cli", r"-a[ \t]*+"),
        (r"ldap(?:search|add|modify|delete|passwd|whoami)", r"-w[ \t]*+"),
        (r"zip|unzip|sqlcmd|bcp|isql|ipmitool", r"-P[ \t]*+"),
        (r"rar|unrar", r"-h?p(?=\S)"),
        (r"mysqladmin|nmcli", r"password[ \t]++"),
        (r"pdftk", r"(?:input|owner|user)_pw[ \t]++"),
        (r"iwconfig|rclone config", r"[\w]{0,40}+(?<=key)[ \t]++"),
        (r"rclone config", r"(?:pass|token)[ \t]++"),
        (r"az|aws", r"--value[ \t=]++"),
        (r"gh secret set", r"(?:--body[ \t=]++|-b[ \t]*+)"),
        (r"poetry config", r"(?:pypi-token\.\S{1,100}+|http-basic\.\S{1,100}+[ \t]++\S{1,100}+)[ \t]++"),
        (r"curl", r"(?:-E|--cert)[ \t]*+[^\s:]{1,256}+:"),
        (r"openssl", r"(?:-k[ \t]++|-pass(?:in|out)?[ \t]++pass:)"),
        (r"snmp(?:walk|get|set)", r"-[AXc][ \t]*+"),
        (r"x?freerdp|net use", r"/p(?:ass)?:"),
        (r"rabbitmqctl", r"(?:add_user|change_password)[ \t]++\S++[ \t]++"),
        (r"htpasswd", r"-(?:nb|bn)[ \t]++\S++[ \t]++"),
        (r"htpasswd", r"-b\w*[ \t]++\S++[ \t]++\S++[ \t]++"),
        (r"ssh-keygen", r"-[NP][ \t]++"),
        (r"lftp", r"-u[ \t]*+[^\s,]{1,100}+,"),
        (r"sqlplus|sqlldr|expdp|impdp", r"[^\s/@-][^\s/@]{0,63}+/"),
        (r"https?(?=[ \t])|xh", r"-a[ \t]*+[^\s:]{1,100}+:"),
    )
)
_FURTHER: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"((?<![\w-])(?:--(?:proxy-)?user(?:pwd)?[ \t=]++|-[uU][ \t]*+)[\"']?[^\s:%\"'/]{1,256}+[:%])"
        r"(?!//)([^\s\"']++)",
        r"(?i:(\b(?:IDENTIFIED(?: WITH [\w\"']{1,40})? (?:BY|AS)|PASSWORD)[ \t]++))('[^']*+'?|\"[^\"]*+\"?)",
        r"(\bauth=\([ \t]*+(?:\"[^\"]*+\"|'[^']*+')[ \t]*+,[ \t]*+)(\"[^\"]*+\"?|'[^']*+'?)",
        r"(\b(?:login|user)\s++\S{1,256}+\s++password\s++)(\S++)",
        r"(\b(?:vault login|vault operator unseal|cargo login|ansible-vault encrypt_string"
        r"|wpa_passphrase[ \t]++\S{1,100}+|ConvertTo-SecureString(?:[ \t]++-String)?)[ \t]++)"
        rf"(?!-)({_VALUE.pattern})",
        rf"(--(?:password-stdin|with-token|passphrase-fd[ \t=]0)[ \t]*+<<<[ \t]*+)({_VALUE.pattern})",
        # The input of a program.
        rf"(\b(?:echo|printf)[ \t]++(?:-[neE]{{1,3}}+[ \t]++)?)({_VALUE.pattern})(?=[ \t]*+\|[^\n;|]{{0,200}}?"
        r"(?:--password-stdin|--with-token|--passphrase-fd|\bsudo[ \t]++-\w{0,5}S|\bchpasswd"
        r"|\bpasswd[ \t]++--stdin))",
        r"([?&]code=)([^&\s\"'#]++)(?=&state=)",
    )
)
_USER_AND_GROUP = re.compile(r"-{1,2}\w+?[ \t=]*[\"']?[0-9]+[:%]")


def names_secret(name: str) -> bool:
    """Whether a variable, an option, a header or a field of this name holds a secret."""
    if name in _EXACTLY:
        return _EXACTLY[name]
    rest = _OTHERS.sub("", name)
    return _LETTERS.search(rest) is not None or any(word.lower() in _WORDS for word in _WORD.findall(rest))


def tells_nothing(name: str, value: str) -> bool:
    """Whether the value of such a name is not secret: a word such as `none`, a variable, a count, a key's path."""
    bare = value.strip("\"'`")
    if _EMPTY.fullmatch(bare) or (_COUNTED.search(name) and _NUMBER.fullmatch(bare)):
        return True
    if _KEY.fullmatch(name) and _WORD_ALONE.fullmatch(bare):
        return True
    return _ONLY_KEY.fullmatch(name) is not None and _PLACE.fullmatch(bare) is not None


def without_named(text: str) -> str:
    """The text without the values of secrets' names, and without the passwords that commands are given."""
    for pattern in (*_FURTHER, *_COMMANDS):
        text = pattern.sub(_without_password, text)
    for pattern in (_ASSIGNED, _SET, _OPTION, _ELEMENT):
        text = _without_values(text, pattern)
    return text


def _without_password(found: re.Match[str]) -> str:
    before, value = found.groups()
    is_group = value.isdigit() and _USER_AND_GROUP.fullmatch(before)
    return found[0] if is_group or _EMPTY.fullmatch(value.strip("\"'`")) else before + REDACTED


def _without_values(text: str, pattern: re.Pattern[str]) -> str:
    """Remove the value after each name that the pattern finds, if the name is that of a secret."""
    parts: list[str] = []
    done = at = 0
    while found := pattern.search(text, at):
        at = found.end()
        if names_secret(found[1]) and _is_name(found):
            value = _value_of(found)
            if value is not None and not tells_nothing(found[1], value[0]):
                parts += (text[done : value.start()], REDACTED)
                done = at = value.end()
    return "".join((*parts, text[done:]))


def _is_name(found: re.Match[str]) -> bool:
    """Whether a value follows; after a comma, only the value of an option or of a function's first argument."""
    opening = found.string[max(0, found.start() - 2) : found.start()]
    return "," not in found[2] or found[1].startswith("-") or opening.startswith("(")


def _value_of(found: re.Match[str]) -> re.Match[str] | None:
    """The value of a name that was found."""
    text, at = found.string, found.end()
    if found.re is _ELEMENT:
        return _ELEMENTS.match(text, at)
    if not (_HEADER.search(found[1]) and ":" in found[2]):
        return _VALUE.match(text, at)
    before = text[found.start() - 1 : found.start()]
    opening = before if before in _HEADERS and found[2][0] in ": \t" else ""
    if not opening and text[at : at + 1] in ('"', "'"):  # the header's value, not the header, is in quotes
        opening, at = text[at], at + 1
    if scheme := _SCHEME.match(text, at):
        at = scheme.end()
    return _HEADERS[opening].match(text, at)
