"""How an engine's query names its source to Spark, and what Spark's processes need for it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.datasource import DataSource

from streaming.mongo.errors import ConfigurationError
from streaming.source.change_stream import MongoChangesReader
from streaming.source.registration import LateReader, register_at
from streaming.source.schema import SCHEMA

ROOT = Path(__file__).parents[2]
SECRETS = {"mongodb.connection.string": "mongodb://user:secret@localhost/?replicaSet=rs"}
# As Spark's process that makes a source does it; here without the product.
MAKES = """
import base64, json, pickle, sys
source = pickle.loads(base64.b64decode(sys.argv[1]))({"trailer": "true"})
loaded = [name for name in sys.modules if name.split(".")[0] in ("streaming", "pymongo")]
print(json.dumps({"name": source.name(), "columns": source.schema().names, "loaded": loaded}))
"""
# As the one that plans a read, and what its reader asks for where offsets are.
PLANS = """
import base64, json, pickle, sys
from pyspark.cloudpickle import dumps
from pyspark.sql.worker import plan_data_source_read
source = pickle.loads(base64.b64decode(sys.argv[1]))({"trailer": "true"})
reader = source.streamReader(source.schema())
dumps(reader.read)
at_plan = sorted(name for name in sys.modules if name.split(".")[0] in ("streaming", "pymongo"))
reader.getDefaultReadLimit()
rows = sorted(name for name in sys.modules if name.endswith("_rows"))
print(json.dumps({"at_plan": at_plan, "rows": rows}))
"""


def registered() -> tuple[str, type[DataSource]]:
    found: list[type[DataSource]] = []
    spark: Any = SimpleNamespace(dataSource=SimpleNamespace(register=found.append))
    return register_at(spark, SECRETS), found[0]


def test_the_process_that_makes_it_imports_nothing_of_it(tmp_path: Path) -> None:
    """It gets the class by value, and is done a third of a second sooner than with all of the source."""
    name, source = registered()
    assert said(MAKES, source, tmp_path) == {"name": name, "columns": SCHEMA.names, "loaded": []}


def test_the_processes_that_plan_import_what_they_use(tmp_path: Path) -> None:
    """One passes the reader on, and needs nothing of the source; the one that is asked for offsets makes no rows."""
    found = said(PLANS, registered()[1], tmp_path)
    assert found["at_plan"] == [
        "streaming",
        "streaming.source",
        "streaming.source.registration",
        "streaming.source.schema",
    ]
    assert found["rows"] == []


def said(program: str, source: type[DataSource], folder: Path) -> Any:
    """What a ``program`` in a process of its own, which runs in ``folder``, says of the pickled ``source``."""
    made = [sys.executable, "-P", "-c", program, base64.b64encode(dumps(source)).decode()]
    run = subprocess.run(
        made,
        cwd=folder,
        env={"PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT)},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(run.stdout)


def test_its_reader_knows_the_secrets_and_checks_the_options() -> None:
    """As those of any source; an engine's were checked before."""
    name, source = registered()
    assert name != registered()[0], "no two have the same name"
    given = {"trailer": "true", "mongodb.connection.string": "mongodb://nobody"}
    reader = source(given).streamReader(SCHEMA)
    assert isinstance(reader, LateReader)
    assert reader._reader()._options.uri == SECRETS["mongodb.connection.string"]
    wrong = source({"trailler": "true"}).streamReader(SCHEMA)
    assert isinstance(wrong, LateReader)
    with pytest.raises(ConfigurationError, match="no such option"):
        wrong.getDefaultReadLimit()


def test_each_method_is_the_readers_own() -> None:
    """Spark calls some by what a reader is, so none may be left to the base class."""
    ours = {name for name in vars(MongoChangesReader) if not name.startswith("_")}
    assert ours == {name for name in vars(LateReader) if not name.startswith("_")}
    assert LateReader.__bases__ == MongoChangesReader.__bases__
