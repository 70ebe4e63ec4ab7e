"""The kinds of tokens and trivia: small integers, one per keyword, operator and literal form."""

from __future__ import annotations

from typing import Final

EOF: Final = 0
IDENT: Final = 1
NUMBER: Final = 2
STRING: Final = 3
TEMPLATE: Final = 4  # a template without a hole, or the part up to the first hole
TEMPLATE_MIDDLE: Final = 5
TEMPLATE_TAIL: Final = 6
ERROR: Final = 7

LPAREN: Final = 10
RPAREN: Final = 11
LBRACE: Final = 12  # { or begin
RBRACE: Final = 13  # } or end
LBRACKET: Final = 14
RBRACKET: Final = 15
LIST_OPEN: Final = 16  # [|
MAP_OPEN: Final = 17  # [?
GRID_OPEN: Final = 18  # [#
ARRAY_OPEN: Final = 19  # [@
STRUCT_OPEN: Final = 20  # [$
COMMA: Final = 21
SEMICOLON: Final = 22
DOT: Final = 23
COLON: Final = 24
QUESTION: Final = 25

ASSIGN: Final = 30  # =
COLON_ASSIGN: Final = 31  # :=
ADD_ASSIGN: Final = 32
SUB_ASSIGN: Final = 33
MUL_ASSIGN: Final = 34
DIV_ASSIGN: Final = 35
MOD_ASSIGN: Final = 36
AND_ASSIGN: Final = 37
OR_ASSIGN: Final = 38
XOR_ASSIGN: Final = 39
SHL_ASSIGN: Final = 40
SHR_ASSIGN: Final = 41
NULLISH_ASSIGN: Final = 42

EQ: Final = 50
NE: Final = 51  # != or <>
LT: Final = 52
LE: Final = 53
GT: Final = 54
GE: Final = 55
AND: Final = 56  # && or and
OR: Final = 57  # || or or
XOR: Final = 58  # ^^ or xor
NULLISH: Final = 59
BIT_AND: Final = 60
BIT_OR: Final = 61
BIT_XOR: Final = 62
SHL: Final = 63
SHR: Final = 64
PLUS: Final = 65
MINUS: Final = 66
STAR: Final = 67
SLASH: Final = 68
MOD: Final = 69  # % or mod
DIV: Final = 70  # div
NOT: Final = 71  # ! or not
TILDE: Final = 72
INCREMENT: Final = 73
DECREMENT: Final = 74

IF: Final = 80
THEN: Final = 81
ELSE: Final = 82
WHILE: Final = 83
DO: Final = 84
UNTIL: Final = 85
REPEAT: Final = 86
FOR: Final = 87
WITH: Final = 88
SWITCH: Final = 89
CASE: Final = 90
DEFAULT: Final = 91
BREAK: Final = 92
CONTINUE: Final = 93
EXIT: Final = 94
RETURN: Final = 95
VAR: Final = 96
STATIC: Final = 97
GLOBALVAR: Final = 98
FUNCTION: Final = 99
NEW: Final = 100
ENUM: Final = 101
TRY: Final = 102
CATCH: Final = 103
FINALLY: Final = 104
THROW: Final = 105
DELETE: Final = 106

KIND_COUNT: Final = 110

KEYWORDS: Final[dict[str, int]] = {
    "begin": LBRACE,
    "end": RBRACE,
    "and": AND,
    "or": OR,
    "xor": XOR,
    "not": NOT,
    "mod": MOD,
    "div": DIV,
    "if": IF,
    "then": THEN,
    "else": ELSE,
    "while": WHILE,
    "do": DO,
    "until": UNTIL,
    "repeat": REPEAT,
    "for": FOR,
    "with": WITH,
    "switch": SWITCH,
    "case": CASE,
    "default": DEFAULT,
    "break": BREAK,
    "continue": CONTINUE,
    "exit": EXIT,
    "return": RETURN,
    "var": VAR,
    "static": STATIC,
    "globalvar": GLOBALVAR,
    "function": FUNCTION,
    "new": NEW,
    "enum": ENUM,
    "try": TRY,
    "catch": CATCH,
    "finally": FINALLY,
    "throw": THROW,
    "delete": DELETE,
}

