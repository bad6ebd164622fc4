"""Files between this machine and the storage account of a target."""
