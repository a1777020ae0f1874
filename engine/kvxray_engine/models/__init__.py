"""Language models: what they are made of, where their weights come from, and their forward pass over a paged cache."""
