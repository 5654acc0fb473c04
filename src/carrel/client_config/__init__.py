"""Registration of this desk in the configuration files of MCP clients, which are edited in place.

`clients` knows where each client keeps its servers and how it names things; `config_file` adds, updates, or removes an
entry by way of `json_edits` or `toml_edits`, which change only the text of that entry: comments, order, and layout of
everything else stay, and removing an entry restores the file to the byte.
"""
