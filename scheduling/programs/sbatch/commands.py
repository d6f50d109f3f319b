"""The commands of a script: its text is parsed once, as a shell does it, as far as that is certain without running it.

All questions about a script are answered from its commands. Scripts come from strangers: each sign is read a few times
at most, and a script that is very long or deeply nested is not read to its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scheduling.programs.sbatch.known import (
    KEYWORDS,
    READING_WORDS,
    SHELLS,
    ProgramCall,
    is_program,
    programs,
    variables_set,
)

MOST_SIGNS = 100_000  # read of a script: words, quotes, and the signs between them
MOST_DEEP = 50  # levels of substitutions and the like
TEXTS_DEEP = 3  # levels of texts for shells
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_HEREDOCS = ("<<", "<<-")
_SHELL_FILE = re.compile(r"\.(?:sh|bash|sbatch|slurm)$")
_OPTION_WITH_TEXT = re.compile(r"-[a-zA-Z]*c")
_COMMENT_LINE = re.compile(r"^[ \t]*#.*", re.MULTILINE)  # of any language, in lines for a command to read
_FROM_VARIABLE = re.compile(r"\$\{?(\w+)")
# The signs that may come next, between words and within parts of them. A text is scanned once: each expression is tried
# where the last match ended, and none looks ahead. (No possessive repetitions: those of Python 3.11.2, which Debian 12
# has, match too little.)
_ESCAPE, _OPEN, _REST = r"(?P<escape>\\[\s\S])", r"(?P<open>\$\(\(|\$\(|\$\{|`", r"(?P<rest>[$']|\\\Z)"
_SINGLE = r"(?P<single>'[^']*'|\$'[^'\\]*(?:\\[\s\S][^'\\]*)*')"
_SIGNS = {
    within: re.compile("|".join(signs))
    for within, signs in {
        "commands": (
            r"(?P<plain>[^ \t\n\\'\"`$#;&|()<>]+)", r"(?P<blank>[ \t]+)", r"(?P<newline>\n[ \t\n]*)",
            r"(?P<join>\\\n)", _ESCAPE, _SINGLE, _OPEN + r"|\$?\"|[<>]\(|\(\()", r"(?P<function>\([ \t]*\))",
            r"(?P<redirection>&>>|&>|<<<|<<-|<<|<>|>>|>\||>&|<&|[<>])", r"(?P<comment>#[^\n]*)",
            r"(?P<operator>\|\||\|&|&&|;;&|;;|;&|[;&|()])", r"(?P<rest>\$|\\\Z)",
        ),
        "double": (r"(?P<plain>[^\"\\`$]+)", r"(?P<close>\")", _ESCAPE, _OPEN + ")", _REST),
        "braces": (r"(?P<plain>[^}\"'\\`$]+)", r"(?P<close>})", _ESCAPE, _SINGLE, _OPEN + '|")', _REST),
        "quoted braces": (r"(?P<plain>[^}\"\\`$]+)", r"(?P<close>})", _ESCAPE, _OPEN + '|")', _REST),
        "sum": (r"(?P<plain>[^()\"\\`$]+)", r"(?P<bracket>[()])", _ESCAPE, _OPEN + '|")', _REST),
        "heredoc": (r"(?P<plain>[^\\`$]+)", _ESCAPE, _OPEN + ")", _REST),
    }.items()
}  # fmt: skip
_OF_WORDS = frozenset({"plain", "join", "escape", "single", "open", "rest"})


@dataclass(slots=True)
class Command:
    """A simple command. Its words are without quotes; a part of a word that another command would print is
    `$(...)`."""

    is_own: bool  # belongs to the script itself, and not to a text for a shell
    variable: str  # that holds its text, and is itself called as a command
    line: int = 0
    words: list[str] = field(default_factory=list)
    redirections: list[tuple[str, str]] = field(default_factory=list)  # the sign, and the word after it
    programs: list[ProgramCall] = field(default_factory=list)  # that it starts, each started by the one before

    def program(self, *names: str) -> ProgramCall | None:
        """Return the first program with one of these names, or None."""
        return next((each for each in self.programs if each.name in names), None)


@dataclass
class ShellReading:
    """A script as a shell reads it. `commands` are in the order of their lines, with those in `$(...)` and in texts
    that are passed to a shell or held in variables. `text` is the script without comments, in the same lines."""

    commands: list[Command] = field(default_factory=list)
    text: str = ""
    signs: int = 0

    def places(self, expression: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield each match of the expression in the text, with its line."""
        line, at = 1, 0
        for match in expression.finditer(self.text):
            line, at = line + self.text.count("\n", at, match.start()), match.start()
            yield line, match


