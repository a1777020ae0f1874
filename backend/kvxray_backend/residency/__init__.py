"""What engines of others have cached: which hashes are where, in which chains, since when, and how sure that is."""
