"""What `deploy` holds, read as those read it that it is for: a builder of containers, Kubernetes, systemd."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.sources import ROOT

DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
UNIT = DEPLOY / "systemd" / "snapshotter@.service"
MANIFESTS = DEPLOY / "kubernetes"
DASHBOARD = DEPLOY / "grafana" / "snapshotter.json"


def instructions(text: str) -> list[tuple[str, str]]:
    """Of a Containerfile, each with what stands behind its name; lines that go on are one."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    found = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in found]


def unit(text: str) -> dict[str, list[str]]:
    """The settings of a unit of systemd's; one may be there several times."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and line[0] not in "#;[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs the engine: a resource, the container that does it, and the pod that this is in."""

    manifest: Path
    resource: dict[str, Any]
    container: dict[str, Any]
    volumes: list[dict[str, Any]]
    arguments: list[str]

    @property
    def name(self) -> str:
        return f"{self.resource['kind']} {self.resource['metadata']['name']}"


def resources(manifest: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(manifest.read_text()) if one]


def template(resource: dict[str, Any]) -> dict[str, Any] | None:
    """The pod's, of a resource that makes pods of it."""
    spec = resource.get("spec", {})
    found = spec.get("template") or spec.get("jobTemplate", {}).get("spec", {}).get("template")
    return dict(found) if found else None


def workloads(manifest: Path) -> Iterator[Workload]:
    for resource in resources(manifest):
        spec = resource.get("spec", {})
        if resource["kind"] == "SparkApplication":
            driver = spec["driver"]
            (probed,) = driver["template"]["spec"]["containers"]
            container = {**driver, **probed, "image": spec["image"]}
            yield Workload(manifest, resource, container, spec["volumes"], spec["arguments"])
        elif (pod := template(resource)) is not None:
            (container,) = pod["spec"]["containers"]
            claims = [{"name": one["metadata"]["name"]} for one in spec.get("volumeClaimTemplates", [])]
            yield Workload(manifest, resource, container, pod["spec"]["volumes"] + claims, container["args"])


def lost(given: Any, kept: Any, at: str = "") -> Iterator[str]:
    """The places of ``given`` that ``kept``, which a model made of it, does not have: no field is called so there."""
    match given, kept:
        case dict(), dict():
            for name, value in given.items():
                if name in kept:
                    yield from lost(value, kept[name], f"{at}.{name}")
                else:
                    yield f"{at}.{name}"
        case list(), list() if len(given) == len(kept):
            for number, (one, other) in enumerate(zip(given, kept, strict=True)):
                yield from lost(one, other, f"{at}[{number}]")
        case _ if given != kept:
            yield at


def dashboard() -> dict[str, Any]:
    return dict(json.loads(DASHBOARD.read_text()))


def panels() -> list[dict[str, Any]]:
    """Those that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]
