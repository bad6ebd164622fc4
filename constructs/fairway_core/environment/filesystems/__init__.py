"""Shared file systems: a module for each kind, with all that others ask about it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairway_core.environment.filesystems.azure_files import AzureFiles
from fairway_core.environment.filesystems.blobfuse import Blobfuse
from fairway_core.environment.filesystems.lustre import Lustre
from fairway_core.environment.filesystems.netapp import NetApp
from fairway_core.environment.filesystems.nfs_export import NfsExport
from fairway_core.environment.filesystems.nfs_server import NfsServer

AnyFileSystem = Annotated[
    NfsServer | NfsExport | AzureFiles | NetApp | Lustre | Blobfuse, Field(discriminator="kind")
]
