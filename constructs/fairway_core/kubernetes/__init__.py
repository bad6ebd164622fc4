"""Objects that a Kubernetes cluster needs before jobs run in it, as plain data.

`fairway targets prepare` creates the head pod in a cluster that others run, and Flux applies all
objects in an environment's cluster: both take them from here.
"""
