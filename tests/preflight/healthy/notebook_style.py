# %% [markdown]
# Exported from a notebook: everything at the top level, names used again.
# %%
import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("WANDB_DISABLED", "true")
# %%
import torch
from transformers import *

print("torch", torch.__version__, "cuda", torch.cuda.is_available())
print("home is set:", "HF_HOME" in os.environ, "token is set:", bool(os.environ.get("HF_TOKEN")))
# %%
config = GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=1000)
model = GPT2LMHeadModel(config)
rows = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(64)]
# %%
lr = 1e-3
lr = lr / 2
steps = 40
args = TrainingArguments("out", max_steps=steps, learning_rate=lr, logging_steps=4)
args.per_device_train_batch_size = 4
args.eval_strategy = "steps"
args.eval_steps = steps // 2
args.save_steps = steps // 2
# %%
trainer = Trainer(model, args, train_dataset=rows[:48], eval_dataset=rows[48:])
trainer.train()
# %%
model.eval()
with torch.no_grad():
    token = model(torch.arange(8)[None]).logits[0, -1].argmax()
print("next token", token.item())
trainer.save_model("out/final")
