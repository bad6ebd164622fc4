"""The engine `batch`: runs on the pools of an Azure Batch account."""
