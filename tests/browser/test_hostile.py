"""A workspace in which every text is an attack: it is shown as text, and nothing else happens."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Dialog, expect

from carrel.content.bundle.importer import import_content
from carrel.workspace import find_workspace
from tests.browser.conftest import OpenPage, Shot
from tests.browser.pages import Trouble, until, visit
from tests.wire import MODERN, HttpServer, HttpWire, call

pytestmark = pytest.mark.xdist_group("browser")

ATTACKS = [
    "<script>window.__xss=1</script>",
    "</script><script>window.__xss=1</script>",
    "<img src=x onerror=window.__xss=1>",
    "\"><img src=x onerror='window.__xss=1'>",
    "'><svg onload=window.__xss=1>",
    "<svg><script>window.__xss=1</script></svg>",
    "<svg><animate onbegin=window.__xss=1 attributeName=x dur=1s>",
    "<svg><a xlink:href='javascript:window.__xss=1'><text y=9>x</text></a></svg>",
    "<a href='javascript:window.__xss=1' autofocus onfocus=window.__xss=1>x</a>",
    "javascript:window.__xss=1//",
    "data:text/html,<script>opener.__xss=1</script>",
    "<iframe srcdoc='<script>parent.__xss=1</script>'></iframe>",
    "<object data=http://evil.example/o></object><embed src=http://evil.example/e>",
    "<link rel=stylesheet href=http://evil.example/s.css><style>@import 'http://evil.example/i.css'</style>",
    "<base href=http://evil.example/><meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<form action=http://evil.example><button autofocus formaction=javascript:__xss=1>x",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror=__xss=1&gt;'>",
    "<noscript><p title='</noscript><img src=x onerror=window.__xss=1>'>",
    "<template><img src=x onerror=window.__xss=1></template>",
    "<details open ontoggle=window.__xss=1><summary>x</summary></details>",
    "<video><source onerror=window.__xss=1></video><audio src=http://evil.example/a autoplay>",
    "<body onload=window.__xss=1><input onfocus=window.__xss=1 autofocus>",
    "{{constructor.constructor('window.__xss=1')()}} ${window.__xss=1} <%= 7*7 %> #{7*7}",
    "![x](http://evil.example/pixel.png) [x](javascript:window.__xss=1) <http://evil.example>",
    "red; background: url(http://evil.example/c) } * { display: none }",
    "expression(window.__xss=1) -moz-binding:url(http://evil.example/b)",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "toString",
    "\u202egnp.live\u202c \u2066rtl\u2069 \u200f\u061c mark",
    "zero\u200bwidth\u200c\u200d\ufeff joined",
    "%3Cscript%3Ewindow.__xss=1%3C/script%3E &lt;img src=x onerror=__xss=1&gt;",
    "Zalgo " + "e\u0301\u0302\u0303\u0304\u0305" * 20,
    "W" * 200,
    "','x');window.__xss=1;//\\",
]
USER = '"><img src=x onerror=window.__xss=1>'
PROJECT = "0000000a-0000-4000-a000-000000000001"
ALSO_IN_FILES = "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07"

_CANARY = "Object.defineProperty(window, '__xss', { set() { console.error('a script of the attack ran') } })"
_HARM = """() => {
  const own = (node, name) => new URL(node.getAttribute(name), location.href).origin === location.origin;
  const all = [...document.querySelectorAll("*")];
  const told = (node) => node.outerHTML.slice(0, 200);
  return {
    listeners: all.filter((node) => node.getAttributeNames().some((name) => /^on/i.test(name))).map(told),
    foreign: all.filter((node) => ["src", "href", "xlink:href", "action", "data", "formaction"]
      .some((name) => node.hasAttribute(name) && !own(node, name))).map(told),
    strange: all.filter((node) => /^(iframe|object|embed|base|style|template|video|audio|math|animate)$/i
      .test(node.localName)).map(told),
    images: document.querySelectorAll("img").length,
    scripts: [...document.scripts].map((node) => node.src.replace(location.origin, "")),
    polluted: Object.keys(Object.prototype).concat(typeof ({}).toString === "function" ? [] : ["toString"]),
  };
}"""
_HARMLESS = {
    "listeners": [],
    "foreign": [],
    "strange": [],
    "images": 1,
    "scripts": ["/page/js/theme.js", "/page/js/app.js"],
    "polluted": [],
}


def _entity(number: int) -> str:
    return f"0000000e-0000-4000-a000-{number:012x}"


def _bundle() -> dict[str, Any]:
    project = {"id": PROJECT, "slug": "hostile", "name": ATTACKS[2], "description": ATTACKS[0]}
    ids = [_entity(number) for number in range(len(ATTACKS))]
    entities = [
        {
            "id": ids[number],
            "project": "hostile",
            "entityType": ("guide", "concept")[number % 2],
            "slug": f"attack-{number}",
            "title": text,
            "summary": f"{text} as a summary",
            "status": "published",
            "canonicalUrl": "https://evil.example/canonical",
        }
        for number, text in enumerate(ATTACKS)
    ]
    relations = [
        {
            "project": "hostile",
            "relationType": "GUIDE_USES_CONCEPT",
            "fromEntityType": "guide",
            "fromEntityId": ids[number],
            "toEntityType": "concept",
            "toEntityId": ids[number + 1],
            "notes": ATTACKS[number],
        }
        for number in range(0, len(ids) - 1, 2)
    ]
    return {"projects": [project], "entities": entities, "relations": relations}


def _fill(folder: Path) -> None:
    toolsets = ["bridge", "notes", "tasks", "code", "journal"]
    settings = f'[server]\ntoolsets = {json.dumps(toolsets)}\n[notes]\nvault = "notes"\n[code]\nroot = "code"\n'
    (folder / "carrel.toml").write_text(settings, encoding="utf-8")
    (folder / "notes").mkdir()
    for number, text in enumerate(ATTACKS):
        name = text.replace("/", "|")[:60] if number % 2 else f"note {number}"
        body = f"---\ntags: [hostile]\n---\n# {text}\n\n{text} [[note {number // 4 * 2}]] [[{text}]]\n"
        (folder / "notes" / f"{name}.md").write_text(body, encoding="utf-8")
    (folder / "code").mkdir()
    lines = [f"# attack {text}" for text in (*ATTACKS, ALSO_IN_FILES)]
    (folder / "code" / "<img src=x onerror=__xss=1>.py").write_text("\n".join(lines), encoding="utf-8")
    bundle = folder / "bundle.json"
    bundle.write_text(json.dumps(_bundle()), encoding="utf-8")
    import_content(find_workspace(folder, {}, environment={}).location, [bundle])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("hostile")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_fill, folder).result()
    server = HttpServer("--workspace", str(folder), cwd=folder)
    wire = HttpWire(MODERN, server.url)
    for text in (*ATTACKS, ALSO_IN_FILES):
        task = {"user_id": USER, "title": text[:200], "description": text}
        assert not call(wire, "add_task", task)["isError"], text
        found = {"type": "rule", "content": text, "module": text[:60].strip()}
        assert not call(wire, "record_discovery", found)["isError"], text
    wire.close()
    yield server
    server.stop()


@pytest.mark.rule("browser.hostile.shown", "browser.hostile.harmless", "browser.tasks.user")
def test_hostile_texts_are_shown_as_they_are_in_every_view_and_do_nothing(
    open_page: OpenPage, trouble: Trouble, shot: Shot
) -> None:
    page = open_page()
    page.add_init_script(_CANARY)
    dialogs: list[str] = []

    def refuse(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)

    def harmless(place: str) -> None:
        assert page.evaluate(_HARM) == _HARMLESS, place
        assert dialogs == [], place
        assert trouble.found == [], place

    visit(page, "tasks")
    page.get_by_label("User").fill(USER)
    page.keyboard.press("Enter")
    page.locator(".task").first.wait_for()
    titles = page.locator(".task label").evaluate_all("(nodes) => nodes.map((node) => node.textContent)")
    assert sorted(titles) == sorted(text.strip()[:200] for text in (*ATTACKS, ALSO_IN_FILES))
    expect(page.locator(".whose")).to_contain_text(USER)
    page.get_by_role("button", name="Delete").first.click()
    harmless("tasks")
    shot(page, "hostile-tasks")
    page.keyboard.press("Escape")

    arguments = json.dumps({"user_id": USER, "__proto__": {"polluted": 1}})
    places = {
        "desk": None,
        "graph": None,
        "graph?" + urlencode({"node": "note 0.md"}): ATTACKS[0],
        "graph?" + urlencode({"source": "content", "project": PROJECT}): None,
        f"content?project={PROJECT}": ATTACKS[2],
        f"content?project={PROJECT}&entity={_entity(2)}": f"{ATTACKS[2]} as a summary",
        "code?by=discoveries": ATTACKS[-2],
        "code?q=attack": ATTACKS[0],
        f"code?file={quote('<img src=x onerror=__xss=1>.py')}&line=3": ATTACKS[1],
        "try?" + urlencode({"toolset": "tasks", "tool": "list_tasks", "args": arguments}): None,
        "try?toolset=<img src=x onerror=__xss=1>&tool=__proto__&args={": None,
    }
    for place, wanted in places.items():
        visit(page, place)
        if "list_tasks" in place:
            page.get_by_role("button", name="Call", exact=True).click()
            expect(page.get_by_role("region", name="Result")).to_contain_text("<svg onload=window.__xss=1>")
        if wanted is not None:
            until(page, "(text) => document.querySelector('main').textContent.includes(text)", wanted)
        harmless(place)
        shot(page, f"hostile-{place.partition('?')[0]}")
