"""Llama, Qwen2 and Qwen3 from Hugging Face folders: what transformers saved is what runs, token for token."""

import json
import shutil

import pytest
import torch
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import open_model
from kvxray_engine.step_batch import SamplingParams
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.engine.model_driver import generate
from tests.engine.model_peer import greedy
from tests.engine.small_hf import FAMILIES, write_folder

TEXTS = [
    "the cache holds the block",
    "blocks the free block   \n\n 1234 naïve 🙂",
    "<|im_start|>user\nthe free block<|im_end|>\n<|im_start|>assistant\n",
    "the free block holds the cache, the cache holds the free block. " * 12,
]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture
def llama(tmp_path):
    return write_folder(tmp_path / "small", "llama")


def test_it_generates_what_transformers_generates(folder) -> None:
    opened = open_model(str(folder))
    twin = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts = [opened.tokenizer.encode(text, add_special_tokens=True) for text in TEXTS]
    expected = [greedy(twin, prompt, 24) for prompt in prompts]
    assert len({tuple(tokens) for tokens in expected}) == len(TEXTS)
    assert max(len(set(tokens)) for tokens in expected) > 4, "a model that repeats one token proves little"
    runner = opened.with_cache(100, 8, "float32")
    assert generate(runner, prompts, SamplingParams(max_tokens=24), chunk=40) == expected


def test_its_scores_are_those_of_transformers(folder) -> None:
    opened = open_model(str(folder))
    twin = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = opened.tokenizer.encode(TEXTS[3])
    with torch.inference_mode():
        expected = torch.log_softmax(twin(torch.tensor([prompt])).logits[0, -1].double(), -1)
    runner = opened.with_cache(100, 16, "float32")
    generate(runner, [prompt], SamplingParams(max_tokens=1, logprobs=20), chunk=1000)
    for token, logprob in runner.logprobs["0"].top:
        assert logprob == pytest.approx(expected[token].item(), abs=2e-4)


def test_shards_and_half_precision_files_load_as_transformers_loads_them(tmp_path) -> None:
    folder = write_folder(tmp_path / "small", "qwen2", shard_size="100KB", dtype=torch.bfloat16)
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    opened = open_model(str(folder))
    twin = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = opened.tokenizer.encode(TEXTS[0])
    assert generate(opened.with_cache(20, 16, "float32"), [prompt], SamplingParams(max_tokens=16)) == [
        greedy(twin, prompt, 16)
    ]


def test_the_tokenizer_is_the_one_of_the_folder(llama) -> None:
    ours = open_model(str(llama)).tokenizer
    theirs = AutoTokenizer.from_pretrained(llama)
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False)
        assert ours.encode(text, add_special_tokens=True) == theirs.encode(text)
    messages = [{"role": "user", "content": "the free block"}]
    told = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert ours.apply_chat_template(messages) == theirs.encode(told, add_special_tokens=False)


