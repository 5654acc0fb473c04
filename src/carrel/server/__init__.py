"""Running a workspace as a server: over stdio without what HTTP needs, and over HTTP."""
