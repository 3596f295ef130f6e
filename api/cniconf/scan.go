// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alioth-net/alioth/api/quote"
)

// maxDepth is the maximum depth of nested objects and lists.
const maxDepth = 32

// outerDepth is the depth of the keys of a list and of its plugins.
const outerDepth = 2

// Alioth judges a configuration by these keys. Plugins in Go also read them in another
// case, so the other cases are refused: outerKeys down to outerDepth, innerKeys everywhere.
var (
	innerKeys = []string{"type", "ipam", "delegate", "delegates"}
	outerKeys = append([]string{
		"plugins", "name", "cniVersion", "cniVersions", "args", "capabilities", "prevResult", "runtimeConfig", "disableCheck",
	}, innerKeys...)
)

// CheckValue refuses a value for the configuration of a plugin that two parsers could read
// differently. field is the name of the value in messages.
func (l *List) CheckValue(text []byte, field string) error { return l.scan(text, field, outerDepth+1) }

// scan refuses a text that two parsers could read differently. field and depth are the
// place of the text, "" and 0 for the whole configuration.
func (l *List) scan(text []byte, field string, depth int) error {
	if !utf8.Valid(text) {
		return l.Wrong(field, "it is not valid UTF-8", "correct the encoding")
	}
	if !json.Valid(text) {
		var ignored any
		err := json.Unmarshal(text, &ignored)
		return l.Wrong(field, fmt.Sprintf("it is not valid JSON: %v", quote.Error(err)), "correct the syntax")
	}
	s := scanner{list: l, Decoder: json.NewDecoder(bytes.NewReader(text))}
	s.UseNumber()
	return s.value(field, depth)
}

type scanner struct {
	*json.Decoder
	list *List
}

// value reads one value at path.
func (s scanner) value(path string, depth int) error {
	token, err := s.Token()
	if err != nil {
		return s.list.Wrong(path, err.Error(), "correct the JSON")
	}
	if depth > maxDepth {
		return s.list.Wrong("", fmt.Sprintf("it is nested deeper than %d levels", maxDepth), "reduce the depth")
	}
	switch token {
	case json.Delim('{'):
		return s.object(path, depth)
	case json.Delim('['):
		for i := 0; s.More(); i++ {
			if err := s.value(fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
		return s.end()
	}
	return nil
}

func (s scanner) object(path string, depth int) error {
	seen := map[string]bool{}
	for s.More() {
		token, err := s.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return s.list.Wrong(path, "a key is not a string", "correct the JSON")
		}
		here := Join(path, key)
		if seen[key] {
			return s.list.Wrong(here, "the key is there twice", "remove one of them")
		}
		seen[key] = true
		words := innerKeys
		if depth <= outerDepth {
			words = outerKeys
		}
		for _, word := range words {
			if key != word && strings.EqualFold(key, word) {
				return s.list.Wrong(here, "plugins could read the key as "+word, "write it as "+word+", or remove it")
			}
		}
		if err := s.value(here, depth+1); err != nil {
			return err
		}
	}
	return s.end()
}

// end reads the closing bracket.
func (s scanner) end() error {
	if _, err := s.Token(); err != nil && !errors.Is(err, io.EOF) {
		return s.list.Wrong("", err.Error(), "correct the JSON")
	}
	return nil
}

// Join extends the path of a field. A key may be any text, so the path has a part only.
func Join(path, key string) string {
	if len(key) > 80 {
		key = quote.Cut(key, 80) + "..."
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
