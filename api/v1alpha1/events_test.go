// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEventNote_LongText_Cut(t *testing.T) {
	for length, want := range map[int]int{3: 3, EventNoteLimit: EventNoteLimit, 2 * EventNoteLimit: EventNoteLimit} {
		if got := len(EventNote(strings.Repeat("x", length))); got != want {
			t.Errorf("%d bytes become %d, want %d", length, got, want)
		}
	}
	if got := EventNote(strings.Repeat("ü", EventNoteLimit)); !utf8.ValidString(got) || len(got) > EventNoteLimit {
		t.Errorf("a character is cut apart: %q", got)
	}
}
