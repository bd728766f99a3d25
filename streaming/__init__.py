"""MongoDB's change streams on Spark, and state tables in Delta Lake. Knows neither signals nor the engine.

From the bottom: `positions`, `namespaces`, `json_text`, `column_names`; raw `bson` and `canonical` content; `keys` of
documents, `mongo`, `scope`; the port of a table's `layout`; `decode`; the `layouts` there are; and side by side the
`source` of changes, the `events` that are made of them, and `delta`, where rows land.
"""
