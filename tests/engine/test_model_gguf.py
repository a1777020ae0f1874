"""GGUF files: what llama.cpp's converter wrote comes back as the tensors, shape and tokenizer it was made from."""

import dataclasses
import inspect

import pytest
import tokenizers
import torch
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import open_model
from kvxray_engine.models.checkpoint import read_checkpoint, write_checkpoint
from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.gguf_tokenizer import gguf_tokenizer
from kvxray_engine.models.gguf_weights import GgufFile
from kvxray_engine.models.tiny import tiny_config, tiny_weights
from kvxray_engine.step_batch import SamplingParams
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, Qwen2Tokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter

from tests.engine.model_driver import generate
from tests.engine.small_gguf import small_vocabulary, write_gguf
from tests.engine.small_hf import write_folder

TEXTS = [
    "the cache holds the block",
    "<|im_start|>user\nthe free block<|im_end|><file>",
    "x = [1, 2,  3]\n\n\t42   7",
    "1234567890 ½ ٣ Ⅷ",
    "naïve 日本語 🙂 \u00a0\u200b",
    "   blanks   \n\n\n  ",
    "it's don't WE'LL",
    "",
]


@pytest.fixture
def config():
    """The tiny shape with a small vocabulary of its own."""
    vocab_size = len(small_vocabulary()[0])
    return dataclasses.replace(
        tiny_config(), name="small", vocab_size=vocab_size, eos_token_ids=(2,), bos_token_id=1, max_model_len=512
    )


@pytest.fixture
def weights(config):
    return tiny_weights(config, seed=5)


@pytest.fixture
def path(tmp_path, config, weights):
    write_gguf(tmp_path / "small.gguf", config, weights)
    return tmp_path / "small.gguf"


def same_tensors(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(flat(a), flat(b), strict=True))


def flat(weights) -> list[torch.Tensor]:
    layers = [getattr(layer, f.name) for layer in weights.layers for f in dataclasses.fields(layer)]
    return [weights.embedding, weights.final_norm, weights.head, *(tensor for tensor in layers if tensor is not None)]


def keep(folder, file: GgufFile, config: ModelConfig):
    """Convert a file as fetching does."""
    config.save(folder / "config.json")
    done = list(write_checkpoint(folder / "model.safetensors", config, file.tensors(config)))
    assert done == sorted(done)
    return done[-1]


def test_shape_and_tensors_come_back_as_they_were(tmp_path, path, config, weights):
    file = GgufFile(path)
    assert file.config("small") == config
    num_bytes = keep(tmp_path, file, file.config("small"))
    assert num_bytes == sum(t.nbytes for t in flat(weights))
    loaded = read_checkpoint(tmp_path / "model.safetensors", ModelConfig.load(tmp_path / "config.json"), torch.float32)
    assert same_tensors(loaded, weights)


def test_a_tied_head_is_the_embedding_itself(tmp_path, config, weights):
    tied = dataclasses.replace(config, tie_word_embeddings=True)
    write_gguf(tmp_path / "tied.gguf", tied, dataclasses.replace(weights, head=weights.embedding))
    file = GgufFile(tmp_path / "tied.gguf")
    assert file.config("small") == tied
    keep(tmp_path, file, tied)
    loaded = read_checkpoint(tmp_path / "model.safetensors", tied, torch.float32)
    assert loaded.head is loaded.embedding
    assert torch.equal(loaded.embedding, weights.embedding)


def test_quantised_tensors_come_back_within_a_step_of_their_quantisation(tmp_path, config, weights):
    """Q8_0: half a step of 1/127 of the largest weight, and 2**-11 of it since the scale is kept in 16 bits."""
    write_gguf(tmp_path / "q8.gguf", config, weights, quantised=True)
    keep(tmp_path, GgufFile(tmp_path / "q8.gguf"), config)
    loaded = read_checkpoint(tmp_path / "model.safetensors", config, torch.float32)
    for got, expected in zip(flat(loaded), flat(weights), strict=True):
        assert (got - expected).abs().max() <= expected.abs().max() * (0.5 / 127 + 2**-11)


def test_loading_in_bfloat16_rounds_and_nothing_else(tmp_path, path, config, weights):
    keep(tmp_path, GgufFile(path), config)
    loaded = read_checkpoint(tmp_path / "model.safetensors", config, torch.bfloat16)
    assert all(torch.equal(x, y.bfloat16()) for x, y in zip(flat(loaded), flat(weights), strict=True))


def test_the_tokenizer_is_the_one_transformers_builds_but_for_digits(path):
    ours = gguf_tokenizer(GgufFile(path))
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).backend_tokenizer
    # transformers ignores tokenizer.ggml.pre: give it the splitting that llama.cpp gives `smollm`.
    theirs.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    for text in TEXTS:
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == ids, text
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text


def test_a_gpt2_tokenizer_leaves_digits_together(tmp_path, config, weights):
    write_gguf(tmp_path / "gpt2.gguf", config, weights, splitting="gpt-2")
    ours = gguf_tokenizer(GgufFile(tmp_path / "gpt2.gguf"))
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="gpt2.gguf").backend_tokenizer
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text


def qwen2_tokenizer() -> tokenizers.Tokenizer:
    """transformers' own, over our small vocabulary."""
    tokens, merges = small_vocabulary()
    pairs = [tuple(merge.split(" ")) for merge in merges]
    theirs = Qwen2Tokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs)
    return theirs.backend_tokenizer


