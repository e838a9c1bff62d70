#!/usr/bin/env python
"""Django's entry point: the same commands as `protoagent`."""

import sys

from protoagent.cli import main

if __name__ == "__main__":
    sys.exit(main())
