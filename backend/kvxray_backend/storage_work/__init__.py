"""What `kvxray storage` and `kvxray replay` do, one job a module."""
