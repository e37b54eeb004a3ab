"""A classifier with its own callback, early stopping and metrics."""

import numpy as np
from sklearn.metrics import accuracy_score, f1_score
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    EarlyStoppingCallback,
    IntervalStrategy,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

MODEL = "./models/bert-small"
LABELS = ["no", "yes"]


class Printer(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and logs:
            print(state.global_step, {k: round(v, 4) for k, v in logs.items() if "loss" in k})


def compute_metrics(pred):
    labels = pred.label_ids
    preds = np.argmax(pred.predictions, axis=-1)
    scores = {
        "accuracy": accuracy_score(labels, preds),
        "f1": f1_score(labels, preds, average="macro"),
    }
    return scores


def build_args(out="out/classifier"):
    return TrainingArguments(
        output_dir=out,
        num_train_epochs=4,
        per_device_train_batch_size=16,
        eval_strategy=IntervalStrategy.EPOCH,
        save_strategy=IntervalStrategy.EPOCH,
        logging_strategy="steps",
        logging_steps=20,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        greater_is_better=True,
        save_total_limit=2,
        report_to="tensorboard",
    )


def run(train_rows, validation_rows, test_rows):
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=len(LABELS))
    trainer = Trainer(
        model,
        build_args(),
        train_dataset=train_rows,
        eval_dataset=validation_rows,
        processing_class=tokenizer,
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2), Printer()],
    )
    trainer.train()
    print("test", trainer.predict(test_rows).metrics)
    return trainer


if __name__ == "__main__":
    from rows import load_rows

    run(*load_rows())
