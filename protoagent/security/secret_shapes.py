"""What secrets look like: a public beginning that may be shown, and a body that may not.

Every shape is written so that a text can be judged while it is still being written. The
`prefix` is bounded, and none of it is given back for the sake of the body. The `body`
matches only when no further character can undo the decision. `open` matches a body that
reaches the end of the text and is undecided; its bound is how much of a stream is held back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """One kind of secret, as regular expressions without capturing groups.

    Every match of `prefix` begins with one of `anchors` (lower case), so only their places
    need to be looked at, and is at most `width` long. `more` is what a decided body swallows
    as it goes on.
    """

    name: str
    anchors: tuple[str, ...]
    prefix: str
    body: str
    open: str
    more: str = ""
    width: int = 64


def _token(name: str, prefix: str, chars: str, least: int, anchors: tuple[str, ...]) -> Shape:
    """A secret of at least `least` characters out of `chars`, whatever follows."""
    return Shape(
        name,
        anchors,
        prefix,
        body=f"[{chars}]{{{least},}}",
        open=f"[{chars}]{{0,{least - 1}}}",
        more=f"[{chars}]+",
    )


# Keys of services, told by how they begin. A name such as `sk-loading-spinner` is no key:
# a body must have a capital letter, two digits, or sixteen letters and digits in a row.
_VENDORS = (
    *("sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    *("glpat-", "gldt-", "glrt-", "glft-", "glcbt-", "glptt-", "gloas-", "glsoat-"),
    *("xoxa-", "xoxb-", "xoxe-", "xoxe.xoxb-", "xoxe.xoxp-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"),
    *("xapp-", "AIza", "GOCSPX-", "pa_", "npm_", "hf_", "pypi-", "dop_v1_", "xai-", "gsk_"),
    *("dckr_pat_", "shpat_", "tskey-", "lin_api_", "AGE-SECRET-KEY-"),
)
_KEY = "[A-Za-z0-9_-]"
_KEY_IS_CLEAR = (
    f"(?={_KEY}{{0,39}}(?:[A-Z]|[0-9]{_KEY}{{0,38}}[0-9]|[A-Za-z0-9]{{16}})){_KEY}{{16}}"
)
_VENDOR = Shape(
    "vendor",
    tuple(prefix.lower() for prefix in _VENDORS),
    f"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, _VENDORS))})",
    body=f"{_KEY_IS_CLEAR}{_KEY}*",
    open=f"(?!{_KEY_IS_CLEAR}){_KEY}{{0,79}}",
    more=f"{_KEY}+",
)

_AWS_GAP = "[\\s:,;|\"']"
_AWS = Shape(
    "aws",
    ("akia", "asia"),
    "(?<![A-Za-z0-9])(?:AKIA|ASIA)",
    # The secret half has no mark of its own; it is recognised by standing next to the id.
    body=f"[A-Z0-9]{{16}}(?![A-Za-z0-9])(?:{_AWS_GAP}{{1,4}}[A-Za-z0-9/+]{{40}}(?![A-Za-z0-9+]))?",
    open=f"(?:[A-Z0-9]{{0,16}}|[A-Z0-9]{{16}}{_AWS_GAP}{{1,4}}[A-Za-z0-9/+]{{0,40}})",
)

_B64 = "[A-Za-z0-9_-]"
_JWT_IS_CLEAR = f"{_B64}{{8,1000}}\\.{_B64}{{8}}"
_JWT = Shape(
    "jwt",
    ("eyj",),
    f"(?<!{_B64})eyJ",
    body=f"{_JWT_IS_CLEAR}[A-Za-z0-9_.-]*",
    open=f"(?!{_JWT_IS_CLEAR})(?:{_B64}{{0,1000}}|{_B64}{{8,1000}}\\.{_B64}{{0,7}})",
    more="[A-Za-z0-9_.-]+",
)

_BREAK = "(?:\\s|\\\\[nr])"
_PEM_IS_CLEAR = f"{_BREAK}{{0,8}}[A-Za-z0-9+/=]{{16}}"
_PEM = Shape(
    "private-key",
    ("-----begin ", "dek-info:", "private-lines:"),
    "(?:-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    f"(?:{_BREAK}{{1,2}}(?:Version|Comment|Hash): [^\\n\\\\]{{0,60}}){{0,2}}"
    "|DEK-Info: [A-Z0-9-]{3,20},[0-9A-F]{16,64}|Private-Lines: [0-9]{1,4})",
    body=f"{_PEM_IS_CLEAR}[A-Za-z0-9+/=\\s\\\\]*",
    open=f"(?!{_PEM_IS_CLEAR}){_BREAK}{{0,8}}(?:\\\\|[A-Za-z0-9+/=]{{0,15}})",
    more="[A-Za-z0-9+/=\\s\\\\]+",
    width=256,
)

_URL_CHAR = "[^\\s/?#\"'<>`]"
_URL = Shape(
    "url-password",
    ("://",),
    "(?<=[A-Za-z0-9+.-])://[^\\s/?#:@\"'<>`]{0,64}:",
    body=f"{_URL_CHAR}{{1,128}}(?=@)",
    open=f"{_URL_CHAR}{{0,128}}",
    width=80,
)

_TELEGRAM = _token(
    "telegram",
    "(?<=[0-9]{6}):",
    "A-Za-z0-9_-",
    30,
    (":",),
)
_WEBHOOK = _token(
    "webhook",
    "(?:hooks\\.slack\\.com/(?:services|workflows|triggers)/|discord(?:app)?\\.com/api/webhooks/)",
    "A-Za-z0-9_/-",
    20,
    ("hooks.slack.com/", "discord.com/api/", "discordapp.com/api/"),
)
_GOOGLE = _token("google", "(?<![A-Za-z0-9])ya29\\.", "A-Za-z0-9_.-", 20, ("ya29.",))

# Values that are secret because of the name before them: `password: …`, `"api_key": "…"`.
_KEY_KINDS = (
    *("api", "access", "account", "admin", "app", "auth", "client", "encryption", "license"),
    *("master", "private", "service", "session", "signing", "webhook"),
)
_IS_KEY_KIND = "|".join(f"(?<={kind})|(?<={kind}[_ -])" for kind in _KEY_KINDS)
_NAME = (
    "pass(?:word|wd|phrase|code)"
    "|secret(?:[_ -]?(?:access[_ -]?)?key)?"
    "|(?<!page)(?<!page[_-])(?<!next[_-])(?<!sync[_-])(?<!continuation[_-])(?<!cursor[_-])token"
    f"|(?:{_IS_KEY_KIND})key"
    "|credentials?|authorization|cookie"
)
_PASS_ANCHORS = ("passw", "passp", "passc")
_NAME_ANCHORS = ("secret", "token", "key", "credential", "authorization", "cookie")
_SETS = (
    "(?:\\\\?[\"'`]|\\*\\*|[\\])]){0,2}[ \\t]{0,3}(?::=|=>|={1,2}|:|%3[dD])[ \\t]{0,3}"
    "(?:\\*\\*[ \\t]?)?"
)
_ASSIGNED = f"{_SETS}(?:(?i:bearer|token|digest|apikey)[ \\t]{{1,3}})?"
_QUOTE = "\\\\?[\"'`]"
_LONG = 64


def _value(name: str, prefix: str, anchors: tuple[str, ...], chars: str, least: int) -> Shape:
    """A word after a telling name, judged when it has ended or is long.

    It must have a digit or an inner symbol, or be a long phrase of letters and hyphens. Left
    alone are what code, templates and prose have there: paths, calls, `settings.API_KEY`,
    `$NAME`, `base64-encoded`.
    """
    one = f"[{chars}]"
    # Nothing here may look further than one character past the body: that is all that is known.
    has_dots = "." in chars or chars.startswith("^")
    dots = "\\." if has_dots else "(?!)"
    is_reference = (
        "(?:\\.{0,2}/|https?:|\\$[A-Z_{(]|%[sd({]|\\*\\*"
        f"|[A-Za-z_][A-Za-z0-9_]{{0,23}}(?:{dots}[A-Za-z_][A-Za-z0-9_]{{0,23}})+(?!{one})"
        f"|[A-Za-z]{{1,12}}[0-9]{{1,4}}-[A-Za-z]{{1,12}}(?!{one}))"
    )
    is_telling = f"(?={one}{{0,{_LONG - 2}}}(?:[0-9]|[!@#$%^&*?+=~]{one}))"
    ends = f"(?!{one}|[(\\[])"
    short = f"(?!{is_reference})(?:{is_telling}{one}{{{least},{_LONG}}}+|[A-Za-z-]{{20,{_LONG}}}+)"
    return Shape(
        name,
        anchors,
        prefix,
        body=f"(?:{short}{ends}|(?!\\.{{0,2}}/|https?:){one}{{{_LONG + 1},}})",
        open=f"{one}{{0,{_LONG}}}",
        more=f"{one}+",
    )


_BARE = "A-Za-z0-9_\\-.~+/=!@#$%^&*?"
_QUOTED = "^\\s\"'`\\\\"
_TOLD = "A-Za-z0-9_\\-!@#$%^&*+=~"
_IS = "[ \\t]{1,2}(?:is|was)[ \\t]{1,2}(?:now[ \\t])?[\"'`]?"
_BASIC = _token(
    "basic",
    f"(?i:authorization){_SETS}(?i:basic)[ \\t]{{1,3}}",
    "A-Za-z0-9+/=",
    6,
    ("authorization",),
)

SHAPES: tuple[Shape, ...] = (
    _PEM,
    _JWT,
    _VENDOR,
    _AWS,
    _GOOGLE,
    _WEBHOOK,
    _TELEGRAM,
    _URL,
    _value("bearer", "(?<![A-Za-z])(?i:bearer)[ \\t]{1,4}[\"'`]?", ("bearer",), _BARE, 8),
    _BASIC,
    _value("password", f"(?=[pP])(?i:{_NAME}){_ASSIGNED}", _PASS_ANCHORS, _BARE, 6),
    _value("named", f"(?i:{_NAME}){_ASSIGNED}", _NAME_ANCHORS, _BARE, 8),
    _value(
        "quoted",
        f"(?i:{_NAME}){_ASSIGNED}{_QUOTE}",
        _PASS_ANCHORS + _NAME_ANCHORS,
        _QUOTED,
        6,
    ),
    _value("told", f"(?i:{_NAME}){_IS}", _PASS_ANCHORS + _NAME_ANCHORS, _TOLD, 8),
)

# How far back a prefix looks to see what stands before it.
MAX_LOOK_BEHIND = 16


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: `apiKey`, `DB_PASSWORD`, `X-Auth-Token`.

    Names that only talk about secrets (`max_tokens`, `token_type`, `next_page_token`) do not.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return before not in _HARMLESS_TOKENS
    return last in _SECRET_WORDS or (last == "key" and before in {*_KEY_KINDS, "secret"})


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HARMLESS_TOKENS = {"page", "next", "prev", "sync", "continuation", "cursor", "max", "per"}
_SECRET_WORDS = {
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "apikey",
    "dsn",
}
