"""What was learned about a code base: discoveries, summaries of sessions, and which files are read."""
