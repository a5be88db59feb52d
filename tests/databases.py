"""Databases on the session's server, made for one test or one module."""

from __future__ import annotations

import psycopg2
from sqlalchemy import create_engine, text

from dispatcher.embedded.postgres import EmbeddedPostgres


class Databases:
    """Makes and drops databases on the session's server."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        url = server.url("postgres").replace("postgresql:", "postgresql+psycopg2:", 1)
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def make(self, name: str, *, template: str = "template1") -> str:
        """A copy of ``template``; its URL."""
        with self._engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return self._server.url(name)

    def drop(self, name: str) -> None:
        """Drop it, whoever is still connected."""
        with self._engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))

    def close(self) -> None:
        self._engine.dispose()


def hold_every_connection(url: str, hogs: list[psycopg2.extensions.connection]) -> None:
    """Connect until the server refuses, the superuser's reserve included."""
    while True:
        try:
            hogs.append(psycopg2.connect(url, application_name="hog"))
        except psycopg2.OperationalError:
            return
