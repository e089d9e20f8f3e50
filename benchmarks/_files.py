"""Data files cut into records, with their own headers, delimiters, quotes and ends of lines."""

import gzip
import io
import json
import re
import zipfile
from typing import Any, NamedTuple

SHEET = "xl/worksheets/sheet1.xml"
_ROW = re.compile(r"<row [^>]*?(?:/>|>.*?</row>)", re.DOTALL)


class Records(NamedTuple):
    """The records of a file, and what stands before and after them.

    Bytes are kept as Latin-1, which has a character for every byte.
    """

    head: list  # lines before the first record
    body: list
    mark: str  # ",", ..., "tab", "blank", "json", "xlsx", "arff" or "libsvm"
    rest: Any = ""  # text behind the records; of a workbook, all of its files

    @classmethod
    def of(cls, path, mark, lines):
        """The records of a packed file whose first `lines` are no records."""
        data = gzip.decompress(path.read_bytes())
        if mark == "xlsx":
            return cls._of_workbook(data)
        text = data.decode("latin-1")
        if mark == "json":
            return cls([], json.loads(text), mark)
        found = [line for line in re.findall(r"[^\n]*\n|[^\n]+$", text) if line.strip()]
        if found and not found[-1].endswith("\n"):
            found[-1] += "\n"
        if mark == "arff":  # comments may hold empty lines
            found = re.findall(r"[^\n]*\n", text)
            body = [line for line in found[lines:] if line.strip() and line[0] != "%"]
            return cls(found[:lines], body, mark)
        return cls(found[:lines], joined(found[lines:]), mark)

    @classmethod
    def _of_workbook(cls, data):
        archive = zipfile.ZipFile(io.BytesIO(data))
        files = {name: archive.read(name) for name in archive.namelist()}
        rows = _ROW.findall(files[SHEET].decode())
        return cls(rows[:1], [row for row in rows[1:] if "<v>" in row], "xlsx", files)

    def write(self, path, records, without=None):
        """Write some records, or all but the column at position `without` of them."""
        if self.mark == "xlsx":
            data = self._workbook(records, without)
        elif self.mark == "json":
            kept = [{k: v for k, v in record.items() if k != without} for record in records]
            data = ("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n").encode()
        else:
            lines = [*self.head, *records]
            if without is not None:
                head = self.head_without(without)
                lines = [*head, *(self.line_without(line, without) for line in records)]
            data = "".join(lines).encode("latin-1")
        path.write_bytes(gzip.compress(data, 1))

    def position(self, target):
        """The position of a column given by name or position."""
        if self.mark == "json":
            return target
        names = [cell.strip().strip('"').strip() for cell in self.names]
        return names.index(target) if target in names else int(target)

    @property
    def names(self):
        """The cells of the header."""
        if self.mark == "arff":
            found = [re.match(r"@attribute\s+('[^']*'|\S+)", line, re.I) for line in self.head]
            return [name[1] for name in found if name]
        if self.mark == "xlsx":
            shared = re.findall(r"<t[^>]*>(.*?)</t>", self.rest["xl/sharedStrings.xml"].decode())
            return [shared[int(number)] for number in re.findall(r"<v>(\d+)</v>", self.head[0])]
        return self.cells(self.head[-1])[0] if self.head else []

    def cells(self, line):
        """The cells of a line as they are written, what joins them, and whether all are quoted."""
        line = line.rstrip("\r\n")
        mark = {"tab": "\t", "arff": ","}.get(self.mark, self.mark)
        if mark == "blank":
            is_table = "," in line  # a header with commas
            return (line.split(","), ",", False) if is_table else (line.split(), " ", False)
        # A line that is one quoted cell, and holds others.
        if line[:1] == '"' == line[-1:] and line.replace('""', "").count('"') == 2:
            inner = line[1:-1]
            if mark in inner and '""' in inner:
                return inner.split(mark), mark, True
        return joined(line.split(mark), mark), mark, False

    def line_without(self, line, position):
        """A line without a cell."""
        end = line[len(line.rstrip("\r\n")) :]
        cells, mark, quoted = self.cells(line)
        del cells[position]
        text = mark.join(cells)
        return (f'"{text}"' if quoted else text) + end

    def head_without(self, position):
        """The header without a cell; lines above the header stay."""
        if self.mark == "arff":
            places = [i for i, line in enumerate(self.head) if line.lower().startswith("@attr")]
            return [line for i, line in enumerate(self.head) if i != places[position]]
        width = len(self.cells(self.body[0])[0])
        return [
            self.line_without(line, position) if len(self.cells(line)[0]) >= width else line
            for line in self.head
        ]

    def _workbook(self, records, without):
        sheet = self.rest[SHEET].decode()
        rows = [*self.head, *records]
        if without is not None:
            letter = chr(ord("A") + without)
            cell = re.compile(rf'<c r="{letter}\d+"[^>]*?(?:/>|>.*?</c>)', re.DOTALL)
            rows = [cell.sub("", row) for row in rows]
        start, end = sheet.index("<sheetData>") + len("<sheetData>"), sheet.index("</sheetData>")
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.rest.items():
                new = sheet[:start] + "".join(rows) + sheet[end:]
                archive.writestr(name, new if name == SHEET else content)
        return data.getvalue()


def joined(parts, mark=""):
    """Parts of which some are joined, so that each has its quotes in pairs."""
    found, open_part = [], None
    for part in parts:
        whole = part if open_part is None else open_part + mark + part
        if whole.count('"') % 2:
            open_part = whole
        else:
            found.append(whole)
            open_part = None
    return found if open_part is None else [*found, open_part]
