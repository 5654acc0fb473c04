"""Two servers, two workspaces, one vault, one editor: nothing that was acknowledged is lost."""

from pathlib import Path

import pytest

from tests import lost_updates
from tests.vaults import leftovers

CHANGES = 150


@pytest.mark.rule("notes.files.locks", "notes.files.compared", "notes.files.concurrent")
def test_nothing_that_two_workspaces_and_an_editor_write_in_one_vault_is_lost(tmp_path: Path) -> None:
    outcome = lost_updates.run(tmp_path, CHANGES)
    assert outcome.lost == []
    assert outcome.acknowledged >= CHANGES
    assert min(outcome.tags, outcome.titles, outcome.renames, outcome.saves) > 0
    assert leftovers(tmp_path / "a") == leftovers(tmp_path / "b") == leftovers(tmp_path / "vault") == []
