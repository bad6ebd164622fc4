"""The ports of NFS: one for version 4, and four more, which we fix, for version 3."""

from __future__ import annotations

NFS = 2049

# What else a server of NFS 3 listens on. Only rpcbind's is given; the others would be random.
RPCBIND = 111
MOUNTD = 20048
STATD = 32765
LOCKD = 32803

SERVER_NFS_3 = (RPCBIND, MOUNTD, STATD, LOCKD)

# A server tells clients when a lock is theirs, and after a restart to claim their locks again.
CLIENT_NFS_3 = (RPCBIND, STATD, LOCKD)
