"""Teach a tiny Llama to pick a legal move: TRL's SFTTrainer, full or LoRA, on two CPU cores.

    python train.py --method full --out out

Everything is made here: the tokenizer is trained on the frozen training split, the model starts
from random weights, and the chat template is ours, with the markers that tell TRL which tokens are
the assistant's. Nothing is downloaded. At the end the validation positions are played.
"""

import argparse
import json
from pathlib import Path

import torch
from datasets import Dataset, disable_progress_bars
from game import Position, replay
from peft import LoraConfig
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from transformers.utils.logging import disable_progress_bar
from trl import SFTConfig, SFTTrainer

HERE = Path(__file__).parent

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--method", choices=["full", "lora"], default="full")
parser.add_argument("--out", type=Path, default=HERE / "out")
parser.add_argument("--data", type=Path, default=HERE / "data")
parser.add_argument("--max-steps", type=int, default=400)
parser.add_argument("--eval-steps", type=int, default=50)
parser.add_argument("--seed", type=int, default=17)
parser.add_argument("--cases", type=int, default=200, help="validation positions played at the end")
args = parser.parse_args()

disable_progress_bar()
disable_progress_bars()

# Seeded before the model exists: its random weights are part of the experiment.
set_seed(args.seed)


def rows_of(split: str) -> list[dict]:
    lines = (args.data / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


train, validation = rows_of("train"), rows_of("validation")

# -- tokenizer ------------------------------------------------------------------------------------
# A word, a space and a punctuation mark are tokens of their own, so `m07` is the same token in the
# list of moves and between the quotes of the answer. The byte alphabet makes any text encodable and
# decoding lossless.
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(r"\w+|\s|[^\w\s]"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
tokenizer.decoder = decoders.ByteLevel()
special = ["<|pad|>", "<|start|>", "<|end|>"]
corpus = (message["content"] for row in train for message in row["messages"])
tokenizer.train_from_iterator(
    corpus,
    trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ),
)

# The end mark is inside the generation block: the model must learn to stop.
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
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", bos_token=None
)
tokenizer.chat_template = CHAT_TEMPLATE

# -- model ----------------------------------------------------------------------------------------
model = LlamaForCausalLM(
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
        # The usual 0.02 is made for hundreds of wide layers; a model of this size then spends most
        # of its minute on a plateau where every move id is as likely as every other.
        initializer_range=0.06,
    )
)

# LoRA on a random base has little to build on: the embeddings and the head say nothing yet. They
# are trained in full beside the adapters and saved with them.
lora = LoraConfig(
    r=16,
    lora_alpha=32,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    modules_to_save=["embed_tokens", "lm_head"],
    task_type="CAUSAL_LM",
)

# -- training -------------------------------------------------------------------------------------
trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=Dataset.from_list([{"messages": row["messages"]} for row in train]),
    eval_dataset=Dataset.from_list([{"messages": row["messages"]} for row in validation]),
    peft_config=lora if args.method == "lora" else None,
    args=SFTConfig(
        output_dir=str(args.out),
        max_steps=args.max_steps,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=100,
        learning_rate=1e-3 if args.method == "full" else 3e-3,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        max_grad_norm=1.0,
        max_length=128,
        assistant_only_loss=True,
        eval_strategy="steps",
        eval_steps=args.eval_steps,
        save_strategy="steps",
        save_steps=args.eval_steps,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_steps=25,
        bf16=False,  # TRL's default; two CPU cores are slower with it
        gradient_checkpointing=False,
        use_cpu=True,
        seed=args.seed,
        report_to="none",
        disable_tqdm=True,
    ),
)


# -- playing --------------------------------------------------------------------------------------
@torch.no_grad()
def play(cases: list[dict]) -> dict[str, float]:
    """Answer each position greedily and play the answer; shares of all cases."""
    player = trainer.model.eval()
    tokenizer.padding_side = "left"
    counts = {"well_formed": 0, "legal": 0, "best": 0}
    for begin in range(0, len(cases), 100):
        batch = cases[begin : begin + 100]
        inputs = tokenizer.apply_chat_template(
            [row["messages"][:1] for row in batch],
            add_generation_prompt=True,
            padding=True,
            return_tensors="pt",
            return_dict=True,
        )
        output = player.generate(
            **inputs, max_new_tokens=16, do_sample=False, pad_token_id=tokenizer.pad_token_id
        )
        for row, tokens in zip(batch, output[:, inputs["input_ids"].shape[1] :], strict=True):
            position = Position(row["king"], row["goal"], tuple(row["blocked"]), row["moves"])
            text = tokenizer.decode(tokens, skip_special_tokens=True)
            for name, held in replay(position, text).items():
                counts[name] += held
    return {name: count / len(cases) for name, count in counts.items()}


cases = validation[: args.cases]
print("validation before training", json.dumps(play(cases)))
trainer.train()
print("validation loss of the best checkpoint", trainer.state.best_metric)
print("validation after training", json.dumps(play(cases)))
trainer.save_model(str(args.out / "best"))
