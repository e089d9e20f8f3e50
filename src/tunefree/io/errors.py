"""What is wrong with a data file, and where."""


class DataError(ValueError):
    """A data file that cannot be read, with the place of the fault.

    Parameters
    ----------
    message : str
        What is wrong.
    path : str or None
        The file, or None for data that came from no file.
    line : int or None
        Line number, from 1.
    column : int or None
        Character in the line, from 1.

    Attributes
    ----------
    feature : bool
        Whether a feature is no number, which some learners would take.
    hint : str or None
        A way out, which follows the message.

    Examples
    --------
    >>> from tunefree.io import DataError
    >>> print(DataError("not a number: 'abc'", "train.csv", 3, 7))
    train.csv:3:7: not a number: 'abc'
    """

    feature, hint = False, None

    def __init__(self, message, path=None, line=None, column=None):
        super().__init__(message, path, line, column)
        self.message, self.path, self.line, self.column = message, path, line, column

    def __str__(self):
        place = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        words = self.message if self.hint is None else f"{self.message} ({self.hint})"
        return ": ".join([":".join(place), words] if place else [words])


def fault(message, path, text, at, first_line):
    """Make a `DataError` for the byte `at` of `text`, whose first line has the number `first_line`.

    Parameters
    ----------
    message : str
        What is wrong.
    path : str
        The file that `text` comes from.
    text : bytes
        Whole lines of that file.
    at : int
        The offending byte.
    first_line : int
        The line number of ``text[0]``.

    Returns
    -------
    DataError
        Its column counts characters, not bytes.
    """
    start = text.rfind(b"\n", 0, at) + 1
    line = first_line + text.count(b"\n", 0, at)
    error = DataError(message, path, line, len(decoded(text[start:at])) + 1)
    error.at = at
    return error


class Skipped:
    """Counts the malformed rows that are left out.

    Attributes
    ----------
    count : int
        How many.
    first : DataError or None
        What was wrong with the first one.
    """

    def __init__(self):
        self.count, self.first = 0, None

    def add(self, error, count=1):
        """Leave out a row, or several.

        Parameters
        ----------
        error : DataError
            What is wrong.
        count : int
            With how many rows.
        """
        self.count += count
        self.first = self.first or error


def sound_parts(text, line, parse, skipped):
    r"""Parse whole lines; where one is malformed, leave it out if that is asked for.

    Parameters
    ----------
    text : bytes
        Whole lines.
    line : int
        The number of the first of them.
    parse : callable
        (text, line) -> block; raises what `fault` makes.
    skipped : Skipped or None
        Where malformed lines are counted; None makes them errors.

    Yields
    ------
    block
        What `parse` gave.
    rest : int
        Bytes of the text not yet parsed.
    line : int
        The number of the line that comes next.

    Examples
    --------
    >>> def parse(text, line):
    ...     if b"x" in text:
    ...         raise fault("an x", "file", text, text.index(b"x"), line)
    ...     return text
    >>> skipped = Skipped()
    >>> list(sound_parts(b"a\nb\nx\nc\n", 1, parse, skipped)), str(skipped.first)
    ([(b'a\nb\n', 2, 4), (b'c\n', 0, 5)], 'file:3:1: an x')
    """
    while text:
        try:
            block = parse(text, line)
        except DataError as error:
            if skipped is None or not hasattr(error, "at"):
                raise
            skipped.add(error)
            start, stop = text.rfind(b"\n", 0, error.at) + 1, text.index(b"\n", error.at) + 1
            before, text = text[:start], text[stop:]
            if before:  # it was the first fault
                yield parse(before, line), len(text), error.line + 1
            line = error.line + 1
        else:
            yield block, 0, line + text.count(b"\n")
            return


def excerpt(text, at, stops):
    """Quote the word that starts at byte `at` and is ended by any of the bytes `stops`.

    Parameters
    ----------
    text : bytes
        Whole lines.
    at : int
        Where the word starts.
    stops : bytes
        The bytes that end a word; a newline always does.

    Returns
    -------
    str
        The quoted word, cut after 40 characters.
    """
    end = at
    while end < min(len(text), at + 200) and text[end] != 10 and text[end] not in stops:
        end += 1
    word = decoded(text[at:end]).strip()
    return repr(word if len(word) <= 40 else word[:37] + "...")


def decoded(text):
    """Decode bytes as UTF-8, with a replacement character for every byte that is not.

    Parameters
    ----------
    text : bytes
        Bytes of a data file.

    Returns
    -------
    str
        The characters.
    """
    return text.decode("utf-8", errors="replace")
