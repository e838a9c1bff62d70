"""Text that tries to do something in a browser, a site that notices, and a page that is watched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes import http_server
from tests.fakes.http_server import Reply, Request

if TYPE_CHECKING:
    from playwright.sync_api import Page

# `@@` is the address of the canary. Each payload is shown behind a number, `[07]`.
PLAIN = (
    "<script>fetch('@@script')</script>",
    "<script src=@@script-src></script>",
    "</script><script>alert(1)</script>",
    "<img src=@@img onerror=alert(1)>",
    "<img src=x onerror=\"fetch('@@onerror')\">",
    '"><img src=@@quote>',
    "'><img src=@@apostrophe>",
    "</textarea><img src=@@textarea>",
    "</title><img src=@@title>",
    "--><img src=@@comment>",
    "<svg onload=alert(1)><use href=@@use#a /></svg>",
    "<svg><image href=@@svg-image /><script>alert(1)</script></svg>",
    "<math><mi xlink:href=@@math>m</mi></math>",
    "<iframe src=@@iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=@@object></object><embed src=@@embed>",
    "<video src=@@video autoplay onloadstart=alert(1)></video>",
    "<link rel=prefetch href=@@prefetch><link rel=stylesheet href=@@sheet>",
    "<meta http-equiv=refresh content='0;url=@@refresh'>",
    "<base href=@@base>",
    "<style>@import '@@import'; * {background: url(@@background)}</style>",
    "<div style='background:url(@@style)'>styled</div>",
    "<details open ontoggle=alert(1)><summary>open</summary></details>",
    "<input autofocus onfocus=alert(1)>",
    "<body onpageshow=alert(1)>",
    "<form action=@@form><button>send</button></form>",
    "<a href=javascript:alert(1)>script link</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>data link</a>",
    "<div hx-get=@@hx-get hx-trigger=load>htmx</div>",
    "<div data-hx-get=@@data-hx-get data-hx-trigger=load>htmx</div>",
    "<div hx-on::load=alert(1) hx-on:click=alert(1)>htmx</div>",
    "<div hx-ext=ws ws-connect=@@socket>htmx</div>",
    "<button data-act=stop data-undo=@@undo>act</button>",
    "{{ settings.SECRET_KEY }} {% include '@@template' %} ${alert(1)} <%= 7 %>",
    '{"t":"set","id":"chat","h":"<img src=@@frame>"}',
    "\u202egnp.exe\u202c \u2066isolated\u2069 zero\u200bwidth \u200ejoined",
    "W" * 1500,
    "ｆｕｌｌｗｉｄｔｈ＜ｉｍｇ　ｓｒｃ＝＠＠＞",
    "/../../static/js/main.js?x=<b>1</b>#<i>2</i>",
    "\u2028<img src=@@separator>\u2029",
)
# These mean something in Markdown; where it is rendered they are not shown as they are written.
MARKDOWN = (
    "&lt;img src=@@entity&gt; &#60;script&#62; &#x3c;b&#x3e; &amp;amp;",
    "![image](@@md-image)",
    "![ref][r]\n\n[r]: @@md-reference",
    "[![both](@@md-both)](@@md-link)",
    "[click](javascript:alert(1)) [data](data:text/html;base64,PHNjcmlwdD4=)",
    "[vb](vbscript:msgbox) [file](file:///etc/passwd) [ent](javas&#99;ript:alert(1))",
    "<javascript:alert(1)> <@@autolink>",
    "```html\n<script src=@@md-code></script>\n```",
    "`<img src=@@md-inline>` **<b>bold</b>**",
    '[x](@@md-title "><img src=@@md-attribute>")',
    "| <img src=@@md-table> |\n|---|\n| ![x](@@md-cell) |",
)


@dataclass
class Canary:
    """A site on this machine; whatever asks it for something has acted on a payload."""

    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def __call__(self, request: Request, reply: Reply) -> None:
        self.asked.append(f"{request.method} {request.path}")
        reply.whole(200, b"window.pwned = 1; alert(1)", "text/javascript")

    def plain(self) -> list[str]:
        """The payloads that are text wherever they are shown."""
        return [self._numbered(number, text) for number, text in enumerate(PLAIN)]

    def every(self) -> list[str]:
        """All payloads."""
        return [self._numbered(number, text) for number, text in enumerate((*PLAIN, *MARKDOWN))]

    def _numbered(self, number: int, text: str) -> str:
        return f"[{number:02d}] {text.replace('@@', f'{self.url}/p{number:02d}-')}"


@contextlib.contextmanager
def listening() -> Iterator[Canary]:
    """A canary in a thread of its own until the block ends."""
    canary = Canary()
    with http_server.in_thread(canary) as canary.url:
        yield canary


WATCH = """
addEventListener('securitypolicyviolation', (event) => {
  (window.refused ??= []).push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
# Where a payload may stand in an attribute: as a text that is shown, or as a link to be clicked.
_ATTRIBUTES = """
(canary) => {
  const wrong = [];
  const shown =
    /^(value|title|aria-|alt$|placeholder|content|data-copy|data-choose-model|download)/;
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      const isUrl = /^(href|src|srcset|action|formaction|poster|data|background)$|:href$/;
      const runs = isUrl.test(name) && /^[^/#?]*(javascript|vbscript|data):/i.test(value);
      if (!runs && !value.includes(canary) && !value.includes('alert(1)')) continue;
      const isLink = element.localName === 'a' && name === 'href' && /^(https?:|[/])/.test(value);
      if (runs || (!isLink && !shown.test(name))) {
        wrong.push(`<${element.localName} ${name}="${value.slice(0, 200)}">`);
      }
    }
  }
  for (const element of document.querySelectorAll(
    'iframe, object, embed, base, video, audio, math, meta[http-equiv], [onerror], [onload], style'
  )) {
    wrong.push(element.outerHTML.slice(0, 200));
  }
  return wrong;
}
"""


@dataclass
class Watched:
    """A page, and everything that it did besides showing text."""

    page: Page
    canary: Canary
    dialogs: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        self.page.on("console", self._console)
        self.page.on("request", self._request)
        self.page.add_init_script(WATCH)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} {message.location.get('url', '')}")

    def _request(self, request: Any) -> None:
        if self.canary.url in request.url.partition("?")[0]:
            self.outside.append(request.url)

    def check(self) -> None:
        """Nothing has happened on the page that is open."""
        self.page.wait_for_timeout(50)
        found = {
            "refused": self.page.evaluate("window.refused ?? []"),
            "attributes": self.page.evaluate(_ATTRIBUTES, self.canary.url),
            "ran": self.page.evaluate("window.pwned"),
            "dialogs": self.dialogs,
            "problems": self.problems,
            "requests": self.outside,
            "canary": self.canary.asked,
        }
        wrong = {name: what for name, what in found.items() if what}
        assert not wrong, f"{self.page.url}: {wrong}"

    def shows(self, texts: list[str], where: str = "body") -> None:
        """Each of these texts can be read on the page, letter by letter."""
        seen = _plain(self.page.locator(where).first.evaluate("(e) => e.textContent"))
        missing = [text for text in texts if _plain(text) not in seen]
        assert not missing, f"{self.page.url} does not show {missing}"

    def fits(self) -> None:
        """The page is not wider than the window."""
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.page.evaluate(width) <= 0, f"{self.page.url} is too wide"


def _plain(text: str) -> str:
    return "".join(text.split())
