"""What is to be said of a configuration and of the place that it is for, before an engine is started: findings, each
with its remedy.

`facts` are what was looked at, `finding` what is said, `rules_*` lead from one to the other: values and functions,
without a driver, a clock or a file. `look_*` gather facts from MongoDB, from the disk and from what is installed.
`examination` puts them together: it changes nothing, starts no Spark, and a check that cannot be made is a finding that
stops no other. What a start checks is asked of the start's own checks (`engine.preflight`). `report` shows findings;
`first_configuration` writes the file that ``snapshotter init`` begins with.
"""

__all__ = ["examination", "finding", "first_configuration", "report"]
