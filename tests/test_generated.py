"""Generated files are as the code has them, and what models see is as it was reviewed."""

import pytest

from tests.generated import ROOT, generated


def test_generated_files_are_up_to_date() -> None:
    stale = [
        str(path)
        for path, text in generated().items()
        if not (ROOT / path).is_file() or (ROOT / path).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run python3 dev.py docs, and look at what changes"


def test_no_snapshot_is_left_of_a_tool_that_is_gone() -> None:
    kept = {path.relative_to(ROOT) for path in (ROOT / "tests" / "snapshots").rglob("*.json")}
    assert kept - set(generated()) == set()


@pytest.mark.rule("common.result.output_schema")
def test_an_output_schema_is_of_an_object_or_an_array_never_of_null() -> None:
    """A null root with an output schema makes some official client throw, whatever is sent."""
    import json

    for path, text in generated().items():
        if path.suffix == ".json":
            assert json.loads(text).get("outputSchema", {"type": "object"})["type"] in ("object", "array"), path
