"""Rules on a Terraform plan: what would be taken away."""
