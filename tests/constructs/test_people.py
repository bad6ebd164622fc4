"""People's accounts: the program that creates them, run with this machine's own useradd and
similar.

It runs in a mount namespace with its own /etc, so nothing is left on the machine.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from programs import executable, finished, tool

from fairway_constructs.cloud_init.people import Accounts
from fairway_core.environment import Person
from fairway_core.environment.filesystems.home_directories import HomeDirectories, SharedQueue

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu"
ADA = Person(name="ada", keys=(f"{KEY} ada",), uid=30001)
BOB = Person(name="bob", keys=(f"{KEY} bob",), uid=30002)
ROOT = Person(name="grace", keys=(f"{KEY} grace",), uid=30003, admin=True)

# Binds folders of the test over those that the program writes to.
_SPACE = """
mount --bind "$1/etc" /etc
mount --bind "$1/sbin" /usr/local/sbin
mount --bind "$1/local" /usr/local/bin
mount --bind "$1/home" /home
export PATH="$1/bin:$PATH"
"""


@dataclass
class Machine:
    """A machine with its own accounts, and stand-ins for systemd and iptables that log calls."""

    folder: Path

    def run(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a script as root in the mount namespace."""
        done = finished(
            ["unshare", "--mount", "bash", "-euc", _SPACE + script, "bash", str(self.folder)],
            cwd="/",
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def set_up(self, accounts: Accounts) -> None:
        """Runs the script that cloud-init or the extension runs."""
        (self.folder / "setup").write_text(accounts.setup_script())
        self.run('bash "$1/setup"')

    def boot(self, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs the unit's program, as at each boot."""
        return self.run("/usr/local/sbin/fairway-people", check=check)

    def as_user(self, name: str, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a script as this user."""
        (self.folder / "script").write_text(script)
        return self.run(f'runuser -u {name} -- bash "$1/script"', check=False)

    @property
    def told(self) -> list[str]:
        """Commands that systemd, iptables and sacctmgr received."""
        log = self.folder / "told"
        return log.read_text().splitlines() if log.exists() else []


_COMMAND = """#!/bin/sh
echo "$(basename "$0") $*" >>{folder}/told
made="iptables $(echo "$*" | sed s/--check/--insert/)"
case "$*" in *--check*) grep -qxF -- "$made" {folder}/told ;; esac
"""


def _memory() -> str | None:
    """Returns an in-memory folder if there is one, as useradd waits for the disk each time."""
    shared = "/dev/shm"
    fits = os.access(shared, os.W_OK) and not os.statvfs(shared).f_flag & os.ST_NOEXEC
    return shared if fits else None


@contextmanager
def _machine() -> Iterator[Machine]:
    if os.geteuid() != 0:
        pytest.skip("accounts are made by root")
    with TemporaryDirectory(prefix="fairway-people-", dir=_memory()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        _write_etc(folder / "etc")
        for part in ("sbin", "local", "home", "bin", "data"):
            (folder / part).mkdir()
        (folder / "data").chmod(0o1777)
        for command in ("systemctl", "iptables"):
            executable(folder / "bin" / command, _COMMAND.format(folder=folder))
        yield Machine(folder)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Yields a machine of the test whose folder people can read."""
    with _machine() as made:
        yield made


def _write_etc(etc: Path) -> None:
    """Copies this machine's configuration of accounts, but none of its accounts."""
    (etc / "sudoers.d").mkdir(parents=True)
    for name in ("pam.d", "security", "default", "alternatives", "login.defs", "ld.so.cache"):
        source = Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True)
        elif source.exists():
            shutil.copy(source, etc / name)
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\n")
    users = {"root": 0, "azureuser": 1000}
    (etc / "passwd").write_text(
        "".join(f"{name}:x:{uid}:{uid}::/var/lib/{name}:/bin/bash\n" for name, uid in users.items())
    )
    groups = {**users, "docker": 900}
    (etc / "group").write_text("".join(f"{name}:x:{gid}:\n" for name, gid in groups.items()))
    (etc / "shadow").write_text("".join(f"{name}:!:19000:0:99999:7:::\n" for name in users))
    (etc / "gshadow").write_text("".join(f"{name}:!::\n" for name in groups))


def _accounts(*people: Person, **more: object) -> Accounts:
    return Accounts(people=people, **more)  # type: ignore[arg-type]


def test_people_accounts_have_fixed_uid_and_private_home(machine: Machine) -> None:
    """People may also use AMD GPUs, which belong to groups; missing groups are no error."""
    machine.run("groupadd --gid 110 render")
    machine.set_up(_accounts(ADA, BOB))
    machine.boot()
    groups = "30001(ada),110(render)"
    assert machine.run("id ada").stdout == f"uid=30001(ada) gid=30001(ada) groups={groups}\n"
    assert machine.as_user("ada", "echo mine >~/secret; cat ~/secret").stdout == "mine\n"
    peeked = machine.as_user("bob", "cat /home/ada/secret; ls /home/ada")
    assert peeked.stderr.count("Permission denied") == 2
    assert not peeked.stdout


def test_people_keys_follow_the_list_and_keep_own_additions(machine: Machine) -> None:
    machine.set_up(_accounts(ADA))
    machine.boot()
    machine.as_user("ada", f"echo '{KEY} laptop' >>~/.ssh/authorized_keys")
    new = Person(name="ada", keys=(f"{KEY} new", f"{KEY} other"), uid=30001)
    machine.set_up(_accounts(new))
    machine.boot()
    keys = machine.run("cat /home/ada/.ssh/authorized_keys; stat -c %U:%a /home/ada/.ssh/*").stdout
    assert keys.splitlines() == [
        f"{KEY} laptop",
        "# fairway: begin",
        f"{KEY} new",
        f"{KEY} other",
        "# fairway: end",
        "ada:600",
    ]


def test_people_accounts_are_unchanged_by_a_second_boot(machine: Machine) -> None:
    machine.set_up(_accounts(ADA, ROOT, fenced=True))
    machine.boot()
    look = "cat /etc/passwd /etc/group; find /home /etc/sudoers.d -printf '%p %u %m %T@\\n' | sort"
    before = machine.run(look).stdout
    machine.boot()
    assert machine.run(look).stdout == before
    rules = [line for line in machine.told if line.startswith("iptables") and "--insert" in line]
    assert len(rules) == 2, "once each"


def test_people_rights_follow_the_list_and_removed_people_keep_only_files(
    machine: Machine,
) -> None:
    def rights(*people: Person) -> tuple[str, str, list[str], str]:
        """Returns grace's shell, expiry day and groups, and the rules of sudo."""
        machine.set_up(_accounts(*people))
        machine.boot()
        look = "getent passwd grace; getent shadow grace; id -nG grace; ls /home/grace -d; "
        look += "cd /etc/sudoers.d; for each in 90-fairway-*; do stat -c '%n %a' $each || :; done"
        passwd, shadow, groups, home, *rules = machine.run(look).stdout.splitlines()
        assert home == "/home/grace"
        return passwd.split(":")[6], shadow.split(":")[7], groups.split(), " ".join(rules)

    sudo, nobody = "90-fairway-grace 440", ("/usr/sbin/nologin", "1")
    assert rights(ADA, ROOT) == ("/bin/bash", "", ["grace", "docker"], sudo)
    assert (left := rights(ADA))[:2] == nobody
    assert left[3] == ""
    assert rights(ADA, ROOT) == ("/bin/bash", "", ["grace", "docker"], sudo)
    plain = ROOT.model_copy(update={"admin": False})
    assert rights(ADA, plain) == ("/bin/bash", "", ["grace"], "")
    assert rights()[:2] == nobody, "the last one too"


def test_people_homes_are_made_only_on_the_mounted_file_system(machine: Machine) -> None:
    data = machine.folder / "data"
    homes = HomeDirectories(f"{data}/home", str(data))
    machine.set_up(_accounts(ADA, homes=homes))
    refused = machine.boot(check=False)
    assert refused.returncode == 1
    assert f"{data} is not mounted" in refused.stderr
    assert not list(data.iterdir())
    mounted = f"mount --bind {data} {data}; runuser -u azureuser -- mkdir -p {data}/fairway; "
    machine.run(f"{mounted}/usr/local/sbin/fairway-people")
    facts = machine.run(f"stat -c '%n %U %a' {data}/home {data}/home/ada {data}/fairway").stdout
    assert facts.splitlines() == [
        f"{data}/home azureuser 1777",
        f"{data}/home/ada ada 700",
        f"{data}/fairway azureuser 700",
    ]


@pytest.mark.parametrize(
    ("trap", "said"),
    [
        ("useradd --uid 30009 ada", "ada is an account with another user id than 30001"),
        ("useradd --uid 30002 bob; chown bob /home", "who could take every home away"),
    ],
)
def test_people_account_with_conflicting_uid_or_home_owner_is_refused(
    machine: Machine, trap: str, said: str
) -> None:
    machine.run(trap)
    machine.set_up(_accounts(ADA))
    refused = machine.boot(check=False)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert not machine.run("cat /home/ada/.ssh/authorized_keys", check=False).stdout


def test_people_broken_home_leaves_other_accounts_intact(machine: Machine) -> None:
    """People can break their own home, and a node takes no jobs until the unit has succeeded."""
    people = [
        Person(name=name, keys=(f"{KEY} {name}",), uid=30001 + number)
        for number, name in enumerate(("ada", "bob", "cleo", "dan", "eve", "fay", "gil", "hal"))
    ]
    machine.run(
        "install -d -o 30009 /home/ada; mkdir /home/other; chown 30002 /home/other; "
        "ln -s other /home/bob; chown -h 30002 /home/bob; "
        "install -d -o 30003 /home/cleo; touch /home/cleo/.ssh; "
        "install -d -o 30005 /home/eve /home/eve/.ssh; cd /home/eve/.ssh; "
        "echo own >authorized_keys; chmod 0 authorized_keys; "
        "cd /home; for each in 6:fay 7:gil 8:hal; do "
        "install -d -o 3000${each%:*} ${each#*:} ${each#*:}/.ssh; done; "
        "mkfifo -m 666 fay/.ssh/authorized_keys; ln -s /dev/zero gil/.ssh/authorized_keys; "
        "ln -s mine hal/.ssh/authorized_keys; "
        "echo 'own key' >/home/hal/.ssh/mine"
    )
    machine.set_up(_accounts(*people))
    said = machine.boot().stderr
    for name in ("ada", "bob"):
        assert f"/home/{name} does not belong to {name}" in said
    assert "File exists" in said
    assert machine.run("cat /home/eve/.ssh/authorized_keys").stdout == "own\n"
    assert "eve has no keys here" in said
    for name in ("fay", "gil"):
        assert f"{name} has no keys here" in said
    for name in ("ada", "bob", "cleo"):
        assert f"{name} has no keys here" in said
        assert not machine.run(f"cat /home/{name}/.ssh/authorized_keys", check=False).stdout
    assert f"{KEY} dan" in machine.run("cat /home/dan/.ssh/authorized_keys").stdout
    own = machine.run("cat /home/hal/.ssh/authorized_keys").stdout
    assert own.startswith("own key\n")
    assert f"{KEY} hal" in own


@pytest.mark.integration
def test_people_home_that_never_answers_is_given_up_and_asked_once_more_at_the_end(
    machine: Machine,
) -> None:
    """Everybody may hold a lock of their own, or put a pipe in a file's place; the lock of a new
    node may be another node's for a while."""
    people = [
        Person(name=name, keys=(f"{KEY} {name}",), uid=30001 + number)
        for number, name in enumerate(("ada", "bob", "cleo", "dan"))
    ]
    data = str(machine.folder / "data")
    queue = SharedQueue("pair", f"{data}/fairway-queue", data)
    machine.set_up(_accounts(*people, queue=queue))
    script = f"""mount --bind {data} {data}
    trap 'kill $(jobs -p)' EXIT
    for each in 1:ada 2:bob 3:cleo; do
        install -d -m 700 -o 3000${{each%:*}} /home/${{each#*:}} /home/${{each#*:}}/.ssh
    done
    mkfifo -m 666 /home/bob/.ssh/id_fairway.pub
    hold() {{
        install -m 666 /dev/null "/home/$1/.ssh/id_fairway.lock"
        flock --no-fork "/home/$1/.ssh/id_fairway.lock" bash -c "$2" &>/dev/null &
        until ! flock --nonblock "/home/$1/.ssh/id_fairway.lock" true; do sleep 0.05; done
    }}
    hold ada 'exec sleep infinity'
    hold cleo 'until [[ -s /home/dan/.ssh/authorized_keys ]]; do sleep 0.05; done'
    FAIRWAY_PEOPLE_PATIENCE=2 timeout 100 /usr/local/sbin/fairway-people"""
    said = machine.run(script).stderr
    assert re.findall(r"fairway-people: (\w+) has no keys here", said) == ["ada", "bob"]
    for name in ("cleo", "dan"):
        keys = machine.run(f"cat /home/{name}/.ssh/authorized_keys").stdout
        assert f"{KEY} {name}\n" in keys
        assert " fairway\n" in keys


def test_people_machine_identity_is_reachable_for_root_and_services_only(machine: Machine) -> None:
    machine.set_up(_accounts(ADA, fenced=True))
    machine.boot()
    rules = [line for line in machine.told if "--insert" in line]
    fenced = []
    for rule in rules:
        found = re.fullmatch(
            "iptables --wait --insert OUTPUT --destination 169.254.169.254/32 --match owner "
            r"--uid-owner (\d+)-(\d+) --jump REJECT",
            rule,
        )
        assert found, rule
        fenced.append(range(int(found[1]), int(found[2]) + 1))
    # The scheduler's programs run as Slurm's user, whose id is fixed in Debian's packages.
    for uid in (0, 102, 1000, 64030, 65534):
        assert not any(uid in each for each in fenced), uid
    for uid in (2000, 20_000, ADA.number, 59_999, 100_000, 165_536):
        assert any(uid in each for each in fenced), uid
    machine.folder.joinpath("bin/iptables").unlink()
    alone = 'PATH=$1/bin "$BASH" /usr/local/sbin/fairway-people'  # hides this machine's iptables
    refused = machine.run(alone, check=False)
    assert refused.returncode == 1
    assert "iptables and nft are missing: no account is made" in refused.stderr


def test_people_machine_identity_is_fenced_at_boot_before_programs_and_network(
    machine: Machine,
) -> None:
    """Rules of the kernel end with it, and cron runs what people ask for at each boot."""
    machine.set_up(_accounts(ADA, fenced=True))
    assert "systemctl enable fairway-fence.service" in machine.told
    file = machine.folder / "etc/systemd/system/fairway-fence.service"
    unit = dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
    assert unit["DefaultDependencies"] == "no", "or it waits for sysinit.target"
    assert unit["Before"].split() == ["network-pre.target", "sysinit.target"]
    machine.run(unit["ExecStart"])
    assert len([line for line in machine.told if "--insert" in line]) == 2
    assert "ada" not in (machine.folder / "etc/passwd").read_text()


def test_people_machine_identity_is_fenced_by_nft_without_iptables(machine: Machine) -> None:
    """AlmaLinux images have only nft; the file `nft` holds the input of its last call."""
    machine.folder.joinpath("bin/iptables").unlink()
    nft = machine.folder / "bin/nft"
    executable(nft, f'echo "nft $*" >>{machine.folder}/told\ncat >{machine.folder}/nft')
    machine.set_up(_accounts(ADA, fenced=True))
    # This machine may have iptables, so PATH holds only the required programs.
    here = 'cp /bin/cat "$1/bin"; PATH=$1/bin'
    script = "source /usr/local/sbin/fairway-people; FENCE=yes; fence_identity"
    machine.run(f"{here} \"$BASH\" -euc '{script}'")
    assert "nft --file -" in machine.told
    rules = (machine.folder / "nft").read_text()
    for uids in ("2000-60999", "65536-4294967294"):
        assert f"ip daddr 169.254.169.254 meta skuid {uids} reject" in rules
    assert rules.index("delete table ip fairway") < rules.index("chain output"), "not twice"
    if real := shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"):
        subprocess.run([real, "--check", "--file", "-"], input=rules, text=True, check=True)


def test_people_without_login_only_administrators_get_a_shell(machine: Machine) -> None:
    machine.set_up(_accounts(ADA, ROOT).without_login())
    machine.boot()
    shells = machine.run("getent passwd ada grace | cut -d: -f7").stdout.split()
    assert shells == ["/usr/sbin/nologin", "/bin/bash"]


def test_people_are_added_to_slurm_accounting(machine: Machine, repository: Path) -> None:
    source = repository / "constructs/fairway_constructs/cloud_init/slurm_scheduler.sh"
    shutil.copy(source, machine.folder / "sbin" / "fairway-slurm-scheduler")
    shutil.copy(machine.folder / "bin/systemctl", machine.folder / "bin/sacctmgr")
    machine.set_up(_accounts(ADA, shares=["add user ada Account=default Cluster=lab"]))
    machine.boot()
    assert "sacctmgr --immediate add user ada Account=default Cluster=lab" in machine.told


_DISK = "mount -t tmpfs none /mnt; mkdir /mnt/resource_nvme; "
_DISK += "mount -t tmpfs none /mnt/resource_nvme; "


def test_people_containers_have_own_uid_ranges_and_folders_on_local_disk(machine: Machine) -> None:
    """Each person has a range of user ids, as from useradd, and a folder created by root."""
    machine.run("echo azureuser:100000:65536 >/etc/subuid; cp /etc/subuid /etc/subgid")
    for command in ("apt-get", "podman", "crun", "newuidmap"):
        shutil.copy(machine.folder / "bin/systemctl", machine.folder / "bin" / command)
    machine.set_up(_accounts(ADA, BOB, containers=True, signed_in=["eve@contoso.com"]))
    script = f"{_DISK}for _ in 1 2; do /usr/local/sbin/fairway-people >/dev/null; done; "
    script += "cat /etc/subuid; stat -c '%U %a %n' /mnt/resource_nvme/*; "
    script += "cat /etc/containers/storage.conf; diff /etc/subuid /etc/subgid"
    said = machine.run(script).stdout.splitlines()
    assert said[:6] == [
        "azureuser:100000:65536",
        "ada:165536:65536",
        "bob:231072:65536",
        "eve@contoso.com:296608:65536",
        "ada 700 /mnt/resource_nvme/fairway-30001",
        "bob 700 /mnt/resource_nvme/fairway-30002",
    ]
    assert 'rootless_storage_path = "/mnt/resource_nvme/fairway-$UID/containers"' in said
    assert not [line for line in machine.told if line.startswith("apt-get")]


def test_people_containers_folder_replaces_a_link_without_following_it(
    machine: Machine,
) -> None:
    """Any user may create a link there, which root must not follow."""
    for command in ("podman", "crun", "newuidmap"):
        shutil.copy(machine.folder / "bin/systemctl", machine.folder / "bin" / command)
    machine.set_up(_accounts(ADA, BOB, containers=True, signed_in=["e.ve@contoso.com"]))
    script = f"{_DISK}cd /mnt/resource_nvme; /usr/local/sbin/fairway-people >/dev/null; "
    script += "mkdir -m 711 /mnt/secret; ln -sT /mnt/secret link; chown -h 30001:30001 link; "
    script += "chmod 775 fairway-30002; rmdir fairway-30001; mv link fairway-30001; "
    script += "touch fairway-30002/store; "
    script += "echo eXve@contoso.com:900000:65536 | tee /etc/subuid >/etc/subgid; "
    script += "/usr/local/sbin/fairway-people >/dev/null; stat -c '%U %a %n' /mnt/secret *; "
    script += "ls fairway-30002; cut -d : -f 1 /etc/subuid; cd /"
    assert machine.run(script).stdout.splitlines() == [
        "root 711 /mnt/secret",
        "ada 700 fairway-30001",
        "bob 755 fairway-30002",
        *("store", "eXve@contoso.com", "ada", "bob", "e.ve@contoso.com"),
    ]


@pytest.fixture(scope="module")
def shared() -> Iterator[Machine]:
    """Yields a machine on which people run containers, some signed in by Entra ID."""
    with _machine() as machine:
        for command in ("podman", "crun", "newuidmap"):
            shutil.copy(machine.folder / "bin/systemctl", machine.folder / "bin" / command)
        (machine.folder / "bin/podman").write_text("#!/bin/sh\necho ran $(id -u) $*\n")
        machine.set_up(_accounts(ADA, containers=True, signed_in=["eve@contoso.com"]))
        # Run again now that its own podman is on PATH.
        machine.run(f"{_DISK}for _ in 1 2; do /usr/local/sbin/fairway-people; done")
        yield machine


@pytest.mark.parametrize(
    ("before", "runs"),
    [
        ("", True),
        ("mkdir -m 700 $folder; chown 30002 $folder", True),
        ("mkdir -m 777 $folder", False),
        ("mkdir -m 777 $folder; chown 30001 $folder", False),
        ("mkdir -m 777 theirs; ln -s theirs $folder", False),
        ("mkdir -m 777 theirs; chown 30002 theirs; ln -s theirs $folder", False),
        ("ln -s nowhere $folder", False),
        ("touch $folder; chown 30002 $folder", False),
        ("install -d -m 775 -o 30002 $folder", True),
        ("install -d -m 777 -o 30002 $folder", False),
    ],
)
def test_people_podman_refuses_image_folder_of_another_user(
    shared: Machine, before: str, runs: bool
) -> None:
    """Entra ID creates accounts at first sign-in, so their folders cannot be created beforehand."""
    script = f"{_DISK}chmod 1777 /mnt/resource_nvme; cd /mnt/resource_nvme; folder=fairway-30002\n"
    script += f"{before}\nsetpriv --reuid 30002 --clear-groups /usr/local/bin/podman run a b"
    script += "; [[ $(stat -c %A $folder) == d????-??-? ]]"
    done = shared.run(script, check=False)
    assert (done.returncode, done.stdout) == ((0, "ran 30002 run a b\n") if runs else (125, ""))
    assert runs or "/mnt/resource_nvme/fairway-30002 is not a folder of yours" in done.stderr


def test_people_podman_of_root_needs_no_folder(shared: Machine) -> None:
    assert shared.run(f"{_DISK}/usr/local/bin/podman ps").stdout == "ran 0 ps\n"


def test_people_podman_is_installed_if_missing_and_failure_keeps_accounts(
    machine: Machine,
) -> None:
    for command in ("crun", "newuidmap"):
        shutil.copy(machine.folder / "bin/systemctl", machine.folder / "bin" / command)
    apt = machine.folder / "bin/apt-get"
    executable(apt, f'echo "apt-get $*" >>{machine.folder}/told\nexit 100')
    machine.set_up(_accounts(ADA, containers=True))
    here = 'for each in cat getent awk; do ln -sf "$(command -v $each)" "$1/bin"; done; '
    refused = machine.run(
        f"{here}export PATH=$1/bin; . /usr/local/sbin/fairway-containers; install_podman",
        check=False,
    )
    assert refused.returncode == 1
    assert "install" not in " ".join(machine.told), "not before the list is there"
    apt.write_text(f'#!/bin/sh\necho "apt-get $*" >>{machine.folder}/told\n')
    machine.run(f"{here}export PATH=$1/bin; . /usr/local/sbin/fairway-containers; install_podman")
    assert machine.told[-1].endswith(" install podman")
    (machine.folder / "sbin/fairway-containers").write_text("#!/bin/sh\nexit 1\n")
    done = machine.boot()
    assert "only administrators run containers here" in done.stderr
    assert "ready" in done.stderr


def test_people_podman_gets_cdi_names_of_gpus_if_present(machine: Machine) -> None:
    script = "source /usr/local/sbin/fairway-containers; name_gpus"
    for command in ("nvidia-smi", "nvidia-ctk"):
        shutil.copy(machine.folder / "bin/systemctl", machine.folder / "bin" / command)
    machine.set_up(_accounts(ADA, containers=True))
    machine.run(script)
    assert machine.told[-1] == "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    (machine.folder / "bin/nvidia-ctk").unlink()
    assert "no nvidia-ctk: containers have no GPUs" in machine.run(script).stderr
    smi = machine.folder / "bin/nvidia-smi"
    smi.write_text("#!/bin/sh\nexit 9\n")  # as on a VM without GPU whose image has the driver
    assert machine.run(script).stderr == ""


def test_people_scripts_pass_shellcheck(tmp_path: Path) -> None:
    setup = _accounts(ADA, containers=True).setup_script()
    (tmp_path / "setup").write_text(setup)
    for name in ("people", "containers"):
        text = setup.partition(f"/fairway-{name} <<'")[2].partition("\n")[2].partition("END_OF")[0]
        (tmp_path / name).write_text(text)
    for name in ("setup", "people", "containers"):
        done = finished([tool("shellcheck"), tmp_path / name])
        assert done.returncode == 0, done.stdout
