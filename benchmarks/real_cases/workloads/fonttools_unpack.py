"""Records of fonts: heads, horizontal headers, OS/2 tables, and many name records."""

from __future__ import annotations

import struct

from fontTools.misc.sstruct import unpack

HEAD = """
> # big endian
tableVersion: 16.16F
fontRevision: 16.16F
checkSumAdjustment: I
magicNumber: I
flags: H
unitsPerEm: H
created: Q
modified: Q
xMin: h
yMin: h
xMax: h
yMax: h
macStyle: H
lowestRecPPEM: H
"""
OS_2 = """
> # big endian
version: H
xAvgCharWidth: h
usWeightClass: H
usWidthClass: H
fsType: H
sFamilyClass: h
ulUnicodeRange1: L
ulUnicodeRange2: L
achVendID: 4s
fsSelection: H
sTypoAscender: h
sTypoDescender: h
sTypoLineGap: h
"""
NAME = """
> # big endian
platformID: H
platEncID: H
langID: H
nameID: H
length: H
offset: H
"""


class Table:
    """What the fields of a record become attributes of."""


HEADS = [
    struct.pack(">iiIIHHQQhhhhHH", 65536, at * 4321, at, 0x5F0F3CF5, 3, 1000, at, at, -at, -9, 99, at, 0, 6)
    for at in range(40)
]
VENDORS = (b"NONE", b"N\xff  ")
OS_2S = [
    struct.pack(">HhHHHhLL4sHhhh", 4, 500 + at, 400, 5, 0, 0, at, 0, VENDORS[at % 2], 64, 800, -200, 90)
    for at in range(40)
]
NAMES = [struct.pack(">HHHHHH", 3, 1, 1033, at % 26, 2 * at, 24 * at) for at in range(200)]
RECORDS = [(HEAD, HEADS), (OS_2, OS_2S), (NAME, NAMES)]


def main() -> list[dict[str, object]]:
    """Return the fields of each record."""
    return [vars(unpack(fmt, data, Table())) for fmt, records in RECORDS for data in records]
