"""A node is made ready for a task on several: the coordination command, once a node."""

from __future__ import annotations

import json
import os
import subprocess

from fairway_agent.allocators import batch
from fairway_agent.batch.folders import Folders, fail
from fairway_agent.fanout.sshd import server
from fairway_agent.task_state import NO_START


def coordinate() -> int:
    """Makes the directories, starts the server and what watches for events; returns at once."""
    os.dup2(1, 2)
    folders = Folders()
    code = folders.setup_code()
    if code:
        return fail(f"the setup failed here with exit code {code}", code)
    folders.make_directories(folders.spec())
    sessions = folders.base / "sessions"
    sessions.mkdir(exist_ok=True)
    (folders.base / "event").unlink(missing_ok=True)
    context = folders.base / "context.json"
    facts = {"environment": dict(os.environ), "code": str(folders.code), "base": str(folders.base)}
    context.write_text(json.dumps(facts), encoding="utf-8")
    try:
        server.install_keys(folders.meeting)
        address = batch.own_address(batch.given())
        server.start_server(folders.meeting, address, context)
    except (OSError, subprocess.CalledProcessError) as error:
        return fail(f"this node cannot be reached by the others: {error}", NO_START)
    if os.environ.get("AZ_BATCH_IS_CURRENT_NODE_MASTER") != "true":
        with (folders.base / "events.log").open("ab") as log:
            subprocess.Popen(
                [str(folders.programs / "fairway-node"), "watch"],
                env={**os.environ, server.SERVICE: "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    return 0
