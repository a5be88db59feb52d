"""Prometheus' files: every metric, label and word in them exists, every target is a service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from sqlalchemy import Engine

from dispatcher import metrics
from dispatcher.api.v2.metrics import _Cluster
from dispatcher.broker.messages import Manager
from dispatcher.settings import PREFIX, Settings
from schedulers.core import reasons
from schedulers.passes import due_schedules
from schedulers.passes.manager_pass import PHASES

ROOT = Path(__file__).parents[2]
ALERTS = yaml.safe_load((ROOT / "docker/prometheus/alerts.yml").read_text())
EXAMPLE_TEXT = (ROOT / "docker/prometheus/prometheus.yml").read_text()
EXAMPLE = yaml.safe_load(EXAMPLE_TEXT)
SERVICES = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]
}
#: Labels that Prometheus itself sets.
OF_PROMETHEUS = {"instance", "job"}


@pytest.fixture
def labels(engine: Engine) -> dict[str, set[str]]:
    """Every series that a role serves → its labels."""
    found: dict[str, set[str]] = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            names = set(metric._labelnames)
            if metric._type == "histogram":
                found[f"{metric._name}_bucket"] = names | {"le"}
                found[f"{metric._name}_sum"] = found[f"{metric._name}_count"] = names
            else:
                found[metric._name + ("_total" if metric._type == "counter" else "")] = names
    with engine.connect() as connection:
        for family in _Cluster(connection).collect():
            found[family.name] = set(family._labelnames)  # type: ignore[attr-defined]
    return found


def selectors(expression: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(metric, matchers) of each series that an expression reads."""
    for found in re.finditer(r"\b(dispatcher_\w+)(?:\{([^}]*)\})?", expression):
        yield found[1], re.findall(r'(\w+)=~?"([^"]*)"', found[2] or "")


@pytest.mark.parametrize("name", RULES)
def test_an_alert_reads_metrics_and_labels_that_there_are(
    name: str, labels: dict[str, set[str]]
) -> None:
    expression = RULES[name]["expr"]
    read = dict(selectors(expression))
    assert read
    for metric, matchers in selectors(expression):
        assert metric in labels, f"no role serves {metric}"
        for label, _ in matchers:
            assert label in labels[metric], f"{metric} has no label {label}"
    every = set.union(*(labels[metric] for metric in read))
    kept = {
        word.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for word in by.split(",")
    }
    assert kept <= every
    shown = set(re.findall(r"\$labels\.(\w+)", str(RULES[name]["annotations"])))
    available = kept - {"le"} if kept else every | OF_PROMETHEUS
    assert shown <= available, "aggregated away"


@pytest.mark.parametrize("name", RULES)
def test_an_alert_looks_for_words_that_there_are(name: str) -> None:
    documentation = {
        metric._name + ("_total" if metric._type == "counter" else ""): metric._documentation
        for metric in vars(metrics).values()
        if isinstance(metric, MetricWrapperBase)
    }
    decisions = Path(due_schedules.__file__).read_text()
    for metric, matchers in selectors(RULES[name]["expr"]):
        for label, value in matchers:
            for word in value.split("|"):
                if label == "manager":
                    assert word in set(Manager)
                elif label == "phase":
                    assert word in PHASES
                elif label == "reason":
                    assert f'"{word}"' in Path(reasons.__file__).read_text()
                elif label == "decision":
                    assert f'"{word}"' in decisions
                else:
                    assert re.search(rf"\b{word}\b", documentation[metric])


def test_each_phase_and_each_manager_is_watched() -> None:
    words: dict[str, set[str]] = {"manager": set(), "phase": set()}
    for rule in RULES.values():
        for _, matchers in selectors(rule["expr"]):
            for label, value in matchers:
                words.setdefault(label, set()).update(value.split("|"))
    assert words["phase"] == set(PHASES)
    assert words["manager"] == {str(manager) for manager in Manager}


def test_every_alert_has_what_people_need() -> None:
    names = [rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]]
    assert len(names) == len(RULES), "a name is used twice"
    page = (ROOT / "docs/operating.md").read_text()
    for name, rule in RULES.items():
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert f"`{name}`" in page, "docs/operating.md says what to do about it"


def test_the_example_reads_the_alerts_and_scrapes_every_role() -> None:
    assert EXAMPLE["rule_files"] == ["alerts.yml"]
    targets = {}
    for job in EXAMPLE["scrape_configs"]:
        for static in job.get("static_configs", ()):
            targets |= dict(target.split(":") for target in static["targets"])
        for dns in job.get("dns_sd_configs", ()):
            targets |= {name: str(dns["port"]) for name in dns["names"]}
    assert set(targets) == {"api", "beat", "control", "worker"} <= set(SERVICES)
    assert targets["api"] == str(Settings.model_fields["api_port"].default)
    assigned = dict(re.findall(rf"\b({PREFIX}\w+)=(\S+)", EXAMPLE_TEXT))
    assert {n.removeprefix(PREFIX).lower() for n in assigned} <= set(Settings.model_fields)
    for role in ("beat", "control", "worker"):
        assert assigned[f"{PREFIX}{role.upper()}_METRICS_PORT"] == targets[role]
