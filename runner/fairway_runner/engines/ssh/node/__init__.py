"""What runs on the hosts of a plain cluster: Python's standard library from 3.10 on."""
