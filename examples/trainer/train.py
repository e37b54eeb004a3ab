"""Fine-tune with the Transformers Trainer on two CPU ranks.

    torchrun --nproc-per-node 2 train.py --out out

The task is to write a date the other way round: "9 March 2031 -> 2031-03-09". Data, tokenizer and
the tiny GPT-2 are all made here; nothing is downloaded. It also runs as one process
(`python train.py`), with the same batch in all.
"""

import argparse
import datetime as dt
import os
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)
from transformers.utils.logging import disable_progress_bar

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
parser.add_argument("--max-steps", type=int, default=100)
parser.add_argument("--eval-steps", type=int, default=25)
parser.add_argument("--seed", type=int, default=17)
args = parser.parse_args()

disable_progress_bar()
set_seed(args.seed)  # before the model: every rank must start from the same random weights
ranks = int(os.environ.get("WORLD_SIZE", "1"))
MAX_LENGTH = 24


# -- data: every day of 60 years, shuffled once, cut in two ---------------------------------------
first = dt.date(1990, 1, 1)
days = [first + dt.timedelta(days=number) for number in range(60 * 365)]
random.Random(args.seed).shuffle(days)
pairs = [(f"{day.day} {day:%B} {day.year} -> ", day.isoformat()) for day in days]
train_pairs, validation_pairs = pairs[:6400], pairs[6400:6800]

# -- tokenizer: words, single digits and signs, learned from the training part --------------------
tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\d|[A-Za-z]+|."), "isolated")
tokenizer.decoder = decoders.Fuse()
tokenizer.train_from_iterator(
    (question + answer for question, answer in train_pairs),
    trainers.WordLevelTrainer(special_tokens=["<pad>", "<unk>", "<end>"], show_progress=False),
)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", eos_token="<end>"
)


def rows(pairs: list[tuple[str, str]]) -> list[dict[str, list[int]]]:
    """Token rows of one length; only the answer and the end mark have labels."""
    made = []
    for question, answer in pairs:
        asked = tokenizer(question)["input_ids"]
        told = [*tokenizer(answer)["input_ids"], tokenizer.eos_token_id]
        blank = MAX_LENGTH - len(asked) - len(told)
        made.append(
            {
                "input_ids": asked + told + [tokenizer.pad_token_id] * blank,
                "attention_mask": [1] * (len(asked) + len(told)) + [0] * blank,
                "labels": [-100] * len(asked) + told + [-100] * blank,
            }
        )
    return made


model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=MAX_LENGTH,
        n_embd=96,
        n_layer=2,
        n_head=4,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        # With tied weights a checkpoint has no `lm_head.weight`, and reloading warns about it.
        tie_word_embeddings=False,
    )
)

trainer = Trainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=rows(train_pairs),
    eval_dataset=rows(validation_pairs),
    data_collator=default_data_collator,
    args=TrainingArguments(
        output_dir=str(args.out),
        max_steps=args.max_steps,
        per_device_train_batch_size=64 // ranks,
        per_device_eval_batch_size=100,
        learning_rate=3e-3,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        eval_strategy="steps",
        eval_steps=args.eval_steps,
        save_strategy="steps",
        save_steps=args.eval_steps,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_steps=10,
        use_cpu=True,  # without it two torchrun ranks on a CPU each train alone, on the same folder
        ddp_find_unused_parameters=False,
        seed=args.seed,
        report_to="none",
        disable_tqdm=True,
    ),
)
trainer.train()
trainer.save_model(str(args.out / "best"))
if trainer.is_world_process_zero():
    print(f"best eval_loss {trainer.state.best_metric:.4f} on {ranks} rank(s)")
