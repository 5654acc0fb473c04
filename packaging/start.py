"""Entry point of the MCPB bundle: serves the desk over stdio."""

import sys

from carrel.cli import main

if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.argv.append("serve")
    main()
