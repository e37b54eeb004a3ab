"""A loop with accelerate, in the style of the no_trainer examples."""

import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import set_seed
from datasets import load_dataset
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    SchedulerType,
    get_scheduler,
)

logger = get_logger(__name__)


def parse_args():
    parser = argparse.ArgumentParser(description="Finetune on a text classification task")
    parser.add_argument("--model_name_or_path", type=str, required=True)
    parser.add_argument("--train_file", type=str, default=None)
    parser.add_argument("--lr_scheduler_type", type=SchedulerType, default="linear")
    parser.add_argument("--max_train_steps", type=int, default=None)
    parser.add_argument("--num_train_epochs", type=int, default=3)
    parser.add_argument("--with_tracking", action="store_true")
    parser.add_argument("--report_to", type=str, default="all")
    parser.add_argument("--output_dir", type=str, default=None)
    args = parser.parse_args()
    if args.train_file is not None:
        extension = args.train_file.split(".")[-1]
        assert extension in ["csv", "json"], "`train_file` should be a csv or a json file."
    return args


def main():
    args = parse_args()
    accelerator = (
        Accelerator(log_with=args.report_to, project_dir=args.output_dir)
        if args.with_tracking
        else Accelerator()
    )
    set_seed(17)
    raw = load_dataset("csv", data_files={"train": args.train_file})
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
    model = AutoModelForSequenceClassification.from_pretrained(args.model_name_or_path)
    rows = raw["train"].map(lambda row: tokenizer(row["text"], truncation=True))
    loader = DataLoader(rows, shuffle=True, collate_fn=DataCollatorWithPadding(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    per_epoch = math.ceil(len(loader) / accelerator.gradient_accumulation_steps)
    if args.max_train_steps is None:
        args.max_train_steps = args.num_train_epochs * per_epoch
    scheduler = get_scheduler(args.lr_scheduler_type, optimizer, 0, args.max_train_steps)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    bar = tqdm(range(args.max_train_steps), disable=not accelerator.is_local_main_process)
    for _epoch in range(args.num_train_epochs):
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            bar.update(1)
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained(args.output_dir)
    logger.info("saved to %s", args.output_dir)


if __name__ == "__main__":
    main()
