"""An index in files of this machine: passages and vectors in SQLite, words in tantivy, both shared by processes."""
