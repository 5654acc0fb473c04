"""Which files an import is, in Python, and in Go, Rust, Java, C, C++, Ruby and PHP."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from carrel.code.dependencies.resolver import resolve_imports
from carrel.code.dependencies.root_files import RootFiles, ScanJob
from carrel.code.dependencies.scanner import Scanner
from carrel.code.file_access import DenyList, FileOpener, OpenedFile
from tests.code_trees import imports_of, tree

CLASSES = "Same data/Row util/Strings util/Numbers kinds/A kinds/B kinds/package-info not/No"


@pytest.mark.rule("code.dependencies.python")
def test_python_imports_are_followed_through_packages_and_src_layouts(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "src/shop/__init__.py src/shop/cart.py src/shop/data/__init__.py src/shop/data/rows.py src/shop/data/kinds.py "
        "src/shop/stub.pyi src/shop/both.py src/shop/both.pyi src/shop/late.py src/shop/later.py src/shop/typed.py "
        "src/shop/data/star.py src/names/space/thing.py tools/helper.py tests/support.py "
        "src/shop/plugins/__init__.py src/shop/json.py",
    )
    text = """
import os, json
import shop.cart
import shop.data.rows as rows
import names.space.thing
from . import stub
from .both import x
from .data import kinds, NOTHING_OF_THE_KIND
from .data.star import *
from ..shop import nothing
from .missing import gone
from shop import cart as again
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from shop.typed import T
def f():
    import importlib
    importlib.import_module("shop.late")
    importlib.import_module(".later", __package__)
    importlib.import_module(".plugins", package="shop")
    importlib.import_module(name)
    __import__("shop.cart")
"""
    tree(
        tmp_path,
        {
            "src/shop/main.py": text,
            "tests/test_cart.py": "import support\nfrom shop.cart import C\nimport tools.helper\n",
        },
    )
    assert imports_of(tmp_path, "src/shop/main.py") == {
        "src/names/space/thing.py": "import",
        "src/shop/__init__.py": "import",
        "src/shop/both.py": "import",
        "src/shop/cart.py": "import",
        "src/shop/data/__init__.py": "import",
        "src/shop/data/kinds.py": "import",
        "src/shop/data/rows.py": "import",
        "src/shop/data/star.py": "import",
        "src/shop/late.py": "dynamic",
        "src/shop/later.py": "dynamic",
        "src/shop/plugins/__init__.py": "dynamic",
        "src/shop/stub.pyi": "import",
        "src/shop/typed.py": "import",
    }
    assert list(imports_of(tmp_path, "tests/test_cart.py")) == [
        "src/shop/cart.py",
        "tests/support.py",
        "tools/helper.py",
    ]


@pytest.mark.rule("code.dependencies.python")
def test_python_source_roots_of_the_settings_count_and_the_standard_library_is_not_hidden(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "code/lib/a/b.py": "",
            "app/x.py": "import a.b\nimport logging\nimport test.util",
            "app/logging.py": "",
            "test/util.py": "",
        },
    )
    assert list(imports_of(tmp_path, "app/x.py", ("code/lib",))) == ["code/lib/a/b.py", "test/util.py"]
    assert list(imports_of(tmp_path, "app/x.py")) == ["test/util.py"]


@pytest.mark.parametrize("package", ["fastapi", "starlette"])
@pytest.mark.rule("code.dependencies.python")
def test_python_imports_are_those_that_ruff_finds(package: str) -> None:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    command = [Path(sys.executable).parent / "ruff", "analyze", "graph", "--isolated", package]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=True)
    inside = f"{package}/"
    theirs = {
        (path, target)
        for path, targets in json.loads(done.stdout).items()
        for target in targets
        if path.startswith(inside) and target.startswith(inside) and path != target
    }
    opening, scanner = FileOpener(folder.parent, DenyList()), Scanner(seconds=60)
    ours: set[tuple[str, str]] = set()
    files = RootFiles(opening, job=ScanJob(seconds=60))
    for path in {path for path, _ in theirs}:
        opened = opening.open(path)
        assert isinstance(opened, OpenedFile)
        found, _ = resolve_imports(files, "python", path, scanner.scan("python", opened.content.decode()).imports)
        ours |= {(path, target) for target in found if target.startswith(inside)}
    assert len(theirs) > 100
    assert ours == theirs


@pytest.mark.rule("code.dependencies.go")
def test_a_go_import_is_the_files_of_its_package(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "go.mod": "// module x\nmodule example.com/shop // ours\n\nreplace example.com/old v1.2.3 => ./third/old\n",
            "go.work": "go 1.22\nuse (\n\t.\n\t./other\n)\n",
            "other/go.mod": "module example.com/other\n",
            "main.go": """package main

