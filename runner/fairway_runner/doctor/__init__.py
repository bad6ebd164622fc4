"""Checks of this machine and this subscription for what an environment lacks, with advice on how to
fix it."""
