// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "github.com/alioth-net/alioth/api/said"

// EventNoteLimit is the length of an event's note that the API accepts, in bytes.
const EventNoteLimit = 1024

// EventNote makes a text the note of an event: one line that the API accepts. No character
// is cut apart.
func EventNote(text string) string { return said.Bounded(text, EventNoteLimit) }