def shell_read(body: str) -> ShellReading:
    reading = ShellReading()
    reader = _ShellReader(body, 1, reading)
    reader.commands()
    reading.text = _COMMENT_LINE.sub("", "".join([*reader.pieces, body[reader.comment_end :]]))
    names = (_FROM_VARIABLE.match(each.name) for command in reading.commands for each in command.programs)
    variables = {"", *(match[1] for match in names if match)}
    commands = (each for each in reading.commands if each.variable in variables)
    reading.commands = sorted(commands, key=lambda command: command.line)
    return reading


class _ShellReader:
    """A reader of one text. `outer` is the reader of the text that contains this one, and `variable` is the variable
    that holds it."""

    def __init__(
        self, text: str, line: int, reading: ShellReading, outer: _ShellReader | None = None, variable: str = ""
    ) -> None:
        self.text, self.line, self.reading, self.variable = text, line, reading, variable
        self.depth: int = outer.depth + 1 if outer else 0
        self.deep: int = outer.deep if outer else 0
        self.first_deep = self.deep
        self.begin, self.at, self.closes, self.is_over = 0, 0, "", False
        self.word_at, self.word_line, self.is_quoted = 0, line, False  # all of the last word
        self.pieces, self.comment_end = list[str](), 0  # the text before comments, and where the last comment ends
        self.heredocs: list[tuple[str, bool, bool, Command]] = []  # their lines come after this one

    def commands(self, array: str = "") -> None:
        """Read commands up to the sign that closes them. With `array`, read the words of the array of this name."""
        command, cases = self._command(array), 0
        while True:
            kind, sign = self._item()
            is_case, is_sum = False, False
            if kind == "word":
                command.line = command.line or self.word_line
                command.words.append(sign)
                if sign == "[[" and _is_leading("[[", command.words, -1):
                    self._test(command)
                is_case = sign == "in" and _is_leading("case", command.words, -3)
                is_sum = self.text.startswith("((", self.word_at)
            elif kind == "redirection":
                command.line = command.line or self.line
                self._redirection(command, sign)
            elif kind == "function":
                command.words.clear()  # the word was the function's name
            if not (is_case or is_sum or kind in ("", "operator") or (kind == "newline" and not array)):
                continue
            cases += is_case - (command.words == ["esac"] and cases > 0)
            self._end(command)
            command = self._command(array)
            if is_case or (cases and sign in (";;", ";&", ";;&")):
                cases -= self._pattern()
            elif sign == "(":
                self._deeper(")")
            elif not kind or sign == self.closes:
                return

    def _command(self, array: str) -> Command:
        return Command(is_own=not (self.depth or array), variable=array or self.variable)

    def _end(self, command: Command) -> None:
        if command.line:
            command.programs = list(programs(command.words))
            self.reading.commands.append(command)
            for text, variable in _texts(command):
                self._inner(text, command.line, variable)

    def _inner(self, text: str, line: int, variable: str = "", within: str = "commands") -> None:
        """Read a text inside this one, which is commands or has commands in it."""
        if self.depth < TEXTS_DEEP:
            reader = _ShellReader(text, line, self.reading, self, variable)
            reader.commands() if within == "commands" else reader.part(within)

    def _test(self, command: Command) -> None:
        """Read up to ]]. Between [[ and ]] all signs are words."""
        while command.words[-1] != "]]" and (item := self._item())[0]:
            command.words.append(item[1])

    def _pattern(self) -> bool:
        """Read up to the commands of a case. Return whether the cases are over."""
        while (item := self._item()) not in (("operator", ")"), ("word", "esac"), ("", "")):
            pass
        return item == ("word", "esac")

    def _redirection(self, command: Command, sign: str) -> None:
        kind, text = self._item()
        if kind != "word":
            self.at = self.begin
        elif sign in _HEREDOCS:
            self.heredocs.append((text, self.is_quoted, sign == "<<-", command))
        else:
            command.redirections.append((sign, text))

    def _item(self) -> tuple[str, str]:
        """Return what comes next: a word, or a sign between words with its kind. Both are empty at the end."""
        while True:
            kind, sign = self._next("commands")
            if sign == "`" == self.closes:
                return "operator", sign
            if kind == "comment":
                self.pieces.append(self.text[self.comment_end : self.begin])
                self.comment_end = self.at
            elif kind in _OF_WORDS and kind != "join":
                at, line, word = self.begin, self.line, self._word(kind, sign)
                self.word_at, self.word_line = at, line
                if self.is_over and (self.deep > self.first_deep or self.at < len(self.text)):
                    return "", ""  # the word does not end
                if not (word.isdigit() and self.text.startswith(("<", ">"), self.at)):  # 2>errors
                    return "word", word
            elif kind not in ("blank", "join"):
                if kind == "newline" and self.heredocs:
                    self._heredoc_lines()
                return kind, sign

    def _word(self, kind: str, sign: str) -> str:
        pieces, is_quoted = list[str](), False
        while kind in _OF_WORDS and not sign == "`" == self.closes:
            is_quoted = is_quoted or kind in ("single", "escape") or sign[-1] == '"'
            pieces.append(self._piece(kind, sign, "commands"))
            if kind == "plain" and sign[-1] == "=" and self.text.startswith("(", self.at):
                self.at += 1
                pieces.append(self._deeper(")", sign.rstrip("+=")))
            kind, sign = self._next("commands")
            if kind == "comment":
                kind, sign, self.at = "rest", "#", self.begin + 1
        self.at, self.is_quoted = self.begin, is_quoted
        return "".join(pieces)

    def _piece(self, kind: str, sign: str, within: str) -> str:
        """Return the text that a sign stands for within a word."""
        if kind == "escape":
            is_alone = within == "commands" or (within in ("double", "heredoc") and sign[1] in '"\\$`')
            return sign[1] if is_alone else sign
        if kind == "single" and within == "commands":
            return sign[sign.index("'") + 1 : -1]
        if kind != "open":
            return sign if kind != "join" else ""
        if sign[-1] == '"':
            return self.part("double")
        if sign == "${":
            return sign + self.part("quoted braces" if within in ("double", "heredoc", "quoted braces") else "braces")
        return sign + self.part("sum") if sign[-2:] == "((" else self._deeper("`" if sign == "`" else ")")

    def part(self, within: str) -> str:
        """Read the rest of quotes, braces, a sum, or lines for a command to read."""
        pieces, open_brackets = list[str](), 2
        self.deep += 1
        while True:
            kind, sign = self._next(within)
            if not kind or (kind == "close" and within == "double"):
                break
            pieces.append(self._piece(kind, sign, within))
            open_brackets += (sign == "(") - (sign == ")")
            if kind == "close" or not open_brackets:
                break
        self.deep -= not self.is_over
        return "".join(pieces)

    def _deeper(self, closes: str, array: str = "") -> str:
        self.deep, outer, self.closes = self.deep + 1, self.closes, closes
        self.commands(array)
        self.deep, self.closes = self.deep - (not self.is_over), outer
        return "$(...)"

    def _next(self, within: str) -> tuple[str, str]:
        """Return the next sign with its kind. Both are empty at the end of the text, and if a quote does not end."""
        self.line += self.text.count("\n", self.begin, self.at)
        self.begin = self.at
        self.reading.signs += 1
        is_much = self.reading.signs > MOST_SIGNS or self.deep > MOST_DEEP
        match = None if is_much else _SIGNS[within].match(self.text, self.at)
        self.is_over = match is None
        self.at = match.end() if match else self.at
        return (str(match.lastgroup), match[0]) if match else ("", "")

    def _heredoc_lines(self) -> None:
        """Read the lines that commands get as input. They follow the line of the commands."""
        self.at, line, last, is_for_shell = self.begin + 1, self.line + 1, None, False
        for end, is_quoted, is_indented, command in self.heredocs:
            is_for_shell = is_for_shell if command is last else _reads_commands(last := command)
            begin, first, is_last = self.at, line, False
            while self.at < len(self.text) and not is_last:
                place = self.at
                self.at = (self.text.find("\n", place) + 1) or len(self.text)
                one, line = self.text[place : self.at].rstrip("\n"), line + 1
                is_last = (one.lstrip("\t") if is_indented else one) == end
            text = self.text[begin : place if is_last else self.at]
            if is_for_shell:
                self._inner(text, first)
            elif not is_quoted:
                self._inner(text, first, within="heredoc")
        self.heredocs.clear()


