"""MongoDB as a server: clients, what kind of deployment it is, and what its errors mean."""

__all__ = ["certificates", "connection_watch", "deployment", "errors", "server_codes"]
