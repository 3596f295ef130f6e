// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"github.com/alioth-net/alioth/api/quote"
)

// placed is an error about a place in a text. Line and column count from 1.
type placed struct {
	line, column int
	error
}

// Error begins with the place.
func (p placed) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", p.line, p.column, p.error)
}

// Unwrap returns the error without the place.
func (p placed) Unwrap() error { return p.error }

// at returns an error about a byte of a text.
func at(text string, offset int, err error) error {
	before := text[:min(max(offset, 0), len(text))]
	start := strings.LastIndexByte(before, '\n') + 1
	return placed{strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1, err}
}

// decodePart decodes as decodeStrict does. The text is a part of the user's text, so positions
// in both differ.
func decodePart(text string, into any) error {
	err := decodeStrict(text, into)
	var p placed
	if errors.As(err, &p) {
		return p.error
	}
	return err
}

// located begins the errors of a JSON parser with the place of the first one.
func located(text string, strict []error, err error) error {
	if err == nil && len(strict) == 0 {
		return nil
	}
	bounded := errors.New(quote.Bounded(errors.Join(append(strict, err)...).Error(), quote.MaxQuoted)) // it repeats keys
	if len(strict) > 0 {
		var of kjson.FieldError
		if errors.As(strict[0], &of) {
			if offset := offsetOf(text, of.FieldPath()); offset >= 0 {
				return at(text, offset, bounded)
			}
		}
	}
	if isSyntax, offset := kjson.SyntaxErrorOffset(err); isSyntax {
		return at(text, int(offset)-1, bounded)
	}
	return bounded
}

// offsetOf returns where a text in JSON has the key of a path, which is spelled as strict
// decoding does: the last place if it has the key twice, and -1 if it has no such key.
func offsetOf(text, path string) int {
	dec := json.NewDecoder(strings.NewReader(text))
	found := -1
	var walk func(here string) error
	walk = func(here string) error {
		open, err := dec.Token()
		if open != json.Delim('{') && open != json.Delim('[') {
			return err
		}
		for i := 0; dec.More(); i++ {
			inner, place := fmt.Sprintf("%s[%d]", here, i), int(dec.InputOffset())
			if open == json.Delim('{') {
				key, err := dec.Token()
				if err != nil {
					return err
				}
				name, _ := key.(string)
				inner = strings.TrimPrefix(here+"."+name, ".")
			}
			if inner == path {
				found = place + max(strings.IndexByte(text[place:], '"'), 0)
			}
			if err := passOr(dec, walk, inner, path); err != nil {
				return err
			}
		}
		_, err = dec.Token()
		return err
	}
	_ = walk("") // a text that strict decoding accepts but for its keys
	return found
}

// passOr walks into the next value if the path may lead there, and passes it otherwise.
func passOr(dec *json.Decoder, walk func(here string) error, here, path string) error {
	if strings.HasPrefix(path, here) {
		return walk(here)
	}
	var passed json.RawMessage
	return dec.Decode(&passed)
}
