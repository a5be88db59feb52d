"""Hypothesis on machines that are busy with other things: slow is not wrong."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared machine")
