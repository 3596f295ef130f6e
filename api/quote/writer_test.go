// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package quote_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/quote"
)

func TestTerminal_ControlCharacters_Replaced(t *testing.T) {
	for text, want := range map[string]string{
		"NODE\tSTATE\nnode1\tready\n":        "NODE\tSTATE\nnode1\tready\n",
		"\x1b[2J\x1b]0;title\aall is well":   "?[2J?]0;title?all is well",
		"one\rtwo\b\x00\x7f":                 "one?two???",
		"\u009b31mred":                       "?31mred", // CSI in one character
		"right \u202e to left":               "right ? to left",
		"Köln 東京 €":                          "Köln 東京 €",
		"bytes \xff\xc3(\xe2\x82":            "bytes ??(",
		"a replacement \ufffd of somebody":   "a replacement \ufffd of somebody",
		"{\"text\": \"\\u001b[2J\"}\n":       "{\"text\": \"\\u001b[2J\"}\n",
		"no-break\u00a0space, line\u2028sep": "no-break\u00a0space, line\u2028sep",
	} {
		for step := 1; step <= len(text); step++ { // characters are cut at every place
			var out strings.Builder
			to := quote.Terminal(&out)
			for rest := text; rest != ""; rest = rest[min(step, len(rest)):] {
				piece := rest[:min(step, len(rest))]
				if n, err := to.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("%q: %d bytes were written, %v", piece, n, err)
				}
			}
			if out.String() != want {
				t.Errorf("%q in pieces of %d bytes is shown as %q, want %q", text, step, out.String(), want)
			}
		}
	}
	full := errors.New("the disk is full")
	if _, err := quote.Terminal(failing{full}).Write([]byte("text")); !errors.Is(err, full) {
		t.Errorf("the error is %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
