"""Faults on purpose: what goes wrong in caches, told by name, so that what finds it can be tried."""
