"""The script that sets up an environment's page, run on local files."""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from programs import executable, finished

from fairway_constructs import cloud_init

_SCRIPT = Path(cloud_init.__file__).with_name("web.sh")
# Stand-ins, as the test neither switches users nor mounts anything.
_STAND_INS = """
mountpoint() { [[ -z ${UNMOUNTED:-} ]]; }
getent() { [[ ${ABSENT:-} != "$2" ]]; }
"""


class Node:
    """A node with its homes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.homes, self.place = folder / "home", folder / "web"
        for each in (self.homes / "runs", self.place):
            each.mkdir(parents=True)
        executable(folder / "bin/runuser", 'shift 3; exec "$@"')
        (self.place / "fairway.yaml").write_text('{"serve": {}}\n')
        (self.place / "targets.json").write_text("[]\n")

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "PATH": f"{self.place.with_name('bin')}:{os.environ['PATH']}",
            "FAIRWAY_WEB": str(self.place),
            "HOMES": str(self.homes),
            "MOUNT": "/data",
            "USER_NAME": "fairway-web",
            "USER_ID": str(os.getuid()),
            "ACCOUNT": "runs",
        }
        text = f"source {shlex.quote(str(_SCRIPT))}\n{_STAND_INS}\n{command}\n"
        return finished(["bash", "-c", text], env={**os.environ, **settings, **more})


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_page_script_adds_server_key_to_account_once(node: Node) -> None:
    assert node.run("make_project").returncode == 0
    home = node.homes / "fairway-web"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    key = (home / ".ssh/id_fairway.pub").read_text().strip()
    assert key.endswith(" fairway-web")
    file = node.homes / "runs/.ssh/authorized_keys"
    file.parent.mkdir()
    file.write_text("ssh-ed25519 AAAA me\nrestrict ssh-ed25519 BBBB fairway-web\n")
    for _ in range(2):
        assert node.run("make_project; open_account").returncode == 0
        assert file.read_text() == f"ssh-ed25519 AAAA me\nrestrict {key}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    assert node.run("open_account").returncode == 0
    assert file.read_text() == f"restrict {key}\n"
    file.unlink()
    file.mkdir()  # which cannot be read
    assert node.run("open_account").returncode == 1
    assert not list(file.iterdir())
    file.rmdir()
    os.mkfifo(file.with_name("authorized_keys.web"))  # which nobody reads
    assert node.run("open_account", FAIRWAY_WEB_PATIENCE="0.5").returncode == 124


def test_page_script_updates_project_files_and_keeps_runs(node: Node) -> None:
    project = node.homes / "fairway-web/project"
    assert node.run("make_project").returncode == 0
    (project / ".fairway/runs").mkdir()
    (node.place / "targets.json").write_text('[{"name": "nd"}]\n')
    assert node.run("make_project").returncode == 0
    assert (project / ".fairway/targets.json").read_text() == '[{"name": "nd"}]\n'
    assert (project / "fairway.yaml").read_text() == '{"serve": {}}\n'
    assert (project / ".fairway/runs").is_dir(), "runs stay"


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        ("make_project", {"UNMOUNTED": "yes"}, "/data is not mounted"),
        ("make_project", {"HOMES": "/nowhere/home"}, "/nowhere/home is not there yet"),
        ("make_project", {"USER_ID": "12345"}, "fairway-web does not belong to fairway-web"),
        ("open_account", {"ABSENT": "runs"}, "the account runs is not there yet"),
        ("open_account", {"ACCOUNT": "eve"}, "home/eve is not there yet"),
    ],
)
def test_page_script_fails_while_mount_home_or_account_is_missing(
    node: Node, command: str, more: dict[str, str], message: str
) -> None:
    done = node.run(command, **more)
    assert done.returncode == 1
    assert message in done.stderr


def test_page_script_refuses_a_link_as_home(node: Node, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (node.homes / "fairway-web").symlink_to(tmp_path / "elsewhere")
    done = node.run("make_project")
    assert done.returncode == 1
    assert "does not belong to fairway-web" in done.stderr
    assert not list((tmp_path / "elsewhere").iterdir())
