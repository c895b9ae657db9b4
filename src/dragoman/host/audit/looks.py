"""Secrets that are recognised by their form, in any context.  Every pattern takes linear time."""

import re

REDACTED = "[redacted]"

# What providers let their tokens begin with; at least twenty letters, digits and signs follow.
_BEGINNINGS = (
    *(
        "gh[pousr]_",
        "github_pat_",
        "gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-",
        "ATATT3x",
        "ATCTT3x",
    ),
    *("ATBB", "CCIPAT_", "CCIPRJ_", "bkua_", "rubygems_", "dckr_[a-z]{3}_", "cio(?=[A-Za-z0-9]{32})"),
    *("hf_(?=[A-Za-z0-9]{30})", "npm_(?=[A-Za-z0-9]{30})", "pypi-(?=[\\w-]{40})", "oy2(?=[a-z0-9]{43})"),
    *("[sr]k_(?:live|test|prod)_", "pk_(?:live|test)_", "whsec_", "gsk_(?=[A-Za-z0-9]{30})", "r8_", "nvapi-"),
    *("lsv2_[a-z]{2}_", "sgp_", "AIza", "ya29\\.", "GOCSPX-", "1//0(?=[\\w-]{30})", "dgm_"),
    *("hv[sbr]\\.", "s\\.(?=[A-Za-z0-9]{24}(?![A-Za-z0-9]))", "dp\\.[a-z]{2,5}\\.", "ops_eyJ", "tskey-", "fm[12]_"),
    *("xoxe\\.xox[bp]-", "xox[abeoprs]-", "xapp-", "lin_api_", "lin_oauth_", "figd_", "ntn_", "PMA[KT]-"),
    *(
        "sntry[su]_",
        "glsa_",
        "glc_eyJ",
        "dt0c01\\.",
        "NRAK-",
        "NRJS-",
        "pat-[a-z]{2}[0-9]-",
        "dapi(?=[a-f0-9]{32})",
    ),
    *("do[opr]_v1_", "shp[a-z]{2,3}_", "sq0[a-z]{3}-", "EAAA", "EZ[AT]K", "shippo_[a-z]{4}_", "FLWSECK"),
    *("key-(?=[0-9a-f]{32})", "secret_(?=[A-Za-z0-9]{40})", "pscale_[a-z]{2,8}_", "sbp_", "sb_secret_", "SG\\."),
    *("nfp_(?=[A-Za-z0-9]{30})", "vc[apr]_(?=[A-Za-z0-9]{20})", "rdme_", "waka_"),
    # Ordinary names begin like these too, but seldom contain a digit.
    *(f"{name}(?=[A-Za-z_-]{{0,64}}[0-9])" for name in ("sk-", "rk-", "pk-", "sess-", "pplx-", "xai-", "csk-")),
)
_TOKENS = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_BEGINNINGS)})[\w.-]{{16,}}+={{0,2}}", re.ASCII)

# A pattern, and the part of it that is kept.
_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kept)
    for pattern, kept in (
        (r"-----BEGIN ([A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)", REDACTED),
        (r"(PuTTY-User-Key-File-\d: ).*\Z", rf"\1{REDACTED}"),
        (r"(?i:\b(Bearer|Basic|Digest|Negotiate)(?:[ +]++|%20)[A-Za-z0-9._~+/=:-]{6,})", rf"\1 {REDACTED}"),
        # The password of an address, up to the last @ before its path; or a long user name without one.
        (r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}+://[^\s/:@\"']{0,256}+):[^\s/\"']{1,1024}@", rf"\1:{REDACTED}@"),
        (r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}+://)(?=[A-Za-z_-]{0,64}[0-9])[\w.-]{20,256}+@", rf"\1{REDACTED}@"),
        (r"(?<![\w-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?", REDACTED),
        (r"\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}\b", REDACTED),
        (r"\bAGE-SECRET-KEY-1[A-Z0-9]{16,}+", REDACTED),
        (r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{20,}+", REDACTED),
        (r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{32,}+", REDACTED),
        (r"\bSK[0-9a-f]{32}\b", REDACTED),
        (r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}+", REDACTED),
        (r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+", REDACTED),
        (r"(?i:(hooks\.slack\.com/\w{1,20}/|discord(?:app)?\.com/api/webhooks/)[\w/-]{8,}+)", rf"\1{REDACTED}"),
        (r"(?i:(\.webhook\.office\.com/)[\w/@-]{8,}+)", rf"\1{REDACTED}"),
    )
)


def without_looks(text: str) -> str:
    """The text without anything that looks like a secret."""
    for pattern, kept in _LOOKS:
        text = pattern.sub(kept, text)
    return _TOKENS.sub(REDACTED, text)
