"""The tax bill of a parcel: a real PDF of one page, written by hand and the same bytes every time.

It uses nothing but a built-in font and uncompressed text, so any reader opens it and a test can read it back. It comes
after `detail`, which says how each value is shown.
"""

from hashlib import blake2b

from swath.testing.demo_county.detail import shown
from swath.testing.demo_county.messages import PDF, Response
from swath.testing.demo_county.parcels import Parcel

_LINES = (
    *(("Parcel", "parcel_id"), ("Owner", "owner"), ("Mail to", "mailing_address"), ("Property", "situs_address")),
    *(("Legal description", "legal_description"), ("Class", "property_class"), ("Tax area", "tax_area")),
    *(("Assessed value", "assessed_value"), ("First half", "first_half_due"), ("Second half", "second_half_due")),
    *(("Total", "total_due"), ("Received", "paid"), ("Balance due", "balance_due"), ("Status", "status")),
)
_RESOURCES = b"<< /Font << /F1 5 0 R /F2 6 0 R >> >>"


def pdf(parcel: Parcel) -> Response:
    name = f'Content-Disposition: inline; filename="bill-{parcel.parcel_id}.pdf"\r\n'
    return Response(200, document(parcel), PDF, name.encode())


def document(parcel: Parcel) -> bytes:
    content = _content(parcel)
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources %b >>" % _RESOURCES,
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        b"<< /Title (%b) /Producer (Demo County) /CreationDate (D:%d0901080000Z) >>"
        % (_text(f"Tax bill {parcel.parcel_id}"), parcel.tax_year),
    )
    return _file(objects, identity=blake2b(content, digest_size=16).hexdigest().encode())


def _content(parcel: Parcel) -> bytes:
    """Return the page's drawing: a heading, a rule, and one line per value."""
    values = shown(parcel)
    drawing = [
        b"BT /F2 18 Tf 54 730 Td (Demo County Treasurer) Tj ET",
        b"BT /F1 12 Tf 54 708 Td (%b) Tj ET" % _text(f"Property tax bill {parcel.tax_year}"),
        b"0.5 w 54 698 m 558 698 l S",
    ]
    for number, (label, field) in enumerate(_LINES):
        height = 672 - 22 * number
        drawing.append(b"BT /F2 10 Tf 54 %d Td (%b) Tj ET" % (height, _text(label)))
        drawing.append(b"BT /F1 10 Tf 190 %d Td (%b) Tj ET" % (height, _text(values[field])))
    return b"\n".join(drawing)


def _file(objects: tuple[bytes, ...], identity: bytes) -> bytes:
    """Number the objects from 1 (the first is the catalogue, the last the document's information) and index them."""
    parts = [b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"]
    offset = len(parts[0])
    index = [b"0000000000 65535 f \n"]
    for number, body in enumerate(objects, start=1):
        part = b"%d 0 obj\n%b\nendobj\n" % (number, body)
        index.append(b"%010d 00000 n \n" % offset)
        offset += len(part)
        parts.append(part)
    size = len(index)
    parts.append(b"xref\n0 %d\n%b" % (size, b"".join(index)))
    parts.append(
        b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R /ID [<%b> <%b>] >>\n" % (size, size - 1, identity, identity)
    )
    parts.append(b"startxref\n%d\n%%%%EOF\n" % offset)
    return b"".join(parts)


def _text(text: str) -> bytes:
    """Return a PDF string's inside: the font's encoding, with the three special characters escaped."""
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
