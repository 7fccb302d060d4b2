"""The numbers of the sampling panel: what each is called, and what it does in plain words."""

from PySide6.QtCore import QCoreApplication

from app.ui.panel.option_slider import OptionSlider, Scale
from engine.options import RANGES

MAIN = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
MORE = ("repetition_window", "frequency_penalty", "presence_penalty")

# Where the box takes more than a slider could show well.
_REACH = {"top_k": 200, "repetition_window": 512}
_OFF = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "repetition_window": 0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}


def _tr(text: str) -> str:
    return QCoreApplication.translate("option_table", text)


def make_slider(option: str) -> OptionSlider:
    """The slider of a numeric option, with its words."""
    name, hint, tip = _words(option)
    low, high = RANGES[option]
    scale = Scale(low, high, reach=_REACH.get(option), off=_OFF.get(option))
    return OptionSlider(name, hint, f"{hint}\n{tip}", scale)


def _words(option: str) -> tuple[str, str, str]:
    """Name, what it does in one sentence, and the rest that the tooltip says."""
    return {
        "temperature": (
            _tr("Temperature"),
            _tr("Low keeps to the likeliest words, high is more surprising."),
            _tr(
                "Temperature: every token’s logit is divided by it. At 0 (greedy) it is always "
                "the likeliest token."
            ),
        ),
        "top_p": (
            _tr("Top-p"),
            _tr("Lower leaves out unlikely words, 1 leaves out none."),
            _tr(
                "Top-p (nucleus sampling): only the likeliest tokens that together reach this "
                "share of all chances may come."
            ),
        ),
        "top_k": (
            _tr("Top-k"),
            _tr("Only so many of the likeliest words may come; 0 means all."),
            _tr("Top-k: the k likeliest tokens are kept."),
        ),
        "min_p": (
            _tr("Min-p"),
            _tr("Leaves out words far less likely than the likeliest one; 0 leaves out none."),
            _tr("Min-p: a token needs at least this share of the likeliest token’s chance."),
        ),
        "repetition_penalty": (
            _tr("Repetition penalty"),
            _tr("Higher makes words that came lately less likely; 1 changes nothing."),
            _tr(
                "Repetition penalty: the logits of tokens seen lately are divided by it "
                "(multiplied where they are below 0)."
            ),
        ),
        "repetition_window": (
            _tr("Repetition window"),
            _tr("How many of the last tokens the three penalties look at."),
            _tr(
                "Repetition window, in tokens; a token is a word or a part of one. At 0 no "
                "penalty does anything."
            ),
        ),
        "frequency_penalty": (
            _tr("Frequency penalty"),
            _tr("Makes a word less likely each time it came; below 0 more likely."),
            _tr("Frequency penalty: taken from a token’s logit for every time it was seen."),
        ),
        "presence_penalty": (
            _tr("Presence penalty"),
            _tr("Makes every word that came less likely, however often; below 0 more likely."),
            _tr("Presence penalty: taken once from the logit of a token that was seen."),
        ),
    }[option]
