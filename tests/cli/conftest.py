"""Where the platforms of these tests live."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.platform import private_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of one test."""
    with private_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def module_path() -> Iterator[Path]:
    """A folder that the tests of a module share."""
    with private_folder() as folder:
        yield folder
