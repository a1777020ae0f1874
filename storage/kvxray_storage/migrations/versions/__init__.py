"""One file a change of the schema, named after its revision. Revisions are never edited after a release."""
