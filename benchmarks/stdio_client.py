"""A client on a program's stdin and stdout: a line out, a line in."""

from __future__ import annotations

import select
import time

import messages
from messages import LEGACY, Call
from process import Program

RESPONSE_TIMEOUT_SECONDS = 60.0


class StdioClient:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._number = 0

    def ask(self, line: bytes) -> bytes:
        """The answer; what the server tells unasked is passed over."""
        self.program.stdin.write(line)
        self.program.stdin.flush()
        if not select.select([self.program.stdout], [], [], RESPONSE_TIMEOUT_SECONDS)[0]:
            raise RuntimeError(f"no answer within {RESPONSE_TIMEOUT_SECONDS} s, see {self.program.log}")
        while b'"method":"notifications/' in (answer := self.program.stdout.readline()):
            pass
        if not answer:
            raise RuntimeError(f"the server ended: {self.program.log.read_text()[-2000:]}")
        return answer

    def shake_hands(self, version: str = LEGACY) -> None:
        messages.check(self.ask(messages.opening(version)))
        if version == LEGACY:
            self.program.stdin.write(messages.initialized())
            self.program.stdin.flush()

    def call(self, call: Call, version: str = LEGACY) -> bytes:
        self._number += 1
        return self.ask(messages.tool_call(call, version, self._number))

    def drive(self, call: Call, version: str, calls: int) -> list[float]:
        """The seconds that each call took, one after another."""
        first = self._number + 1
        self._number += calls
        lines = [messages.tool_call(call, version, number) for number in range(first, first + calls)]
        clock = time.perf_counter
        taken: list[float] = []
        for line in lines:
            started = clock()
            answer = self.ask(line)
            taken.append(clock() - started)
            messages.check(answer)
        return taken
