"""Pieces of history as files: written for a colleague or an analyst, read with every byte checked."""
