"""Where vectors come from: a model that is shipped with us, or a server that the user names."""
