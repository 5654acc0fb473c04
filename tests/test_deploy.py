"""The files in deploy/: what can be checked of them without the engines that they are for, and what they start."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from carrel.settings import all_settings
from tests.programs import required
from tests.wire import environment

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
NOBODY = "65532:65532"
INSIDE = "/tmp/desk"  # noqa: S108 - within the sandbox - the place of the image's /desk in a sandbox
VARIABLES = {setting.variable for setting in all_settings()}


class Instruction(NamedTuple):
    word: str
    rest: str


def stages() -> list[list[Instruction]]:
    """The Dockerfile's instructions, by stage; those before the first FROM are the first stage's."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    found: list[list[Instruction]] = []
    for line in filter(str.strip, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Instruction(word, rest.strip()))
    return found


def the_last(word: str) -> str:
    return [each.rest for each in stages()[-1] if each.word == word][-1]


def image_environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", the_last("ENV")))


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


# --- Dockerfile


@pytest.mark.rule("operations.deploy.image")
def test_the_image_runs_as_nobody_and_has_nothing_to_build_with() -> None:
    build, final = stages()
    assert the_last("USER") == NOBODY
    assert f"--owner={NOBODY.partition(':')[0]}" in next(each.rest for each in final if each.word == "RUN")
    assert not [each for each in final if each.word == "RUN" and re.search(r"\b(apt|pip|gcc|curl)\b", each.rest)]
    assert [each.rest for each in final if each.word == "COPY"] == ["--from=build /opt/carrel /opt/carrel"]
    assert the_last("STOPSIGNAL") == "SIGTERM"
    assert "--retries=" in the_last("HEALTHCHECK")
    assert "org.opencontainers.image.title" in the_last("LABEL")
    for stage in (build, final):
        assert stage[0].rest.split()[0] == "python:${PYTHON}"
    assert re.search(r"^ARG PYTHON=3\.1\d-slim-\w+$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.rule("operations.deploy.image")
def test_what_the_image_is_built_from_is_there_and_nothing_else_goes_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    copied = {name for each in stages()[0] if each.word == "COPY" for name in each.rest.split()[:-1]}
    assert copied == let_in
    for name in copied:
        assert (ROOT / name).exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {project["project"]["readme"], *project["project"]["license-files"], "src", "pyproject.toml"}
    assert needed <= copied
    (extras,) = re.findall(r"\[([\w,]+)\]\"", next(each.rest for each in stages()[0] if each.word == "RUN"))
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()


@pytest.mark.rule("operations.deploy.variables")
def test_every_variable_of_ours_is_a_setting() -> None:
    text = (DEPLOY / "carrel.env.example").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:# )?(CARREL_\w+)=", text, re.MULTILINE))
    named |= {name for name in image_environment() if name.startswith("CARREL_")}
    assert len(named) > 6
    assert named <= VARIABLES


# --- the server that the image starts


def contained(desk: Path, *words: str) -> list[str]:
    """A command as the image runs it: nobody, no capability, a read-only root, /tmp in memory, one folder to write."""
    bwrap = required("bwrap")
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv to take the place of a container engine")
    desk.chmod(0o700)
    user, group = map(int, NOBODY.split(":"))
    for path in (desk, *desk.rglob("*")):
        os.chown(path, user, group)
    sandbox = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108 - within the sandbox
    places = [Path(sys.base_prefix), Path(sys.prefix), ROOT]
    # Python may be at home where nobody may look; a container has no such place.
    private = {each for place in places for each in place.parents if not each.stat().st_mode & 0o001}
    for folder in sorted(private):
        sandbox += ["--tmpfs", str(folder)]
    covered = {Path("/tmp"), *private}  # noqa: S108 - within the sandbox
    for place in places:  # where these are below what was just covered
        for parent in reversed(place.parents):
            if covered.intersection(parent.parents):
                sandbox += ["--dir", str(parent)]  # or bwrap makes it for root alone
        sandbox += ["--ro-bind", str(place), str(place)]
    sandbox += ["--bind", str(desk), INSIDE, "--chdir", INSIDE, "--die-with-parent", "--unshare-pid", "--"]
    nobody = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
    return [*sandbox, *nobody, "--bounding-set=-all", *words]


def variables(**more: str) -> dict[str, str]:
    programs = str(Path(sys.executable).parent)
    own = {**image_environment(), "PATH": f"{programs}:{os.environ['PATH']}"}
    return environment(**{**own, **more})


@pytest.mark.rule("operations.deploy.nobody")
def test_the_images_command_serves_as_nobody_on_a_read_only_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    desk = tmp_path / "desk"
    desk.mkdir()
    port = _free_port()
    env = variables(CARREL_SERVER_PORT=str(port), CARREL_EMBEDDINGS_PROVIDER="none")
    command = [*json.loads(the_last("ENTRYPOINT")), *json.loads(the_last("CMD"))]
    made = subprocess.run(
        contained(desk, "carrel", "token", "create", "--user", "ana", "--scopes", "tasks"),
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    server = subprocess.Popen(contained(desk, *command), env=env, stderr=subprocess.PIPE)
    try:
        _wait_until_healthy(port)
        probe = json.loads(the_last("HEALTHCHECK").partition("CMD ")[2])
        probe = [word.replace("8765", str(port)) for word in probe]
        subprocess.run(contained(desk, *probe), env=env, timeout=30, check=True)
        assert _add_task(port, None) == 401
        assert _add_task(port, token) == 200
        status = Path(f"/proc/{_server_pid(server.pid)}/status").read_text(encoding="ascii")
        assert "Uid:\t65532\t65532\t65532\t65532" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
    finally:
        os.kill(_server_pid(server.pid), 15)
        _, log = server.communicate(timeout=30)
    assert server.returncode == 143, log
    assert b"Traceback" not in log
    assert b"Read-only" not in log
    assert (desk / ".carrel" / "carrel.db").exists()
    touch = contained(desk, "touch", str(ROOT / "touched"))
    assert b"Read-only file system" in subprocess.run(touch, env=env, capture_output=True, check=False).stderr


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _wait_until_healthy(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=30).raise_for_status()
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _add_task(port: int, token: str | None) -> int:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add_task", "arguments": {"user_id": "ana", "title": "Water the plants"}},
    }
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    answer = httpx.post(f"http://127.0.0.1:{port}/tasks/mcp", json=message, headers=headers, trust_env=False)
    assert token is None or '"isError":false' in answer.text.replace(" ", ""), answer.text
    return answer.status_code


def _server_pid(pid: int) -> int:
    """Below the sandbox's own process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    for child in map(int, children):
        command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"serve" in command and not command[0].endswith(b"bwrap"):
            return child
        return _server_pid(child)
    return pid


# --- compose, nginx, systemd


@pytest.mark.rule("operations.deploy.compose")
def test_servers_start_after_migrations_and_those_after_the_database() -> None:
    services = compose()["services"]
    assert services["carrel"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["migrate"]["command"] == ["db", "upgrade"]
    for name in ("migrate", "carrel"):
        service = services[name]
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]  # noqa: S108 - within the sandbox - within the container
        assert service["cap_drop"] == ["ALL"]
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    for name in ("database", "proxy"):
        assert "healthcheck" in services[name]
        assert re.search(r":\d", services[name]["image"]), "pinned"
    assert services["proxy"]["ports"] == ["127.0.0.1:8765:8765"]


@pytest.mark.rule("operations.deploy.compose")
def test_secrets_come_from_a_file_of_which_only_an_example_is_kept() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert not re.search(r"password|secret", re.sub(r"#.*", "", text), re.IGNORECASE)
    services = compose()["services"]
    assert {services[name]["env_file"] for name in ("database", "migrate", "carrel")} == {"carrel.env"}
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert any(fnmatch("deploy/carrel.env", line.strip("/")) for line in ignored if line)


@pytest.mark.rule("operations.deploy.proxy")
def test_nginx_understands_its_configuration(tmp_path: Path) -> None:
    nginx = required("nginx")
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    path = tmp_path / "nginx.conf"
    text = text.replace("server carrel:8765 resolve", "server 127.0.0.1:8765")
    text = text.replace("/tmp/", f"{tmp_path}/")  # noqa: S108 - of a container; here another user's may be there
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([nginx, "-t", "-c", path, "-e", "stderr"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.rule("operations.deploy.unit")
def test_systemd_understands_the_unit_and_finds_it_shut_in(tmp_path: Path) -> None:
    systemd_analyze = required("systemd-analyze")
    text = (DEPLOY / "carrel.service").read_text(encoding="utf-8")
    unit = tmp_path / "carrel.service"
    unit.write_text(text.replace("/opt/carrel/bin/carrel", str(Path(sys.executable).with_name("carrel"))), "utf-8")
    done = subprocess.run([systemd_analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    words = [systemd_analyze, "security", "--offline=yes", "--threshold=20", unit]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.rule("operations.deploy.unit")
def test_the_unit_starts_commands_that_there_are() -> None:
    text = (DEPLOY / "carrel.service").read_text(encoding="utf-8")
    commands = re.findall(r"^Exec\w+=/opt/carrel/bin/carrel (.+)$", text, re.MULTILINE)
    assert commands == ["db upgrade", "serve --http"]
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=carrel", "SuccessExitStatus=143"):
        assert line in text.splitlines()
