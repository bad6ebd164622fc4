"""Programs that run on the nodes of a pool: standard library only, Python 3.10 and later.

`fairway-node` is started by the job's preparation task (`prepare`), by the coordination command of
a task on several nodes (`coordinate`), and as a task's own command (`task`).
"""
