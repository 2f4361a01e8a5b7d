"""`python -m sslzoo`: the command line, where no script is on the path."""

import sys

from sslzoo.cli import main

sys.exit(main())
