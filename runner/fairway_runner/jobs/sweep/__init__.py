"""Sweeps: one job file, many tasks, each with parameter values of its own.

`models` is the section of the job file, `generators` lists what it stands for, and
`job_sweep` ties both to a job file, so that faults are shown at their lines.
"""
