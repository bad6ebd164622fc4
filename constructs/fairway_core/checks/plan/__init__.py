"""Rules on a Terraform plan."""
