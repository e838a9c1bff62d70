"""The frame around every page: navigation, palette, theme, the way in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from protoagent.console import shell
from protoagent.core.context import Scope
from protoagent.journal.services import agents, sessions
from tests.accounts.factories import browser_of, make_account, post_form
from tests.console.asking import Tab, ask_question, begin, open_tab

pytestmark = pytest.mark.django_db
STATIC = Path(settings.BASE_DIR) / "static"


@pytest.fixture
def tab() -> Tab:
    opened = open_tab()
    opened.htmx = False
    return opened


def test_home_leads_to_what_waits_else_to_the_last_session_else_to_a_new_one(tab: Tab) -> None:
    empty = tab.get("/")
    begin("older")
    begin("newer")
    last = tab.get("/")
    row = ask_question(key="older")
    waiting = tab.get("/")

    assert empty.headers["Location"] == "/chat/"
    assert last.headers["Location"] == "/chat/newer/"
    assert waiting.headers["Location"] == f"/chat/older/#hitl-{row.pk}"


def test_an_archived_session_is_not_where_home_leads(tab: Tab) -> None:
    session = sessions.ensure(agents.current(), "old")
    sessions.archive(session, archived=True)

    assert tab.get("/").headers["Location"] == "/chat/"


def test_only_panels_that_exist_are_in_the_navigation_and_the_shortcuts(tab: Tab) -> None:
    page = tab.get("/chat/")

    items = [item.text_content().split(",")[0].strip() for item in page.all(".nav__item")]
    assert items == ["Chat"]
    assert [item.get("href") for item in page.all(".nav__item")] == ["/"]
    shortcuts = page.words("#keys table:first-of-type")
    assert "Go to Chat" in shortcuts
    assert "Memory" not in shortcuts


def test_a_panel_whose_route_is_missing_is_absent(rf) -> None:
    panel = shell.Panel("tasks", "Tasks", "list-checks", "tasks:board", "t")

    assert panel.url == ""


def test_the_page_has_one_heading_a_title_and_its_landmarks(tab: Tab) -> None:
    ask_question()

    page = tab.get("/chat/s1/")

    assert len(page.all("h1")) == 1
    assert page.one("title").text_content().startswith("(1) set it up · ")
    assert page.one(".skip").get("href") == "#main"
    assert page.one("main").get("id") == "main"
    assert page.one("nav[aria-label=Primary]").get("id") == "nav"
    assert page.one("#announce").get("role") == "status"
    assert page.one("#alert").get("role") == "alert"


def test_htmx_runs_without_eval_inline_styles_or_private_history(tab: Tab) -> None:
    page = tab.get("/chat/")

    config = page.one("meta[name=htmx-config]").get("content")
    for part in (
        '"allowEval":false',
        '"allowScriptTags":false',
        '"includeIndicatorStyles":false',
        '"historyCacheSize":0',
        '{"code":"422","swap":true}',
    ):
        assert part in config


def test_no_page_has_inline_script_style_or_handlers(tab: Tab) -> None:
    ask_question()

    for path in ("/chat/", "/chat/s1/", "/sessions/", "/attention/", "/palette/?q=s"):
        text = tab.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path
        assert not re.search(r"<style|\sstyle=", text), path
        assert not re.search(r"\son[a-z]+=|hx-on", text), path


def test_the_server_writes_the_theme_so_that_nothing_flashes(tab: Tab) -> None:
    plain = tab.get("/chat/")
    tab.post("/me/theme/", {"theme": "dark"})
    dark = tab.get("/chat/")
    tab.post("/me/theme/", {"theme": "system"})
    system = tab.get("/chat/")
    wrong = tab.post("/me/theme/", {"theme": "pink"})

    assert plain.one("html").get("data-theme") is None
    assert dark.one("html").get("data-theme") == "dark"
    assert system.one("html").get("data-theme") is None
    assert wrong.status == 400


def test_a_made_up_theme_cookie_is_ignored(tab: Tab) -> None:
    tab.client.cookies["theme"] = '"><script>'

    page = tab.get("/chat/")

    assert page.one("html").get("data-theme") is None


def test_a_viewer_may_choose_a_theme() -> None:
    client = browser_of(make_account("vera", scope=Scope.VIEWER))

    answer = post_form(client, "/me/theme/", {"theme": "light"})

    assert answer.status_code == 302
    assert client.cookies["theme"].value == "light"


def test_the_palette_finds_pages_sessions_and_commands(tab: Tab) -> None:
    begin("disks", "Nightly disk check")
    begin("other", "Router firmware")

    everything = tab.get("/palette/").text
    tab.htmx = True
    found = tab.get("/palette/", q="disk")
    commands = tab.get("/palette/", q="theme")
    nothing = tab.get("/palette/", q="zzzz")

    assert "Router firmware" in everything
    assert found.all("a")[0].get("href") == "/chat/disks/"
    assert "Router" not in found.text
    assert commands.one("[data-command]").get("data-command") == "theme"
    assert "Nothing fits" in nothing.text
    assert all(option.get("id") for option in found.all("[role=option]"))


def test_the_palette_gives_viewers_no_commands() -> None:
    viewer = open_tab("vera", scope=Scope.VIEWER)

    assert not viewer.get("/palette/").has("[data-command]")


def test_the_palette_escapes_titles(tab: Tab) -> None:
    begin("x", "<b>bold</b> title")

    assert "<b>bold" not in tab.get("/palette/").text


@pytest.mark.parametrize("path", ["/", "/palette/", "/models/", "/chat/"])
def test_nobody_gets_in_without_signing_in(path: str, client: Client) -> None:
    response = client.get(path, headers={"accept": "text/html"})

    assert response.status_code == 302
    assert response["Location"].startswith("/login/")


def test_every_script_is_preloaded_and_every_preloaded_script_exists() -> None:
    pattern = re.compile(r"""from "\./([\w-]+)\.js"|import "\./([\w-]+)\.js\"""")
    used = {
        name
        for path in STATIC.glob("js/*.js")
        for match in pattern.finditer(path.read_text())
        for name in match.groups()
        if name
    }

    assert used == set(shell.MODULES)  # core, clock … are used by pages without main.js, too
    assert all((STATIC / f"js/{name}.js").is_file() for name in shell.MODULES)


def test_every_icon_that_a_template_uses_is_in_the_sprite() -> None:
    sprite = set(re.findall(r'<symbol id="([\w-]+)"', (STATIC / "img/icons.svg").read_text()))
    templates = Path(settings.BASE_DIR, "templates").rglob("*.html")

    used = {
        name
        for path in templates
        for name in re.findall(r"""\{% icon ["']([\w-]+)["']""", path.read_text())
    }

    assert used
    assert used <= sprite


def test_vendored_files_are_listed_licensed_and_have_no_source_map() -> None:
    versions = (STATIC / "vendor/VERSIONS").read_text()

    for path in (STATIC / "vendor").rglob("*"):
        if path.is_file() and path.suffix in (".js", ".woff2"):
            assert path.name in versions
            assert b"sourceMappingURL" not in path.read_bytes()
    assert len(list((STATIC / "vendor/licences").iterdir())) == 5


def test_every_address_in_the_style_sheets_exists() -> None:
    for sheet in (STATIC / "css").rglob("*.css"):
        for address in re.findall(r'url\("([^"]+)"\)', sheet.read_text()):
            assert (sheet.parent / address).resolve().is_file(), (sheet, address)
