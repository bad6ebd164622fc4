"""Controllers of objects: Jobs, Deployments, the scheduler, Kueue, claims, the collector."""
