"""Our engine and transformers side by side, in one run, on the same weights.

    python tests/bench/versus_transformers.py --json

The rounds alternate, so that whatever else the computer does meets both. Speeds are medians in
tokens per second; `ratio` is ours divided by transformers'.
"""

import argparse
import json
import time
import warnings
from statistics import median

from engine.openmp import share_cores

share_cores()  # before torch, as the program does

import torch  # noqa: E402
import transformers  # noqa: E402

from engine.bench import measure  # noqa: E402
from engine.loading import Engine, load  # noqa: E402
from engine.model.config import ModelConfig  # noqa: E402


def reference(engine: Engine) -> transformers.LlamaForCausalLM:
    """Transformers' model with the very same weights."""
    config: ModelConfig = engine.config
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=config.vocab_size,
                hidden_size=config.hidden_size,
                intermediate_size=config.intermediate_size,
                num_hidden_layers=config.num_hidden_layers,
                num_attention_heads=config.num_attention_heads,
                num_key_value_heads=config.num_key_value_heads,
                max_position_embeddings=config.max_position_embeddings,
                rms_norm_eps=config.rms_norm_eps,
                rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
                tie_word_embeddings=config.tie_word_embeddings,
            )
        )
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(model.config)
    model.model.rotary_emb = rotary
    model.load_state_dict(engine.model.state_dict(), assign=True, strict=False)
    model.tie_weights()
    return model.eval()


@torch.inference_mode()
def run_reference(
    model: transformers.LlamaForCausalLM, prompt_tokens: int, new_tokens: int
) -> tuple[float, float]:
    """(prefill, decode) in tokens per second, greedy, with transformers' own cache."""
    ids = torch.randint(3, 40_000, (1, prompt_tokens))
    started = time.perf_counter()
    output = model(ids, use_cache=True, logits_to_keep=1)
    token = output.logits[:, -1:].argmax(-1)
    read = time.perf_counter()
    for _ in range(new_tokens - 1):
        output = model(token, past_key_values=output.past_key_values, use_cache=True)
        token = output.logits[:, -1:].argmax(-1)
    done = time.perf_counter()
    return prompt_tokens / (read - started), (new_tokens - 1) / (done - read)


def compare(precision: str, *, prompt_tokens: int, new_tokens: int, rounds: int) -> dict:
    """Medians of both, and their ratios."""
    engine = load(device="cpu", precision=precision)
    model = reference(engine)
    ours, theirs = [], []
    for _ in range(rounds):
        one = measure(engine, prompt_tokens=prompt_tokens, new_tokens=new_tokens, rounds=1)
        ours.append((one.prefill_tokens_per_second, one.decode_tokens_per_second))
        run_reference(model, prompt_tokens, 4)
        theirs.append(run_reference(model, prompt_tokens, new_tokens))
    result = {}
    for place, name in enumerate(("prefill", "decode")):
        mine, other = (median(run[place] for run in runs) for runs in (ours, theirs))
        result[name] = {
            "engine": round(mine, 1),
            "transformers": round(other, 1),
            "ratio": round(mine / other, 2),
        }
    return result


def main() -> None:
    """Print the comparison for both precisions."""
    warnings.filterwarnings("ignore", category=FutureWarning)  # renamed arguments of its cache
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    wish = parser.parse_args()
    result: dict = {"transformers": transformers.__version__, "torch": torch.__version__}
    for precision in ("fp32", "bf16"):
        result[precision] = compare(
            precision,
            prompt_tokens=wish.prompt_tokens,
            new_tokens=wish.new_tokens,
            rounds=wish.rounds,
        )
    print(json.dumps(result, indent=None if wish.json else 2))


if __name__ == "__main__":
    main()
