"""What all tables share."""

from sqlalchemy import MetaData, Text

metadata = MetaData()


def exact() -> Text:
    """Text that is compared or sorted: in the byte order of UTF-8, which is that of code points, on both engines."""
    return Text().with_variant(Text(collation="C"), "postgresql")
