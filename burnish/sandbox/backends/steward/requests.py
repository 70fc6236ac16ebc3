"""One request and its answer."""

import base64
import importlib
import json
import sys
from typing import Any

from burnish.sandbox.backends.steward import files, running
from burnish.sandbox.backends.steward.files import Refused, Request

OPERATIONS = {
    "run": running.run,
    "write": files.write,
    "read": files.read,
    "pack": lambda request: _trees().pack(request),
    "unpack": lambda request: _trees().unpack(request),
}


def answer(request: Request) -> dict[str, Any]:
    """Meet one request; what is wrong with it goes back as text."""
    try:
        return OPERATIONS[request["op"]](request)
    except Refused as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"{error.strerror or error}: {error.filename or request.get('path', '')}"}
    except RecursionError:
        return {"error": "the tree of /work is too deep"}


def _trees() -> Any:
    return importlib.import_module("burnish.sandbox.backends.steward.trees")


def once() -> None:
    """Meet the request on stdin, or in the file that is named; the answer is one line of base64 on stdout.

    The request says its length first, since not every service can close the input of what it runs.
    """
    running.prctl(running.PR_SET_DUMPABLE, 0)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "rb") as file:
            request = _request(file)
    else:
        request = _request(sys.stdin.buffer)
    reply = json.dumps(answer(request)).encode()
    sys.stdout.buffer.write(base64.b64encode(reply) + b"\n")
    sys.stdout.buffer.flush()


def _request(source: Any) -> Request:
    return json.loads(source.read(int(source.readline())))