// import "example.com/shop/no"
import "fmt"
import c "example.com/shop/cart"
import (
    _ "example.com/shop/cart/deep"
    `example.com/old/x`
    /* "example.com/shop/no" */
    . "example.com/other/y"
    "example.com/shopping/no"
    "example.com/shop"
)

func main() { fmt.Println("import \\"example.com/shop/no\\"") }
""",
        },
    )
    tree(
        tmp_path,
        "cart/a.go cart/b.go cart/a_test.go cart/readme.md cart/deep/c.go no/x.go third/old/x/o.go other/y/y.go "
        "util.go vendor/github.com/q/r/r.go",
    )
    assert list(imports_of(tmp_path, "main.go")) == [
        "cart/a.go",
        "cart/b.go",
        "cart/deep/c.go",
        "other/y/y.go",
        "third/old/x/o.go",
        "util.go",
    ]


@pytest.mark.rule("code.dependencies.rust")
def test_rust_modules_uses_and_crates_of_the_workspace_are_followed(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
            "crates/app/Cargo.toml": '[package]\nname = "my-app"\n[dependencies]\nnick = { path = "../other" }\n',
            "crates/other/Cargo.toml": '[package]\nname = "other-one"\n',
            "crates/app/src/lib.rs": """
mod a; // mod not;
pub(crate) mod b;
/* mod not; /* nested */ use crate::not; */
#[cfg(test)]
#[path = "odd/place.rs"]
mod moved;
mod inline { mod inner; use super::a; #[cfg(test)] mod tests { use super::*; } }
use self::a::Thing;
use crate::{b::{self, deep::{Item, Other as Else}}, inline::inner::*};
use nick::sub::X;
use std::collections::HashMap;
const TEXT: &str = "mod not;";
const RAW: &str = r#"use crate::not; " "#;
fn f<'a>(x: &'a str) -> char { '"' }
const SQL: &str = include_str!("query.sql");
""",
            "crates/app/src/b/deep.rs": "use super::super::a::Y;\nuse super::Z;\nuse crate::a;\nuse other_one::sub;\n",
            "crates/app/tests/it.rs": "mod common;\nuse my_app::b::deep::Item;\n",
        },
    )
    tree(
        tmp_path,
        "crates/app/src/a.rs crates/app/src/b/mod.rs crates/app/src/odd/place.rs crates/app/src/inline/inner.rs "
        "crates/app/src/not.rs crates/app/src/query.sql crates/other/src/lib.rs crates/other/src/sub.rs "
        "crates/app/tests/common/mod.rs",
    )
    start = "crates/app/src/"
    assert imports_of(tmp_path, f"{start}lib.rs") == {
        f"{start}a.rs": "import",
        f"{start}b/deep.rs": "import",
        f"{start}b/mod.rs": "import",
        f"{start}inline/inner.rs": "import",
        f"{start}odd/place.rs": "import",
        f"{start}query.sql": "include",
        "crates/other/src/sub.rs": "import",
    }
    assert list(imports_of(tmp_path, f"{start}b/deep.rs")) == [
        f"{start}a.rs",
        f"{start}b/mod.rs",
        "crates/other/src/sub.rs",
    ]
    assert list(imports_of(tmp_path, "crates/app/tests/it.rs")) == [
        f"{start}b/deep.rs",
        "crates/app/tests/common/mod.rs",
    ]


@pytest.mark.rule("code.dependencies.java")
def test_java_imports_are_classes_members_and_whole_packages(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "core/src/main/java/com/acme/App.java": """
package com.acme;
// import com.acme.not.No;
import java.util.List;
import com.acme.data.Row;
import com.acme.data.Row.Inner;
import static com.acme.util.Strings.join;
import static com.acme.util.Numbers.*;
import com.acme.kinds.*;
import com.acme.lib.Shared;
public class App { String s = "import com.acme.not.No;"; Same same; }
""",
            "core/src/test/java/com/acme/AppTest.java": "package com.acme; import com.acme.data.Row; class AppTest {}",
        },
    )
    tree(
        tmp_path,
        " ".join(f"core/src/main/java/com/acme/{name}.java" for name in CLASSES.split())
        + " lib/src/main/java/com/acme/lib/Shared.java",
    )
    start = "core/src/main/java/com/acme/"
    assert list(imports_of(tmp_path, f"{start}App.java")) == [
        f"{start}data/Row.java",
        f"{start}kinds/A.java",
        f"{start}kinds/B.java",
        f"{start}util/Numbers.java",
        f"{start}util/Strings.java",
        "lib/src/main/java/com/acme/lib/Shared.java",
    ]
    assert list(imports_of(tmp_path, "core/src/test/java/com/acme/AppTest.java")) == [f"{start}data/Row.java"]


@pytest.mark.rule("code.dependencies.c")
@pytest.mark.parametrize("name", ["main.c", "main.cpp"])
def test_c_includes_are_looked_for_beside_the_file_and_where_headers_are_kept(tmp_path: Path, name: str) -> None:
    tree(
        tmp_path,
        {
            f"src/net/{name}": """
