"""Terraform as a program, run in the folder of one stack; its errors become findings."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding, UserError
from fairway_core.review.plan import CROSS_STACK_OUTPUT, NO_OUTPUT, NO_STATE
from fairway_core.terraform_program import command_name, missing, program, registry, title
from fairway_stacks.plan.stacks import print_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


@contextmanager
def lock_folder(folder: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Creates and locks the folder; calls `waiting` if another process holds the lock.

    The lock is on the folder itself and ends with this process in any case. On a file system
    without locks nothing is locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


_MISSING = 4
_FAILED = 5

# Beginnings of the summaries with which `terraform init` reports a missing provider.
_NO_PROVIDER = (
    "Failed to query available provider packages",
    "Failed to install provider",
    "Error while installing",
    "Invalid provider registry host",
)

# The summary with which it reports that the state is not yet where the configuration keeps it.
_ELSEWHERE = "Backend configuration changed"

_CACHE = "TF_PLUGIN_CACHE_DIR"
_KEEP = "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"


@dataclass(frozen=True)
class Terraform:
    """Terraform in the folder of a stack, with these environment variables.

    `lock` is the project's own lock file: with it no other provider, and none with another hash, is
    downloaded or run, whatever the configuration or a state names.
    """

    stack: str
    folder: Path
    environment: Mapping[str, str]
    lock: Path | None = None

    def init(self) -> None:
        """Downloads the provider and opens the state; exit code 4 if there is no provider.

        Only one process at a time uses a cache of providers: "The plugin cache directory is not
        guaranteed to be concurrency safe" (Terraform's documentation of the CLI configuration).
        """
        options = []
        if self.lock is not None:
            shutil.copyfile(self.lock, self.folder / ".terraform.lock.hcl")
            options = ["-lockfile=readonly"]
        cache = self.environment.get(_CACHE) or os.environ.get(_CACHE)
        with lock_folder(Path(cache)) if cache and Path(cache).is_dir() else nullcontext():
            done = self._run("init", "-json", *options)
        if done.returncode:
            raise self._init_failed(list(diagnostics(done.stdout)), done.stderr)

    def lock_providers(self, platforms: Sequence[str], mirror: Path | None) -> None:
        """Writes the hashes of the providers on these platforms into Terraform's lock file.

        They come from their registry, or from `mirror`; exit code 4 if one cannot be fetched.
        """
        options = [f"-platform={platform}" for platform in platforms]
        if mirror is not None:
            options.insert(0, f"-fs-mirror={mirror.resolve()}")
        done = self._run("providers", "lock", *options)
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split()).rpartition("installed: - ")[2]
            message = f"{title()} cannot lock its provider: {said or 'it does not say why'}"
            hint = "where the registry is out of reach: --mirror DIR"
            raise UserError.of("no-provider", message, hint, exit_code=_MISSING)

    def provider_schemas(self) -> tuple[str, dict[str, str]]:
        """Returns the schema of the providers as JSON text, and their versions by source."""
        schema = self._run("providers", "schema", "-json")
        version = self._run("version", "-json")
        for done in (schema, version):
            if done.returncode:
                raise self._failed("providers schema", [], done.stderr)
        return schema.stdout, json.loads(version.stdout).get("provider_selections") or {}

    def validate(self) -> None:
        """Validates the stack by its provider. Raises UserError with the errors."""
        done = self._run("validate", "-json")
        if done.returncode == 0:
            return
        try:
            found = json.loads(done.stdout)["diagnostics"]
        except (ValueError, KeyError, TypeError):
            found = []
        raise self._failed("validate", found, done.stderr, exit_code=2)

    def plan(self, file: Path, *, lock: bool = True, destroy: bool = False) -> tuple[str, bool]:
        """Writes the plan to `file`; returns the log, in JSON lines, and whether it failed.

        With `destroy` the plan destroys everything. A plan that failed may still have been written:
        see `show`.
        """
        options = ["-json", f"-out={file}"] + ([] if lock else ["-lock=false"])
        options += ["-destroy"] if destroy else []
        done = self._run("plan", *options)
        return done.stdout or done.stderr, done.returncode != 0

    def show(self, file: Path) -> str:
        """Returns the plan as JSON text."""
        done = self._run("show", "-json", str(file))
        if done.returncode:
            raise self._failed("show", [], done.stderr)
        return done.stdout

    def apply(self, file: Path) -> None:
        """Applies exactly the plan. Raises UserError with exit code 5 if something failed."""
        done = self._run("apply", "-json", str(file))
        if done.returncode:
            raise self._failed("apply", list(diagnostics(done.stdout)), done.stderr)

    def outputs(self) -> dict[str, Any]:
        """Returns the outputs that are not sensitive, by name."""
        done = self._run("output", "-json")
        if done.returncode:
            raise self._failed("output", [], done.stderr)
        found = json.loads(done.stdout)
        return {name: each["value"] for name, each in found.items() if not each.get("sensitive")}

    def failed(self, log: str) -> UserError:
        """Returns the error for a failed plan, from its log."""
        return self._failed("plan", list(diagnostics(log)), log)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command, *options = arguments
        words = [command, options.pop(0)] if command == "providers" else [command]
        given = ["-input=false"] if command in ("init", "plan", "apply") else []
        return run_terraform(
            [program(), f"-chdir={self.folder}", *words, "-no-color", *given, *options],
            {**os.environ, **self.environment},
            umask=0o077 if command == "plan" else -1,  # it holds secrets in clear text
        )

    @property
    def _by_hand(self) -> str:
        return f"{program()} -chdir={shlex.quote(str(self.folder))}"

    def _init_failed(self, found: list[Mapping[str, Any]], said: str) -> UserError:
        for each in found:
            if _text(each, "summary") == _ELSEWHERE:
                message = f"{self.stack}: {title()} last used another place for this state"
                hint = f"move it from there: {self._by_hand} init -migrate-state\n"
                left = shlex.quote(str(self.folder / ".terraform"))
                hint += f"if that is not this stack's: rm -r {left}"
                return UserError.of("terraform-init", message, hint, exit_code=_FAILED)
            if _text(each, "summary").startswith(_NO_PROVIDER):
                paragraph = _text(each, "detail").partition("\n\n")[0]
                reason = " ".join(paragraph.split()) or "it does not say why"
                message = f"{title()} cannot download its provider here: {reason}"
                hint = f"let {title()} reach {registry()}, or name a mirror in TF_CLI_CONFIG_FILE"
                return UserError.of("no-provider", message, hint, exit_code=_MISSING)
        return self._failed("init", found, said)

    def _failed(
        self,
        command: str,
        found: Iterable[Mapping[str, Any]],
        said: str,
        *,
        exit_code: int = _FAILED,
    ) -> UserError:
        findings = [
            Finding(
                f"terraform-{command}",
                ": ".join(
                    [*filter(None, [self.stack, each.get("address")]), _text(each, "summary")]
                ),
                _text(each, "detail"),
            )
            for each in found
            if each.get("severity") == "error"
        ]
        if not findings:
            last = said.strip().splitlines()[-1:] or ["it said nothing"]
            message = f"{self.stack}: {command_name()} {command} failed: {last[0]}"
            hint = f"see all that it says: {self._by_hand} {command}"
            findings = [Finding(f"terraform-{command}", message, hint)]
        return UserError(findings, exit_code=exit_code)


def run_terraform(
    words: Sequence[str], environment: Mapping[str, str], umask: int = -1
) -> subprocess.CompletedProcess[str]:
    """Runs Terraform to its end, also if this program is to end before it.

    Interrupted, Terraform finishes what it is at, writes the state and unlocks it; interrupted
    again, it gives up. So it has a process group of its own, which a terminal's Ctrl-C does not
    reach, and gets a signal for each that arrives here. Raises what arrived once it has ended.
    """
    try:
        process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=umask,
            process_group=0,
        )
    except OSError as error:
        raise missing(error) from None
    stopped: BaseException | None = None
    while True:
        try:
            said = process.communicate()
            break
        except (KeyboardInterrupt, SystemExit) as stop:
            stopped = stop
            process.send_signal(signal.SIGINT)
            with suppress(OSError):  # the terminal may be closed
                print_progress(
                    f"waiting for {title()} to write its state; interrupt again to have it give up"
                )
    if stopped is not None:
        raise stopped
    return subprocess.CompletedProcess(process.args, process.returncode, *said)


def require() -> None:
    """Raises UserError with exit code 4 if neither Terraform nor OpenTofu is installed."""
    if shutil.which(program()) is None:
        raise missing()


def diagnostics(log: str) -> Iterator[Mapping[str, Any]]:
    """Yields the diagnostics in Terraform's JSON lines; skips other lines."""
    for line in log.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("diagnostic"), dict):
            yield record["diagnostic"]


def waits_for_inputs(log: str) -> bool:
    """Returns True if a plan failed only because its inputs are not deployed yet."""
    errors = [each for each in diagnostics(log) if each.get("severity") == "error"]
    return bool(errors) and all(map(_is_missing_input, errors))


def _is_missing_input(diagnostic: Mapping[str, Any]) -> bool:
    summary, detail = str(diagnostic.get("summary")), str(diagnostic.get("detail"))
    lacks_output = summary == NO_OUTPUT and f'attribute named "{CROSS_STACK_OUTPUT}' in detail
    return summary == NO_STATE or lacks_output


def cache_variables() -> dict[str, str]:
    """Returns the variables for a cache of providers between runs, Fairway's or the user's own.

    A cached provider is used as it is: another download would remove it under a concurrent plan.
    """
    if os.environ.get(_CACHE):
        return {_KEEP: "1"}
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "fairway" / "terraform-plugins"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}  # without a cache it is only slower
    return {_CACHE: str(cache), _KEEP: "1"}


def _text(diagnostic: Mapping[str, Any], field: str) -> str:
    return str(diagnostic.get(field, "")).strip()
