"""What `deploy` names is there: files, commands, options, ports, exit codes, fields, figures. It is checked as far as
that can be without a container engine, a cluster and a Grafana."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from kubeflow_spark_api.models.io_k8s_api_core_v1_pod_template_spec import IoK8sApiCoreV1PodTemplateSpec
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from deploy.entry import BACKEND, command
from snapshotter.configuration.settings import Settings
from snapshotter.doctor.rules_machine import JAVA
from snapshotter.engine.engine_runner import STOP_SECONDS
from snapshotter.errors import EXIT_CONFIGURATION, EXIT_DEFINITE
from snapshotter.metrics.catalogue import CATALOGUE
from snapshotter.page.access import OPEN
from snapshotter.spark_python import INTERPRETER
from snapshotter.spark_session import FRUGAL, SAFE_PATH, defaults
from tests.support.next_steps import extras, wrong_line
from tests.support.packaged import (
    CONTAINERFILE,
    DEPLOY,
    MANIFESTS,
    UNIT,
    Workload,
    dashboard,
    expressions,
    instructions,
    lost,
    panels,
    resources,
    template,
    unit,
    workloads,
)
from tests.support.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_A_PERSON = [EXIT_CONFIGURATION, EXIT_DEFINITE]
"""The exit codes after which another start, as it is, fails again."""
CONTAINER = instructions(CONTAINERFILE.read_text())
WORKLOADS = [one for manifest in sorted(MANIFESTS.glob("*.yaml")) for one in workloads(manifest)]
PORT = 9404


def said(name: str) -> list[str]:
    return [rest for instruction, rest in CONTAINER if instruction == name]


def configuration(workload: Workload) -> dict[str, Any]:
    """The options in the ConfigMap that is mounted where the command looks for its file: of the same manifest, or of
    that which it says it takes."""
    file = Path(workload.arguments[workload.arguments.index("-c") + 1])
    mounts = {one["mountPath"]: one["name"] for one in workload.container["volumeMounts"]}
    volume = next(one for one in workload.volumes if one["name"] == mounts[str(file.parent)])
    maps = [
        one
        for path in (workload.manifest, MANIFESTS / "engine.yaml")
        for one in resources(path)
        if one["kind"] == "ConfigMap" and one["metadata"]["name"] == volume["configMap"]["name"]
    ]
    return tomllib.loads(maps[0]["data"][file.name])


def defined(workload: Workload, kind: str) -> set[str]:
    """The names of resources of this ``kind`` in its manifest; those of the engine's, for a command that works on the
    same tables."""
    beside = [MANIFESTS / "engine.yaml"] if workload.manifest.name == "nightly.yaml" else []
    found = [one for path in (workload.manifest, *beside) for one in resources(path)]
    return {one["metadata"]["name"] for one in found if one["kind"] == kind}


def test_an_application_brings_what_it_names() -> None:
    """Beside an engine of the other manifest, too: nothing of it has a name that is there."""
    (application,) = (one for one in WORKLOADS if one.manifest.name == "spark-operator.yaml")
    claims = {
        v["persistentVolumeClaim"]["claimName"] for v in application.volumes if "persistentVolumeClaim" in v
    }
    assert claims == defined(application, "PersistentVolumeClaim")
    others = [one for one in resources(MANIFESTS / "engine.yaml") if one["kind"] in ("ConfigMap", "Secret")]
    mine = defined(application, "ConfigMap") | defined(application, "Secret")
    assert mine.isdisjoint(one["metadata"]["name"] for one in others)


def test_what_the_image_is_made_of_is_there() -> None:
    """Files that are copied, the wheel as `make dist` calls it, the extra, Python and Java."""
    copied = [source for line in said("COPY") for source in line.split()[:-1]]
    wheel = f"dist/snapshotter-{PROJECT['version']}-py3-none-any.whl"
    for source in copied:
        assert (ROOT / source).is_file() or fnmatch.fnmatch(wheel, source), source
    run = " ".join(said("RUN"))
    assert set(re.findall(r"\$1\[(\w+)\]", run)) == {"kafka"} <= extras()
    (base,) = said("FROM")
    version = re.search(r"python:(3\.\d+)-", base)
    assert version is not None
    assert PROJECT["requires-python"] == f">={version[1]}"
    assert f"python{version[1]}/site-packages/pyspark" in " ".join(said("ENV"))
    assert f"openjdk-{JAVA}-jre-headless" in run
    assert "\n" not in run


def test_the_image_runs_what_it_has() -> None:
    """As somebody who is not root, with the one port; what it begins with was copied; the environment is what an engine
    gives a JVM that it starts itself."""
    (user,) = said("USER")
    assert user.isdigit()
    assert int(user) > 0
    assert f"--uid {user}" in " ".join(said("RUN"))
    (entry,), (health,) = (
        (json.loads(one.removeprefix("CMD ")) for one in said("ENTRYPOINT")),
        said("HEALTHCHECK"),
    )
    assert entry[-1] == "/opt/snapshotter/entry.py"
    assert "deploy/entry.py deploy/engine.py /opt/snapshotter/" in said("COPY")
    assert said("EXPOSE") == [str(PORT)]
    assert json.loads(health.split("CMD ")[1]) == [*entry[2:], "healthy", str(PORT)]
    assert said("STOPSIGNAL") == ["SIGTERM"]
    environment = dict(one.split("=", 1) for line in said("ENV") for one in shlex.split(line))
    assert environment.items() >= {**FRUGAL, SAFE_PATH: "1"}.items()
    script = environment["SPARK_HOME"].replace("pyspark", "snapshotter/spark_python.sh")
    assert {environment[name] for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")} == {script}
    assert os.access(ROOT / "snapshotter" / "spark_python.sh", os.X_OK)
    assert environment[INTERPRETER] == "/usr/local/bin/python3"


def test_what_a_container_becomes() -> None:
    """A command of ours; Spark's driver, by its own launcher; one of its executors, with the options in their order."""
    assert command(["run", "-c", "shop.toml"], {}) == ["snapshotter", "run", "-c", "shop.toml"]
    assert command([], {}) == ["snapshotter"]
    spark = {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    assert command(["driver", "--class", "P", "local:///engine.py", "run"], spark) == [
        *(
            "/spark/bin/spark-submit",
            "--conf",
            "spark.driver.bindAddress=10.0.0.7",
            "--deploy-mode",
            "client",
        ),
        *("--class", "P", "local:///engine.py", "run"),
    ]
    names = (
        "DRIVER_URL",
        "EXECUTOR_ID",
        "EXECUTOR_CORES",
        "APPLICATION_ID",
        "EXECUTOR_POD_IP",
        "RESOURCE_PROFILE_ID",
    )
    executor = {f"SPARK_{name}": name.lower() for name in (*names, "EXECUTOR_POD_NAME")}
    executor |= {f"SPARK_JAVA_OPT_{n}": f"-Dn={n}" for n in (10, 2)} | {
        "SPARK_EXECUTOR_MEMORY": "2g",
        **spark,
    }
    words = command(["executor"], executor)
    assert words[:5] == ["java", "-Dn=2", "-Dn=10", "-Xms2g", "-Xmx2g"]
    assert words[5:8] == ["-cp", "/spark/conf:/spark/jars/*", BACKEND]
    assert words[8:10] == ["--driver-url", "driver_url"]
    assert command(["executor"], {**executor, "JAVA_HOME": "/java"})[0] == "/java/bin/java"


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_what_kubernetes_runs(workload: Workload) -> None:
    """A line that the command line takes, with a configuration that has no problem, in the image of this version; what
    it is stopped by leaves it the time that it takes."""
    assert wrong_line(shlex.join(["snapshotter", *workload.arguments])) is None
    settings = Settings.from_options(
        configuration(workload), environ={"MONGODB_URI": "mongodb://db/?replicaSet=r"}
    )
    assert settings.warnings == ()
    assert workload.container["image"] == f"snapshotter:{PROJECT['version']}"
    (source,) = workload.container["envFrom"]
    assert source["secretRef"]["name"] in defined(workload, "Secret")
    mounts = {one["mountPath"] for one in workload.container["volumeMounts"]}
    assert configuration(workload)["delta.warehouse"] in mounts
    assert {one["name"] for one in workload.container["volumeMounts"]} == {
        one["name"] for one in workload.volumes
    }
    grace = re.findall(r"'terminationGracePeriodSeconds': (\d+)", str(workload.resource))
    assert [int(seconds) > 2 * STOP_SECONDS for seconds in grace] == [True]


@pytest.mark.parametrize(
    "workload",
    [one for one in WORKLOADS if "--once" not in one.arguments],
    ids=lambda one: one.name,
)
def test_probes_ask_what_is_there(workload: Workload) -> None:
    """Of the port that the configuration opens to other machines, at paths that need no token."""
    options = configuration(workload)
    assert (options["metrics.port"], options["metrics.host"]) == (str(PORT), "0.0.0.0")
    assert [one["containerPort"] for one in workload.container["ports"]] == [PORT]
    ports = {PORT, *(one["name"] for one in workload.container["ports"])}
    paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    for probe, path in paths.items():
        asked = workload.container[probe]["httpGet"]
        assert asked["path"] == path
        assert path in OPEN
        assert asked["port"] in ports


@pytest.mark.parametrize("manifest", sorted(MANIFESTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_fields_are_called_so(manifest: Path) -> None:
    """Those of pods and of the operator's application, by their own models."""
    for resource in resources(manifest):
        if resource["kind"] == "SparkApplication":
            made = SparkV1beta2SparkApplication.from_dict(resource)
            assert made is not None
            assert list(lost(resource, made.to_dict())) == []
        elif (pod := template(resource)) is not None:
            kept = IoK8sApiCoreV1PodTemplateSpec.from_dict(pod)
            assert kept is not None
            assert list(lost(pod, kept.to_dict())) == []


def test_a_field_of_another_name_is_found() -> None:
    """What no model knows is lost on the way."""
    pod = {"spec": {"containers": [{"name": "engine", "livenessprobe": {"periodSeconds": 1}}]}}
    kept = IoK8sApiCoreV1PodTemplateSpec.from_dict(pod)
    assert kept is not None
    assert list(lost(pod, kept.to_dict())) == [".spec.containers[0].livenessprobe"]


def test_the_operators_application_is_ours() -> None:
    """The versions that are pinned, the script of the image, what our JVM is given; whatever has ended is restarted."""
    (application,) = (one.resource for one in WORKLOADS if one.resource["kind"] == "SparkApplication")
    spec = application["spec"]
    assert f"pyspark=={spec['sparkVersion']}" in PROJECT["dependencies"]
    assert spec["mainApplicationFile"] == "local:///opt/snapshotter/engine.py"
    assert spec["driver"]["javaOptions"].split() == defaults(None)["spark.driver.extraJavaOptions"].split()
    assert spec["restartPolicy"]["type"] == "Always"
    launched = [name for one in WORKLOADS if one.resource is application for name in configuration(one)]
    assert not any(name.startswith("spark.") for name in launched)


def test_exit_codes_are_mapped() -> None:
    """Another start is not tried where it fails again: by a job, and by systemd."""
    (job,) = (
        one.resource["spec"]["jobTemplate"]["spec"] for one in WORKLOADS if one.resource["kind"] == "CronJob"
    )
    fail, ignore = job["podFailurePolicy"]["rules"]
    assert (fail["action"], fail["onExitCodes"]["values"]) == ("FailJob", FOR_A_PERSON)
    assert fail["onExitCodes"]["containerName"] == job["template"]["spec"]["containers"][0]["name"]
    assert ignore["action"] == "Ignore"
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # a policy needs that
    service = unit(UNIT.read_text())
    assert service["RestartPreventExitStatus"] == [" ".join(map(str, FOR_A_PERSON))]
    assert service["Restart"] == ["on-failure"]


def test_the_unit_stops_an_engine_as_it_wants_to_be_stopped() -> None:
    """SIGTERM goes to the engine alone, which has time to end its JVM; the command is one."""
    service = unit(UNIT.read_text())
    assert service["KillMode"] == ["mixed"]
    assert int(service["TimeoutStopSec"][0]) > 2 * STOP_SECONDS
    words = shlex.split(service["ExecStart"][0])
    assert wrong_line(shlex.join(["snapshotter", *words[1:]])) is None


def verified(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit, with this environment's command in place of the one that will be installed."""
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd-analyze here")
    here = Path(sys.executable).parent
    file = folder / UNIT.name
    file.write_text(text.replace("/opt/snapshotter/bin/", f"{here}/"))
    return subprocess.run(
        [program, "verify", str(file)], capture_output=True, text=True, timeout=60, check=False
    )


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """It knows every setting, and takes every value; one that it does not know is told."""
    found = verified(tmp_path, UNIT.read_text())
    assert (found.returncode, found.stderr) == (0, "")
    wrong = verified(tmp_path, UNIT.read_text().replace("KillMode=mixed", "KillMod=mixed"))
    assert "KillMod" in wrong.stderr


def test_the_dashboard_shows_figures_that_there_are() -> None:
    """By their names and labels; what a legend says is a label of what it is about."""
    figures = {figure.full_name: figure for figure in CATALOGUE}
    for panel in panels():
        for target in panel["targets"]:
            named = re.findall(r"\bsnapshotter_\w+", target["expr"])
            assert named, panel["title"]
            assert set(named) <= figures.keys(), panel["title"]
            labels = {"name", "server", *(figures[name].label for name in named)}
            asked = re.findall(r"(\w+)=~?\"", target["expr"]) + re.findall(
                r"{{(\w+)}}", target["legendFormat"]
            )
            assert set(asked) <= labels, panel["title"]
            counted = re.findall(r"(?:rate|increase)\((snapshotter_\w+)", target["expr"])
            assert not [name for name in counted if figures[name].kind.value == "gauge"], panel["title"]


def test_the_dashboard_is_whole() -> None:
    """Each panel has an id and a place of its own, and the data source that is chosen; engines can be chosen too."""
    shown = dashboard()
    assert len({panel["id"] for panel in shown["panels"]}) == len(shown["panels"])
    cells: set[tuple[int, int]] = set()
    for panel in shown["panels"]:
        place = panel["gridPos"]
        rows, columns = range(place["y"], place["y"] + place["h"]), range(place["x"], place["x"] + place["w"])
        own = {(row, column) for row in rows for column in columns}
        assert not own & cells, panel["title"]
        assert max(columns) < 24
        cells |= own
    assert {variable["name"] for variable in shown["templating"]["list"]} == {"datasource", "name"}
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels())
    query = next(v for v in shown["templating"]["list"] if v["name"] == "name")["query"]["query"]
    assert re.findall(r"snapshotter_\w+", query)[0] in {figure.full_name for figure in CATALOGUE}
    assert len(expressions()) > 25


def test_pages_name_what_is_there() -> None:
    """Files in `deploy`, and this version, wherever a line to copy has it."""
    for page in ("deploy.md", "install.md"):
        text = (ROOT / "docs" / page).read_text()
        for name in re.findall(r"\bdeploy/[\w@./-]*\w", text):
            assert (ROOT / name).exists(), name
        versions = re.findall(r"snapshotter[:-](\d+\.\d+\.\d+)", text)
        assert set(versions) == {PROJECT["version"]}, page


def test_every_file_is_told_of() -> None:
    """On the page about them."""
    page = (ROOT / "docs" / "deploy.md").read_text()
    for file in DEPLOY.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert str(file.relative_to(ROOT)) in page, file
