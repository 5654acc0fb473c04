"""The page's files, as a browser gets them."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from carrel.page.assets import MEDIA_TYPES, STATIC
from tests.databases import prepare_desk
from tests.wire import PLAIN, HttpServer

FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    running = HttpServer("--toolsets", "tasks", cwd=prepare_desk(tmp_path_factory.mktemp("page")))
    yield running
    assert running.stop() == 143


@pytest.fixture(scope="module")
def page(server: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, verify=PLAIN) as client:
        yield client


@pytest.mark.rule("page.assets.served")
def test_the_page_and_each_of_its_files_come_with_their_type_and_a_tag(page: httpx.Client) -> None:
    for path, name in (("/", "index.html"), ("/favicon.ico", "icon.svg"), *((f"/page/{each}", each) for each in FILES)):
        if name == "sign-in.html":
            continue
        found = page.get(path)
        assert found.status_code == 200, path
        assert found.content == (STATIC / name).read_bytes()
        assert found.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
        assert found.headers["cache-control"] == "no-cache"
        again = page.get(path, headers={"If-None-Match": f'"x", {found.headers["etag"]}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", found.headers["etag"])
    head = page.head("/")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.rule("page.assets.headers")
@pytest.mark.parametrize(
    "path", ["/", "/page/icon.svg", "/page/none.js", "/page/data/desk", "/page/data/none", "/page/sign-in"]
)
def test_every_answer_of_the_page_keeps_a_browser_from_other_things(page: httpx.Client, path: str) -> None:
    headers = page.get(path).headers
    parts = [each.strip().partition(" ") for each in headers["content-security-policy"].split(";")]
    policy = {name: allowed for name, _, allowed in parts}
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == ("same-origin" if path == "/" else "no-referrer")
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]


@pytest.mark.rule("page.assets.headers")
def test_a_name_that_was_made_to_point_here_gets_no_page(page: httpx.Client) -> None:
    refused = page.get("/", headers={"Host": "evil.example"})
    assert refused.status_code == 421
    assert "content-security-policy" in refused.headers


@pytest.mark.rule("page.assets.closed")
def test_nothing_else_is_there_however_the_path_is_written(server: HttpServer, page: httpx.Client) -> None:
    paths = (
        "/page/",
        "/page/js/",
        "/page//index.html",
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/js/..%2f..%2fapp.py",
        "/page/.hidden.js",
        "/page/sign-in.html",
        "/page/index.html%00.js",
        "/page/css\\base.css",
        "/index.html",
    )
    for path in paths:
        request = page.build_request("GET", server.url)
        request.url = httpx.URL(server.url).copy_with(raw_path=path.encode())
        assert page.send(request).status_code == 404, path
    for path in ("/", "/page/icon.svg", "/page/data/desk"):
        refused = page.post(path)
        assert (refused.status_code, sorted(refused.headers["allow"].split(", "))) == (405, ["GET", "HEAD"])


@pytest.mark.rule("page.assets.own")
def test_the_page_names_nothing_elsewhere_and_nothing_that_is_not_there() -> None:
    named = re.compile(r"""(?:src|href|action)="([^"#]+)"|["'](/page/[^"'?]+)["']|url\(([^)]+)\)|from "([^"]+)\"""")
    for name in FILES:
        if not name.endswith((".html", ".css", ".js")):
            continue
        for groups in named.findall((STATIC / name).read_text(encoding="utf-8")):
            target = "".join(groups)
            assert "//" not in target, (name, target)
            if target.startswith("."):
                assert (STATIC / name).parent.joinpath(target).is_file(), (name, target)
            elif target.endswith(tuple(MEDIA_TYPES)):
                assert (STATIC / target.removeprefix("/page/")).is_file(), (name, target)


@pytest.mark.rule("page.door.none")
def test_without_doors_there_is_nothing_to_sign_in_to(page: httpx.Client) -> None:
    assert page.post("/page/sign-in", data={"token": "anything"}).status_code == 404
    assert page.post("/page/sign-out").status_code == 404
    assert page.get("/", headers={"Cookie": "carrel_token=anything"}).status_code == 200


@pytest.mark.rule("page.assets.told")
def test_serving_says_where_the_page_is(server: HttpServer) -> None:
    assert f"carrel: the page is at {server.url}/\n" in server.log


@pytest.mark.rule("page.assets.off")
def test_the_page_can_be_left_out(tmp_path: Path) -> None:
    server = HttpServer("--toolsets", "tasks", cwd=prepare_desk(tmp_path), CARREL_SERVER_PAGE="false")
    try:
        for path in ("/", "/page/icon.svg", "/page/data/desk", "/favicon.ico"):
            assert httpx.get(server.url + path, trust_env=False, verify=PLAIN).status_code == 404
        assert not any("page is at" in line for line in server.log)
    finally:
        assert server.stop() == 143
