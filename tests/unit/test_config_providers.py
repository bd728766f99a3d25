"""References in values: what each provider gives, what it may read, and that nothing of it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.config_providers import resolve
from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError, Problem

CLASSES = "org.apache.kafka.common.config.provider"
LEAST = {"name": "shop", "mongodb.connection.string": "mongodb://localhost/", "delta.warehouse": "/lake"}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder with a file of properties, a file with one secret, and another folder."""
    (tmp_path / "mongodb.properties").write_text(
        "# of the shop\nuser=reader\npassword = pa:ss=wörd \nempty=\n"
    )
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


def refused(options: dict[str, str], environ: dict[str, str] | None = None) -> list[Problem]:
    with pytest.raises(ConfigurationError) as refusal:
        Settings.from_options({**LEAST, **options}, environ or {})
    return list(refusal.value.problems)


def test_environment_variables() -> None:
    """Replaced anywhere in a value, once; a missing one is a problem that names the option."""
    values = {"a": "x-${env:ONE}-${env:TWO}", "b": "${env:NONE}", "c": "${env:p:ONE}", "d": "^a$|{b}|${e}"}
    found = resolve(values, {"ONE": "1", "TWO": "${env:ONE}"})
    assert found.values["a"] == "x-1-${env:ONE}"
    assert found.values["d"] == "^a$|{b}|${e}"
    assert found.problems == [
        Problem("b", "${env:NONE} stands for nothing: the environment variable NONE is not set"),
        Problem(
            "c", "${env:p:ONE} stands for nothing: an environment variable has no path, and here it is 'p'"
        ),
    ]


def test_files_and_directories(secrets: Path) -> None:
    """A key of Java's properties, with its blanks; and the whole of a file, as it is. Strimzi's names mean the same."""
    file, folder = secrets / "mongodb.properties", secrets
    values = {
        "user": f"${{file:{file}:user}}",
        "password": f"<${{strimzifile:{file}:password}}>",
        "empty": f"${{file:{file}:empty}}",
        "token": f"${{dir:{folder}:token}}",
        "tokens": f"${{directory:{folder}:token}}${{strimzidir:{folder}:token}}",
        "home": "${strimzienv:HOME}",
    }
    found = resolve(values, {"HOME": "/me"})
    assert found.problems == []
    assert found.values == {
        "user": "reader",
        "password": "<pa:ss=wörd >",
        "empty": "",
        "token": "t0ken\n",
        "tokens": "t0ken\nt0ken\n",
        "home": "/me",
    }


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${file:HERE/none.properties:user}", "the file HERE/none.properties cannot be read: No such file"),
        ("${file:HERE/mongodb.properties:pass}", "the file HERE/mongodb.properties has no key 'pass'"),
        ("${file:HERE/folder:user}", "cannot be read: Is a directory"),
        ("${file:user}", "it names no path"),
        ("${dir:HERE/token:token}", "HERE/token is no directory"),
        ("${dir:HERE:none}", "the directory HERE has no file 'none'"),
        ("${dir:HERE:folder}", "the directory HERE has no file 'folder'"),
        ("${dir:HERE/folder:../token}", "the directory HERE/folder has no file '../token'"),
        (
            "${vault:secret/shop:password}",
            "there is no provider vault, and there are dir, directory, env, file",
        ),
    ],
)
def test_what_stands_for_nothing(secrets: Path, reference: str, said: str) -> None:
    """Option, provider, path and key are named; what was read on the way is not."""
    reference, said = reference.replace("HERE", str(secrets)), said.replace("HERE", str(secrets))
    (problem,) = refused({"mongodb.user": "me", "mongodb.password": reference})
    assert problem.option == "mongodb.password"
    assert problem.message.startswith(f"{reference} stands for nothing: ")
    assert said in problem.message
    assert not any(secret in str(problem) for secret in ("t0ken", "wörd", "reader"))


