"""Starts a MongoDB, tells where it is as JSON, and waits to be killed: for the tests of cleaning up."""

import json
import sys

from snapshotter.testing.mongodb import start_mongodb

deployment = start_mongodb()
node = deployment.nodes[0]
print(json.dumps({"pid": node.pid, "folder": str(node.folder.parent), "uri": deployment.uri}), flush=True)
sys.stdin.read()
