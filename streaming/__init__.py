"""MongoDB's change streams on Spark, and state tables in Delta Lake. Knows neither signals nor the engine.

From the bottom: `positions`, `namespaces`, `json_text`; raw `bson`, `keys` of documents, the `plan` of a table; `mongo`
and `scope`; `decode`; and side by side the `source` of changes, and `delta`, where rows land.
"""
