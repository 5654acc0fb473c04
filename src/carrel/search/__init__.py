"""Search by meaning and by words; it knows no domain."""
