"""Files in a zip, unpacked with a limit."""

import zipfile


def unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of an entry, and at most one byte more than the zip tells of its size:
    `ZipFile.read` would unpack all there is, up to 2 GiB, before it compares.
    """
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)
