"""What is odd about a bag, said in a sentence, with the kind of oddity for those who sort them."""


class Note(str):
    """One plain sentence.

    Attributes:
        code: Short name of the kind, e.g. ``metadata-counts``.
    """

    code: str

    def __new__(cls, code: str, text: str) -> "Note":
        """A note of a kind."""
        note = super().__new__(cls, text)
        note.code = code
        return note
