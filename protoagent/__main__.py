"""`python -m protoagent <command>`."""

import sys

from protoagent.cli import main

sys.exit(main())