#include <stdio.h>
#include "local.h"
  #  include "../up.h" /* why */
#include <acme/api.h>
#include "acme/impl.h"
#include "root.h"
// #include "not.h"
/*
#include "not.h"
*/
#include MACRO
const char *s = "\\
#include \\"not.h\\"";
const char c = '"';
#ifdef X
#import "both.h"
#endif
"""
        },
    )
    tree(
        tmp_path,
        "src/net/local.h include/local.h src/up.h include/acme/api.h src/acme/impl.h root.h not.h src/net/not.h "
        "include/both.h src/net/both.h",
    )
    assert imports_of(tmp_path, f"src/net/{name}") == dict.fromkeys(
        ["include/acme/api.h", "root.h", "src/acme/impl.h", "src/net/both.h", "src/net/local.h", "src/up.h"], "include"
    )


def test_a_raw_string_of_cpp_is_read_over(tmp_path: Path) -> None:
    tree(tmp_path, {"a.cc": 'auto s = R"x(\n#include "b.h"\n)x";\n#include "c.h"\n', "b.h": "", "c.h": ""})
    assert list(imports_of(tmp_path, "a.cc")) == ["c.h"]


@pytest.mark.rule("code.dependencies.ruby")
def test_ruby_requires_loads_and_autoloads_are_followed(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "lib/shop/main.rb": """
require 'json'
require "shop/cart"
require_relative 'near'
require_relative "../top.rb"
load 'tasks/run.rb'
autoload :Late, "shop/late"
require File.expand_path('../far', __FILE__)
require File.join(__dir__, 'beside')
require "#{__dir__}/inter"
require "shop/#{name}"
# require 'shop/not'
=begin
require 'shop/not'
=end
text = <<~TEXT
  require 'shop/not'
TEXT
object.require 'shop/not'
puts "require 'shop/not'"
require('shop/paren') if ready
__END__
require 'shop/not'
"""
        },
    )
    tree(
        tmp_path,
        " ".join(f"lib/shop/{name}.rb" for name in ("cart", "near", "late", "far", "beside", "inter", "not", "paren"))
        + " lib/top.rb tasks/run.rb",
    )
    assert imports_of(tmp_path, "lib/shop/main.rb") == {
        "lib/shop/beside.rb": "require",
        "lib/shop/cart.rb": "require",
        "lib/shop/far.rb": "require",
        "lib/shop/inter.rb": "require",
        "lib/shop/late.rb": "dynamic",
        "lib/shop/near.rb": "require",
        "lib/shop/paren.rb": "require",
        "lib/top.rb": "require",
        "tasks/run.rb": "require",
    }


@pytest.mark.rule("code.dependencies.php")
def test_php_includes_requires_and_uses_are_followed(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "composer.json": '{"autoload": {"psr-4": {"Acme\\\\": ["src/", "more/"]}, "psr-0": {"Old_": "old"}},'
            ' "autoload-dev": {"psr-4": {"Tests\\\\": "tests"}}}',
            "src/Http/Kernel.php": """<p>require 'not.php';</p>
<?php
namespace Acme\\Http;

use Acme\\Data\\Row;
use Acme\\Data\\{Table, Column as Col};
use Acme\\Extra, Tests\\Helper;
use Old_Style_Thing;
use function Acme\\not;
use Psr\\Log\\LoggerInterface;
// use Acme\\Not;
# include 'not.php';
/* require 'not.php'; */
require_once __DIR__ . '/near.php';
require dirname(__DIR__) . '/up.php';
include dirname(__FILE__, 2) . "/up2.php";
include_once('web/page.php');
include $name . '.php';
$text = "require 'not.php';";
$doc = <<<EOT
require 'not.php';
EOT;
class Kernel { use Acme\\SomeTrait; function f() {
  return function () use ($x) { return $this->include('not.php'); }; } }
