"""Rules on synthesized Terraform, as plain data: what would really be deployed."""
