// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "strings"

// EventNoteLimit is the length of an event's note that the API accepts, in bytes.
const EventNoteLimit = 1024

// EventNote shortens a text to what the API accepts as the note of an event. No
// character is cut apart.
func EventNote(text string) string {
	if len(text) <= EventNoteLimit {
		return text
	}
	const end = "..."
	return strings.ToValidUTF8(text[:EventNoteLimit-len(end)], "") + end
}
