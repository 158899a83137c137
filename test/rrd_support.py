"""What lies in a file for the Rerun viewer."""

import pytest


def chunks(path):
    """Columns by entity of a file for Rerun: {entity: [RecordBatch]}."""
    reader = pytest.importorskip("rerun.chunk").RrdReader(str(path))
    found: dict[str, list] = {}
    for chunk in reader.stream().to_chunks():
        found.setdefault(str(chunk.entity_path), []).append(chunk.to_record_batch())
    return found


def column(batches, name):
    """The cells of a column that some batch of an entity has, and their times."""
    for batch in batches:
        if name in batch.schema.names and "capture_time" in batch.schema.names:
            times = batch["capture_time"].cast("int64").to_numpy()
            return times, [cell[0] for cell in batch[name].to_pylist()]
    raise AssertionError(f"no {name} over time in {[b.schema.names for b in batches]}")
