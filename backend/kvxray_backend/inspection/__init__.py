"""What `kvxray inspect` reads and says: recordings of foreign engines, offline."""
