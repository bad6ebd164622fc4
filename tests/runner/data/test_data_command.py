"""Data commands that copy files to and from storage, run against Azurite."""

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import ServiceResponseError
from azure.storage.blob import BlobClient, ContainerClient, ContentSettings
from endings import ends
from waiting import PATIENCE

from fairway_agent.outputs import draft_of
from fairway_core.findings import UserError
from fairway_runner import data_transfer
from fairway_runner.engines.azure_storage import Storage
from fairway_simulator.batch.azurite import Azurite, AzuriteMissing

pytestmark = pytest.mark.integration

RunFairway = Callable[..., tuple[int, str, str]]

BLOCK = 1 << 16
"""Block size in bytes of these tests, so that small files have several blocks."""
PROJECT = """\
targets:
  - name: sim
    engine: batch
    nodes: {min: 0, max: 4}
    storage: {containers: [datasets, outputs]}
    batch: {pool: sim}
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of an account with the containers datasets and outputs."""
    try:
        azurite = Azurite(tmp_path_factory.mktemp("azurite"), ["datasets", "outputs"])
    except AzuriteMissing as missing:
        pytest.skip(f"needs Azurite: {missing}")
    yield azurite.access.connection_string
    azurite.stop()


@pytest.fixture
def folder(tmp_path: Path, account: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose project file declares the target `sim`."""
    (tmp_path / "fairway.yaml").write_text(PROJECT)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", account)
    monkeypatch.setattr(data_transfer, "BLOCK", BLOCK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def prefix() -> str:
    """A path in the container that no other test uses."""
    return f"t-{secrets.token_hex(4)}"


@pytest.fixture
def source(folder: Path) -> Path:
    """Typical files: small, empty, of several blocks, with names that need quoting."""
    source = folder / "src"
    (source / "a b" / "c").mkdir(parents=True)
    (source / "a b" / "c" / "é & %20#?.txt").write_text("odd")
    (source / "empty").write_text("")
    (source / "large").write_bytes(os.urandom(3 * BLOCK + 5))
    return source


def tree(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_data_put_and_get_copy_a_folder_once_in_each_direction(
    folder: Path, source: Path, prefix: str, here: RunFairway
) -> None:
    code, out, err = here("data", "put", "src", f"sim:datasets/{prefix}", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert set(facts["files"]) == {f"{prefix}/{name}" for name in tree(source)}
    assert facts["bytes"] == sum(map(len, tree(source).values()))
    ends(here("data", "get", f"sim:datasets/{prefix}", "back"), 0)
    assert tree(folder / "back") == tree(source)
    for words in (
        ("put", "src", f"sim:datasets/{prefix}"),
        ("get", f"sim:datasets/{prefix}", "back"),
    ):
        code, out, _ = here("data", *words, "--json")
        assert (code, json.loads(out)["files"], json.loads(out)["unchanged"]) == (0, [], 3)


def test_data_put_follows_links_and_reports_dead_links_empty_folders_and_loops(
    folder: Path, prefix: str, here: RunFairway
) -> None:
    (folder / "src" / "empty").mkdir(parents=True)
    (folder / "more").mkdir()
    (folder / "more" / "a.txt").write_text("a")
    (folder / "src" / "class").symlink_to("../more")
    (folder / "src" / "gone").symlink_to("nothing")
    words = ("data", "put", "src", f"sim:datasets/{prefix}", "--json")
    code, out, err = here(*words)
    assert code == 0, err
    assert json.loads(out)["files"] == [f"{prefix}/class/a.txt"]
    assert "gone (a link to nothing) [left-out]" in err
    assert "empty/ [empty-folders]" in err
    (folder / "src" / "loop").symlink_to(".")
    ends(here(*words), 2, "src/loop: it leads back")


def test_data_put_of_one_file_uses_the_given_name_or_folder(
    folder: Path, prefix: str, here: RunFairway
) -> None:
    (folder / "a.txt").write_text("a")
    for place in (f"{prefix}/b.txt", f"{prefix}/folder/"):
        assert here("data", "put", "a.txt", f"sim:datasets/{place}")[0] == 0
    _, out, _ = here("data", "ls", f"sim:datasets/{prefix}", "-r", "--json")
    assert [each["name"] for each in json.loads(out)] == [
        f"{prefix}/b.txt",
        f"{prefix}/folder/a.txt",
    ]
    assert here("data", "get", f"sim:datasets/{prefix}/b.txt", "here")[0] == 0
    assert tree(folder / "here") == {"b.txt": b"a"}


def test_data_path_does_not_match_a_longer_name_with_the_same_prefix(
    folder: Path, prefix: str, here: RunFairway
) -> None:
    """`words` is not `wordsmith`."""
    for name in ("words", "wordsmith"):
        (folder / name).mkdir()
        (folder / name / "a").write_text(name)
        assert here("data", "put", name, f"sim:datasets/{prefix}/{name}")[0] == 0
    assert here("data", "get", f"sim:datasets/{prefix}/words", "here")[0] == 0
    assert tree(folder / "here") == {"a": b"words"}
    _, out, _ = here("data", "ls", f"sim:datasets/{prefix}/words", "-r", "--json")
    assert [each["name"] for each in json.loads(out)] == [f"{prefix}/words/a"]


def test_data_ls_lists_folders_with_the_size_and_number_of_their_blobs(
    folder: Path, source: Path, prefix: str, here: RunFairway
) -> None:
    here("data", "put", "src", f"sim:datasets/{prefix}")
    _, out, _ = here("data", "ls", f"sim:datasets/{prefix}", "--json")
    found = {each["name"]: (each["bytes"], each["blobs"]) for each in json.loads(out)}
    assert found == {
        f"{prefix}/a b/": (3, 1),
        f"{prefix}/empty": (0, 1),
        f"{prefix}/large": (3 * BLOCK + 5, 1),
    }
    assert "1 blob " in here("data", "ls", f"sim:datasets/{prefix}")[1]
    assert here("data", "ls", "sim")[1] == "datasets\noutputs\n"


def test_data_put_and_get_replace_other_data_only_with_force(
    folder: Path, source: Path, prefix: str, here: RunFairway
) -> None:
    place = f"sim:datasets/{prefix}"
    here("data", "put", "src", place)
    (source / "empty").write_text("no more")
    ends(here("data", "put", "src", place), 3, f"{place} already holds other data: {prefix}/empty")
    (folder / "back").mkdir()
    (folder / "back" / "empty").write_text("mine")
    ends(here("data", "get", place, "back"), 3)
    assert tree(folder / "back") == {"empty": b"mine"}
    assert here("data", "put", "src", place, "--force")[0] == 0
    assert here("data", "get", place, "back", "--force")[0] == 0
    assert tree(folder / "back") == tree(source)


def test_data_put_resumes_an_interrupted_upload(
    folder: Path, prefix: str, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "large").write_bytes(os.urandom(6 * BLOCK))
    place = f"sim:datasets/{prefix}/large"
    sent: list[str] = []
    real = BlobClient.stage_block

    def stage(self: BlobClient, block_id: str, *arguments: Any, **options: Any) -> Any:
        if len(sent) == 4:
            raise KeyboardInterrupt
        sent.append(block_id)
        return real(self, block_id, *arguments, **options)

    monkeypatch.setattr(BlobClient, "stage_block", stage)
    assert here("data", "put", "large", place)[0] == 130
    sent.clear()
    ends(here("data", "put", "large", place), 0)
    assert len(sent) == 2


def test_data_get_resumes_an_interrupted_download(
    folder: Path, prefix: str, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "large").write_bytes(os.urandom(6 * BLOCK))
    place = f"sim:datasets/{prefix}/large"
    assert here("data", "put", "large", place)[0] == 0
    taken: list[int] = []
    real = ContainerClient.download_blob

    def download(self: ContainerClient, name: str, **options: Any) -> Any:
        if len(taken) == 4:
            raise KeyboardInterrupt
        taken.append(options["offset"])
        return real(self, name, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ContainerClient, "download_blob", download)
        assert here("data", "get", place, "back")[0] == 130
        part = draft_of(folder / "back" / "large", ".part")
        assert tree(folder / "back").keys() == {part.name, f"{part.name}.blocks"}
        taken.clear()
        ends(here("data", "get", place, "back"), 0)
    assert len(taken) == 2
    assert tree(folder / "back") == {"large": (folder / "large").read_bytes()}


def test_data_get_trusts_no_record_of_a_partial_file_that_is_gone(
    folder: Path, prefix: str, here: RunFairway, account: str
) -> None:
    """Even of a blob without a digest, by which it would be noticed."""
    data = os.urandom(3 * BLOCK)
    with ContainerClient.from_connection_string(account, "datasets") as container:
        blob = container.upload_blob(f"{prefix}/a", data)
        blob.set_http_headers(ContentSettings())
        etag = blob.get_blob_properties().etag.strip('"')
    blocks = draft_of(folder / "back" / "a", ".part.blocks")
    blocks.parent.mkdir()
    blocks.write_text(f"{etag}\n0\n{BLOCK}\n")
    assert here("data", "get", f"sim:datasets/{prefix}", "back")[0] == 0
    assert tree(folder / "back") == {"a": data}


def test_data_get_is_refused_while_another_command_copies_to_that_file(
    folder: Path, prefix: str, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "large").write_bytes(os.urandom(2 * BLOCK))
    words = ("data", "get", f"sim:datasets/{prefix}/large", "back")
    assert here("data", "put", "large", words[2])[0] == 0
    real, others = ContainerClient.download_blob, []

    def download(self: ContainerClient, name: str, **options: Any) -> Any:
        if not others:
            others.append(None)
            part = draft_of(folder / "back" / "large", ".part")
            with pytest.raises(UserError, match="another command copies") as caught:
                data_transfer._alone(part, folder / "back" / "large").__enter__()
            others.append(caught.value.exit_code)
        return real(self, name, **options)

    monkeypatch.setattr(ContainerClient, "download_blob", download)
    assert here(*words)[0] == 0
    assert others == [None, 3]


def test_data_get_writes_to_a_file_system_without_locks(
    folder: Path, source: Path, prefix: str, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    here("data", "put", "src", f"sim:datasets/{prefix}")
    monkeypatch.setattr(fcntl, "flock", flock)
    ends(here("data", "get", f"sim:datasets/{prefix}", "back"), 0)
    assert tree(folder / "back") == tree(source)


def test_data_get_keeps_apart_a_blob_and_one_named_like_a_partial_file(
    folder: Path, prefix: str, here: RunFairway
) -> None:
    (folder / "src").mkdir()
    for name in ("x", ".x.part", ".x.part.blocks"):
        (folder / "src" / name).write_bytes(os.urandom(2 * BLOCK))
    here("data", "put", "src", f"sim:datasets/{prefix}")
    for name in (".x.part.blocks", ".x.part", "x"):
        ends(here("data", "get", f"sim:datasets/{prefix}/{name}", "back"), 0)
    assert tree(folder / "back") == tree(folder / "src")


@pytest.mark.parametrize("size", [0, 1])
def test_data_get_skips_empty_blobs_that_stand_for_folders(
    folder: Path, prefix: str, here: RunFairway, account: str, size: int
) -> None:
    with ContainerClient.from_connection_string(account, "datasets") as container:
        for name in ("", "/mark/", "/a", "/a/b"):
            container.upload_blob(f"{prefix}{name}", b"b" * size if name == "/a" else b"")
    done = here("data", "get", f"sim:datasets/{prefix}", "back")
    if size:
        ends(done, 2, f"the blobs {prefix}/a and {prefix}/a/b cannot both be files here")
    else:
        ends(done, 0)
    assert tree(folder / "back") == ({} if size else {"a/b": b""})


def test_data_get_refuses_a_folder_in_place_of_a_file_and_the_reverse(
    folder: Path, source: Path, prefix: str, here: RunFairway
) -> None:
    here("data", "put", "src", f"sim:datasets/{prefix}")
    (folder / "back" / "empty").mkdir(parents=True)
    (folder / "back" / "a b").touch()
    done = here("data", "get", f"sim:datasets/{prefix}", "back", "--force")
    ends(done, 3, "back/a b, back/empty", "choose another folder")
    done = here("data", "get", f"sim:datasets/{prefix}/large", "fairway.yaml", "--force")
    ends(done, 3, "fairway.yaml", "choose another folder")


def test_data_get_discards_a_partial_download_of_another_version(
    folder: Path, prefix: str, here: RunFairway
) -> None:
    (folder / "large").write_bytes(os.urandom(2 * BLOCK))
    place = f"sim:datasets/{prefix}/large"
    here("data", "put", "large", place)
    (folder / "back").mkdir()
    part = draft_of(folder / "back" / "large", ".part")
    part.write_bytes(bytes(2 * BLOCK))
    part.with_name(f"{part.name}.blocks").write_text("another version\n0\n")
    assert here("data", "get", place, "back")[0] == 0
    assert tree(folder / "back") == {"large": (folder / "large").read_bytes()}


@pytest.mark.parametrize("words", [("put", "src"), ("ls",), ("get",)])
def test_data_commands_refuse_a_path_in_storage_that_is_not_utf8(
    folder: Path, source: Path, here: RunFairway, words: tuple[str, ...]
) -> None:
    place = f"sim:datasets/{os.fsdecode(bytes([255]))}"
    rest = ["back"] if words == ("get",) else []
    hint = "names in storage are UTF-8; see what there is: fairway data ls sim:datasets"
    ends(here("data", *words, place, *rest), 2, "holds the character U+DCFF", hint)


@pytest.mark.parametrize("character", ["\udcff", "\\", "\x1b", "\x85"])
def test_data_put_refuses_a_file_whose_name_storage_does_not_keep(
    folder: Path, source: Path, prefix: str, here: RunFairway, character: str
) -> None:
    (source / f"odd{character}").write_text("x")
    place = f"sim:datasets/{prefix}"
    said = f"storage takes no name with U+{ord(character):04X}"
    ends(here("data", "put", "src", place), 2, said, "rename the file")
    assert here("data", "ls", place, "-r", "--json")[1] in ("", "[]\n")


def test_data_get_of_a_damaged_blob_keeps_nothing(
    folder: Path, prefix: str, here: RunFairway, account: str
) -> None:
    with ContainerClient.from_connection_string(account, "datasets") as container:
        blob = container.upload_blob(f"{prefix}/a", b"damaged")
        blob.set_http_headers(ContentSettings(content_md5=bytearray(16)))
    done = here("data", "get", f"sim:datasets/{prefix}/a", "back")
    ends(done, 5, f"{prefix}/a arrived damaged: its digest does not match [bad-digest]")
    assert tree(folder / "back") == {}


def test_data_put_retries_after_a_service_error(
    folder: Path, prefix: str, here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_text("a")
    real, tries = ContainerClient.upload_blob, []

    def upload(self: ContainerClient, *arguments: Any, **options: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ServiceResponseError("the connection was cut")
        return real(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ContainerClient, "upload_blob", upload)
        assert here("data", "put", "a", f"sim:datasets/{prefix}")[0] == 0
    assert len(tries) == 3


@pytest.mark.parametrize("name", ["../owned", "a/../../owned", "/../owned", "a//b", "a/./b", "/a"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_data_get_refuses_blob_names_that_are_no_path_in_the_folder(
    folder: Path, here: RunFairway, monkeypatch: pytest.MonkeyPatch, name: str, slash: str
) -> None:
    """Azure allows such names, of which its SDK and Azurite can create some."""
    blob = SimpleNamespace(name=f"sets/{name}", size=1, etag="e")
    monkeypatch.setattr(Storage, "blobs", lambda *_: [blob])
    ends(here("data", "get", f"sim:datasets/sets{slash}", "back"), 2, "cannot be a file here")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("put", "none", "sim:datasets"), 2, "there is no file or folder none"),
        (("put", "hollow", "sim:datasets"), 2, "hollow holds no files"),
        (("put", "a", "datasets/x"), 2, "does not name a container of a target"),
        (("put", "a", "sim:"), 2, "does not name a container of a target"),
        (("put", "a", "sim:dataset/x"), 2, "did you mean `datasets`?"),
        (("put", "a", "sim:datasets/../x"), 2, "is not a path in a storage account"),
        (("put", "a", "sim:datasets/x//y"), 2, "is not a path in a storage account"),
        (("put", "a", "sim:datasets/./y"), 2, "is not a path in a storage account"),
        (("put", "a", "smi:datasets/x"), 2, "there is no target `smi`"),
        (("put", "a", "local:datasets/x"), 2, "has no storage account"),
        (("get", "sim:datasets/none-such"), 2, "there is nothing at"),
        (("ls", "local"), 2, "has no storage account"),
    ],
)
def test_data_command_that_is_not_possible_reports_the_reason(
    folder: Path, here: RunFairway, words: tuple[str, ...], code: int, message: str
) -> None:
    (folder / "a").write_text("a")
    (folder / "hollow").mkdir()
    ends(here("data", *words), code, message)


def test_data_put_with_a_wrong_account_key_reports_one_error(
    folder: Path, here: RunFairway, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_text("a")
    head, _, rest = account.partition("AccountKey=")
    wrong = f"{head}AccountKey=d3Jvbmc=;{rest.partition(';')[2]}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    ends(done := here("data", "put", "a", "sim:datasets/x"), 2, "does not accept these credentials")
    assert (done[2].count("error: "), "wrong" in done[2]) == (1, False)


def test_data_transfer_starts_no_other_file_after_one_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, begun = Event(), []

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            ended.set()
            super().shutdown(wait=wait)

    def send(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise OSError
        ended.wait(PATIENCE)

    monkeypatch.setattr(data_transfer, "FILES_AT_ONCE", 2)
    monkeypatch.setattr(data_transfer, "ThreadPoolExecutor", Pool)
    with pytest.raises(OSError):  # noqa: PT011
        data_transfer.run_parallel(send, range(100))
    assert {*begun} <= {0, 1, 2}
