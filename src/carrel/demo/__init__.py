"""The sample workspace of `carrel demo`: a bakery's notes, tasks, content and code."""
