"""What this machine and this subscription lack for an environment, and how to fix it."""
