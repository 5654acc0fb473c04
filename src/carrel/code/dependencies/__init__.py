"""Which files of the root a file imports: what its text says (scanning), and which files that is (resolving)."""
