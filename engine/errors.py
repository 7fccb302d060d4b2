"""What can be expected to go wrong, each said in plain sentences.

Bugs are ordinary exceptions and fly; only these are caught and shown.
"""


class EngineError(Exception):
    """Something expected went wrong.

    `what` is one plain sentence saying what happened; `remedy` is one saying what to do next.
    `str(error)` is both.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".rstrip()


class ConfigError(EngineError):
    """A model description is incomplete or contradicts itself."""


class ModelFileError(EngineError):
    """A model file is damaged, of the wrong kind, or does not fit its description."""


class ModelNotFoundError(EngineError):
    """No model where one was expected."""


class TemplateError(EngineError):
    """A chat template is broken or does what a template must not."""


class OptionsError(EngineError):
    """A setting is outside what it can be."""


class PromptTooLongError(EngineError):
    """A prompt has more tokens than the model can remember."""


class DeviceError(EngineError):
    """A device was asked for that is not there, or failed while working."""


class StoppedError(EngineError):
    """Work was stopped on request before it had a result to keep (loading, fetching)."""
