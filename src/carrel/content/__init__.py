"""Projects, their entities, what relates them and what is known about them; how all of it comes in and goes out."""
