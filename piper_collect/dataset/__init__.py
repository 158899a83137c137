"""LeRobot datasets on disk: paths, parquet, video, metadata, commit."""

import os

# Arrow's own allocator (mimalloc) keeps some 20 MB more of what it has freed than the system's does. Which
# one it takes is settled when pyarrow is imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
