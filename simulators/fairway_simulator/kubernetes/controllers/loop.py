"""The thread that runs the controllers: each reconciles its objects whenever they change."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.store import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_simulator.kubernetes.api.store import Change, Store

_STEP = 0.5  # seconds between two polls for due keys


class Controller:
    """Base of controllers, which make the cluster match the specifications of objects."""

    def concerned(self, _: Change, /) -> Iterable[str]:
        """Returns the keys to reconcile after a change; none by default."""
        return ()

    def due(self) -> Iterable[str]:
        """Returns the keys to reconcile because time has passed; none by default."""
        return ()

    def reconcile(self, key: str, /) -> None:
        """Reconciles a key; a conflict or an object that has gone is no error."""
        raise NotImplementedError


class Loop:
    def __init__(self, store: Store, controllers: Sequence[Controller]) -> None:
        self._store = store
        self._controllers = controllers
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubernetes-controllers")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread; the store must be closed first."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        since, looked = FIRST, 0.0
        while not self._stopped.is_set():
            since, changes = self._news(since)
            if changes:
                for controller in self._controllers:
                    keys = {key for each in changes for key in controller.concerned(each)}
                    self._work(controller, sorted(keys))
            if time.monotonic() - looked > _STEP:
                looked = time.monotonic()
                for controller in self._controllers:
                    self._work(controller, controller.due())
            self._store.wait(since, _STEP)

    def _news(self, since: int) -> tuple[int, list[Change]]:
        """Returns the current version and the changes until then, or all objects if the changes are
        no longer stored, as informers list again after a 410
        (kubernetes.io/docs/reference/using-api, "Efficient detection of changes")."""
        with self._store.changed:
            try:
                return self._store.version, self._store.changes(since)
            except ApiError:
                return self._store.version, self._store.everything()

    def _work(self, controller: Controller, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                controller.reconcile(key)
            except ApiError:
                continue  # the write in between is itself a change, and leads to a retry
            except Exception:  # noqa: BLE001 - one object must not stop all controllers
                sys.stderr.write(traceback.format_exc())
