"""``dispatcher token``: who may call the API. Works on the database, so it needs no token itself."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher import settings as settings_module
from dispatcher.actions.tokens import create_token, list_tokens, revoke_token
from dispatcher.cli import output
from dispatcher.cli.databases import on_database

token_app = typer.Typer(help="Make, list and revoke API tokens.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the noun."""
    app.add_typer(token_app, name="token")


@token_app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who it is for; tokens of one name are one caller.")],
) -> None:
    """Make a token and print it; it cannot be shown again."""
    with on_database(settings_module.load()) as connection:
        token = create_token(connection, name)
    print(token)


@token_app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every token but its value."""
    with on_database(settings_module.load()) as connection:
        found = list_tokens(connection)
    rows = [
        {name: "" if value is None else str(value) for name, value in vars(token).items()}
        for token in found
    ]
    if as_json:
        output.print_json(rows)
        return
    columns = ("id", "name", "created", "expires", "revoked")
    output.print_table(
        [name.upper() for name in columns], ([row[name][:19] for name in columns] for row in rows)
    )


@token_app.command()
def revoke(
    token_id: Annotated[int, typer.Argument(help="The token's number, from `token list`.", min=1)],
) -> None:
    """Make a token invalid, at once."""
    with on_database(settings_module.load()) as connection:
        revoke_token(connection, token_id)
    output.say(f"token {token_id} is revoked")
