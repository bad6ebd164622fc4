"""Prints each process's TF_CONFIG of a TensorFlow cluster, and checks that it is true.

Servers and workers answer at their own address until they are ended; the chief asks all of them for
their names, and ends. No TensorFlow is needed.
"""

import json
import os
import socket
import sys
import time

PATIENCE = 60  # seconds for the others to start


def serve(address: str, name: str) -> None:
    """Answers every caller with this process's name, for ever."""
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))) as server:
        while True:
            caller, _ = server.accept()
            with caller:
                caller.sendall(name.encode())


def ask(address: str) -> str:
    """Returns the name of the process at an address, once it answers."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as call:
                return call.makefile().read()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main() -> None:
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    address = cluster[task["type"]][task["index"]]
    if task["type"] != "chief":
        serve(address, f"{task['type']} {task['index']}")
    others = [
        (f"{role} {index}", other)
        for role, addresses in cluster.items()
        for index, other in enumerate(addresses)
        if role != "chief"
    ]
    for name, other in others:
        answer = ask(other)
        print(f"{other} is {answer}", flush=True)
        if answer != name:
            sys.exit(f"error: {other} should be {name}")
    print(f"done: the chief has found {len(others)} others")


if __name__ == "__main__":
    main()
