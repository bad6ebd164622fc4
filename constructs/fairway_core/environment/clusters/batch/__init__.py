"""Clusters whose jobs Azure Batch queues and runs: pools, and their account."""
