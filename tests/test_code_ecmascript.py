"""Which files an import is, in TypeScript and JavaScript."""

from pathlib import Path

import pytest

from carrel.code.dependencies import ecmascript
from carrel.code.dependencies.lexer import Import
from tests.code_trees import imports_of, tree

FOUND = (
    "plain.ts both.ts folder.ts folder/index.tsx compiled.ts x.tsx m.mts types.d.ts data.json View.vue Comp.svelte "
    "index.ts pkg/lib/entry.js logo.svg a.b.ts style.css ref.ts globals.d.ts"
)


@pytest.mark.rule("code.dependencies.ecmascript")
def test_every_form_of_import_is_found_and_nothing_that_looks_like_one() -> None:
    text = r"""#!/usr/bin/env node
import a from "a1";
import * as b from 'a2'
import { c as d, type E } from "a3"
import f, { default as g } from "a4";
import "a5";
import type { T } from "a6";
import type U from "a7";
import defer * as late from "a8";
import x = require("r1");
export * from "a9";
export * as ns from "b1";
export { h, i as default } from "b2";
export type { V } from "b3";
import json from "b4" with { type: "json" };
import {
  many, // from "no"
  lines /* from "no" */,
} from "b5";
import from from "b6";
import { from } from "b7";
import { "odd name" as odd } from "b8";
import \u0061 from "b9";
import esc from "c\x311";
const r = require('r2'), s = module.require("r3"), t = require(`r4`);
const u = await import("d1"), v = import('d2', { with: {} }), w = import(`d3`);
type X = typeof import("d4"); let y: import("d5").Y;
const no1 = require(name), no2 = import(`./${name}`), no3 = obj.require("no"), no4 = obj.import("no");
const no5 = "import 'no'", no6 = 'require("no")';
const no7 = `import("no") ${require("r5")} require("no") ${`${import("d6")}`}`;
// import "no"
/* require("no") */
const re = /require("no")/, re2 = /[/"]import("no")/g, half = 4 / 2; const q = "/" + require("r6");
if (x) /import("no")/.test(y);
function f2() {} /import("no")/.exec(z);
const div = (a + b) / c / require("r7"); const obj2 = { import: 1, export: 2, require: 3 } / 2;
const n = i++ / 2; const arr = [1] / require("r8") / 1;
export const from1 = "no"; export default "no"; export { j, k };
import.meta.url; import.meta.resolve("no");
class A { import() { return "no" } require() {} }
x = a ? b : c / d; label: { /re'/ } let aposttrophe = "it's";
"""
    found = ecmascript.scan(text)
    assert found.warnings == ()
    assert [each.target for each in found.imports if each.kind == "import"] == [
        *(f"a{number}" for number in range(1, 10)),
        *(f"b{number}" for number in range(1, 10)),
        "c11",
    ]
    assert [each.target for each in found.imports if each.kind == "require"] == [f"r{number}" for number in range(1, 9)]
    assert [each.target for each in found.imports if each.kind == "dynamic"] == [f"d{number}" for number in range(1, 7)]


def test_tags_and_their_text_do_not_hide_what_follows() -> None:
    text = """
import React from "react";
const a = <p title="x">Don't // stop</p>;
const b = <p>it's a `tick` {f("x")} </p>;
const c = <img src={require("./a.png")} />;
const d = () => <A<string> b={<i/>}>/* text */ {lazy(() => import("./b"))}</A>;
export * from "./c";
"""
    found = ecmascript.scan(text)
    assert [each.target for each in found.imports] == ["react", "./a.png", "./b", "./c"]
    assert found.warnings == ()


def test_what_has_no_end_is_told_with_its_line() -> None:
    assert [
        tuple(each) for each in ecmascript.scan('import "a";\nconst x = "no end\nimport "b";\n`no end').warnings
    ] == [
        (2, "Unterminated string"),
        (4, "Unterminated template"),
    ]
    assert ecmascript.scan('const x = "no end\nimport "b";').imports == (Import("b"),)


