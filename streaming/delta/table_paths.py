"""Where a collection's tables lie under a warehouse: ``state/<database>/<collection>``, and ``changelog/…``.

A character of a name that a file system, a URI or a reader of the folder could take for something else becomes
``~`` and its UTF-8 bytes in upper-case hex. So the path is the same on every store, two collections never share
one, and the name can be read back from it. What stays as it is: ASCII letters and digits, ``-``, ``_`` and ``.``.
A leading ``_`` or ``.`` is encoded too: Hadoop's readers hide such folders, and ``..`` would leave the warehouse.
No percent sign stands in a path: delta-rs decodes those of a folder's name, and finds no table.

Pure: standard library only.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from streaming.namespaces import Namespace

STATE = "state"
CHANGELOG = "changelog"
ENGINE = "_snapshotter"

_COMPONENT_BYTES_MAX = 255
"""The longest name of one folder on the file systems in use (ext4, xfs, HDFS)."""


def encode_name(name: str) -> str:
    """One database's or collection's name as one folder's name.

    Raises ValueError for an empty name, and for one that is longer than a file system takes once encoded.
    """
    encoded = quote(name, safe="").replace("~", "%7E").replace("%", "~")
    if encoded[:1] in ("_", "."):
        encoded = f"~{ord(encoded[0]):02X}{encoded[1:]}"
    if not encoded:
        raise ValueError("an empty name has no folder")
    if len(encoded) > _COMPONENT_BYTES_MAX:
        raise ValueError(
            f"the folder of {name!r} would have a name of {len(encoded)} bytes, and file systems take "
            f"{_COMPONENT_BYTES_MAX}: leave this collection out of the captured ones"
        )
    return encoded


def decode_name(folder: str) -> str:
    """The name that `encode_name` made this folder of; raises ValueError for any other folder's name."""
    name = unquote(folder.replace("~", "%"), errors="strict")
    if not name or encode_name(name) != folder:
        raise ValueError(f"not the folder of a database or a collection: {folder!r}")
    return name


def state_path(namespace: Namespace) -> str:
    """The state table's path, relative to the warehouse."""
    return _table_path(STATE, namespace)


def changelog_path(namespace: Namespace) -> str:
    """The changelog table's path, relative to the warehouse."""
    return _table_path(CHANGELOG, namespace)


def engine_path(name: str) -> str:
    """The folder of the engine of this name (checkpoint, journal, lock), relative to the warehouse."""
    return f"{ENGINE}/{encode_name(name)}"


def parse_state_path(path: str) -> Namespace:
    """The collection whose state table lies at this path; raises ValueError for any other path."""
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[0] != STATE:
        raise ValueError(f"not the path of a state table (state/<database>/<collection>): {path!r}")
    return Namespace(decode_name(parts[1]), decode_name(parts[2]))


def under(warehouse: str, relative: str) -> str:
    """``relative`` under the warehouse, which is a local path or a URI."""
    return f"{warehouse.rstrip('/')}/{relative}"


def _table_path(kind: str, namespace: Namespace) -> str:
    return f"{kind}/{encode_name(namespace.database)}/{encode_name(namespace.collection)}"
