"""State of the service: jobs, tasks, pools, nodes and schedules."""