@pytest.mark.rule("code.dependencies.ecmascript")
def test_files_are_found_by_extension_index_and_substitution(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "src/main.ts": """
import "./plain"; import "./both"; import "./folder"; import "./folder/"; import "./compiled.js"; import "./x.jsx";
import "./m.mjs"; import "./types"; import "./data.json"; import "./View.vue"; import "./Comp.svelte"; import ".";
import "./pkg"; import "./logo.svg?url"; import "../outside/../up"; import "./a.b"; import "../../../etc/passwd";
import "./style.css";
import "./missing"; import "react"; import "node:fs"; import "https://x/y.js"; import "/abs"; import "./main";
/// <reference path="./globals.d.ts" />
"""
            + "/// <reference path='./ref.ts' />\n",
            "src/pkg/package.json": '{"main": "./lib/entry"}',
            "src/old.js": 'require("./both"); require("./twin.js"); require("./dir"); require("./data");',
        },
    )
    tree(
        tmp_path,
        "src/plain.ts src/both.ts src/both.js src/folder.ts src/folder/index.tsx src/compiled.ts src/x.tsx src/m.mts "
        "src/types.d.ts src/data.json src/View.vue src/Comp.svelte src/index.ts src/pkg/lib/entry.js src/pkg/index.ts "
        "src/logo.svg up.ts src/a.b.ts src/style.css src/ref.ts src/globals.d.ts src/twin.js "
        "src/twin.ts src/dir/index.js src/dir/index.ts",
    )
    assert imports_of(tmp_path, "src/main.ts") == {
        f"src/{name}": "include" if name in ("ref.ts", "globals.d.ts") else "import" for name in sorted(FOUND.split())
    } | {"up.ts": "import"}
    assert list(imports_of(tmp_path, "src/old.js")) == [
        "src/both.js",
        "src/data.json",
        "src/dir/index.js",
        "src/twin.js",
    ]


@pytest.mark.rule("code.dependencies.tsconfig")
def test_paths_of_tsconfig_are_followed_with_what_it_extends(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "tsconfig.base.json": """{
  // comments and commas at the end are usual
  "compilerOptions": {
    "baseUrl": "./src", /* from here */
    "paths": {
      "@*": ["nowhere/*"], "@app/*": ["app/*"], "@app/special": ["other/special.ts",],
      "exact": ["exact/entry"], "*.css": ["styles/*.css"],
    },
  },
}""",
            "tsconfig.json": '{"extends": "./tsconfig.base", "files": []}',
            "src/main.ts": 'import "@app/a"; import "@app/special"; import "exact"; import "lib/b"; import "x.css";'
            'import "@app/none";',
            "web/tsconfig.json": '{"references": [{"path": "./tsconfig.app.json"}]}',
            "web/tsconfig.app.json": '{"compilerOptions": {"paths": {"~/*": ["./src/*"]}}}',
            "web/src/x.tsx": 'import "~/y";',
            "js/jsconfig.json": '{"compilerOptions": {"baseUrl": ".", "rootDirs": ["a", "b"]}}',
            "js/a/x.js": 'import "deep/z"; import "./other";',
        },
    )
    tree(
        tmp_path,
        "src/app/a.ts src/app/special.ts src/other/special.ts src/exact/entry.ts src/lib/b.ts "
        "src/styles/x.css web/src/y.ts js/deep/z.js js/b/other.js",
    )
    assert list(imports_of(tmp_path, "src/main.ts")) == [
        "src/app/a.ts",
        "src/exact/entry.ts",
        "src/lib/b.ts",
        "src/other/special.ts",
        "src/styles/x.css",
    ]
    assert list(imports_of(tmp_path, "web/src/x.tsx")) == ["web/src/y.ts"]
    assert list(imports_of(tmp_path, "js/a/x.js")) == ["js/b/other.js", "js/deep/z.js"]


