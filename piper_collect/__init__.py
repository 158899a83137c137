"""Teleoperated data collection for the AgileX Piper arm: topics, bags, LeRobot datasets."""

from pkgutil import extend_path

# msg/ and srv/ are generated into the installed copy of this package;
# extend_path lets a source checkout earlier on sys.path find them there.
__path__ = extend_path(__path__, __name__)

__version__ = "0.1.0"
