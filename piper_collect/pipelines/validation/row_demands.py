"""What the rows of all episodes have in common, as far as consumers ask for it."""

from dataclasses import dataclass, field

from piper_collect.pipelines.validation.json_values import as_int
from piper_collect.pipelines.validation.metadata import Metadata
from piper_collect.pipelines.validation.rows import EpisodeRows


@dataclass(slots=True, kw_only=True)
class RowDemands:
    """Gathered episode by episode; it grows with the kinds of columns only.

    Attributes:
        columns: Columns that every episode has; None before the first one.
        missing_columns: Columns that a consumer reads and some episode lacks.
        float_indexes: Index columns that are stored as floating point numbers.
        list_cells: [1]-shaped features whose cells are lists.
        undeclared: Columns without a feature, and features without a column.
        plain_pictures: Columns of pictures whose type does not say so.
        unknown_tasks: Whether a row's task_index has no line in tasks.jsonl.
        wrong_lengths: Episodes whose line tells another length.
        too_short: Those of them that have fewer rows than told, or are told no length.
        unreadable: Files that cannot be read.
    """

    columns: set[str] | None = None
    missing_columns: set[str] = field(default_factory=set)
    float_indexes: set[str] = field(default_factory=set)
    list_cells: set[str] = field(default_factory=set)
    undeclared: set[str] = field(default_factory=set)
    plain_pictures: set[str] = field(default_factory=set)
    unknown_tasks: bool = False
    wrong_lengths: int = 0
    too_short: int = 0
    unreadable: int = 0

    def lack(self, key: str) -> bool:
        """Whether some episode has no column of this name."""
        return self.columns is not None and key not in self.columns

    def add(self, meta: Metadata, rows: EpisodeRows | None) -> None:
        """Take one episode; None where its rows cannot be read."""
        if rows is None:
            self.unreadable += 1
            return
        present = {*rows.cells, *rows.pictures}
        self.columns = present if self.columns is None else self.columns & present
        for key in ("timestamp", "episode_index", "task_index"):
            if key not in present:
                self.missing_columns.add(key)
        for key in ("episode_index", "task_index"):
            if key in rows.cells and rows.cells[key].dtype.kind == "f":
                self.float_indexes.add(key)
        declared = {key for key, feature in meta.features.items() if feature.dtype != "video"}
        self.undeclared |= declared ^ (present | {k for k in declared if meta.features[k].dtype == "string"})
        for key, feature in meta.features.items():
            if feature.shape == (1,) and key in rows.cells and key not in rows.scalars:
                self.list_cells.add(key)
        self.plain_pictures |= rows.plain_pictures
        tasks = rows.cells.get("task_index")
        if tasks is not None and any(float(t) not in meta.tasks for t in set(tasks.ravel().tolist())):
            self.unknown_tasks = True
        told = as_int(rows.line.get("length"))
        self.wrong_lengths += told != rows.length
        self.too_short += told is None or told > rows.length


def some(names: object) -> str:
    listed = sorted(str(name) for name in names) if isinstance(names, list | set) else []
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
