"""Tries: reach a port of the host.

Must: be refused: an error, and nothing done.
"""

import json
import socket

given = json.load(open("given.json"))
socket.create_connection(("127.0.0.1", given["port"]), timeout=1)
