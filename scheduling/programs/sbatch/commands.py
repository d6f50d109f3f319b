"""A script in commands: read once, as a shell takes its text apart, as far as that is sure without running it.

Whatever is asked of a script is answered by them. A script is a stranger's: each of its signs is looked at a few times,
and what is very long or deep is not read to its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scheduling.programs.sbatch.known import (
    KEYWORDS,
    READING_WORDS,
    SHELLS,
    Program,
    is_program,
    programs,
    variables_set,
)

MOST_SIGNS = 100_000  # that are read of a script: words, quotes, what stands between them
MOST_DEEP = 50  # substitutions and the like in one another
TEXTS_DEEP = 3  # texts for shells in one another
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_HEREDOCS = ("<<", "<<-")
_SHELL_FILE = re.compile(r"\.(?:sh|bash|sbatch|slurm)$")
_OPTION_WITH_TEXT = re.compile(r"-[a-zA-Z]*c")
_COMMENT_LINE = re.compile(r"^[ \t]*#.*", re.MULTILINE)  # of whatever language, in lines for a command to read
_FROM_VARIABLE = re.compile(r"\$\{?(\w+)")
# What may come next, between words and within parts of them. A text is passed over once: each is tried where the last
# one ended, and none looks ahead. (No possessive repetitions: those of Python 3.11.2, which Debian 12 has, match too
# little.)
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
    """A simple command. Its words have no quotes any more; where another command says what stands in one, it has
    `$(...)`."""

    is_own: bool  # the script's, and not one of a text for a shell
    variable: str  # that keeps it, and is itself called as a command
    line: int = 0
    words: list[str] = field(default_factory=list)
    redirections: list[tuple[str, str]] = field(default_factory=list)  # the sign, and the word behind it
    programs: list[Program] = field(default_factory=list)  # that it begins, one by the other

    def program(self, *names: str) -> Program | None:
        """The first program of these names."""
        return next((each for each in self.programs if each.name in names), None)


@dataclass
class ShellReading:
    """What a shell reads. `commands`: in order of their lines, also those in `$(...)`, and in texts that are given to a
    shell or kept in variables; `text`: the script without comments, in the same lines."""

    commands: list[Command] = field(default_factory=list)
    text: str = ""
    signs: int = 0

    def places(self, expression: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        """Where it stands in the text, with the lines."""
        line, at = 1, 0
        for match in expression.finditer(self.text):
            line, at = line + self.text.count("\n", at, match.start()), match.start()
            yield line, match


def shell_read(body: str) -> ShellReading:
    reading = ShellReading()
    reader = _Reader(body, 1, reading)
    reader.commands()
    reading.text = _COMMENT_LINE.sub("", "".join([*reader.pieces, body[reader.comment_end :]]))
    names = (_FROM_VARIABLE.match(each.name) for command in reading.commands for each in command.programs)
    variables = {"", *(match[1] for match in names if match)}
    commands = (each for each in reading.commands if each.variable in variables)
    reading.commands = sorted(commands, key=lambda command: command.line)
    return reading


class _Reader:
    """One way through a text. `outer`: of the text for a shell in which this one stands; `variable`: that keeps it."""

    def __init__(
        self, text: str, line: int, reading: ShellReading, outer: _Reader | None = None, variable: str = ""
    ) -> None:
        self.text, self.line, self.reading, self.variable = text, line, reading, variable
        self.depth: int = outer.depth + 1 if outer else 0
        self.deep: int = outer.deep if outer else 0
        self.first_deep = self.deep
        self.begin, self.at, self.closes, self.is_over = 0, 0, "", False
        self.word_at, self.word_line, self.is_quoted = 0, line, False  # of the last word
        self.pieces, self.comment_end = list[str](), 0  # what stands before comments, and where the last one ends
        self.heredocs: list[tuple[str, bool, bool, Command]] = []  # whose lines come behind this one

    def commands(self, array: str = "") -> None:
        """Up to the sign that closes them. `array`: they are the words of this one."""
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
                command.words.clear()  # it was its name
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
        """A text in this one, of commands or with commands in it."""
        if self.depth < TEXTS_DEEP:
            reader = _Reader(text, line, self.reading, self, variable)
            reader.commands() if within == "commands" else reader.part(within)

    def _test(self, command: Command) -> None:
        """In [[ ]] all signs are words."""
        while command.words[-1] != "]]" and (item := self._item())[0]:
            command.words.append(item[1])

    def _pattern(self) -> bool:
        """Up to the commands of a case; whether there are none any more."""
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
        """What comes next: a word, or a sign between words with its kind. None at the end."""
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
                    return "", ""  # it has no end
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
        """What a sign says within a word."""
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
        """The rest of quotes, braces, a sum, or lines for a command to read."""
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
        """The next sign. None at the end, and where a quote has none."""
        self.line += self.text.count("\n", self.begin, self.at)
        self.begin = self.at
        self.reading.signs += 1
        is_much = self.reading.signs > MOST_SIGNS or self.deep > MOST_DEEP
        match = None if is_much else _SIGNS[within].match(self.text, self.at)
        self.is_over = match is None
        self.at = match.end() if match else self.at
        return (str(match.lastgroup), match[0]) if match else ("", "")

    def _heredoc_lines(self) -> None:
        """The lines that commands are given to read stand behind the line of the commands."""
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
    """Whether it stands there, so far from the last word, behind a few keywords alone."""
    return -at <= len(words) < 8 and words[at] == word and KEYWORDS.issuperset(words[:at])


def _texts(command: Command) -> Iterator[tuple[str, str]]:
    """What of a command's words is for a shell. With the variable that keeps it, if it may as well be no command."""
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
        is_option = word[:1] in ("-", "+") or words[at - 1][:1] in ("-", "+")  # or the value of one
        is_shell = word.rpartition("/")[2] in SHELLS or (is_shell and is_option)


def _reads_commands(command: Command) -> bool:
    """Whether what it is given to read are a shell's commands, or becomes a file of them."""
    files = [*command.words, *(name for _, name in command.redirections)]
    return any(each.name in SHELLS for each in programs(command.words)) or any(map(_SHELL_FILE.search, files))
