"""Codes in pictures, as the app of a bank reads them."""

import zxingcpp
from PIL import Image

BOLETO_DIGITS = 44


def read_codes(picture: Image.Image) -> list[zxingcpp.Barcode]:
    """Every QR code and every barcode of a boleto; a few digits of others are found in any dots."""
    formats = zxingcpp.BarcodeFormats([zxingcpp.BarcodeFormat.QRCode, zxingcpp.BarcodeFormat.ITF])
    return [
        code
        for code in zxingcpp.read_barcodes(picture.convert("L"), formats=formats)
        if code.format == zxingcpp.BarcodeFormat.QRCode or len(code.text) == BOLETO_DIGITS
    ]
