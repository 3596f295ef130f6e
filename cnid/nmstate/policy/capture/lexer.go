// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"strings"
	"unicode"
)

// kind is the kind of a token. Its text is the name of the token in messages.
type kind string

const (
	end     kind = "the end"
	name    kind = "a name"
	number  kind = "a number"
	text    kind = "a text in double quotes"
	dot     kind = `"."`
	equal   kind = `"=="`
	unequal kind = `"!="`
	assign  kind = `":="`
	pipe    kind = `"|"`
)

// token is a word of an expression.
type token struct {
	kind kind
	// literal is the text without its quotes.
	literal string
	// column is where it begins: characters from 1.
	column int
}

// String calls the token by its name in a message.
func (t token) String() string {
	switch t.kind {
	case name, number:
		return fmt.Sprintf("%q", short(t.literal))
	case text:
		return fmt.Sprintf("the text %q", short(t.literal))
	default:
		return string(t.kind)
	}
}

// fault is an error at a place of an expression.
type fault struct {
	column int
	cause  error
}

func (f *fault) Error() string { return fmt.Sprintf("column %d: %v", f.column, f.cause) }
func (f *fault) Unwrap() error { return f.cause }

func faultf(column int, format string, args ...any) error {
	return &fault{column: column, cause: fmt.Errorf(format, args...)}
}

// signs are the tokens that consist of punctuation.
func signs() []kind { return []kind{equal, unequal, assign, dot, pipe} }

// lexer splits an expression into tokens.
type lexer struct {
	rest []rune
	// column is the column of the first character of the rest.
	column int
}

// lex splits an expression that begins at a column. The last token is the end.
func lex(expression string, column int) ([]token, error) {
	if len(expression) > maxLength {
		return nil, faultf(column, "the expression has %d bytes, more than %d", len(expression), maxLength)
	}
	l := &lexer{rest: []rune(expression), column: column}
	var tokens []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if t.kind == end {
			return tokens, nil
		}
	}
}

func (l *lexer) next() (token, error) {
	l.take(l.span(unicode.IsSpace))
	if len(l.rest) == 0 {
		return token{kind: end, column: l.column}, nil
	}
	switch first := l.rest[0]; {
	case isLetter(first):
		return l.token(name, l.span(isOfName)), nil
	case isDigit(first):
		return l.number()
	case first == '"':
		return l.text()
	default:
		return l.sign()
	}
}

// token takes characters as a token.
func (l *lexer) token(k kind, length int) token {
	column := l.column
	return token{kind: k, literal: l.take(length), column: column}
}

func (l *lexer) number() (token, error) {
	length := l.span(isDigit)
	if length > maxDigits {
		return token{}, faultf(l.column, "the number has %d digits, more than %d", length, maxDigits)
	}
	return l.token(number, length), nil
}

// text takes a text to the next quote. nmpolicy has no escapes.
func (l *lexer) text() (token, error) {
	opening := l.column
	l.take(1)
	length := l.span(func(r rune) bool { return r != '"' })
	if length == len(l.rest) {
		return token{}, faultf(opening, `the text has no closing "`)
	}
	t := l.token(text, length)
	l.take(1)
	t.column = opening
	return t, nil
}

func (l *lexer) sign() (token, error) {
	for _, k := range signs() {
		sign := strings.Trim(string(k), `"`)
		if strings.HasPrefix(string(l.rest[:min(len(l.rest), len(sign))]), sign) {
			return l.token(k, len(sign)), nil
		}
	}
	hint := "expected a path, a text in double quotes, a number or an operator"
	switch l.rest[0] {
	case '=', ':', '!':
		hint = "the operators are ==, != and :="
	case '\'':
		hint = "texts have double quotes"
	}
	return token{}, faultf(l.column, "unexpected %q: %s", l.rest[0], hint)
}

// span counts the characters at the start of the rest that satisfy a condition.
func (l *lexer) span(is func(rune) bool) int {
	for i, r := range l.rest {
		if !is(r) {
			return i
		}
	}
	return len(l.rest)
}

func (l *lexer) take(length int) string {
	taken := string(l.rest[:length])
	l.rest, l.column = l.rest[length:], l.column+length
	return taken
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }

// isOfName is of the characters after the first. nmpolicy's grammar has no underscore, but
// options of bonds have it in their names.
func isOfName(r rune) bool { return isLetter(r) || isDigit(r) || r == '-' || r == '_' }
