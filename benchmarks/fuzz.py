"""Anything at all, sent to every MCP endpoint and to the API, many times: nothing may break, hang or grow.

    python3 dev.py bench fuzz [--inputs N] [--clients N] [--seed N] [--json FILE]

Starts a server on SQLite that everybody may use, one on PostgreSQL that asks for tokens, and one on stdio for each
protocol revision, all of which search by meaning too. Clients, each a process of its own, send what `tests/fuzzer.py`
makes up and judge every answer. Two more servers, one after the other, serve a vault into which hostile files and links
to a folder outside are put between the calls (`fuzz_vault.py`). The event loop of every server is watched from within
(`lag_probe.py`). Exits 1 when an answer was wrong, when what is outside of the vault was read or changed, when an event
loop stood still for over 100 ms, when a server's log has an error in it, or when a server's memory grew by more than a
quarter from when a third of its inputs had been answered to the end. Linux only.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import starmap
from math import ceil
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lag_probe
import options
import tables
from fuzz_vault import Attack, attack
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from lag_probe import Lag
from tests.fuzz_targets import LineSender, Sender, Target, desk, served
from tests.fuzzer import Place, api_inputs, inputs
from tests.postgres import PostgresServer, recreate_database
from tests.wire import ERAS, MODERN

from carrel.storage.admin import upgrade
from carrel.storage.database import PostgresLocation

MEGABYTE = 1_000_000
BLOCK = 250
"""Inputs that hypothesis makes up in one go: it remembers all of them."""
GROWTH = 1.25
PROVIDER = "bundled"
"""Of meaning, so that what searches by it is searched too."""
SHARES = {"http": 0.75, "api": 0.05, "stdio": 0.10, "vault": 0.10}
MOST_LAG_MS = 100


@dataclass
class Sent:
    """What a client has to tell."""

    kinds: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    slowest: float = 0.0


@dataclass(frozen=True)
class Address:
    """As much of a `Target` as a client in another process needs."""

    address: tuple[str, int]
    tokens: tuple[bytes, ...]
    places: list[Place]


def send_all(sender: Sender | LineSender, strategy: st.SearchStrategy[Any], count: int, number: int) -> Sent:
    sent = Sent()
    for begin in range(0, count, BLOCK):

        @seed(number * 1_000_000 + begin)
        @settings(
            max_examples=min(BLOCK, count - begin),
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        )
        @given(strategy)
        def answered(each: Any) -> None:
            sent.kinds[sender.send(each)] += 1

        try:
            answered()
        except AssertionError as error:
            sent.wrong.append("\n".join([str(error), *getattr(error, "__notes__", ())]))
    sent.slowest = sender.slowest
    return sent


def client(address: Address, count: int, api_count: int, number: int) -> Sent:
    sender = Sender(address.address, address.places)
    sent = send_all(sender, inputs(address.places, address.tokens), count, number)
    more = send_all(sender, api_inputs(address.tokens), api_count, number + 500)
    sender.close()
    return Sent(sent.kinds + more.kinds, sent.wrong + more.wrong, max(sent.slowest, more.slowest))


@dataclass
class Report:
    name: str
    sent: Sent
    seconds: float
    memory: list[float]
    complaints: list[str]
    lags: Sequence[Lag]
    """Times that the event loop stood still."""

    @property
    def lag(self) -> Lag:
        """The longest of the process's own."""
        return max(self.lags, key=lambda each: each.own_ms, default=Lag(0.0, 0.0, 0.0, 0.0, ()))

    @property
    def halt_ms(self) -> float:
        return max((each.halt_ms for each in self.lags), default=0.0)

    @property
    def growth(self) -> float:
        return self.memory[-1] / self.memory[len(self.memory) // 3]

    def is_good(self, most_growth: float, most_lag: float) -> bool:
        is_right = not self.sent.wrong and not self.complaints
        return is_right and self.growth <= most_growth and self.lag.own_ms <= most_lag

    def document(self) -> dict[str, Any]:
        sent = {"kinds": dict(self.sent.kinds), "wrong": self.sent.wrong, "slowest": self.sent.slowest}
        return {**vars(self), "sent": sent, "lags": [each._asdict() for each in self.lags]}

    @property
    def row(self) -> tuple[str, ...]:
        last = len(self.memory) - 1
        memory = ", ".join(f"{self.memory[round(last * part)]:.0f}" for part in (0.1, 0.4, 0.7, 1.0))
        figures = (str(self.sent.kinds.total()), f"{self.seconds:.0f}", f"{self.sent.slowest:.2f}")
        faults = (str(len(self.sent.wrong)), str(len(self.complaints)))
        return self.name, *figures, f"{self.lag.own_ms:.0f}, {self.halt_ms:.0f}", memory, f"{self.growth:.2f}", *faults

    def faults(self) -> Iterator[str]:
        if self.lag.own_ms > MOST_LAG_MS:
            yield f"- {self.name}: FROZEN for {self.lag.own_ms:.0f} ms in {', '.join(self.lag.stack[:6]) or 'one call'}"
        yield from (f"- {self.name}: WRONG {each}" for each in self.sent.wrong)
        yield from (f"- {self.name}: LOG {each[:2000]}" for each in self.complaints[:5])


HEAD = (
    "",
    "inputs",
    "seconds",
    "slowest answer, s",
    "longest halt of the event loop, ms: of CPU, in all",
    "memory, MB, after 10, 40, 70, 100 %",
    "growth",
    "wrong",
    "errors in the log",
)


def over_http(name: str, target: Target, lags: Path, count: int, chosen: argparse.Namespace, number: int) -> Report:
    """In turns, after each of which the server's memory is looked at."""
    address = Address(target.address, tuple(target.tokens), target.places)
    started = time.monotonic()
    sent, memory = Sent(), [target.resident() / MEGABYTE]
    share = count / (SHARES["http"] + SHARES["api"]) / chosen.clients / chosen.turns
    with ExitStack() as stack:
        pool = (
            stack.enter_context(multiprocessing.get_context("spawn").Pool(chosen.clients))
            if chosen.clients > 1
            else None
        )
        run = pool.starmap if pool else starmap
        for turn in range(chosen.turns):
            jobs = [
                (address, ceil(share * SHARES["http"]), ceil(share * SHARES["api"]), number + turn * 1000 + each)
                for each in range(chosen.clients)
            ]
            for each in run(client, jobs):
                sent.kinds += each.kinds
                sent.wrong += each.wrong
                sent.slowest = max(sent.slowest, each.slowest)
            target.still_answers()
            memory.append(target.resident() / MEGABYTE)
            options.say(f"{name}: {sent.kinds.total()} {memory[-1]:.0f} MB")
    return Report(name, sent, time.monotonic() - started, memory, target.complaints(), lag_probe.lags(lags))


def over_vault(name: str, target: Target, lags: Path, vault: Attack, count: int, turns: int) -> Report:
    started = time.monotonic()
    sent, memory = Sent(), [target.resident() / MEGABYTE]
    for _ in range(turns):
        found = attack(target.server.url, vault, ceil(count / turns))
        sent.kinds += found.kinds
        sent.wrong += found.wrong
        sent.slowest = max(sent.slowest, found.slowest)
        target.still_answers()
        memory.append(target.resident() / MEGABYTE)
        options.say(f"{name}: {sent.kinds.total()} {memory[-1]:.0f} MB")
    return Report(name, sent, time.monotonic() - started, memory, target.complaints(), lag_probe.lags(lags))


def over_stdio(folder: Path, era: str, count: int, turns: int, number: int) -> Report:
    lags = folder / f"{era}.lags"
    sender = LineSender(folder, era, folder / f"{era}.log", lag_probe.command(lags))
    started = time.monotonic()
    sent, memory = Sent(), [sender.resident() / MEGABYTE]
    for turn in range(turns):
        each = send_all(sender, inputs(sender.places, eras=(era, era, era, *ERAS)), ceil(count / turns), number + turn)
        sent = Sent(sent.kinds + each.kinds, sent.wrong + each.wrong, max(sent.slowest, each.slowest))
        memory.append(sender.resident() / MEGABYTE)
    sender.close()
    seconds = time.monotonic() - started
    return Report(f"stdio {era}", sent, seconds, memory, sender.complaints(), lag_probe.lags(lags))


def reports(chosen: argparse.Namespace) -> Iterator[Report]:
    count, number, provider = chosen.inputs, chosen.seed, chosen.provider
    http = int(count * (SHARES["http"] + SHARES["api"]) / 2)
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(4)]
        lags = folders[0] / "lags"
        with served(desk(folders[0], provider=provider), program=lag_probe.command(lags)) as target:
            yield over_http("HTTP, SQLite", target, lags, http, chosen, number)
        postgres = PostgresServer()
        stack.callback(postgres.close)
        url = recreate_database(postgres.url(), "fuzz")
        upgrade(PostgresLocation(url))
        lags = folders[1] / "lags"
        folder = desk(folders[1], url, provider=provider)
        with served(folder, url, requires_auth=True, program=lag_probe.command(lags)) as target:
            yield over_http("HTTP, PostgreSQL, tokens", target, lags, http, chosen, number + 100_000)
        for place, era in enumerate(chosen.stdio):
            folder = desk(folders[2] / era, provider=provider)
            yield over_stdio(
                folder, era, int(count * SHARES["stdio"] / 2), chosen.turns, number + 200_000 + 500 * place
            )
        folder = desk(folders[3] / "desk", provider=provider)
        vault = Attack(folder, number, is_small=chosen.smoke, has_search=provider != "none")
        for name in ("HTTP, hostile vault", "HTTP, hostile vault, started anew"):
            lags = folders[3] / name
            with served(folder, program=lag_probe.command(lags)) as target:
                yield over_vault(name, target, lags, vault, int(count * SHARES["vault"] / 2), chosen.turns)


