"""`carrel completions`."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS), metavar="SHELL")
def completions(shell: str) -> None:
    """Print a script that lets a shell complete commands and options: bash, zsh or fish.

    \b
    bash:  carrel completions bash > ~/.local/share/bash-completion/completions/carrel
    zsh:   carrel completions zsh > "${fpath[1]}/_carrel"
    fish:  carrel completions fish > ~/.config/fish/completions/carrel.fish
    """
    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 - it is one of click's own
    root = click.get_current_context().find_root().command
    click.echo(script(root, {}, "carrel", "_CARREL_COMPLETE").source())
