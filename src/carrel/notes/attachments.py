"""Files of a vault that are no notes, such as pictures: a link to one leads somewhere, though to no note."""

from contextlib import suppress

from carrel.directory import MAX_PATH
from carrel.notes.names import is_note, key
from carrel.notes.resolving import joined, plain
from carrel.notes.vault import ALWAYS_IGNORED, Vault, is_text


class Attachments:
    """They are looked for when the first is asked for."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._by_name: dict[str, list[str]] | None = None

    def has(self, target: str, folder: str) -> bool:
        """Whether a link that leads to no note means one; both are keys, the folder has a slash at its end."""
        if "." not in target:
            return False
        if self._by_name is None:
            self._by_name = _found(self._vault)
        paths = self._by_name.get(target[target.rfind("/") + 1 :], ())
        places = (plain(target), joined(folder, target))
        return any(path in places or f"/{path}".endswith(f"/{target}") for path in paths)


def _found(vault: Vault) -> dict[str, list[str]]:
    """Their paths, by file name. What the settings leave out has no notes, but may have pictures."""
    by_name: dict[str, list[str]] = {}
    waiting = [""]
    while waiting:
        place = waiting.pop()
        with suppress(OSError), vault.directory.folder(place, listed=True) as folder:
            for entry in folder.entries():
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if not name.startswith(".") and name != ALWAYS_IGNORED and len(place) < MAX_PATH:
                        waiting.append(f"{place}{name}/")
                elif not is_note(name) and is_text(place + name):
                    by_name.setdefault(key(name), []).append(key(place + name))
    return by_name
