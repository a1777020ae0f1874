"""Text is cut at the first stop string, however it comes in pieces, and nothing is held back longer than needed."""

from hypothesis import example, given
from hypothesis import strategies as st
from kvxray_engine.server.stop_strings import StopStrings

PIECES = st.lists(st.text("ab!", max_size=4), max_size=12)
STOPS = st.lists(st.text("ab!", min_size=1, max_size=4), max_size=3)


def cut(text: str, stops: list[str]) -> str:
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]


def through(pieces: list[str], stops: list[str]) -> tuple[StopStrings, str]:
    matcher = StopStrings(stops)
    text = "".join([matcher.add(piece) for piece in pieces])
    return matcher, text


@given(PIECES, STOPS)
@example(["a", "b", "a", "b"], ["abb", "ba"])
def test_what_comes_out_is_the_text_up_to_the_first_stop_string(pieces: list[str], stops: list[str]) -> None:
    matcher, text = through(pieces, stops)
    if matcher.matched is None:
        text += matcher.finish()
    found_early = cut("".join(pieces), stops)
    if matcher.matched is None:
        assert text == found_early == "".join(pieces)
    else:
        # A stop string that begins earlier but is complete only in a later piece comes too late.
        assert found_early.startswith(text) or text.startswith(found_early)
        assert any(stop in "".join(pieces) for stop in stops)
    assert matcher.finish() == ""


@given(PIECES, STOPS)
def test_only_what_may_become_a_stop_string_is_held_back(pieces: list[str], stops: list[str]) -> None:
    matcher, text = through(pieces, stops)
    if matcher.matched is None:
        held = "".join(pieces)[len(text) :]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_nothing_follows_a_match() -> None:
    matcher = StopStrings(["."])
    assert [matcher.add(piece) for piece in ("One", ". Two", " three")] == ["One", "", ""]
    assert matcher.matched == "."


def test_of_two_that_begin_at_the_same_place_the_longer_is_named() -> None:
    matcher = StopStrings(["en", "end"])
    assert matcher.add("the end") == "the "
    assert matcher.matched == "end"


def test_without_stop_strings_everything_passes_at_once() -> None:
    assert [StopStrings([]).add(piece) for piece in ("a", "bc")] == ["a", "bc"]
