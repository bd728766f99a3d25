"""The same work done by others: one module a peer, each a function that takes a MongoDB address and returns
figures.

A peer runs in a process of its own (its own JVM, at rest while ours is measured), is built from Maven
Central into `.work/` on first use, and is given its best documented settings beside its defaults.
"""
