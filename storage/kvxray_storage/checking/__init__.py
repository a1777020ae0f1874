"""Checking what is stored: one table, or one thing that follows from another, a file."""
