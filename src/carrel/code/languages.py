"""What a file is written in, by its name or its first line: the lower-case common name."""

import re

TEXT = "text"

_EXTENSIONS = {
    "ada": "adb ads",
    "assembly": "asm s",
    "astro": "astro",
    "awk": "awk",
    "batch": "bat cmd",
    "c": "c h",
    "clojure": "clj cljc cljs edn",
    "cmake": "cmake",
    "coffeescript": "coffee",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ inl ipp tpp ixx cppm",
    "crystal": "cr",
    "csharp": "cs csx",
    "css": "css",
    "csv": "csv tsv",
    "cuda": "cu cuh",
    "cython": "pyx pxd pxi",
    "d": "d",
    "dart": "dart",
    "diff": "diff patch",
    "dockerfile": "dockerfile",
    "elixir": "ex exs",
    "elm": "elm",
    "erlang": "erl hrl",
    "fortran": "f f90 f95 f03 for",
    "fsharp": "fs fsi fsx",
    "gleam": "gleam",
    "glsl": "glsl vert frag",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "handlebars": "hbs handlebars",
    "haskell": "hs lhs",
    "hcl": "hcl tf tfvars",
    "html": "html htm xhtml",
    "ini": "ini cfg conf properties editorconfig",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "jinja": "j2 jinja jinja2",
    "json": "json jsonc json5 jsonl ndjson webmanifest geojson",
    "jupyter": "ipynb",
    "julia": "jl",
    "kotlin": "kt kts",
    "less": "less",
    "lisp": "lisp lsp el scm ss rkt",
    "lua": "lua",
    "makefile": "mk mak",
    "markdown": "md markdown mdown mdx",
    "nim": "nim nims",
    "nix": "nix",
    "objective-c": "m",
    "objective-cpp": "mm",
    "ocaml": "ml mli",
    "pascal": "pas pp dpr",
    "perl": "pl pm",
    "php": "php phtml php3 php4 php5 php7 phps inc",
    "powershell": "ps1 psm1 psd1",
    "prisma": "prisma",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "r": "r rmd",
    "rst": "rst",
    "ruby": "rb rake gemspec ru rbi",
    "rust": "rs",
    "sass": "sass",
    "scala": "scala sc sbt",
    "scss": "scss",
    "shell": "sh bash zsh ksh fish",
    "solidity": "sol",
    "sql": "sql",
    "starlark": "bzl bazel star",
    "svelte": "svelte",
    "swift": "swift",
    "tcl": "tcl",
    "tex": "tex sty cls bib",
    "toml": "toml",
    "typescript": "ts tsx mts cts",
    "vb": "vb vbs",
    "verilog": "v sv svh",
    "vhdl": "vhd vhdl",
    "vim": "vim",
    "vue": "vue",
    "wasm": "wat",
    "xml": "xml xsd xsl xslt svg plist csproj",
    "yaml": "yaml yml",
    "zig": "zig",
}
_BY_EXTENSION = {extension: language for language, each in _EXTENSIONS.items() for extension in each.split()}
_BY_NAME = {
    ".babelrc": "json",
    ".bashrc": "shell",
    ".dockerignore": "ignore",
    ".eslintrc": "json",
    ".gitattributes": "ini",
    ".gitconfig": "ini",
    ".gitignore": "ignore",
    ".npmignore": "ignore",
    ".npmrc": "ini",
    ".prettierrc": "json",
    ".profile": "shell",
    ".zshrc": "shell",
    "brewfile": "ruby",
    "build": "starlark",
    "cmakelists.txt": "cmake",
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "makefile",
    "go.mod": "go-mod",
    "go.sum": "go-mod",
    "go.work": "go-mod",
    "jenkinsfile": "groovy",
    "makefile": "makefile",
    "pipfile": "toml",
    "podfile": "ruby",
    "poetry.lock": "toml",
    "cargo.lock": "toml",
    "procfile": "yaml",
    "rakefile": "ruby",
    "vagrantfile": "ruby",
    "workspace": "starlark",
}
_INTERPRETERS = {
    "bash": "shell",
    "dash": "shell",
    "deno": "typescript",
    "fish": "shell",
    "ksh": "shell",
    "lua": "lua",
    "node": "javascript",
    "nodejs": "javascript",
    "bun": "typescript",
    "perl": "perl",
    "php": "php",
    "pypy": "python",
    "python": "python",
    "ruby": "ruby",
    "rscript": "r",
    "sh": "shell",
    "tsx": "typescript",
    "ts-node": "typescript",
    "zsh": "shell",
}
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?([^\s/]+)(?:[ \t]+([^\n]*))?")
_CPP_HEADER = re.compile(r"^[ \t]*(?:class|namespace|template|using|public:|private:|extern \"C\+\+\")\b", re.MULTILINE)
_NO_PROGRAMS = (
    "batch cmake css csv diff dockerfile glsl graphql handlebars hcl html ini jinja json jupyter less makefile "
    "markdown nix prisma protobuf rst sass scss starlark tex toml vim wasm xml yaml"
)
SOURCES = frozenset(_EXTENSIONS).difference(_NO_PROGRAMS.split())
"""The languages of programs, as against data, settings and prose."""


def language_of(path: str, text: str = "") -> str:
    """The language of a file; its text is looked at where the name does not say."""
    name = path.rpartition("/")[2].lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    stem, dot, extension = name.rpartition(".")
    if dot and stem and extension in _BY_EXTENSION:
        if extension == "h" and _CPP_HEADER.search(text):
            return "cpp"
        return _BY_EXTENSION[extension]
    if name.startswith(("dockerfile.", "containerfile.")):
        return "dockerfile"
    return _by_shebang(text)


def _by_shebang(text: str) -> str:
    found = _SHEBANG.match(text)
    if not found:
        return TEXT
    program = found[1]
    if program == "env":
        words = [word for word in (found[2] or "").split() if not word.startswith("-") and "=" not in word]
        program = words[0].rpartition("/")[2] if words else ""
    program = program.lower()
    return _INTERPRETERS.get(program) or _INTERPRETERS.get(program.rstrip("0123456789."), TEXT)
