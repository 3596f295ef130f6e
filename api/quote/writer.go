// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"io"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Terminal returns a writer to a terminal of a user. It replaces control characters and invalid
// bytes: texts of nodes and tenants may have sequences that change the display of a terminal.
// Line breaks and tabulators stay, and so do all other characters, because programs read some
// outputs. Several goroutines may write.
func Terminal(to io.Writer) io.Writer { return &terminal{to: to} }

type terminal struct {
	mu sync.Mutex
	to io.Writer
	// begun is the beginning of a character whose rest the next write has.
	begun []byte
}

// Write writes a text. The beginning of a character at the end of the text waits for the rest.
func (t *terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.begun, text...)
	shown := make([]byte, 0, len(all))
	for len(all) > 0 && utf8.FullRune(all) {
		r, size := utf8.DecodeRune(all)
		shown, all = utf8.AppendRune(shown, onTerminal(r, size)), all[size:]
	}
	t.begun = append([]byte(nil), all...)
	if _, err := t.to.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// onTerminal returns the character to show in place of one of so many bytes.
func onTerminal(r rune, size int) rune {
	switch {
	case r == '\n', r == '\t':
		return r
	case r == utf8.RuneError && size == 1, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return '?'
	}
	return r
}
