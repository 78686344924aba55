"""``python -m pam_retriever``: the command line, where the folder of scripts is not on the path."""

import sys

from pam_retriever.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