@pytest.mark.rule("code.dependencies.workspaces")
@pytest.mark.parametrize("manager", ["npm", "pnpm"])
def test_packages_of_a_workspace_are_followed_by_name(tmp_path: Path, manager: str) -> None:
    workspace = (
        {"package.json": '{"workspaces": ["packages/*", "!packages/gone"]}'}
        if manager == "npm"
        else {"package.json": "{}", "pnpm-workspace.yaml": "packages:\n  - 'packages/*'\n  - '!packages/gone'\n"}
    )
    tree(
        tmp_path,
        workspace
        | {
            "packages/a/package.json": """{"name": "@acme/a",
                "imports": {"#in/*": "./src/inner/*.js"}, "exports": {".": "./src/main.ts"}}""",
            "packages/a/src/main.ts": """import "@acme/b"; import "@acme/b/sub/one"; import "@acme/b/closed";
import "@acme/c"; import "@acme/c/deep"; import "@acme/d"; import "#in/thing"; import "@acme/gone"; import "@acme/a";
import "@acme/e";""",
            "packages/b/package.json": """{"name": "@acme/b", "exports": {
                ".": {"types": "./dist/index.d.ts", "import": "./dist/index.js"},
                "./sub/*": {"default": "./lib/*.js"}}}""",
            "packages/c/package.json": '{"name": "@acme/c", "main": "lib/entry.js"}',
            "packages/d/package.json": '{"name": "@acme/d"}',
            "packages/e/package.json": '{"name": "@acme/e", "exports": "./only.js"}',
            "packages/gone/package.json": '{"name": "@acme/gone", "main": "x.js"}',
        },
    )
    tree(
        tmp_path,
        "packages/a/src/inner/thing.ts packages/b/src/index.ts packages/b/lib/one.js packages/b/closed.js "
        "packages/c/lib/entry.js packages/c/deep.js "
        "packages/d/src/index.ts packages/e/only.js packages/gone/x.js",
    )
    assert list(imports_of(tmp_path, "packages/a/src/main.ts")) == [
        "packages/a/src/inner/thing.ts",
        "packages/b/lib/one.js",
        "packages/b/src/index.ts",
        "packages/c/deep.js",
        "packages/c/lib/entry.js",
        "packages/d/src/index.ts",
        "packages/e/only.js",
    ]


@pytest.mark.rule("code.dependencies.ecmascript")
def test_the_scripts_of_components_are_read(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "a.vue": """<template><p>it's import "./no"</p></template>
<script setup lang="ts">\nimport x from "./x"\n</script>\n""",
            "b.svelte": """<script context="module">import "./x"</script>
<h1>import "./no"</h1><script>import "./y"</script>""",
            "c.astro": '---\nimport X from "./x";\n---\n<p>import "./no"</p>\n',
        },
    )
    tree(tmp_path, "x.ts y.ts no.ts")
    assert list(imports_of(tmp_path, "a.vue")) == ["x.ts"]
    assert list(imports_of(tmp_path, "b.svelte")) == ["x.ts", "y.ts"]
    assert list(imports_of(tmp_path, "c.astro")) == ["x.ts"]


@pytest.mark.rule("code.dependencies.tsconfig")
def test_the_nearest_tsconfig_counts_also_where_it_says_nothing_about_paths(tmp_path: Path) -> None:
    paths = '{"compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["shared/*"]}}}'
    importing = 'import "@/x";\nimport "shared/x";\nimport "./beside";\n'
    tree(
        tmp_path,
        {
            "tsconfig.json": paths,
            "main.ts": importing,
            "own/tsconfig.json": '{"compilerOptions": {"strict": true}}',
            "own/main.ts": importing,
            "own/deep/main.ts": importing,
            "extending/tsconfig.json": '{"extends": "../tsconfig.json"}',
            "extending/main.ts": importing,
            "split/tsconfig.json": '{"files": [], "references": [{"path": "./tsconfig.app.json"}]}',
            "split/tsconfig.app.json": '{"compilerOptions": {"paths": {"@/*": ["./*"]}}}',
            "split/main.ts": importing,
            "broken/tsconfig.json": "{",
            "broken/main.ts": importing,
        },
    )
    tree(tmp_path, "shared/x.ts beside.ts own/beside.ts own/deep/beside.ts extending/beside.ts split/x.ts")
    assert list(imports_of(tmp_path, "main.ts")) == ["beside.ts", "shared/x.ts"]
    assert list(imports_of(tmp_path, "own/main.ts")) == ["own/beside.ts"]
    assert list(imports_of(tmp_path, "own/deep/main.ts")) == ["own/deep/beside.ts"]
    assert list(imports_of(tmp_path, "extending/main.ts")) == ["extending/beside.ts", "shared/x.ts"]
    assert list(imports_of(tmp_path, "split/main.ts")) == ["split/x.ts"]
    assert list(imports_of(tmp_path, "broken/main.ts")) == []
