"""Real trainings with the real Trainer, some with a fault about their best checkpoint planted.

    python best_variants.py OUT NAME...

Every NAME is a training of its own in a folder of its own; all are done one after the other in one
process. The figure that is selected by is planned, so that it is known which step is the best; the
model is trained in earnest.
"""

import os
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    EarlyStoppingCallback,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

torch.set_num_threads(1)
OUT = Path(sys.argv[1])
NAN = float("nan")
FALLING = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5]
DIP = [1.0, 0.9, 0.5, 0.7, 0.8, 0.85]  # the best is step 3
ROWS = [{"input_ids": [(i + j) % 12 for j in range(6)]} for i in range(24)]
for row in ROWS:
    row["labels"] = row["input_ids"]


def fresh(**rest):
    set_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, bos_token_id=0, eos_token_id=1,
            **{"tie_word_embeddings": False, **rest},
        )
    )  # fmt: skip


def made(name, values=None, *, key="planned_loss", callbacks=(), model=None, **given):
    """A Trainer of six steps that evaluates and saves at each of them."""
    planned = iter(values or ())
    plan = {
        "max_steps": 6, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps",
        "save_steps": 1, "load_best_model_at_end": True, "metric_for_best_model": key,
        "learning_rate": 1e-2, "per_device_train_batch_size": 4, "logging_steps": 2,
        "use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_only_model": True,
    }  # fmt: skip
    return Trainer(
        model=model or fresh(),
        train_dataset=ROWS,
        eval_dataset=ROWS[:4],
        compute_metrics=(lambda _: {key: next(planned)}) if values else None,
        callbacks=list(callbacks),
        args=TrainingArguments(output_dir=str(OUT / name), **{**plan, **given}),
    )


class AtStep(TrainerCallback):
    """Does something to the model after a step."""

    def __init__(self, step, act):
        self.step, self.act = step, act

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step == self.step:
            self.act(model)


