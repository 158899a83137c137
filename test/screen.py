"""What a terminal shows of what a program writes."""

import re

_CODES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|\x07|\x08|[^\x00-\x1f\x1b]+")


class Screen:
    """What a terminal shows: enough of one for programs that write lines and redraw the last one."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = [""]
        self.bells = 0
        self._column = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take what the program wrote."""
        text, end = self._rest + text, 0
        for found in _CODES.finditer(text):
            assert found.start() == end, f"not understood: {text[end : found.start()]!r}"
            end = found.end()
            self._take(found)
        self._rest = text[end:]
        assert re.fullmatch(r"(\x1b(\[[0-9;?]*)?)?", self._rest), f"not understood: {self._rest!r}"

    @property
    def last(self) -> str:
        """The row where the cursor is."""
        return self.rows[-1]

    def _take(self, found: re.Match[str]) -> None:
        token = found.group()
        if token == "\r":
            self._column = 0
        elif token == "\n":
            self.rows.append("")
            self._column = 0
        elif token == "\x07":
            self.bells += 1
        elif found.group(2) == "K":
            assert found.group(1) == "2"
            self.rows[-1] = ""
        elif found.group(2):
            assert found.group(2) == "m", f"not understood: {token!r}"
        else:
            for letter in token:
                self._put(letter)

    def _put(self, letter: str) -> None:
        if self._column == self.width:
            self.rows.append("")
            self._column = 0
        row = self.rows[-1].ljust(self._column)
        self.rows[-1] = row[: self._column] + letter + row[self._column + 1 :]
        self._column += 1
