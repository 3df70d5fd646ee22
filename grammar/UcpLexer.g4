// The words of the .ucp language. Symbols are bytes, not code points: the parser reads the spec as bytes, so that the place
// of a token is its byte offset. Outside of strings and comments only ASCII is used.
//
// A string is a name pattern, so it has modes of its own: TEXT between the quotes, HOLE between braces in it. A line break
// ends both, so that a forgotten quote spoils one line only.
lexer grammar UcpLexer;

tokens { UNTERMINATED }

// compiler/parse counts on the order: keywords are those from UCP to FALSE, declarations begin with DIM to STRATEGY.
UCP: 'ucp';
DIM: 'dim';
FACT: 'fact';
MESH: 'mesh';
LAYOUT: 'layout';
MODEL: 'model';
STRATEGY: 'strategy';
INCLUDE: 'include';
OF: 'of';
FROM: 'from';
ELSE: 'else';
WHEN: 'when';
AT: 'at';
UNUSED: 'unused';
MEAN: 'mean';
SCALE: 'scale';
OFFSET: 'offset';
OPTIONAL: 'optional';
BUFFER: 'buffer';
BLOCK: 'block';
TIE: 'tie';
DROP: 'drop';
INTERLEAVE: 'interleave';
HAS: 'has';
IN: 'in';
NOT: 'not';
AND: 'and';
OR: 'or';
TRUE: 'true';
FALSE: 'false';

NAME: [a-zA-Z_] [a-zA-Z_0-9]*;
NUMBER: [0-9] [a-zA-Z_0-9]*;  // What is no number, such as 3x, is refused with its whole text.

QUOTE: '"' -> mode(TEXT);
LEFT_BRACE: '{';
RIGHT_BRACE: '}';
LEFT_BRACKET: '[';
RIGHT_BRACKET: ']';
LEFT_PAREN: '(';
RIGHT_PAREN: ')';
COMMA: ',';
SEMICOLON: ';';
COLON: ':';
DOT: '.';
AT_SIGN: '@';
PLUS: '+';
MINUS: '-';
STAR: '*';
SLASH: '/';
PERCENT: '%';
ASSIGN: '=';
EQUAL: '==';
NOT_EQUAL: '!=';
LESS: '<';
LESS_EQUAL: '<=';
GREATER: '>';
GREATER_EQUAL: '>=';

BYTE_ORDER_MARK: '\u00EF\u00BB\u00BF' -> skip;
SPACE: [ \t\r\n]+ -> skip;
COMMENT: '//' ~[\n]* -> skip;
UNKNOWN: [\u0080-\u00FF]+ | .;

mode TEXT;

TEXT_LITERAL: ~["{}|\r\n]+;
ALTERNATIVES: '{' ~["{}|\r\n]* ('|' ~["{}|\r\n]*)+ '}';
HOLE_BEGIN: '{' -> mode(HOLE);
STRAY: [}|];
CLOSING_QUOTE: '"' -> mode(DEFAULT_MODE);
TEXT_BREAK: [\r\n] -> type(UNTERMINATED), mode(DEFAULT_MODE);

mode HOLE;

HOLE_END: '}' -> mode(TEXT);
HOLE_NAME: [a-zA-Z_] [a-zA-Z_0-9]* -> type(NAME);
HOLE_NUMBER: [0-9] [a-zA-Z_0-9]* -> type(NUMBER);
HOLE_LEFT_BRACKET: '[' -> type(LEFT_BRACKET);
HOLE_RIGHT_BRACKET: ']' -> type(RIGHT_BRACKET);
HOLE_LEFT_PAREN: '(' -> type(LEFT_PAREN);
HOLE_RIGHT_PAREN: ')' -> type(RIGHT_PAREN);
HOLE_COMMA: ',' -> type(COMMA);
HOLE_COLON: ':' -> type(COLON);
HOLE_DOT: '.' -> type(DOT);
HOLE_AT_SIGN: '@' -> type(AT_SIGN);
HOLE_PLUS: '+' -> type(PLUS);
HOLE_MINUS: '-' -> type(MINUS);
HOLE_STAR: '*' -> type(STAR);
HOLE_SLASH: '/' -> type(SLASH);
HOLE_PERCENT: '%' -> type(PERCENT);
HOLE_SPACE: [ \t]+ -> skip;
HOLE_QUOTE: '"' -> type(CLOSING_QUOTE), mode(DEFAULT_MODE);
HOLE_BREAK: [\r\n] -> type(UNTERMINATED), mode(DEFAULT_MODE);
HOLE_UNKNOWN: ([\u0080-\u00FF]+ | .) -> type(UNKNOWN);
