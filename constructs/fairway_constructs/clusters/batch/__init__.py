"""Pools of Azure Batch, and their account."""
