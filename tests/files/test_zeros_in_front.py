"""Digits with zeros in front, which may be names, are noted whatever else a file holds."""

import pytest

from tunefree.files.mixed import read_mixed
from tunefree.rows.schema import Schema

FILES = {
    "numbers alone": "zip,y\n00601,1.5\n90210,2.5\n01137,3.5\n",
    "beside text": "zip,c,y\n00601,a,1.5\n90210,b,2.5\n01137,a,3.5\n",
    "as a spreadsheet keeps them": 'zip,y\n="00601",1.5\n="90210",2.5\n="01137",3.5\n',
    "quoted": 'zip,y\n"=""00601""",1.5\n"=""90210""",2.5\n"=""01137""",3.5\n',
    "between semicolons": "zip;y\n00601;1,5\n90210;2,5\n01137;3,5\n",
}


@pytest.mark.parametrize("kind", sorted(FILES))
def test_digits_behind_zeros_are_noted(kind):
    table = read_mixed([FILES[kind].encode()], format="csv")
    column = Schema.of(table.X, table.X.column_names).columns[0]
    assert "digits such as '00601' are read as numbers, without the zeros" in column.note


def test_other_numbers_are_read_as_an_array():
    table = read_mixed([b"a,b,y\n0,0.5,1\n10,0.25,2\n"], format="csv")
    assert table.X.tolist() == [[0.0, 0.5], [10.0, 0.25]]
