"""How fast, and with how much memory: ``python -m bench NAME`` from the root of a checkout.

Not installed. A bench may build its input with what the tests build theirs with.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "test"))
