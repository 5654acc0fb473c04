"""`carrel init`."""

import json
from pathlib import Path
from typing import Any

from carrel.errors import UsageError
from carrel.settings import FILE_NAME, all_settings


def write_settings_file(folder: Path) -> Path:
    path = folder / FILE_NAME
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(settings_template())
    except FileExistsError:
        raise UsageError(f"{path} exists already and is left as it is") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return path


def settings_template() -> str:
    lines = [
        "# Carrel's settings. Every line below is commented out and shows the default.",
        "# Each key can also be given in the environment, as CARREL_SECTION_KEY; the command line beats both.",
    ]
    section = ""
    for setting in all_settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        choices = f" One of: {', '.join(setting.choices)}." if setting.choices else ""
        lines += [f"# {setting.doc}{choices}", f"# {setting.key} = {_toml(setting.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """JSON writes booleans, whole numbers, strings and lists of strings just as TOML does."""
    return json.dumps(value)
