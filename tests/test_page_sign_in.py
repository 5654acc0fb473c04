"""Signing in at the page, over real HTTP: what the cookie opens, and for whom it does not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.databases import prepare_desk
from tests.program import run_carrel_here
from tests.wire import MODERN, PLAIN, HttpServer, HttpWire

HTML = {"Accept": "text/html,*/*"}
WRONG = "This token is not valid for this desk"
PUBLIC = "https://desk.example.com"


def token(folder: Path, user: str = "ana", scopes: str = "tasks") -> str:
    made = run_carrel_here("token", "create", "--user", user, "--scopes", scopes, "--json", cwd=folder)
    return json.loads(made.stdout)["token"]


def client(server: HttpServer, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={**HTML, **headers}, trust_env=False, verify=PLAIN)


def sign_in(browser: httpx.Client, shown: str, **headers: str) -> httpx.Response:
    return browser.post("/page/sign-in", data={"token": shown}, headers=headers)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_desk(tmp_path_factory.mktemp("page-door"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    running = HttpServer(
        "--toolsets",
        "tasks",
        cwd=folder,
        CARREL_AUTH_TOKENS="true",
        CARREL_AUTH_REQUIRED_SCOPES="tasks",
        CARREL_AUDIT_TO="log",
        CARREL_SERVER_LOG_LEVEL="debug",
        CARREL_SERVER_LOG_FORMAT="json",
    )
    yield running
    assert running.stop() == 143
    log = "".join(running.log)
    assert "carrel_" not in re.sub(r"carrel_(?=token\b)", "", log), "a token was logged"


@pytest.mark.rule("page.door.form")
def test_who_opens_the_page_without_a_token_is_asked_for_one(server: HttpServer) -> None:
    with client(server) as browser:
        asked = browser.get("/")
        assert asked.status_code == 401
        assert asked.headers["www-authenticate"] == "Bearer"
        assert asked.headers["cache-control"] == "no-store"
        assert asked.headers["referrer-policy"] == "same-origin", "or browsers send the form with an Origin of null"
        assert "frame-ancestors 'none'" in asked.headers["content-security-policy"]
        assert '<form method="post" action="/page/sign-in">' in asked.text
        assert 'type="password"' in asked.text
        assert "carrel token create" in asked.text
        assert "<script" not in asked.text
        for path in re.findall(r'(?:href|src)="([^"]+)"', asked.text):
            assert browser.get(path).status_code == 200, path
        for path in ("/page/js/app.js", "/page/css/base.css", "/page/data/desk", "/page/index.html", "/page/none"):
            refused = browser.get(path)
            assert (refused.status_code, "form" in refused.text) == (401, False), path
        assert browser.get("/page/data/desk").json()["error"]["code"] == "UNAUTHORIZED"
        plain = browser.get("/", headers={"Accept": "application/json"})
        assert (plain.status_code, plain.text) == (401, "A valid access token is needed")


@pytest.mark.rule("page.door.signed", "page.door.out")
def test_a_token_is_kept_in_a_cookie_and_opens_the_page_and_mcp_until_it_is_revoked(
    server: HttpServer, folder: Path
) -> None:
    shown = token(folder)
    with client(server) as browser:
        welcome = sign_in(browser, f" {shown}\n")
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
        cookie = f"carrel_token={shown}; HttpOnly; SameSite=Strict; Path=/"
        assert welcome.headers["set-cookie"] == cookie
        opened = browser.get("/")
        assert (opened.status_code, opened.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert browser.get("/page/data/desk").json()["user"] == "ana"
        wire = HttpWire(MODERN, server.url, "/tasks/mcp")
        asked = wire.message("tools/list", {})
        headers = {**wire.headers("tools/list", {}), "Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        wire.close()
        assert browser.post("/tasks/mcp", json=asked, headers=headers).status_code == 200
        out = browser.post("/page/sign-out")
        assert (out.status_code, out.headers["location"]) == (303, "/")
        assert out.headers["set-cookie"] == "carrel_token=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
        assert not browser.cookies
        assert browser.get("/").status_code == 401
        assert sign_in(browser, shown).status_code == 303
        (kept,) = json.loads(run_carrel_here("token", "list", "--json", cwd=folder).stdout)["tokens"]
        assert run_carrel_here("token", "revoke", kept["id"], cwd=folder).returncode == 0
        refused = browser.get("/")
        assert (refused.status_code, "<form" in refused.text) == (401, True)
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]


@pytest.mark.rule("page.door.wrong", "page.door.long")
def test_a_token_that_does_not_open_the_desk_is_refused_in_constant_words(server: HttpServer, folder: Path) -> None:
    without_scope = token(folder, user="eve", scopes="notes:read")
    with client(server) as browser:
        before = sum("denied: bad token" in line for line in server.log)
        tries = [
            "",
            "nonsense",
            "<b>&amp;",
            without_scope,
            "carrel_" + "a" * 52,
            "a b",
            "x;Domain=evil.example",
            "é\r\nX: y",
        ]
        answers = {(found.status_code, found.text) for found in (sign_in(browser, each) for each in tries)}
        assert len(answers) == 1
        ((status, text),) = answers
        assert (status, WRONG in text, "<form" in text) == (401, True, True)
        assert not browser.cookies
        long = sign_in(browser, "x" * 4001)
        assert (long.status_code, "does not fit into a cookie" in long.text) == (400, True)
        assert browser.post("/page/sign-in", content=b"token=" + b"x" * 20_000).status_code == 413
        assert browser.get("/page/sign-in").status_code == browser.put("/page/sign-out").status_code == 405
        assert browser.get("/healthz").status_code == 200  # what was noted before is in the log by now
    assert sum("denied: bad token" in line for line in server.log) >= before + 1
    assert any("denied: scope" in line and "eve" in line for line in server.log)


@pytest.mark.rule("page.door.elsewhere")
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost"},
    ],
)
def test_another_site_or_port_has_no_use_of_the_cookie(
    server: HttpServer, folder: Path, headers: dict[str, str]
) -> None:
    shown = token(folder)
    with client(server) as browser:
        assert sign_in(browser, shown, **headers).status_code == 403
        assert browser.post("/page/sign-out", headers=headers).status_code == 403
        assert not browser.cookies
        assert sign_in(browser, shown, **{"Sec-Fetch-Site": "same-origin", "Origin": server.url}).status_code == 303
        assert browser.get("/page/data/desk").status_code == 200
        assert browser.get("/", headers={"Sec-Fetch-Site": "none"}).status_code == 200
        for path in ("/", "/page/data/desk", "/tasks/mcp", "/metrics"):
            assert browser.get(path, headers=headers).status_code == 401, path
        assert browser.get("/", headers={"Origin": "null"}).status_code == 403


@pytest.mark.rule("page.door.bearer", "page.door.elsewhere")
def test_the_header_beats_the_cookie_and_two_cookies_are_none(server: HttpServer, folder: Path) -> None:
    shown = token(folder)
    with client(server) as browser:
        held = {"Authorization": f"Bearer {shown}"}
        assert browser.get("/", headers=held).status_code == browser.get("/page/data/desk", headers=held).status_code
        assert browser.get("/page/js/app.js", headers=held).status_code == 200
        wrong = {"Authorization": "Bearer wrong", "Cookie": f"carrel_token={shown}"}
        assert browser.get("/", headers=wrong).status_code == 401
        for cookie in (f"carrel_token={shown}; carrel_token={shown}", "carrel_token=", f"__Host-carrel_token={shown}"):
            assert browser.get("/", headers={"Cookie": cookie}).status_code == 401, cookie
        assert browser.get("/", headers={"Cookie": f"a=b; carrel_token={shown} ;c"}).status_code == 200


@pytest.mark.rule("page.door.secure", "page.door.limited")
def test_behind_https_the_cookie_is_the_hosts_own_and_tries_are_limited_by_address(folder: Path) -> None:
    shown = token(folder)
    settings = {
        "CARREL_AUTH_TOKENS": "true",
        "CARREL_SERVER_PUBLIC_URL": PUBLIC,
        "CARREL_LIMITS_SIGN_INS_A_MINUTE": "3",
    }
    server = HttpServer("--toolsets", "tasks", cwd=folder, **settings)
    try:
        assert f"carrel: the page is at {PUBLIC}/\n" in server.log
        with client(server, Host="desk.example.com", Origin=PUBLIC) as browser:
            welcome = sign_in(browser, shown)
            cookie = f"__Host-carrel_token={shown}; HttpOnly; SameSite=Strict; Path=/; Secure"
            assert (welcome.status_code, welcome.headers["set-cookie"]) == (303, cookie)
            kept = {"Cookie": f"__Host-carrel_token={shown}"}
            assert browser.get("/", headers=kept).status_code == 200
            assert browser.get("/", headers={"Cookie": f"carrel_token={shown}"}).status_code == 401
            assert [sign_in(browser, "wrong").status_code for _ in range(3)] == [401] * 3
            limited = sign_in(browser, "wrong")
            assert (limited.status_code, "Too many attempts" in limited.text) == (429, True)
            assert 0 < int(limited.headers["retry-after"]) <= 60
            assert "set-cookie" not in limited.headers
            assert browser.get("/", headers=kept).status_code == 200, "who is in stays in"
    finally:
        assert server.stop() == 143