def test_a_file_that_is_none_of_properties(tmp_path: Path) -> None:
    """Said without a line of it."""
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    (tmp_path / "b").write_text("=s3cret\n")
    values = {"a": f"${{file:{tmp_path}/a:x}}", "b": f"${{file:{tmp_path}/b:x}}"}
    said = [problem.message for problem in resolve(values, {}).problems]
    assert "is no text in UTF-8" in said[0]
    assert "is no file of properties: a line has a value and no name before it" in said[1]
    assert "s3cret" not in "".join(said)


def declared(secrets: Path, **more: str) -> dict[str, str]:
    """Three providers under names of one's own, and parameters of theirs with ``__`` for a dot."""
    given = {
        "config.providers": "props, mounted,vars",
        "config.providers.props.class": f"{CLASSES}.FileConfigProvider",
        "config.providers.mounted.class": f"{CLASSES}.DirectoryConfigProvider",
        "config.providers.vars.class": f"{CLASSES}.EnvVarConfigProvider",
    }
    return given | {f"config.providers.{name.replace('__', '.')}": text for name, text in more.items()}


def test_providers_under_names_of_ones_own(secrets: Path) -> None:
    """As ``config.providers`` names them, with the class that is given; the usual names are there still."""
    values = {
        **declared(secrets),
        "a": f"${{props:{secrets}/mongodb.properties:user}}",
        "b": f"${{mounted:{secrets}:token}}",
        "c": "${vars:X}${env:X}",
    }
    found = resolve(values, {"X": "x"})
    assert (found.problems, found.warnings) == ([], [])
    assert [found.values[name] for name in "abc"] == ["reader", "t0ken\n", "xx"]


def test_what_a_provider_may_read(secrets: Path) -> None:
    """``allowed.paths`` and ``allowlist.pattern``; a way around by ``..`` is none."""
    values = {
        **declared(
            secrets,
            props__param__allowed__paths=f"{secrets}/folder",
            mounted__param__allowed__paths=f"{secrets}/folder, {secrets}",
            vars__param__allowlist__pattern="SHOP_.*",
        ),
        "a": f"${{props:{secrets}/folder/../mongodb.properties:user}}",
        "b": f"${{mounted:{secrets}:token}}",
        "c": "${vars:SHOP_X}${vars:HOME}",
    }
    found = resolve(values, {"SHOP_X": "x", "HOME": "/me"})
    assert found.values["b"] == "t0ken\n"
    assert [(p.option, p.message.partition(": ")[2]) for p in found.problems] == [
        ("a", f"{secrets}/folder/../mongodb.properties may not be read: allowed.paths is {secrets}/folder"),
        ("c", "the variable HOME may not be read: allowlist.pattern is SHOP_.*"),
    ]


def test_declarations_that_are_wrong(secrets: Path) -> None:
    """A class that is missing, parameters that are none; a class that is not carried out is only wrong where a value
    needs it."""
    more = {
        "props__param__allowed__paths": "relative",
        "vars__param__allowlist__pattern": "(",
        "mounted__param__allowlist__pattern": "x",
        "other__class": f"{CLASSES}.FileConfigProvider",
    }
    names = "props,mounted,vars,bare,kubernetes"
    foreign = {"config.providers.kubernetes.class": "io.strimzi.kafka.KubernetesSecretConfigProvider"}
    values = {**declared(secrets, **more), **foreign, "config.providers": names}
    found = resolve(values, {})
    assert {problem.option for problem in found.problems} == {
        "config.providers.props.param.allowed.paths",
        "config.providers.vars.param.allowlist.pattern",
        "config.providers.bare.class",
    }
    assert [warning.partition(" ")[0] for warning in found.warnings] == [
        "config.providers.mounted.param.allowlist.pattern",
        "config.providers.kubernetes.class",
        "config.providers.other.class",
    ]
    (problem,) = resolve({**values, "a": "${kubernetes:ns/secret:key}"}, {}).problems[3:]
    assert "kubernetes is the class io.strimzi.kafka.KubernetesSecretConfigProvider" in problem.message
    assert "mount the secret as files" in problem.message


