// The grammar of the .ucp language; docs/language.md tells it in prose. Line breaks mean nothing: every declaration and
// every item begins with a string or a keyword.
//
// Chains (a + b + c, a * b * c, else when, not not) are loops and not recursion: only brackets and braces nest, and
// compiler/parse counts those before it parses. Every decision needs one token only, so that a syntax error is found at the
// first token that is wrong, with the exact set of what could have stood there. Keep it so: where that makes a rule too
// generous (a label before any product), compiler/parse/tree_builder.cpp refuses the rest.
parser grammar UcpParser;

options { tokenVocab = UcpLexer; }

file: version declaration* EOF;
version: UCP NUMBER;

declaration: dim | fact | mesh | layout | model | strategy | include;

dim: DIM name origin;
fact: FACT name origin;
origin: (FROM path (COMMA path)* | ASSIGN definition = expr)? (WHEN condition = expr)? (ELSE fallback = expr)?;
path: word (DOT (word | NUMBER))*;

mesh: MESH name (COMMA name)*;

layout: LAYOUT name (OF name)? body;
body: LEFT_BRACE item* RIGHT_BRACE;

model: MODEL name LEFT_BRACE part* RIGHT_BRACE;
part: name shape;

strategy: STRATEGY name LEFT_BRACE setting* RIGHT_BRACE;
setting: (INTERLEAVE | NAME) ASSIGN? expr SEMICOLON?;

include: INCLUDE string;

item: OPTIONAL? (tensor | block) | tie | drop | when | include | interleave;
tensor: BUFFER? string (shape | ASSIGN expr) qualifier*;
shape: LEFT_BRACKET elements? RIGHT_BRACKET;
elements: expr (COMMA expr)*;
qualifier: stages | mean | scale | shift;
stages: AT stage (COMMA stage)*;
stage: UNUSED? name (DOT NAME | LEFT_BRACKET expr RIGHT_BRACKET);
mean: MEAN AT_SIGN axes;
scale: SCALE LEFT_PAREN expr RIGHT_PAREN;
shift: OFFSET LEFT_PAREN MINUS? NUMBER RIGHT_PAREN;

block: BLOCK string stages? body;
tie: TIE string ASSIGN string stages?;
drop: DROP string;
when: WHEN expr body otherwise*;
otherwise: ELSE (WHEN expr)? body;
interleave: INTERLEAVE ASSIGN expr;

// Weakest first: or, and, not, comparison, sum, product, cut.
expr: conjunction (OR conjunction)*;
conjunction: negation (AND negation)*;
negation: NOT* comparison;
comparison: sum ((EQUAL | NOT_EQUAL | LESS | LESS_EQUAL | GREATER | GREATER_EQUAL | IN) sum)?;
sum: term ((PLUS | MINUS) term)*;
term: product (COLON product)?;  // q: group * head
product: cut ((STAR | SLASH | PERCENT) cut)*;
cut: primary cutting*;
cutting: AT_SIGN axes (LEFT_PAREN NAME expr? RIGHT_PAREN)?;
axes: name | LEFT_PAREN name (COMMA name)* RIGHT_PAREN;
primary
    : NUMBER                              # number
    | (TRUE | FALSE)                      # boolean
    | name suffix?                        # reference
    | LEFT_BRACKET elements? RIGHT_BRACKET  # list
    | LEFT_PAREN expr RIGHT_PAREN         # group
    | HAS string                          # has
    | string                              # text
    ;
// In brackets: of a list one place, of a part any number of dims.
suffix
    : LEFT_BRACKET elements? RIGHT_BRACKET  # index
    | LEFT_PAREN elements? RIGHT_PAREN      # call
    | DOT name                              # member
    ;

string: QUOTE piece* CLOSING_QUOTE;
piece: TEXT_LITERAL | ALTERNATIVES | hole;
hole: HOLE_BEGIN offset (COLON offset)? HOLE_END;
offset: product ((PLUS | MINUS) product)*;

name: NAME | OFFSET;  // Dims may have had the name before it was a word.
// What may follow a dot in a metadata path: any name, also one that the language uses.
word
    : NAME | UCP | DIM | FACT | MESH | LAYOUT | MODEL | STRATEGY | INCLUDE | OF | FROM | ELSE | WHEN | AT | UNUSED | MEAN
    | SCALE | OFFSET | OPTIONAL | BUFFER | BLOCK | TIE | DROP | INTERLEAVE | HAS | IN | NOT | AND | OR | TRUE | FALSE
    ;
