"""What makes objects come true: Jobs, Deployments, the scheduler, Kueue, claims, the collector."""
