// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quote prepares texts that others wrote for messages of Alioth: for conditions,
// events and logs. A tenant writes up to 256 KiB into an annotation, with line breaks and
// control sequences for terminals.
//
// Text and Name are for a text of others inside of a message, Error for the error of a
// parser, and Cut for a text that is shortened. No text ends within a character, because the API
// server refuses such a text. Message and Bounded are the last bound, where a message leaves the
// process.
package quote

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxQuoted is the part of another's text that a message repeats at most, in bytes.
	MaxQuoted = 256
	// MaxMessage is the longest message of a condition, in bytes. Events may have as much
	// (events.k8s.io/v1, note).
	MaxMessage = 1024
)

// more is the end of a text that was cut.
const more = "..."

// Text returns the beginning of a text in quotes, as %q writes it: on one line, with escapes
// for characters that can't be printed.
func Text[S ~string](of S) string {
	text := string(of)
	head := Cut(text, MaxQuoted)
	if len(head) == len(text) {
		return strconv.Quote(text)
	}
	return strconv.Quote(head) + more
}

// Name returns a text in a message that is mostly a name: unchanged if it looks like a name, and
// otherwise as Text does.
func Name[S ~string](of S) string {
	text := string(of)
	if text == "" || len(text) > MaxQuoted {
		return Text(text)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' {
			return Text(text)
		}
	}
	return text
}

// Names joins names by commas, as many as a message has room for.
func Names(texts []string) string {
	var b strings.Builder
	for i, text := range texts {
		name := Name(text)
		if i > 0 && b.Len()+len(name) > MaxQuoted {
			b.WriteString(", " + more)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// IsShort reports whether a message may repeat a text as it is: it has at most MaxQuoted bytes,
// and no character that can't be printed.
func IsShort(text string) bool { return len(text) <= MaxQuoted && plain(text) }

// Error returns an error with the beginning of another error's text. It is for the errors of
// parsers, which repeat their input.
func Error(err error) error {
	if err == nil || IsShort(err.Error()) {
		return err
	}
	return shortError{err}
}

type shortError struct{ error }

// Error returns the beginning of the text.
func (e shortError) Error() string { return Bounded(e.error.Error(), MaxQuoted) }

// Unwrap returns the whole error.
func (e shortError) Unwrap() error { return e.error }

// Message returns a text as the message of a condition or the note of an event.
func Message(text string) string { return Bounded(text, MaxMessage) }

// Bounded returns a text on one line, with at most that many bytes, and without characters
// that can't be printed.
func Bounded(text string, most int) string {
	if len(text) <= most && plain(text) {
		return text
	}
	head := strings.Map(printable, Cut(text, most))
	if len(head) <= most && len(text) <= most {
		return head
	}
	return Cut(head, most-len(more)) + more
}

func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f {
			return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return printable(r) != r }) < 0
		}
	}
	return true
}

// printable replaces a line break, a control character, an invalid byte or an invisible
// character by one that shows where it was.
func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case r == utf8.RuneError, !unicode.IsPrint(r):
		return '?'
	}
	return r
}

// Cut returns the beginning of a text, without a part of a character at its end.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(most, 0)
	for back := 0; end > 0 && back < utf8.UTFMax && !utf8.RuneStart(text[end]); back++ {
		end--
	}
	return text[:end]
}