PUNCTUATION: Final[dict[str, int]] = {
    "(": LPAREN,
    ")": RPAREN,
    "{": LBRACE,
    "}": RBRACE,
    "[": LBRACKET,
    "]": RBRACKET,
    "[|": LIST_OPEN,
    "[?": MAP_OPEN,
    "[#": GRID_OPEN,
    "[@": ARRAY_OPEN,
    "[$": STRUCT_OPEN,
    ",": COMMA,
    ";": SEMICOLON,
    ".": DOT,
    ":": COLON,
    "?": QUESTION,
    "=": ASSIGN,
    ":=": COLON_ASSIGN,
    "+=": ADD_ASSIGN,
    "-=": SUB_ASSIGN,
    "*=": MUL_ASSIGN,
    "/=": DIV_ASSIGN,
    "%=": MOD_ASSIGN,
    "&=": AND_ASSIGN,
    "|=": OR_ASSIGN,
    "^=": XOR_ASSIGN,
    "<<=": SHL_ASSIGN,
    ">>=": SHR_ASSIGN,
    "??=": NULLISH_ASSIGN,
    "==": EQ,
    "!=": NE,
    "<>": NE,
    "<": LT,
    "<=": LE,
    ">": GT,
    ">=": GE,
    "&&": AND,
    "||": OR,
    "^^": XOR,
    "??": NULLISH,
    "&": BIT_AND,
    "|": BIT_OR,
    "^": BIT_XOR,
    "<<": SHL,
    ">>": SHR,
    "+": PLUS,
    "-": MINUS,
    "*": STAR,
    "/": SLASH,
    "%": MOD,
    "!": NOT,
    "~": TILDE,
    "++": INCREMENT,
    "--": DECREMENT,
}

LATE_KEYWORDS: Final[frozenset[int]] = frozenset((FUNCTION, NEW, DELETE, STATIC, THROW, TRY, CATCH, FINALLY))
"""Words that code from before GameMaker 2.3 may use as names."""

LINE_COMMENT: Final = 0
BLOCK_COMMENT: Final = 1
REGION: Final = 2  # #region …
END_REGION: Final = 3  # #endregion …
MACRO: Final = 4  # #macro NAME body, with its continued lines
DEFINE: Final = 5  # legacy #define name

DIRECTIVES: Final[dict[str, int]] = {
    "region": REGION,
    "endregion": END_REGION,
    "macro": MACRO,
    "define": DEFINE,
}

ACCESSORS: Final[dict[int, str]] = {
    LBRACKET: "[",
    LIST_OPEN: "[|",
    MAP_OPEN: "[?",
    GRID_OPEN: "[#",
    ARRAY_OPEN: "[@",
    STRUCT_OPEN: "[$",
}


def _binding_powers() -> list[int]:
    levels = [
        [QUESTION],
        [OR],
        [XOR],
        [AND],
        [NULLISH],
        [ASSIGN, COLON_ASSIGN, EQ, NE, LT, LE, GT, GE],
        [BIT_OR],
        [BIT_XOR],
        [BIT_AND],
        [SHL, SHR],
        [PLUS, MINUS],
        [STAR, SLASH, MOD, DIV],
    ]
    powers = [0] * KIND_COUNT
    for level, kinds in enumerate(levels):
        for kind in kinds:
            powers[kind] = (level + 1) * 10
    return powers


BINDING_POWER: Final[list[int]] = _binding_powers()
"""Per kind, how tightly it binds as an infix operator; 0 for what is none. All are left-associative but ``?:``."""

ASSIGNMENTS: Final[frozenset[int]] = frozenset(range(ASSIGN, NULLISH_ASSIGN + 1))
OPENERS: Final[frozenset[int]] = frozenset((LBRACKET, LIST_OPEN, MAP_OPEN, GRID_OPEN, ARRAY_OPEN, STRUCT_OPEN))