def main() -> int:
    parser = options.parser(__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="default %(default)s")
    parser.add_argument("--clients", type=int, default=3, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--provider", default=PROVIDER, help="of meaning; default %(default)s")
    parser.add_argument("--stdio", nargs="+", choices=ERAS, default=list(ERAS), help="protocols; default %(default)s")
    parser.add_argument("--turns", type=int, default=10, help="looks at a server's memory; default %(default)s")
    chosen = options.parse(parser, inputs=20, clients=1, provider="none", turns=3, stdio=[MODERN])
    found = list(reports(chosen))
    total = sum((report.sent.kinds for report in found), Counter[str]())
    kinds = ", ".join(f"{kind} {number}" for kind, number in total.most_common())
    faults = [line for report in found for line in report.faults()]
    table = tables.table(HEAD, [report.row for report in found])
    print("\n".join([*table, "", f"- {total.total()} inputs: {kinds}", *faults]))
    options.write_json(chosen.json, [report.document() for report in found])
    # A few inputs load what a server loads late; only many say whether it goes on growing.
    # The first calls also import, which halts the loop on a slow machine.
    most_growth, most_lag = (math.inf, math.inf) if chosen.smoke else (GROWTH, MOST_LAG_MS)
    return 0 if all(report.is_good(most_growth, most_lag) for report in found) else 1


if __name__ == "__main__":
    sys.exit(main())
