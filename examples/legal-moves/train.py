"""Teach a tiny Llama to pick a legal move: TRL's SFTTrainer, full or LoRA, on two CPU cores.

    python train.py --method full --out out

The base model in base/ has random weights; its tokenizer was trained on the training split, and its
chat template has the markers that tell TRL which tokens are the assistant's. Nothing is downloaded.
At the end the validation positions are played.
"""

import argparse
import json
from pathlib import Path

import torch
from datasets import Dataset, disable_progress_bars
from game import Position, replay
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from transformers.utils.logging import disable_progress_bar
from trl import SFTConfig, SFTTrainer

HERE = Path(__file__).parent

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--method", choices=["full", "lora"], default="full")
parser.add_argument("--out", type=Path, default=HERE / "out")
parser.add_argument("--data", type=Path, default=HERE / "data")
parser.add_argument("--base", type=Path, default=HERE / "base")
parser.add_argument("--max-steps", type=int, default=400)
parser.add_argument("--eval-steps", type=int, default=50)
parser.add_argument("--seed", type=int, default=17)
parser.add_argument("--cases", type=int, default=200, help="validation positions played at the end")
parser.add_argument("--dry-run", action="store_true", help="build everything, train nothing")
args = parser.parse_args()

disable_progress_bar()
disable_progress_bars()

set_seed(args.seed)


def rows_of(split: str) -> list[dict]:
    lines = (args.data / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


train, validation = rows_of("train"), rows_of("validation")

# -- model ----------------------------------------------------------------------------------------
# The base is frozen in a folder of its own; make_base.py shows how it was made.
tokenizer = AutoTokenizer.from_pretrained(args.base)
model = AutoModelForCausalLM.from_pretrained(args.base)

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

if args.dry_run:
    batch = next(iter(trainer.get_train_dataloader()))
    supervised = int((batch["labels"] != -100).sum())
    print(f"dry run: a batch has {batch['labels'].numel()} tokens, {supervised} of them supervised")
    raise SystemExit


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
