"""What a part of the code base does, and what is known about it."""

from carrel.mcp.prompts import Argument, Asked, Prompt, Written
from carrel.toolsets.prompts.steps import quoted, worded

MODULE = Argument(
    "module",
    "Module or path",
    "A module's name, or the path of a file or folder, relative to the code base.",
    kind="module",
)


async def _write(asked: Asked) -> Written:
    module = asked.values["module"]
    is_path = "/" in module or "." in module
    steps = [
        f"Call context_search with query {quoted(f'what is {module} for')}"
        + ("" if is_path else f" and module {quoted(module)}")
        + ", limit 20. Keep the discoveries (rules, decisions, patterns, issues) and sessions that it finds; they say "
        "what the code cannot.",
    ]
    if "list_discoveries" in asked.tools:
        whose = "the module that it belongs to" if is_path else f"module {quoted(module)}"
        steps.append(f"Call list_discoveries with {whose}: it finds those that a search may miss.")
    steps += [
        "If it is the path of a file, call read_file with that path and includeDeps true. If it is a module or a "
        'folder, call grep_codebase with pattern "^(class|def|async def|export|func|fn|pub|type|interface)\\b" and a '
        "filePattern for its folder to see what it offers, and read_file with includeDeps true on the two or three "
        "files that matter most.",
        "Call grep_codebase with its name to see who uses it, and whether tests say how it is to behave.",
    ]
    return Written(
        worded(
            "Explain a part of this code base to somebody who is new to it.",
            {"module": module},
            steps,
            "Then explain, in this order: what it is for, in two sentences; its parts and how they call each other; "
            "what it needs and who needs it; the rules and decisions that were written down, each with its date; known "
            "issues; where to begin reading. Give paths with line numbers. Where code and a discovery disagree, say so "
            "and trust the code.",
        )
    )


EXPLAIN_MODULE = Prompt(
    "explain_module",
    "Explain a module",
    "Explain a module or file from its code, what it imports, and what was learned about it.",
    (MODULE,),
    frozenset(["context_search", "read_file", "grep_codebase"]),
    _write,
)