?>
<p>include 'not.php';</p>
""",
        },
    )
    tree(
        tmp_path,
        "src/Data/Row.php src/Data/Table.php src/Data/Column.php more/Extra.php tests/Helper.php "
        "old/Old/Style/Thing.php src/Not.php "
        "src/Http/near.php src/up.php src/up2.php web/page.php src/Http/not.php not.php src/SomeTrait.php",
    )
    assert imports_of(tmp_path, "src/Http/Kernel.php") == {
        "more/Extra.php": "import",
        "old/Old/Style/Thing.php": "import",
        "src/Data/Column.php": "import",
        "src/Data/Row.php": "import",
        "src/Data/Table.php": "import",
        "src/Http/near.php": "require",
        "src/up.php": "require",
        "src/up2.php": "include",
        "tests/Helper.php": "import",
        "web/page.php": "include",
    }


@pytest.mark.rule("code.dependencies.rust")
def test_a_rust_folder_called_tests_is_of_a_crate_of_its_own_only_at_the_top_of_its_package(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "Cargo.toml": '[package]\nname = "app"\n',
            "src/lib.rs": "mod parser;\nmod shared;\n",
            "src/parser.rs": "mod tests;\nmod examples;\n",
            "src/parser/tests/mod.rs": "mod deep;\n",
            "src/parser/tests/deep.rs": "use crate::shared;\nuse super::super::examples;\nmod below;\n",
            "tests/top.rs": "mod common;\nuse crate::common;\n",
        },
    )
    tree(tmp_path, "src/shared.rs src/parser/examples.rs src/parser/tests/deep/below.rs tests/common/mod.rs")
    assert list(imports_of(tmp_path, "src/parser/tests/deep.rs")) == [
        "src/parser/examples.rs",
        "src/parser/tests/deep/below.rs",
        "src/shared.rs",
    ]
    assert list(imports_of(tmp_path, "tests/top.rs")) == ["tests/common/mod.rs"]


@pytest.mark.rule("code.dependencies.rust")
def test_rust_crates_start_with_the_files_that_cargo_toml_names(tmp_path: Path) -> None:
    manifest = """
[package]
name = "app"
build = "tools/make.rs"
[lib]
path = "lib/entry.rs"
[[bin]]
name = "run"
path = "programs/run.rs"
[[test]]
name = "all"
path = "checks/all.rs"
[[bench]]
path = 7
"""
    tree(
        tmp_path,
        {
            "Cargo.toml": manifest,
            "lib/entry.rs": "mod a;\n",
            "lib/a.rs": "use crate::b;\n",
            "programs/run.rs": "mod options;\nuse app::a;\n",
            "checks/all.rs": "mod helper;\nuse crate::helper::thing;\nuse app::a;\n",
            "checks/helper.rs": "use crate::other;\nmod inner;\n",
            "tools/make.rs": "mod steps;\n",
        },
    )
    tree(tmp_path, "lib/b.rs programs/options.rs checks/other.rs checks/helper/inner.rs tools/steps.rs")
    assert list(imports_of(tmp_path, "lib/entry.rs")) == ["lib/a.rs"]
    assert list(imports_of(tmp_path, "lib/a.rs")) == ["lib/b.rs"]
    assert list(imports_of(tmp_path, "programs/run.rs")) == ["lib/a.rs", "programs/options.rs"]
    assert list(imports_of(tmp_path, "checks/all.rs")) == ["checks/helper.rs", "lib/a.rs"]
    assert list(imports_of(tmp_path, "checks/helper.rs")) == ["checks/helper/inner.rs", "checks/other.rs"]
    assert list(imports_of(tmp_path, "tools/make.rs")) == ["tools/steps.rs"]


@pytest.mark.rule("code.dependencies.links")
def test_a_link_that_leads_nowhere_hides_nothing_beside_it(tmp_path: Path) -> None:
    tree(tmp_path, {"main.py": "import b\nfrom c import d\n", "main.ts": 'import "./e";\n', "b.py": "", "e.ts": ""})
    tree(tmp_path, "c/__init__.py c/d.py")
    for name, target in (("loop", "loop"), ("one", "two"), ("two", "one"), ("none", "nothing"), ("c/up", "..")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "__init__.py").symlink_to("__init__.py")
    assert list(imports_of(tmp_path, "main.py")) == ["b.py", "c/d.py"]
    assert list(imports_of(tmp_path, "main.ts")) == ["e.ts"]
