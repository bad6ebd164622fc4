"""`fairway data`: files between this machine, storage and the cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.findings import UserError, counted
from fairway_runner.quantities import size

if TYPE_CHECKING:
    from fairway_runner.data_blobs import BlobPath
    from fairway_runner.data_transfer import Transferred
    from fairway_runner.engines.azure_storage import Storage

_BLOB_PATH = "TARGET:CONTAINER/PATH"

data = Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Copy files to and from a target's storage, and from there to its nodes.",
)

QuietOption = Annotated[bool, Option("--quiet", "-q", help="Show no progress.")]


@data.command()
def put(
    source: Annotated[Path, Argument(metavar="SRC", help="A file or a folder.")],
    path: Annotated[str, Argument(metavar=_BLOB_PATH, help="Destination in the storage account.")],
    force: arguments.ForceOption = False,
    quiet: QuietOption = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Copy a file or a folder to storage; repeat the command to resume a copy."""
    from fairway_cli.ui.columns import byte_progress
    from fairway_runner.data_blobs import blob_path
    from fairway_runner.data_transfer import Upload

    where = blob_path(path)
    upload = Upload(source, where, _storage(where), force=force)
    warn(*upload.warnings)
    with byte_progress(str(where), upload.size, quiet=quiet or json_) as report:
        _say(upload.run(report), str(where), json_=json_)


@data.command()
def get(
    path: Annotated[str, Argument(metavar=_BLOB_PATH, help="Source in the storage account.")],
    folder: Annotated[
        Path, Argument(metavar="[FOLDER]", help="Destination; by default the current folder.")
    ] = Path(),
    force: arguments.ForceOption = False,
    quiet: QuietOption = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Copy blobs from storage to a folder; repeat the command to resume a copy."""
    from fairway_cli.ui.columns import byte_progress
    from fairway_runner.data_blobs import blob_path
    from fairway_runner.data_transfer import Download

    where = blob_path(path)
    download = Download(where, folder, _storage(where), force=force)
    with byte_progress(str(where), download.size, quiet=quiet or json_) as report:
        _say(download.run(report), str(folder), json_=json_)


@data.command()
def stage(
    target: arguments.TargetArgument,
    source: Annotated[str, Argument(metavar="CONTAINER:PATH", help="The blobs to copy.")],
    destination: Annotated[str, Argument(metavar="MOUNT:PATH", help="Destination on the cluster.")],
    watch: arguments.WatchOption = False,
    quiet: QuietOption = False,
    json_: arguments.JsonOption = False,
) -> None:
    """Copy blobs to a file system of the cluster, as a job under the nodes' identity."""
    from tempfile import TemporaryDirectory

    from fairway_cli.ui.progress import print_started, watch_to_the_end
    from fairway_hpc import submit
    from fairway_runner.data_blobs import staging_job
    from fairway_runner.targets.lookup import find_target

    job = staging_job(find_target(target), source, destination)
    try:
        with TemporaryDirectory() as nothing:
            run = submit(job, target, folder=nothing)
    except UserError as error:  # without the line of a file that nobody has
        raise error.with_findings(replace(each, location=None) for each in error.findings) from None
    if not watch:
        print_started(run, json_=json_, quiet=quiet)
        return
    raise Exit(watch_to_the_end(run, json_=json_, quiet=quiet))


@data.command("ls")
def list_(
    path: Annotated[
        str,
        Argument(
            metavar=f"TARGET|{_BLOB_PATH}",
            help="A target, or a path in its storage.",
            autocompletion=arguments.complete_targets,
        ),
    ],
    recursive: Annotated[
        bool,
        Option("--recursive", "-r", help="List every blob instead of a total for each folder."),
    ] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """List the containers of a target, or the blobs in one."""
    from fairway_runner.data_blobs import blob_path, storage_of
    from fairway_runner.targets.lookup import find_target

    if ":" not in path:
        containers = storage_of(find_target(path))
        print(json.dumps(containers) if json_ else "\n".join(containers))
        return
    from fairway_cli.ui.columns import entry_facts, print_entries
    from fairway_runner.data_blobs import entries

    where = blob_path(path)
    found = entries(where, _storage(where), recursive=recursive)
    if json_:
        print(json.dumps([entry_facts(entry) for entry in found], indent=1))
    elif found:
        print_entries(found)
    else:
        print(f"there is nothing at {where}")


def _storage(at: BlobPath) -> Storage:
    from fairway_runner.engines.azure_storage import Storage
    from fairway_runner.engines.outage import deadline

    return Storage(at.target, deadline())


def _say(done: Transferred, where: str, *, json_: bool) -> None:
    if json_:
        facts: dict[str, Any] = {"files": done.files, "bytes": done.size}
        print(json.dumps({**facts, "unchanged": done.unchanged}, indent=1))
        return

    same = f"; {done.unchanged:,} were already there" if done.unchanged else ""
    print(f"{counted(len(done.files), 'file')}, {size(done.size)}, to {where}{same}")
