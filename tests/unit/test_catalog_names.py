"""Names in Spark's catalogue: `delta.catalog.table`."""

from __future__ import annotations

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError
from streaming.delta.catalog_names import CatalogTemplate
from streaming.namespaces import Namespace


def made(template: str | None) -> Settings:
    options = {"name": "e", "mongodb.connection.string": "mongodb://h", "delta.warehouse": "/lake"}
    return Settings.from_options(
        {**options, **({} if template is None else {"delta.catalog.table": template})}, {}
    )


@pytest.mark.parametrize(
    ("template", "namespace", "name"),
    [
        ("{db}.{collection}", "shop.orders", ("shop", "orders")),
        ("bronze.{db}_{collection}", "shop.orders", ("bronze", "shop_orders")),
        ("lake.{db}.{collection}", "shop.orders", ("lake", "shop", "orders")),
        ("{collection}", "shop.orders", ("orders",)),
        ("{db}.{collection}", "shop-eu.orders.2026", ("shop_eu", "orders_2026")),
        ("{db}.{collection}", "shop.{db}", ("shop", "_db_")),
        ("{db}.{collection}", "läden.aufträge", ("l_den", "auftr_ge")),
    ],
)
def test_names_follow_the_template(template: str, namespace: str, name: tuple[str, ...]) -> None:
    """What Spark does not take in a name without quotes is an underscore."""
    found = engine_config(made(template)).form.catalog
    assert found == CatalogTemplate(template)
    assert found.name_of(Namespace.parse(namespace)) == name


def test_nothing_is_registered_unless_asked() -> None:
    """Nor by an empty option."""
    assert engine_config(made(None)).form.catalog is None
    assert engine_config(made(" ")).form.catalog is None


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{db}", "must have {collection} in its last part"),
        ("{collection}.t", "must have {collection} in its last part"),
        ("a.b.{db}.{collection}", "must have one to three parts"),
        ("{db}..{collection}", "has an empty part"),
        ("{database}.{collection}", "names {database}; there are {db} and {collection}"),
        ("{db}.{collection}`", "may have letters, digits and underscores"),
        ("{db}.{{collection}}", "may have letters, digits and underscores"),
    ],
)
def test_what_gives_no_names_is_refused(template: str, why: str) -> None:
    """With what is wrong."""
    with pytest.raises(ConfigurationError) as refused:
        made(template)
    assert "delta.catalog.table" in str(refused.value)
    assert why in str(refused.value)
