"""A script in the style of TRL's own, with its parser."""

from dataclasses import dataclass, field

from datasets import load_from_disk
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config


@dataclass
class Rows:
    train: str = field(default="data/train", metadata={"help": "folder of rows"})
    limit: int | None = field(default=None)
    shuffle: bool = True
    names: list[str] = field(default_factory=lambda: ["a", "b"])


@dataclass
class OurConfig(SFTConfig):
    output_dir: str = "out"
    logging_steps: int = 5
    eval_strategy: str = "epoch"
    save_strategy: str = "epoch"


def main(rows: Rows, config: OurConfig, model: ModelConfig) -> None:
    data = load_from_disk(rows.train)
    if rows.limit:
        data["train"] = data["train"].select(range(rows.limit))
    trainer = SFTTrainer(
        model=model.model_name_or_path,
        args=config,
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        peft_config=get_peft_config(model),
    )
    trainer.train()
    trainer.save_model(config.output_dir)


if __name__ == "__main__":
    parser = TrlParser((Rows, OurConfig, ModelConfig))
    rows, config, model = parser.parse_args_and_config()
    main(rows, config, model)
