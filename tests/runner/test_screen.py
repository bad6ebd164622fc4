"""Text from other machines on a terminal: colours are kept, other control sequences removed."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_cli.ui.follow import Screen

COLOURS = ("\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[1;38:2::1:2:3m")
OBEYED = (
    *("\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x9d8;;http://x\x9c", "\x1bP+q544e\x1b\\"),
    *("\x1b_G\x1b\\", "\x1b[2J", "\x1b[1;1H", "\x1b[6n", "\x1b[>4;1m", "\x9b31m", "\x1b[?1049h"),
    *("\x1bc", "\x1b(0", "\x1b#8", "\x0e", "\x05", "\x07", "\x08", "\x0c", "\x7f", "\x85", "\x00"),
)
PLAIN = st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("\t\n\r"))


def _shown(pieces: list[bytes]) -> str:
    screen = Screen(out := io.BytesIO())
    for piece in pieces:
        screen.write(piece)
    screen.end()
    return out.getvalue().decode()


@given(st.lists(PLAIN | st.sampled_from(COLOURS) | st.sampled_from(OBEYED)), st.integers(1, 9))
@tried
def test_screen_keeps_text_and_colours_and_drops_sequences_split_anywhere(
    parts: list[str], size: int
) -> None:
    data = "".join(parts).encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert _shown(pieces) == "".join(part for part in parts if part not in OBEYED)


@given(st.lists(st.text("\x1b[]PX^_\\\x07\x18\x9b\x9c\x9d\x90;:?>0123mHc( \n\re\u00e9")))
@tried
def test_screen_leaves_no_control_characters_but_colours(pieces: list[str]) -> None:
    left = re.sub(r"\x1b\[[0-9;:]*m|[\t\n\r]", "", _shown([each.encode() for each in pieces]))
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", left)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b]0;no end\nnext\n", "0;no end\nnext\n"),
        (b"\x1b]" + b"x" * 9000, "x" * 9000),
        (b"\x1b]" + b"x" * 9000 + b"\x07", "x" * 9000),  # as if it came in pieces
        (b"\x1b]one\xc2\x90two\x07", "one"),
        (b"\x1b\x1b[2J[2J", "[2J"),
        (b"\x1b[2\nJ", "2\nJ"),
        (b"last\x1b[3", "last3"),
        (b"\xff \xc3", "\ufffd \ufffd"),
    ],
)
def test_screen_shows_an_unterminated_sequence_as_text(data: bytes, shown: str) -> None:
    assert _shown([data]) == shown
