"""What is published: the wheel, the source package, the registry's description and the MCPB bundle."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import carrel
from carrel.settings import all_settings
from tests.official.nodejs import node, node_modules
from tests.wire import environment

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
SITE = sysconfig.get_path("purelib")
SOURCES = {
    path.as_posix()
    for path in (each.relative_to(ROOT / "src") for each in (ROOT / "src").rglob("*") if each.is_file())
    if not any(part == "__pycache__" or part.startswith(".") for part in path.parts)  # caches of tools
}


def build_wheel(root: Path, target: Path) -> Path:
    return Path(next(WheelBuilder(str(root)).build(directory=str(target), versions=["standard"])))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")))))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the script, and unpacked."""
    folder = tmp_path_factory.mktemp("bundle")
    file = folder / "carrel.mcpb"
    runpy.run_path(str(PACKAGING / "mcpb.py"))["build"](file)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")  # noqa: S202 - our own
    return folder


# --- wheel and source package


@pytest.mark.rule("connect.packages.wheel")
def test_the_wheel_holds_the_package_its_data_its_licences_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"carrel-{carrel.__version__}-py3-none-any.whl"
    info = f"carrel-{carrel.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        own = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
        assert names == SOURCES | own
        for each in ("search/providers/minilm/model.onnx", "search/providers/minilm/LICENSE", "py.typed"):
            assert f"carrel/{each}" in names
        assert sum(name.startswith("carrel/toolsets/") and name.endswith(".json") for name in names) >= 24
        here = str(ROOT).encode()
        assert [name for name in names if here in archive.read(name)] == []
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        assert b"carrel = carrel.cli:main" in archive.read(f"{info}/entry_points.txt")
    assert (metadata["Version"], metadata["License-Expression"]) == (carrel.__version__, "MIT")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).lstrip().startswith("# Carrel")


@pytest.mark.rule("connect.packages.wheel")
def test_the_source_package_holds_what_the_wheel_is_made_of(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    assert {path.name for path in root.iterdir()} <= {
        *("src", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore")
    }
    again = build_wheel(root, tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as two:
        assert {each.filename: each.CRC for each in one.infolist()} == {
            each.filename: each.CRC for each in two.infolist()
        }


@pytest.mark.rule("connect.packages.wheel")
def test_the_wheel_runs_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """With what it depends on lent by this environment, where the package itself is only linked and so not lent."""
    venv.create(tmp_path / "venv", with_pip=False)
    programs = tmp_path / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet"]
    quiet = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *quiet, str(wheel)], check=True, env=environment())
    env = environment(PYTHONPATH=SITE)

    def run(*words: str) -> str:
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout

    assert run(str(programs / "carrel"), "--version") == f"carrel {carrel.__version__}\n"
    place = run(str(programs / "python"), "-c", "import carrel; print(carrel.__file__)").strip()
    assert Path(place).is_relative_to(tmp_path / "venv")


# --- the registry


def described() -> dict[str, Any]:
    return json.loads((PACKAGING / "server.json").read_text(encoding="utf-8"))


@pytest.mark.rule("connect.packages.registry")
def test_the_registrys_description_is_valid_by_its_schema() -> None:
    """The schema as released, from a linter's package that carries it with its licence."""
    server = described()
    version = server["$schema"].split("/")[-2].replace("-", "_")
    text = (files("skillsaw.schemas.mcp_registry") / f"v{version}" / "server.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    assert schema["$id"] == server["$schema"]
    check = jsonschema_rs.validator_for(schema, validate_formats=True)
    assert [str(error) for error in check.iter_errors(server)] == []
    assert not check.is_valid({**server, "description": "x" * 101})
    assert not check.is_valid({**server, "name": "carrel"})


@pytest.mark.rule("connect.packages.registry")
def test_the_registrys_description_is_of_this_version_of_this_program() -> None:
    server = described()
    (package,) = server["packages"]
    assert (server["version"], package["version"]) == (carrel.__version__, carrel.__version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package["identifier"] == project["name"]
    assert f"mcp-name: {server['name']} " in (ROOT / project["readme"]).read_text(encoding="utf-8")
    variables = {setting.variable for setting in all_settings()}
    assert {each["name"] for each in package["environmentVariables"]} <= variables
    words = [each.get("value") or each["name"] for each in package["packageArguments"]]
    help_text = subprocess.run(
        [sys.executable, "-m", "carrel", words[0], "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert words[1] in help_text


# --- the bundle


def manifest() -> dict[str, Any]:
    return json.loads((PACKAGING / "manifest.json").read_text(encoding="utf-8"))


@pytest.mark.rule("connect.packages.bundle")
def test_the_bundle_holds_the_sources_and_the_version_of_the_program(bundle: Path) -> None:
    unpacked = bundle / "unpacked"
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    own = {"manifest.json", "server/main.py", "pyproject.toml", "README.md", "LICENSE"}
    assert found == own | {f"src/{name}" for name in SOURCES}
    assert manifest()["version"] == carrel.__version__
    assert manifest()["server"]["entry_point"] in found
    project = tomllib.loads((unpacked / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert manifest()["compatibility"]["runtimes"]["python"] == project["requires-python"]
    assert manifest()["description"] == project["description"]


@pytest.mark.rule("connect.packages.bundle")
def test_the_bundles_program_serves(bundle: Path, tmp_path: Path) -> None:
    """As its manifest says, but with our own environment instead of the one that uv makes."""
    command = manifest()["server"]["mcp_config"]
    filled = [
        word.replace("${__dirname}", str(bundle / "unpacked")).replace("${user_config.workspace}", str(tmp_path))
        for word in command["args"]
    ]
    entry = manifest()["server"]["entry_point"]
    assert [command["command"], *filled[:4]] == ["uv", "run", "--directory", str(bundle / "unpacked"), entry]
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}) + "\n"
    done = subprocess.run(
        [sys.executable, *filled[3:]],
        cwd=filled[2],
        env=environment(PYTHONPATH=os.pathsep.join([str(bundle / "unpacked" / "src"), SITE])),
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["version"] == carrel.__version__


@pytest.mark.slow  # the official suites are not installed for the fast tests
@pytest.mark.rule("connect.packages.bundle")
def test_the_official_packer_takes_the_bundle(bundle: Path, tmp_path: Path) -> None:
    def mcpb(*words: str | Path) -> subprocess.CompletedProcess[str]:
        program = node_modules() / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
        return subprocess.run(
            [node(), str(program), *map(str, words)],
            cwd=tmp_path,
            env=environment(HOME=str(tmp_path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    done = mcpb("validate", bundle / "unpacked" / "manifest.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "carrel" in mcpb("info", bundle / "carrel.mcpb").stdout
    small = tmp_path / "small"  # without the model, which it would compress for long
    shutil.copytree(bundle / "unpacked", small, ignore=shutil.ignore_patterns("model.onnx"))
    done = mcpb("pack", small, tmp_path / "official.mcpb")
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(tmp_path / "official.mcpb") as theirs, zipfile.ZipFile(bundle / "carrel.mcpb") as ours:
        packed = {name for name in theirs.namelist() if "/__pycache__/" not in name}  # which ours leaves out
        assert {name for name in ours.namelist() if not name.endswith("model.onnx")} == packed
    broken = manifest()
    broken["server"]["type"] = "snake"
    (small / "manifest.json").write_text(json.dumps(broken))
    assert mcpb("validate", small / "manifest.json").returncode == 1
