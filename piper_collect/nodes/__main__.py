"""``python -m piper_collect.nodes <node> [ROS arguments]``."""

import sys

from piper_collect.nodes.start import start_node

sys.exit(start_node(sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]))
