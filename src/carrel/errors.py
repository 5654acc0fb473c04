"""Every error that Carrel raises on purpose. Its text is written for the person who has to act on it.

CarrelError                 exit status 1
├── UsageError              exit status 2: what was asked for cannot be done as asked
│   ├── SettingsError       a setting is unknown, of the wrong type, or names something that is missing
│   └── MissingExtra        an optional package is not installed; the text holds the pip command
├── DiscoveryImportError    lines have faults, and nothing was written (in carrel/code/knowledge/discovery_exchange.py)
├── NotesError              what keeps the notes did not do what it was asked (in carrel/notes/note_store.py)
├── ContentRefused          a bundle has faults, and nothing of it was written (in carrel/content/bundle/faults.py)
└── StoreError              the database did not do what it was asked
    ├── StoreUnavailable    it cannot be reached, or the connection was lost
    │   └── StoreDamaged    its file is damaged, or holds what is not ours
    ├── StoreTimeout        it ended a statement that took too long
    └── SchemaMismatch      its schema is older or newer than this program's
"""


class CarrelError(Exception):
    exit_status = 1


class UsageError(CarrelError):
    exit_status = 2


class SettingsError(UsageError):
    pass


class MissingExtra(UsageError):
    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the '{extra}' extra: pip install 'carrel[{extra}]'")


class StoreError(CarrelError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreDamaged(StoreUnavailable):
    pass


class StoreTimeout(StoreError):
    pass


class SchemaMismatch(StoreError):
    pass
