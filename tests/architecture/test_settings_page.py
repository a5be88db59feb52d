"""docs/settings.md lists every setting as the code has it."""

from __future__ import annotations

from dispatcher.cli import settings_page
from dispatcher.settings import Settings


def test_the_settings_page_is_what_the_code_says() -> None:
    assert settings_page.PAGE.read_text() == settings_page.render(), (
        "run: python -m dispatcher.cli.settings_page"
    )


def test_every_setting_is_described_and_every_section_begins_with_a_setting() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    assert set(settings_page.SECTIONS) <= set(Settings.model_fields)
