"""Azurite, the emulator of Azure Storage, beside the simulated Batch account."""

from __future__ import annotations

import base64
import os
import re
import secrets
import shlex
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.supervisor_client import Setting, Supervisor
from fairway_simulator.batch.agent.transfers import StorageAccess

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCOUNT = "simulatedstorage"
# Seconds; a busy machine is slow to start Node.js.
_START = 120.0
_LISTENS = re.compile(r"listen\w* (?:on|at) (http://[\d.:]+)")


class AzuriteMissing(Exception):
    """Error that Azurite is not installed; its text is the command that installs it."""


def program() -> str | None:
    """Returns Azurite's blob service from this environment (`npm install --prefix .venv/azurite
    azurite`) or from PATH; None if it is missing."""
    own = Path(sys.prefix) / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    return str(own) if os.access(own, os.X_OK) else shutil.which("azurite-blob")


class Azurite:
    """A running blob service with one account, on a free port of 127.0.0.1.

    It runs under a supervisor, so that it ends even if this process is killed.
    """

    def __init__(self, folder: Path, containers: Iterable[str]) -> None:
        found = program()
        if found is None:
            raise AzuriteMissing("npm install --prefix .venv/azurite azurite")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._pid, self._log = self._folder / "azurite.pid", self._folder / "azurite.log"
        for file in (self._pid, self._log):
            file.write_bytes(b"")
        self._supervisor = Supervisor(Setting("", ()))
        self._thread = threading.Thread(target=self._run, args=(found,), daemon=True)
        self._thread.start()
        try:
            self.access = StorageAccess(f"{self._wait()}/{ACCOUNT}", ACCOUNT, self._key)
            self._make(containers)
        except BaseException:
            self.stop()
            raise

    def _run(self, found: str) -> None:
        options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--location", str(self._folder)]
        options += ["--skipApiVersionCheck", "--disableTelemetry"]
        script = f'echo $$ >{shlex.quote(str(self._pid))}; exec "$@"'
        environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{self._key}"}
        argv = ["sh", "-c", script, "sh", found, *options]
        log = str(self._log)
        self._supervisor.run(argv, str(self._folder), environment, log, log)

    def _wait(self) -> str:
        """Waits for Azurite to print the address that it listens at, and returns the address."""
        until = time.monotonic() + _START
        while time.monotonic() < until and self._thread.is_alive():
            match = _LISTENS.search(self._log.read_text(errors="replace"))
            if match:
                return match[1]
            time.sleep(0.02)
        said = self._log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"Azurite does not start; {self._log} says: {said}")

    def _make(self, containers: Iterable[str]) -> None:
        from azure.core.exceptions import ResourceExistsError
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(self.access.connection_string) as client:
            for name in containers:
                try:
                    client.create_container(name)
                except ResourceExistsError:
                    continue

    def stop(self) -> None:
        """Ends Azurite, which first saves its contents."""
        pid = self._pid.read_text().strip()
        if pid and self._thread.is_alive():
            os.kill(int(pid), signal.SIGTERM)
            self._thread.join(10)
        self._supervisor.end()
        self._thread.join()
        self._supervisor.close()
