"""Measurements, one script a subject. Run with `kvxray bench NAME`; never part of the tests."""
