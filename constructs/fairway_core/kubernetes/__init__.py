"""Objects of a Kubernetes cluster that must be there before jobs run in it, as pure data.

`fairway targets prepare` makes the head pod of a cluster that somebody else runs, and Flux makes
all of it in a cluster of an environment's: both take the objects from here.
"""
