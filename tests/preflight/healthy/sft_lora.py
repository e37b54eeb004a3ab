#!/usr/bin/env python
"""Supervised fine-tuning with LoRA, settings in a dict."""

import os
from pathlib import Path

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

BASE = "lab/base-1b"
REVISION = "89ab" * 10
OUT = Path(os.environ.get("OUT", "runs")) / "sft"

COMMON = dict(
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    learning_rate=2e-4,
    warmup_steps=10,
    max_steps=300,
    seed=13,
)
CADENCE = {"eval_strategy": "steps", "eval_steps": 50, "save_strategy": "steps", "save_steps": 50}


def load_rows(split):
    rows = load_dataset("parquet", data_files=f"data/{split}.parquet", split="train")
    return rows.filter(lambda row: len(row["messages"]) > 1)


def main():
    tokenizer = AutoTokenizer.from_pretrained(BASE, revision=REVISION)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = "<|pad|>"
    model = AutoModelForCausalLM.from_pretrained(
        BASE, revision=REVISION, dtype=torch.bfloat16, attn_implementation="sdpa"
    )
    config = SFTConfig(
        output_dir=str(OUT),
        max_length=2048,
        assistant_only_loss=True,
        packing=False,
        logging_steps=10,
        load_best_model_at_end=True,
        metric_for_best_model="eval_mean_token_accuracy",
        report_to=[],
        **COMMON,
        **CADENCE,
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=load_rows("train"),
        eval_dataset=load_rows("validation"),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
    )
    trainer.train()
    trainer.save_model(str(OUT / "best"))
    print("best", trainer.state.best_model_checkpoint, "pad", tokenizer.pad_token)


if __name__ == "__main__":
    main()