def _is_leading(word: str, words: Sequence[str], at: int) -> bool:
    """Return whether the word is at index `at`, counted from the end, with only a few keywords before it."""
    return -at <= len(words) < 8 and words[at] == word and KEYWORDS.issuperset(words[:at])


def _texts(command: Command) -> Iterator[tuple[str, str]]:
    """Yield each text of a command that is for a shell, and the variable that holds it if it may be no command."""
    words = command.words
    for name, value in variables_set(words):
        if len(value.split(maxsplit=1)) > 1:
            yield value, "" if "export" in words[:4] else name
        elif is_program(value) and value[0] != "$":
            yield value, name
    if reads := command.program(*READING_WORDS):
        yield " ".join(words[reads.at + 1 :]), ""
    is_shell = False
    for at, word in enumerate(words[:-1]):
        if is_shell and _OPTION_WITH_TEXT.fullmatch(word):
            yield words[at + 1], ""
        is_option = word[:1] in ("-", "+") or words[at - 1][:1] in ("-", "+")  # or an option's value
        is_shell = word.rpartition("/")[2] in SHELLS or (is_shell and is_option)


def _reads_commands(command: Command) -> bool:
    """Return whether the command's input is commands of a shell, or becomes a file of them."""
    files = [*command.words, *(name for _, name in command.redirections)]
    return any(each.name in SHELLS for each in programs(command.words)) or any(map(_SHELL_FILE.search, files))