def test_expressions_of_debezium_server(secrets: Path) -> None:
    """The environment, by the name or as a variable is spelled; a property of the file; a default. ``$${`` is no
    expression, and references of providers work with and without it."""
    values = {
        "uri": "${MONGODB_URI}",
        "host": "${mongo.host}",
        "mode": "${MODE:initial}",
        "prefix": "cdc-${debezium.source.mode-name}",
        "mode-name": "a",
        "kept": "$${not.this}",
        "user": f"${{file:{secrets}/mongodb.properties:user}}$${{env:X}}",
        "none": "${NOPE}",
        "again": "${A:${B}}",
        "plain": "^a$|b{1,2}",
    }
    environ = {"MONGODB_URI": "mongodb://h", "MONGO_HOST": "h", "X": "x"}
    found = resolve(values, environ, expressions=True)
    assert found.values["uri"] == "mongodb://h"
    assert found.values["host"] == "h"
    assert found.values["mode"] == "initial"
    assert found.values["prefix"] == "cdc-a"
    assert found.values["kept"] == "${not.this}"
    assert found.values["user"] == "readerx"
    assert found.values["plain"] == "^a$|b{1,2}"
    assert [problem.option for problem in found.problems] == ["none", "again"]
    assert "the environment variable NOPE" in found.problems[0].message
    assert resolve({"uri": "${MONGODB_URI}"}, environ).values["uri"] == "${MONGODB_URI}"


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("errors.max.retries", "s3cret", "must be a whole number"),
        ("errors.max.retries", "-7", "must be at least"),
        ("snapshot.mode", "s3cret", "must be one of always"),
        ("snapshot.mode", "initial s3cret", "is not what this option takes"),
        ("collection.include.list", "s3cret.(", "is no regular expression"),
        ("snapshot.collection.filter.overrides.a.b", '{"s3cret": ', ""),
        ("mongodb.connection.string", "s3cret:27017", "must be mongodb://"),
        ("signal.data.collection", "s3cret", "one collection"),
        ("signal.enabled.channels", "s3cret", "is no channel"),
        ("skipped.operations", "s3cret", "must be some of c, u, d"),
        ("internal.mongodb.allow.offset.invalidation", "s3cret", "is not supported yet"),
        ("capture.mod", "s3cret", "did you mean capture.mode?"),
    ],
)
def test_no_message_shows_what_a_provider_gives(tmp_path: Path, option: str, content: str, said: str) -> None:
    """A wrong value is shown as it is written in the configuration: the reference, with provider, path and key."""
    (tmp_path / "value").write_text(content)
    reference = f"${{dir:{tmp_path}:value}}"
    problems = refused({option: reference})
    assert not any("s3cret" in str(problem) for problem in problems)
    mine = next(problem for problem in problems if problem.option == option)
    assert mine.value in (reference, None)
    assert said in mine.message


def test_no_warning_and_no_print_out_shows_it(tmp_path: Path) -> None:
    """A warning has the reference. Secrets are masked, and so is what is passed on to Spark and came from a file; other
    options show their values."""
    for name in ("value", "kind"):
        (tmp_path / name).write_text(f"s3cret-{name}")
    options = {
        "topic.prefix": "${env:PREFIX}",
        "mongodb.user": "me",
        "mongodb.password": f"${{dir:{tmp_path}:value}}",
        "spark.hadoop.fs.account": f"${{dir:{tmp_path}:value}}",
        "spark.master": "${env:MASTER}",
        "transforms": "t",
        "transforms.t.type": f"${{dir:{tmp_path}:kind}}",
    }
    settings = Settings.from_options({**LEAST, **options}, {"PREFIX": "cdc", "MASTER": "local[2]"})
    assert settings.mongodb.password == "s3cret-value"
    assert settings.spark["spark.hadoop.fs.account"] == "s3cret-value"
    shown = settings.masked()
    assert shown["topic.prefix"] == "cdc"
    assert shown["mongodb.password"] == shown["spark.hadoop.fs.account"] == "***"
    assert shown["spark.master"] == "local[2]"
    (warning,) = settings.warnings
    assert f"t (${{dir:{tmp_path}:kind}}) is not carried out" in warning