def llama3_tokenizer() -> tokenizers.Tokenizer:
    """Our small vocabulary, cut by the pattern that transformers' converter of Meta's files has."""
    tokens, merges = small_vocabulary()
    pairs = [tuple(merge.split(" ")) for merge in merges]
    vocab = {token: i for i, token in enumerate(tokens)}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=pairs, ignore_merges=True))
    pattern = inspect.signature(TikTokenConverter.__init__).parameters["pattern"].default
    theirs.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return theirs


@pytest.mark.parametrize(("splitting", "theirs"), [("qwen2", qwen2_tokenizer), ("llama-bpe", llama3_tokenizer)])
def test_the_cuts_of_qwen_and_llama_3_are_those_of_transformers(tmp_path, config, weights, splitting, theirs):
    write_gguf(tmp_path / "small.gguf", config, weights, splitting=splitting)
    ours, theirs = gguf_tokenizer(GgufFile(tmp_path / "small.gguf")), theirs()
    for text in [*TEXTS, "WE'LL can't 'tis  12345 a1b22\r\n\r\n  x!?\n..", "e\u0301 \ufb01 \u2460"]:
        if "<|" not in text:
            assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text


@pytest.mark.parametrize(
    ("splitting", "told", "prepends"),
    [("llama-bpe", None, True), ("llama-bpe", False, False), ("smollm", None, False), ("smollm", True, True)],
)
def test_a_text_begins_with_a_token_where_the_file_wants_it(tmp_path, config, weights, splitting, told, prepends):
    write_gguf(tmp_path / "small.gguf", config, weights, splitting=splitting, add_bos=told)
    tokenizer = gguf_tokenizer(GgufFile(tmp_path / "small.gguf"))
    plain = tokenizer.encode("the cache")
    assert tokenizer.encode("the cache", add_special_tokens=True) == ([1, *plain] if prepends else plain)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "qwen2_tied"])
def test_a_file_runs_like_the_folder_it_was_made_of(tmp_path, family):
    """The folder is held to transformers elsewhere."""
    folder = open_model(str(write_folder(tmp_path / "folder", family)))
    config, weights = folder.model.config, folder.model.weights
    write_gguf(tmp_path / "small.gguf", config, weights, architecture=family.split("_")[0], splitting="qwen2")
    file = open_model(str(tmp_path / "small.gguf"))
    assert file.model.config == dataclasses.replace(config, name="small")
    assert same_tensors(file.model.weights, weights)
    prompt = file.tokenizer.encode("the free block holds")
    outputs = [
        generate(opened.with_cache(20, 16, "float32"), [prompt], SamplingParams(max_tokens=20))
        for opened in (folder, file)
    ]
    assert outputs[0] == outputs[1]


def test_the_chat_template_of_the_file_is_used(path):
    tokenizer = gguf_tokenizer(GgufFile(path))
    expected = "<|im_start|>user\nthe block<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "the block"}]) == tokenizer.encode(expected)
    assert tokenizer.eos_token_ids == {2}


@pytest.mark.parametrize("size", [0, 3, 100, 5_000, 20_000])
def test_a_cut_file_is_refused_in_one_sentence(path, size):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match="is not a readable GGUF file"):
        GgufFile(path)


def test_another_kind_of_file_or_none_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello " * 1000)
    with pytest.raises(UserError, match="is not a readable GGUF file"):
        GgufFile(tmp_path / "notes.txt")
    with pytest.raises(UserError, match="is not a readable GGUF file"):
        GgufFile(tmp_path / "nowhere.gguf")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architecture": "gemma3"}, "gemma3 architecture: only llama"),
        ({"extra_tensor": "rope_freqs.weight"}, "rope_freqs.weight that cannot be run"),
        ({"extra_tensor": "blk.0.attn_q.bias"}, "blk.0.attn_q.bias that cannot be run"),
        ({"missing_tensor": "blk.1.ffn_up.weight"}, "lacks the tensor blk.1.ffn_up.weight"),
        ({"head_dim": 15}, "of 15 numbers each: .* the numbers even, so name another model"),
        ({"kv_heads": 3}, "has 4 query heads for 3 kv heads"),
    ],
)
def test_a_model_that_would_run_wrongly_is_refused(tmp_path, config, weights, changes, sentence):
    write_gguf(tmp_path / "odd.gguf", config, weights, **changes)
    with pytest.raises(UserError, match=sentence):
        GgufFile(tmp_path / "odd.gguf").config("odd")


def test_a_tokenizer_that_would_split_wrongly_is_refused(tmp_path, config, weights):
    write_gguf(tmp_path / "odd.gguf", config, weights, splitting="tekken")
    with pytest.raises(UserError, match="splits text the way of tekken"):
        gguf_tokenizer(GgufFile(tmp_path / "odd.gguf"))


def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path, path, config):
    keep(tmp_path, GgufFile(path), config)
    weights, shape = tmp_path / "model.safetensors", tmp_path / "config.json"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UserError, match="is damaged .*fetch the model again"):
        read_checkpoint(weights, config, torch.float32)
    shape.write_text(shape.read_text().replace("hidden_size", "size"))
    with pytest.raises(UserError, match="cannot be read .*fetch the model again"):
        ModelConfig.load(shape)