class AfterSave(TrainerCallback):
    """Does something to the folder after a save."""

    def __init__(self, step, act):
        self.step, self.act = step, act

    def on_save(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            self.act(Path(args.output_dir) / f"checkpoint-{state.global_step}")


# -- faults -----------------------------------------------------------------------------------


def cadence():
    made("cadence", DIP, save_steps=2).train()


def unsaved():
    made("unsaved", [0.1, 0.9, 0.5, 0.7, 0.8, 0.85], save_steps=2).train()


def all_nan():
    made("all_nan", [NAN] * 6).train()


def direction():
    made("direction", DIP, key="perplexity").train()


def rotated():
    made("rotated", DIP).train()
    shutil.rmtree(OUT / "rotated" / "checkpoint-3")


def moved():
    made("moved", DIP).train()
    (OUT / "moved" / "kept").mkdir()
    shutil.move(OUT / "moved" / "checkpoint-3", OUT / "moved" / "kept" / "checkpoint-3")


def old_best():
    made("old_best", [1.0, 0.1, 0.9], max_steps=3, save_only_model=False).train()
    shutil.rmtree(OUT / "old_best" / "checkpoint-2")
    again = made("old_best", [0.6, 0.7, 0.8], save_only_model=False)
    again.train(resume_from_checkpoint=str(OUT / "old_best" / "checkpoint-3"))


def stale():
    made("stale", DIP).train()


def last_weights():
    trainer = made("last_weights", DIP, load_best_model_at_end=False)
    trainer.train()
    trainer.save_model(str(OUT / "last_weights" / "final"))


def named_best():
    """The folder with the highest number, taken for the best."""
    made("named_best", DIP, load_best_model_at_end=False).train()
    last = max((OUT / "named_best").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    LlamaForCausalLM.from_pretrained(last).save_pretrained(OUT / "named_best" / "best")


def not_reloaded():
    trainer = made("not_reloaded", DIP)
    trainer.train()
    last = load_file(OUT / "not_reloaded" / "checkpoint-6" / "model.safetensors")
    trainer.model.load_state_dict(last)
    trainer.save_model(str(OUT / "not_reloaded" / "final"))


def broken_best():
    """A weight that no token of the data uses becomes nan; every loss stays finite."""

    def spoil(model):
        with torch.no_grad():
            model.model.embed_tokens.weight[15, 3] = NAN

    made("broken_best", FALLING, callbacks=[AtStep(4, spoil)]).train()


def missing_key():
    def cut(folder):
        tensors = load_file(folder / "model.safetensors")
        del tensors["model.norm.weight"]
        # Not by way of save_file: what rewrites a file is seldom the library that made it.
        from safetensors.numpy import save_file as save_arrays

        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        save_arrays(arrays, folder / "model.safetensors", metadata={"format": "pt"})

    made("missing_key", DIP, callbacks=[AfterSave(3, cut)]).train()


def hollow():
    made("hollow", DIP, callbacks=[AfterSave(3, lambda f: (f / "model.safetensors").unlink())],
         load_best_model_at_end=False).train()  # fmt: skip


def incomplete():
    def mark(folder):
        (folder / "checkpoint-is-incomplete.txt").write_text("")

    made("incomplete", DIP, callbacks=[AfterSave(3, mark)]).train()


def unlimited():
    keep = transformers.trainer.rotate_checkpoints
    transformers.trainer.rotate_checkpoints = lambda *args, **kwargs: None
    made("unlimited", FALLING, save_total_limit=2).train()
    transformers.trainer.rotate_checkpoints = keep


def frozen_b():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(fresh(), LoraConfig(r=2, target_modules=["q_proj"]))
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "lora_A" in name
    made("frozen_b", FALLING, model=model, load_best_model_at_end=False, max_steps=2).train()


# -- sound twins ------------------------------------------------------------------------------


def sound():
    trainer = made("sound", DIP)
    trainer.train()
    trainer.save_model(str(OUT / "sound" / "final"))


def no_eval():
    asks = {"load_best_model_at_end": False, "metric_for_best_model": None}
    made("no_eval", eval_strategy="no", **asks).train()


def no_save():
    made("no_save", DIP, save_strategy="no", load_best_model_at_end=False).train()


def by_accuracy():
    made("by_accuracy", [0.1, 0.5, 0.9, 0.7, 0.9, 0.2], key="accuracy").train()


def whole_loss():
    trainer = made(
        "whole_loss", metric_for_best_model="loss", eval_on_start=True, save_only_model=False
    )
    trainer.train()
    trainer.evaluate()
    trainer.save_state()
    trainer.save_model()


def early():
    made("early", DIP, callbacks=[EarlyStoppingCallback(2)], max_steps=20).train()


def tested_after():
    """Stopped between two evaluations; then a test set is evaluated, and the log is saved."""

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 5

    pairs = {"eval_steps": 2, "save_steps": 2, "max_steps": 20}
    trainer = made("tested_after", [0.9, 0.5, 0.1], callbacks=[Stop()], **pairs)
    trainer.train()
    trainer.evaluate(ROWS[4:8])
    trainer.save_state()


def limit_one():
    made("limit_one", DIP, save_total_limit=1).train()


def only_better():
    made("only_better", DIP, save_strategy="best").train()


def aligned():
    made("aligned", [1.0, 0.9, 0.8, 0.5, 0.7, 0.6], save_steps=2).train()


def resumed():
    made("resumed", [1.0, 0.4, 0.9], max_steps=3, save_only_model=False).train()
    again = made("resumed", [0.6, 0.3, 0.8], save_only_model=False)
    again.train(resume_from_checkpoint=True)


def resumed_old_is_best():
    made("resumed_old_is_best", [1.0, 0.1, 0.9], max_steps=3, save_only_model=False).train()
    again = made("resumed_old_is_best", [0.6, 0.3, 0.8], save_only_model=False)
    again.train(resume_from_checkpoint=True)


def tied():
    made("tied", DIP, model=fresh(tie_word_embeddings=True)).train()


def half():
    made("half", DIP, model=fresh().to(torch.bfloat16)).train()


def sharded():
    trainer = made("sharded", DIP)
    trainer.train()
    trainer.model.save_pretrained(OUT / "sharded" / "final", max_shard_size="4KB")


def lora():
    from peft import LoraConfig, get_peft_model

    base = OUT / "lora-base"
    fresh().save_pretrained(base)
    model = LlamaForCausalLM.from_pretrained(base)
    for init in (True, "gaussian", "pissa"):
        wrapped = get_peft_model(
            model, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=init)
        )
        made(f"lora-{init}", FALLING, model=wrapped, warmup_steps=1).train()
        model = wrapped.unload()


def plain():
    """A loop of one's own, with a mask of infinities among the buffers, and a best of its own."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    net.register_buffer("mask", torch.full((3, 3), float("-inf")).triu(1))
    optimizer = torch.optim.AdamW(net.parameters())
    folder = OUT / "plain"
    folder.mkdir(parents=True)
    for step in range(1, 7):
        optimizer.zero_grad()
        net(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        if step % 2 == 0:
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save({**state, "best": torch.tensor(float("inf"))}, folder / f"step-{step}.pt")
            torch.save(state, folder / "latest.pt")
            save_file(net.state_dict(), folder / "ema.safetensors")
    torch.save(net, folder / "whole-module.pt")


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    for name in sys.argv[2:]:
        globals()[name]()
