"""Write the frozen base model of ``base/``: a tiny Llama with random weights, and its tokenizer.

python make_base.py [FOLDER]

The tokenizer is trained on the training split; the same versions of torch and tokenizers write the
same bytes again. What is committed is what counts: nothing makes it anew.
"""

import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

HERE = Path(__file__).parent
SEED = 17

# The end mark is inside the generation block, which tells TRL what the assistant's tokens are: the
# model must learn to stop.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}"
    "{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A word, a space and a punctuation mark are tokens of their own.

    So `m07` is the same token in the list of moves and between the quotes of the answer. The byte
    alphabet makes any text encodable and decoding lossless.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\w+|\s|[^\w\s]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    lines = (HERE / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    tokenizer.train_from_iterator(
        (message["content"] for line in lines for message in json.loads(line)["messages"]),
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|pad|>", "<|start|>", "<|end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", bos_token=None
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Two layers of 128 wide, random weights."""
    set_seed(SEED)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=False,
            # The usual 0.02 is made for hundreds of wide layers; a model of this size then spends
            # most of its minute on a plateau where every move id is as likely as every other.
            initializer_range=0.06,
        )
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "base"
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The name that releases 4 and 5 of transformers both know.
    settings = folder / "tokenizer_config.json"
    told = json.loads(settings.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings.write_text(json.dumps(told, indent=2) + "\n")
