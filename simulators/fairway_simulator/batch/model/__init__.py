"""What the service remembers: jobs, tasks, pools, nodes and schedules."""
