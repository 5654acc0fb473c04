"""Everything a developer does here, each as one line that sets itself up: python3 dev.py VERB.

    run ARGS...   the program itself: python3 dev.py run serve --http
    test          everything: set-up, lint, every test, coverage; --fast leaves out what is slow
    test ARGS...  the tests that pytest finds for these arguments and nothing else: tests/test_stdio.py -k signal
    lint          ruff, pyright, import directions
    format FILE.. ruff's fixes and its layout, in these files or in all
    docs          write the generated pages of docs/ anew, and the answers in their examples
    pictures      take the documentation's picture of the page anew, in docs/assets, with Chromium
    site          the documentation as a site to read offline, in .dev/site
    constraints   write the newest versions of all packages into constraints.txt; then run test
    bench NAME... a program of benchmarks/ with its own arguments (--help tells them): calls, code, code_dependencies,
                  cold_start, compare, content, fleet, fuzz, lost_updates, notes, page, retrieval, search, search_real,
                  search_text_engines or size; calls without a name. all: every one at the size of a report

Uses the virtual environment it is started in, else makes .venv. Needs Python 3.11 or later and nothing else:
PostgreSQL and Node.js come as Python packages, and other programs that tests drive by apt-get where that is allowed;
elsewhere the tests that need one are skipped. How long each step took is said, and kept in .dev/timings.json.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from tests.programs import missing_programs

HERE = Path(__file__).resolve().parent
STATE = HERE / ".dev"
PROJECT = HERE / "pyproject.toml"
CONSTRAINTS = HERE / "constraints.txt"
CONSTRAINTS_HEAD = "# Versions that passed the tests. Written by `python3 dev.py constraints`.\n"
# Most of what is installed is never imported, so that compiling all of it at once takes longer.
QUIET = ("--quiet", "--disable-pip-version-check", "--no-warn-script-location", "--no-compile")
PIP_INSTALL = ("-m", "pip", "install", *QUIET)
NODE_PACKAGE_USERS = ("tests/official", "tests/browser/test_apps.py", "tests/test_packages.py")
WRITERS = {"docs": "tests.generated", "pictures": "tests.browser.pictures"}
# One more than the cores of a small machine: many tests wait for something.
PARALLEL = ("-n", "3", "--dist", "worksteal")
timings_lock = Lock()


def python() -> str:
    """The interpreter of the environment to work in."""
    if sys.prefix != sys.base_prefix:
        return sys.executable
    folder = HERE / ".venv"
    if not python_in(folder).exists():
        say("making .venv")
        with timed("environment made"):
            venv.create(folder, with_pip=True)
    return str(python_in(folder))


def python_in(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def say(text: str) -> None:
    print(f"dev: {text}", file=sys.stderr, flush=True)


@contextmanager
def timed(step: str) -> Generator[None]:
    """Say how long a step took, once it is done."""
    started = time.monotonic()
    yield
    took(step, time.monotonic() - started)


def took(step: str, seconds: float) -> None:
    say(f"{step} in {seconds:.1f} s")
    file = STATE / "timings.json"
    with timings_lock:
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(known | {step: round(seconds, 1)}, indent=2) + "\n", encoding="utf-8")


def run(*words: str, **environment: str) -> None:
    """Run a program, with this environment's programs first on PATH; its failure is ours."""
    path = os.pathsep.join([str(Path(python()).parent), os.environ.get("PATH", "")])
    done = subprocess.run(words, cwd=HERE, env=os.environ | {"PATH": path} | environment, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def once(name: str, content: str) -> Path | None:
    """A stamp to write when the step `name` is done for this content; None if it was done before."""
    digest = hashlib.sha256((python() + content).encode()).hexdigest()
    stamp = STATE / f"{name}-{digest[:16]}"
    return None if stamp.exists() else stamp


def install(*groups: str) -> None:
    """The package, editable, and the dependency groups named; with its extras, unless it is only to run."""
    text = PROJECT.read_text(encoding="utf-8") + CONSTRAINTS.read_text(encoding="utf-8")
    stamp = once(f"python-{'-'.join(groups)}", text)
    if stamp is None or (not groups and once("python-test", text) is None):
        return
    say("installing Python packages")
    with timed(f"packages for {'tests' if groups else 'running'} installed"):
        run(python(), *PIP_INSTALL, "--constraint", str(CONSTRAINTS), *requirements(*groups))
    written(stamp)


def requirements(*groups: str) -> list[str]:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    extras = f"[{','.join(project['project']['optional-dependencies'])}]" if groups else ""
    needed = [requirement for group in groups for requirement in project["dependency-groups"][group]]
    return ["--editable", f".{extras}", *needed]


def refresh_constraints() -> None:
    """Write down the newest versions that go together, of everything that can be asked for."""
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["dependency-groups"]
    with tempfile.TemporaryDirectory() as folder, timed("newest packages installed"):
        venv.create(folder, with_pip=True)
        program = str(python_in(Path(folder)))
        run(program, *PIP_INSTALL, *requirements(*groups))
        words = [program, "-m", "pip", "freeze", "--exclude-editable"]
        found = subprocess.run(words, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True).stdout
    CONSTRAINTS.write_text(CONSTRAINTS_HEAD + found, encoding="utf-8")
    say(f"{CONSTRAINTS.name} is written; now run the tests with it")


def install_programs() -> None:
    """The programs that tests drive, by apt-get. A failure is only said: tests that need a program are skipped."""
    if not (missing := missing_programs()):
        return
    names = ", ".join(program.name for program in missing)
    if (apt_get := apt_get_command()) is None:
        say(f"not installed, and apt-get is not there or not allowed: {names}; tests that need them are skipped")
        return
    say(f"installing {names}")
    with timed("programs installed"):
        quiet_run(*apt_get, "update", "-qq")
        install = (*apt_get, "install", "-qq", "--no-install-recommends")
        if not quiet_run(*install, *(program.package for program in missing)):
            for program in missing:  # one that this system does not have must not keep it from the others
                quiet_run(*install, program.package)


def apt_get_command() -> list[str] | None:
    """How to call apt-get here without being asked anything; None where that cannot be."""
    if shutil.which("apt-get") is None:
        return None
    # Runlevel 1 is the one in which packages start no service. Somebody else may be installing at this moment.
    settings = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    command = [*settings, "apt-get", "-o", "DPkg::Lock::Timeout=120"]
    if os.geteuid() == 0:
        return command
    sudo = ["sudo", "-n"]
    may = shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode == 0
    return [*sudo, *command] if may else None


def quiet_run(*words: str) -> bool:
    """Run a program without its output; whether it succeeded, which is said if it did not."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        say(f"warning: {' '.join(words)} failed with status {done.returncode}")
    return done.returncode == 0


def install_node_packages() -> None:
    manifest = HERE / "tests" / "official" / "package.json"
    stamp = once("node", manifest.read_text(encoding="utf-8"))
    if stamp is None:
        return
    say("installing the official suites")
    shutil.rmtree(STATE / "node_modules", ignore_errors=True)
    program = "from pathlib import Path; from tests.official.nodejs import install_packages as i; i(Path('.dev'))"
    with timed("official suites installed"):
        run(python(), "-c", program)
    written(stamp)


def written(stamp: Path) -> None:
    stamp.parent.mkdir(exist_ok=True)
    stamp.touch()


def lint() -> None:
    install("test")
    with timed("checked"):
        run("ruff", "check", ".")
        run("ruff", "format", "--check", ".")
        run("pyright", "--pythonpath", python())
        run("lint-imports", "--no-logo", "--no-cache")


def test(*arguments: str) -> None:
    """Everything, everything that is fast, or the tests that the arguments choose."""
    chosen = [word for word in arguments if word != "--fast"]
    fast = ["-m", "not slow", "--ignore=tests/official"] if "--fast" in arguments else []
    if chosen:
        install("test")
        if not fast and needs_node_packages(chosen):
            install_node_packages()
        pytest(*fast, *chosen)
    elif fast:
        lint()
        pytest(*PARALLEL, *fast)
    else:
        with ThreadPoolExecutor(2) as meanwhile:
            programs = meanwhile.submit(install_programs)
            install("test")
            node_packages = meanwhile.submit(install_node_packages)
            lint()
            node_packages.result()
            programs.result()
        # The floor is that of all tests: where some are skipped, it says nothing.
        floor = ["--cov-fail-under=0"] if missing_programs() else []
        pytest(*PARALLEL, "--durations=15", "--cov", "--cov-report=", *floor)


def pytest(*arguments: str) -> None:
    options = ["-q", "-o", "tmp_path_retention_policy=failed"]
    with timed("tested"):
        run(python(), "-m", "pytest", *options, *arguments, PYTHONWARNDEFAULTENCODING="1", **compiled(), **in_memory())


def needs_node_packages(arguments: list[str]) -> bool:
    """Whether the tests chosen may be among those that use them: without a path, all tests may be."""
    paths = [path for word in arguments if (path := (HERE / word.partition("::")[0])).exists()]
    users = [HERE / each for each in NODE_PACKAGE_USERS]
    return not paths or any(path.is_relative_to(user) or user.is_relative_to(path) for path in paths for user in users)


def compiled() -> dict[str, str]:
    """Settings that keep what was compiled: hundreds of processes are started, and compiling is half of a start.

    In a folder of its own where the person wants none beside the sources.
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(STATE / "bytecode")}


