"""A sample workspace to try Carrel on: a bakery, its notes, its tasks, what it publishes and the program it runs on."""
