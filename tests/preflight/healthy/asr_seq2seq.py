"""Speech recognition: word error rate chooses the best checkpoint."""

from argparse import ArgumentParser
from functools import partial

import jiwer
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, WhisperForConditionalGeneration
from transformers import WhisperProcessor as Processor


def cli():
    ap = ArgumentParser(prog="asr")
    ap.add_argument("model", help="local folder of the model")
    ap.add_argument("--steps", dest="max_steps", type=int, default=1000, metavar="N")
    ap.add_argument("--every", type=int, default=100)
    ap.add_argument("--langs", nargs="+", default=["de"])
    ap.set_defaults(batch=8)
    return ap


def wer(prediction, processor):
    texts = processor.batch_decode(prediction.predictions, skip_special_tokens=True)
    wanted = processor.batch_decode(prediction.label_ids, skip_special_tokens=True)
    return {"wer": jiwer.wer(wanted, texts)}


def main(args):
    processor = Processor.from_pretrained(args.model)
    model = WhisperForConditionalGeneration.from_pretrained(args.model)
    model.generation_config.language = args.langs[0]
    settings = Seq2SeqTrainingArguments(
        "out/asr",
        max_steps=args.max_steps,
        eval_strategy="steps",
        eval_steps=args.every,
        save_steps=args.every,
        predict_with_generate=True,
        load_best_model_at_end=True,
        metric_for_best_model="wer",
        greater_is_better=False,
        logging_steps=max(1, args.every // 10),
        report_to="none",
        push_to_hub=False,
    )
    trainer = Seq2SeqTrainer(
        args=settings,
        model=model,
        train_dataset=rows("train"),
        eval_dataset=rows("validation"),
        compute_metrics=partial(wer, processor=processor),
    )
    trainer.train()


def rows(split):
    from datasets import load_from_disk

    return load_from_disk(f"data/{split}")


if __name__ == "__main__":
    main(cli().parse_args())