def in_memory() -> dict[str, str]:
    """A setting that keeps the tests' files in memory, where that can be: on a disk they wait half of the time."""
    folder = "/dev/shm"  # noqa: S108 - of the tests alone, each in a folder of its own
    if "TMPDIR" in os.environ or not os.access(folder, os.W_OK | os.X_OK):
        return {}
    has_room = shutil.disk_usage(folder).free > 4 * 2**30
    return {"TMPDIR": folder} if has_room and not os.statvfs(folder).f_flag & os.ST_NOEXEC else {}


def carrel(*arguments: str) -> int:
    """The program, where the caller stands; its exit status."""
    command = [python(), "-m", "carrel", *arguments]
    folder = os.environ.get("PWD", os.getcwd())
    if arguments[:1] != ("demo",) or "--print-only" not in arguments:
        return subprocess.run(command, cwd=folder, check=False).returncode
    started = time.monotonic()
    is_first = True
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, encoding="utf-8") as demo:
        assert demo.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in demo.stdout:
            print(line, end="", flush=True)
            if is_first and line.startswith("  "):  # as the demo shows a call and its answer
                took("first result shown", time.monotonic() - started)
                is_first = False
    took("demo ended", time.monotonic() - started)
    return demo.returncode


def main(verb: str = "help", *arguments: str) -> None:
    if sys.version_info < (3, 11):
        sys.exit("dev: Python 3.11 or later is needed")
    if verb == "run":
        install()
        sys.exit(carrel(*arguments))
    elif verb == "test":
        test(*arguments)
    elif verb == "lint":
        lint()
    elif verb == "format":
        install("test")
        files = arguments or (".",)
        run("ruff", "check", "--fix", *files)
        run("ruff", "format", *files)
    elif verb == "constraints":
        refresh_constraints()
    elif verb in WRITERS:
        install("test")
        run(python(), "-m", WRITERS[verb])
    elif verb == "site":
        install("test")
        run("mkdocs", "build", "--strict", "--site-dir", str(STATE / "site"), NO_MKDOCS_2_WARNING="1")
        say(f"the site is in {STATE / 'site'}; open index.html")
    elif verb == "bench":
        name, *more = arguments if arguments and not arguments[0].startswith("-") else ("calls", *arguments)
        install("test")
        install_node_packages()
        run(python(), f"benchmarks/{name}.py", *more, TEST_NODE_MODULES=str(STATE / "node_modules"), **compiled())
    else:
        print(__doc__)
        sys.exit(0 if verb in ("help", "-h", "--help") else 2)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
