"""Tokenizers: text survives the way there and back, in pieces too, and chats become what the model was trained on."""

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.errors import UserError
from kvxray_engine.tokenizer import BpeTokenizer, ByteTokenizer, ChatTemplate, TextStream, Tokenizer, byte_alphabet
from tokenizers import AddedToken, decoders, pre_tokenizers

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small_bpe() -> BpeTokenizer:
    """Byte-level BPE with three merges, two special tokens and one token that a user added."""
    vocab = {character: i for i, character in enumerate([*byte_alphabet(), "he", "ll", "hell"])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("h", "e"), ("l", "l"), ("he", "ll")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    backend.add_tokens([AddedToken("naïve 🙂", normalized=False)])
    return BpeTokenizer(backend, frozenset({backend.token_to_id("<|im_end|>")}), ChatTemplate(CHATML))


TOKENIZERS = [pytest.param(ByteTokenizer(), id="bytes"), pytest.param(small_bpe(), id="bpe")]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(text=st.text().filter(lambda text: "<|" not in text))  # which may be the name of a special token
def test_any_text_survives_the_way_there_and_back(tokenizer: Tokenizer, text: str):
    token_ids = tokenizer.encode(text)
    assert tokenizer.decode(token_ids) == text
    assert all(0 <= i < tokenizer.vocab_size for i in token_ids)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(token_ids=st.lists(st.integers(0, 258)), cuts=st.lists(st.integers(1, 4)))
def test_text_that_comes_in_pieces_is_the_text_that_comes_at_once(tokenizer: Tokenizer, token_ids, cuts):
    stream, text, rest = TextStream(tokenizer), "", token_ids
    for cut in cuts:
        text += stream.add(rest[:cut])
        rest = rest[cut:]
    assert text + stream.add(rest) + stream.finish() == tokenizer.decode(token_ids)


def test_half_a_character_is_never_shown():
    tokenizer = ByteTokenizer()
    stream = TextStream(tokenizer)
    assert [stream.add([byte]) for byte in "é🙂".encode()] == ["", "é", "", "", "", "🙂"]
    assert stream.add([0xF0]) == ""
    assert stream.finish() == "\ufffd"


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_chat_becomes_marked_turns_up_to_the_answer(tokenizer: Tokenizer):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello?"}]
    expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello?<|im_end|>\n<|im_start|>assistant\n"
    token_ids = tokenizer.apply_chat_template(messages)
    assert token_ids == tokenizer.encode(expected)
    assert token_ids.count(*tokenizer.eos_token_ids) == 2
    assert tokenizer.decode(token_ids) == expected.replace("<|im_start|>", "").replace("<|im_end|>", "")


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_half_a_surrogate_pair_is_no_reason_to_fail(tokenizer: Tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud83dz")) == "a?z"


def test_the_byte_tokenizer_has_room_for_16_special_tokens():
    tokenizer = ByteTokenizer()
    assert tokenizer.vocab_size == 272
    assert tokenizer.encode("a<|im_end|>é") == [97, *tokenizer.eos_token_ids, 0xC3, 0xA9]


def test_bpe_merges_what_its_merges_say_and_decodes_like_its_library():
    tokenizer = small_bpe()
    token_ids = tokenizer.encode("hello hell naïve 🙂!<|im_end|>")
    assert [tokenizer.token_bytes(i) for i in token_ids[:3]] == [b"hell", b"o", b" "]
    assert tokenizer.token_bytes(token_ids[-1]) == b""
    assert tokenizer.decode(token_ids) == "hello hell naïve 🙂!"


def test_a_saved_tokenizer_loads_as_itself(tmp_path):
    tokenizer = small_bpe()
    tokenizer.save(tmp_path)
    loaded = BpeTokenizer.load(tmp_path, tokenizer.eos_token_ids)
    text = "hello <|im_start|>naïve 🙂"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.apply_chat_template([]) == tokenizer.apply_chat_template([])


def test_a_damaged_or_missing_tokenizer_is_told_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot be read .*fetch the model again"):
        BpeTokenizer.load(tmp_path, frozenset())
    small_bpe().save(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read .*fetch the model again"):
        BpeTokenizer.load(tmp_path, frozenset())


def test_a_template_from_elsewhere_runs_in_a_sandbox():
    with pytest.raises(UserError, match="does not take these messages"):
        ChatTemplate("{{ ''.__class__.__mro__[1].__subclasses__() }}").render([])
    with pytest.raises(UserError, match="does not take these messages: roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render([])
    with pytest.raises(UserError, match="cannot be used"):
        ChatTemplate("{% for %}")


def test_a_template_finds_what_templates_of_models_use():
    template = ChatTemplate(
        "{{ bos_token }}{% if tools %}never{% endif %}{{ messages[0] | tojson }}"
        "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}[{{ m['content'] | trim }}]{% endfor %}"
        "{{ strftime_now('%Y')[:2] }}",
        {"bos_token": "<s>"},
    )
    messages = [{"role": "user", "content": " <é> & '"}, {"role": "user", "content": "unread"}]
    assert template.render(messages) == """<s>{"role": "user", "content": " <é> & '"}[<é> & ']20"""


def test_a_token_by_itself_can_be_read():
    bpe, byte = small_bpe(), ByteTokenizer()
    assert byte.token_text(ord("a")) == "a"
    assert byte.token_text(0xC3) == "bytes:\\xc3"
    assert byte.token_text(256) == "<|endoftext|>"
    assert bpe.token_text(bpe.encode("<|im_end|>")[0]) == "<|im_end|>"
    assert bpe.token_text(bpe.encode("ü")[0]) == "bytes:\\xc3"
