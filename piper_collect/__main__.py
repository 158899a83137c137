"""``python -m piper_collect VERB …``: the same as ``piper-collect VERB …``."""

import sys

from piper_collect.cli.main import main

sys.exit(main())
