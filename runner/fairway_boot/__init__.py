"""All that machines boot with: the programs of Slurm's scheduler and nodes, and idle stop.

Standard library only, on Python 3.10 or later. It travels in a machine's custom data: a change of
its code, comments and docstrings aside, replaces the machine. So it also holds nothing but these
programs and what they share with `fairway_agent`.
"""
