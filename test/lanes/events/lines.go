// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import "bytes"

// Lines is a writer that hands on whole lines, without their ends.
type Lines struct {
	Take func(line string)

	begun []byte
}

// Write implements io.Writer.
func (l *Lines) Write(p []byte) (int, error) {
	l.begun = append(l.begun, p...)
	for {
		line, rest, ok := bytes.Cut(l.begun, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.Take(string(line))
		l.begun = rest
	}
}

// Flush hands on a last line that has no end.
func (l *Lines) Flush() {
	if len(l.begun) > 0 {
		l.Take(string(l.begun))
	}
	l.begun = nil
}