def test_shape_and_ends_of_text_come_from_the_folder(llama) -> None:
    (llama / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    config = open_model(str(llama)).model.config
    assert config.name == "small"
    assert (config.eos_token_ids, config.bos_token_id, config.max_model_len) == ((2, 0), 1, 512)
    assert open_model(str(llama), max_model_len=100).with_cache(20, 16, "float32").max_model_len == 100
    assert open_model(str(llama), max_model_len=10**6).model.config.max_model_len == 512


def test_scaled_positions_make_longer_texts(tmp_path) -> None:
    assert open_model(str(write_folder(tmp_path, "llama_linear"))).model.config.max_model_len == 2048
    assert open_model(str(write_folder(tmp_path / "3", "llama3"))).model.config.max_model_len == 512


def test_the_older_way_of_writing_positions_is_read_too(tmp_path) -> None:
    """transformers 4: rope_theta and rope_scaling beside each other."""
    folder = write_folder(tmp_path / "small", "llama3")
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters")
    newer = open_model(str(folder)).model.config
    older = config | {"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
    (folder / "config.json").write_text(json.dumps(older))
    assert open_model(str(folder)).model.config == newer


def test_a_template_in_the_settings_may_name_special_tokens(llama) -> None:
    (llama / "chat_template.jinja").unlink()
    settings = json.loads((llama / "tokenizer_config.json").read_text())
    template = "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.content }}"
    settings["chat_template"] = [{"name": "default", "template": template + "{% endfor %}"}]
    (llama / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = open_model(str(llama)).tokenizer
    messages = [{"role": "user", "content": "the cache"}, {"role": "user", "content": "unread"}]
    assert tokenizer.apply_chat_template(messages) == tokenizer.encode("<|im_start|>the cache")


def test_without_a_template_conversations_are_refused(llama) -> None:
    (llama / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="no chat template: use /v1/completions"):
        open_model(str(llama)).tokenizer.apply_chat_template([{"role": "user", "content": "x"}])


def test_ids_beyond_the_vocabulary_have_no_text(llama) -> None:
    tokenizer = open_model(str(llama)).tokenizer
    assert (tokenizer.token_bytes(10_000), tokenizer.token_text(10_000)) == (b"", "")
    assert tokenizer.decode([10_000]) == ""


def changed(folder, **fields) -> str:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))
    return str(folder)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model_type": "gemma3"}, "its type is gemma3, and only llama, qwen2, qwen3 can be run"),
        ({"hidden_act": "gelu"}, "its activation is gelu"),
        ({"mlp_bias": True}, "its feed-forward layers have biases"),
        ({"quantization_config": {"bits": 4}}, "its weights are quantised"),
        ({"use_sliding_window": True, "sliding_window": 64}, "sliding window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding window"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "its positions are scaled in the yarn way"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "a part of its heads"),
        ({"num_key_value_heads": 3}, "config.json cannot be read: each kv head serves"),
        ({"vocab_size": "many"}, "config.json cannot be read: invalid literal"),
        (
            {"vocab_size": 300},
            r"model.embed_tokens.weight has the shape \(\d+, 64\), and its config asks for \(300, 64\)",
        ),
        ({"num_hidden_layers": 4}, "the tensor model.layers.3.input_layernorm.weight is missing"),
        ({"num_hidden_layers": 2}, "it has a tensor model.layers.2.input_layernorm.weight, which nothing would use"),
        ({"attention_bias": True}, "the tensor model.layers.0.self_attn.k_proj.bias is missing"),
    ],
)
def test_what_would_run_wrongly_is_refused(llama, fields: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=f"The model in .*small cannot be run .*{sentence}") as refused:
        open_model(changed(llama, **fields))
    assert str(refused.value).endswith(": name another.")


def damage(folder, what: str) -> None:
    weights = folder / "model.safetensors"
    if what == "half the weights":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif what == "no weights":
        weights.unlink()
    elif what == "no config":
        (folder / "config.json").unlink()
    elif what == "a config that is none":
        (folder / "config.json").write_text("[]")
    elif what == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    elif what == "a foreign index":
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../b.safetensors"}}))
    elif what == "an index of nothing":
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "b.safetensors"}}))
    elif what == "a tokenizer of words":
        words = '{"version":"1.0","added_tokens":[],"model":{"type":"BPE","vocab":{"▁the":0},"merges":[]}}'
        (folder / "tokenizer.json").write_text(words)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("half the weights", "its weights cannot be read"),
        ("no weights", "neither model.safetensors nor model.safetensors.index.json"),
        ("no config", "its config.json cannot be read: .*No such file"),
        ("a config that is none", "config.json is not a JSON object"),
        ("no tokenizer", "its tokenizer cannot be read"),
        ("a foreign index", r"names a file outside the folder \(\.\./b\.safetensors\)"),
        ("an index of nothing", "names b.safetensors, which is not there"),
        ("a tokenizer of words", "its tokenizer is not byte level"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(llama, tmp_path, what: str, sentence: str) -> None:
    folder = shutil.copytree(llama, tmp_path / "damaged")
    damage(folder, what)
    with pytest.raises(UserError, match=sentence):
        open_model(str(folder))


def test_a_path_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="or name a GGUF file or a Hugging Face folder that is there"):
        open_model(str(tmp_path / "nothing"))
