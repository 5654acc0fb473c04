"""The code base and what was learned about it: reading, grep, dependencies, discoveries."""
