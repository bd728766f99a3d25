"""What an engine has to be allowed at MongoDB, and whether its user is (docs/privileges.md has the roles).

Nothing is tried out: what a user may do is what the server says of who has authenticated himself. All that is missing
is named at once, with the privileges to grant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.settings_checks import SIGNALS, STRATEGY
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.errors import DefiniteError
from snapshotter.reporting.status_collection import OPTION as STATUS
from streaming.keys.shard_keys import CATALOGUE as SHARD_KEYS
from streaming.mongo.errors import SourceError, as_source_error, classify
from streaming.mongo.server_codes import Kind
from streaming.scope.scope import CaptureScope, Level

_log = structlog.get_logger("snapshotter.privileges")
_BY_NAME = ("local", "config")


@dataclass(frozen=True, slots=True)
class Privilege:
    """An action on a resource of MongoDB's, and ``why`` it is needed. An empty name means all of them; an empty
    ``collection``, that of a database as such. ``cluster``: its resource is the deployment itself."""

    action: str
    database: str
    collection: str
    why: str
    cluster: bool = False

    @property
    def resource(self) -> dict[str, Any]:
        """As MongoDB has it in a role."""
        return {"cluster": True} if self.cluster else {"db": self.database, "collection": self.collection}

    def __str__(self) -> str:
        where = f"{self.database}.{self.collection}" if self.collection else self.database or "all databases"
        return f"the privilege {self.action!r} on {'the cluster' if self.cluster else where}, which {self.why} needs"


def needed(config: EngineConfig, *, sharded: bool = False) -> Iterator[Privilege]:
    """What an engine does at MongoDB, and so has to be allowed (docs/privileges.md has the roles)."""
    scope = config.scope
    yield from needed_to_read(scope)
    if sharded:
        why = "a sharded cluster (its shard keys)"
        yield Privilege("find", SHARD_KEYS.database, SHARD_KEYS.collection, why)
    if config.post_images_enable and (config.needs_post_images or config.needs_pre_images):
        yield Privilege("collMod", *_watched(scope), "engine.post.images.enable")
    if config.strategy.in_stream and config.signals is not None:
        keeps = config.watermarks_keep and config.strategy is Strategy.INSERT_INSERT
        why = f"{SIGNALS} = {config.signals} with {STRATEGY} = {config.strategy}"
        for action in ("insert",) if keeps else ("insert", "remove"):
            yield Privilege(action, config.signals.database, config.signals.collection, why)
    if config.status_collection and (status := scope.status) is not None:
        for action in ("insert", "update"):
            yield Privilege(action, status.database, status.collection, f"{STATUS} = true")


def needed_to_read(scope: CaptureScope, *, stream: bool = True) -> Iterator[Privilege]:
    """What reading what is captured takes, and (``stream``) following its changes."""
    why = f"capture.scope = {scope.level}"
    database, collection = _watched(scope)
    for action in ("changeStream", "find") if stream else ("find",):
        yield Privilege(action, database, collection, why)
    yield Privilege("listCollections", database, "", why)


def sizes_of_documents(config: EngineConfig) -> Privilege:
    """What an engine can do without, but not as well (`WITHOUT_SIZES`)."""
    return Privilege("collStats", *_watched(config.scope), "knowing the size of documents beforehand")


WITHOUT_SIZES = "first windows are cut by numbers of documents, and dry runs say nothing of bytes"
OPLOG = (
    Privilege("find", "local", "oplog.rs", "the oldest entry of the oplog"),
    Privilege("collStats", "local", "oplog.rs", "the size of the oplog"),
    Privilege("serverStatus", "", "", "the least retention of the oplog", cluster=True),
)
"""What it takes to know how long the oplog holds a position. Without these the figures err to the side of a warning."""


def warn_of_wishes(client: MongoClient[Any], config: EngineConfig) -> None:
    """Warn of what an engine can do without, but not as well."""
    user, missing = lacking(client, [sizes_of_documents(config)])
    for one in missing:
        _log.warning(f"the MongoDB user {user} lacks {one}: {WITHOUT_SIZES}")


def _watched(scope: CaptureScope) -> tuple[str, str]:
    database = "" if scope.level is Level.DEPLOYMENT else scope.database or ""
    return database, scope.collection or "" if scope.level is Level.COLLECTION else ""


def check_privileges(client: MongoClient[Any], privileges: Iterable[Privilege]) -> None:
    """Raises DefiniteError that names each of these ``privileges`` that the user does not have, and how to grant
    them."""
    user, missing = lacking(client, privileges)
    if not missing:
        return
    raise DefiniteError(
        f"the MongoDB user {user} lacks {'; '.join(map(str, missing))}",
        grant(missing),
        condition="source-denied",
    )


def grant(missing: Iterable[Privilege]) -> str:
    """What to do for a user who does not have these privileges."""
    by_resource: dict[str, dict[str, Any]] = {}
    for one in missing:
        entry = {"resource": one.resource, "actions": []}
        by_resource.setdefault(json.dumps(one.resource), entry)["actions"].append(one.action)
    return f"let its role have them, as docs/privileges.md says: privileges {json.dumps(list(by_resource.values()))}"


def name_what_lacks(client: MongoClient[Any], config: EngineConfig, error: Exception) -> None:
    """Where the ``error`` is that the server has refused something for want of a privilege, raise one that names it,
    which the server's words do not. ``client`` is the one that was refused, ``config`` says what is needed."""
    if classify(error).kind is not Kind.PERMISSION:
        return
    try:
        check_privileges(client, needed(config, sharded=client.is_mongos))
    except DefiniteError as named:
        raise named from error
    except (SourceError, PyMongoError):  # who is refused altogether can't ask: the error itself says why
        return


def lacking(client: MongoClient[Any], privileges: Iterable[Privilege]) -> tuple[str, list[Privilege]]:
    """The user, as name@database, and those of the ``privileges`` that it does not have; none where access control is
    off."""
    try:
        answer = client.admin.command("connectionStatus", showPrivileges=True)
    except PyMongoError as error:
        raise as_source_error(error, "cannot ask MongoDB what this user may do") from error
    info = answer["authInfo"]
    if not info["authenticatedUsers"]:
        return "", []  # where it is on, the first command without a user is refused anyway
    held = info["authenticatedUserPrivileges"]
    missing = [
        one
        for one in privileges
        if not any(one.action in p["actions"] and _includes(p["resource"], one) for p in held)
    ]
    return "{user}@{db}".format(**info["authenticatedUsers"][0]), missing


def _includes(resource: Mapping[str, Any], one: Privilege) -> bool:
    if one.cluster:
        return bool(resource.get("cluster") or resource.get("anyResource"))
    return covers(resource, one.database, one.collection)


def covers(resource: Mapping[str, Any], database: str, collection: str) -> bool:
    """Whether a privilege's resource includes a database and a collection of it ("" means all). That of all databases
    does not include ``local`` and ``config``: the server wants these by name."""
    if resource.get("anyResource"):
        return True
    if "db" not in resource:
        return False
    if not resource["db"] and not resource.get("collection") and database in _BY_NAME:
        return False
    return resource["db"] in ("", database) and resource.get("collection", "") in ("", collection)
