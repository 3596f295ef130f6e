// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"
)

// width is where lines of the output end.
const width = 100

// Write prints entries for people.
func Write(out io.Writer, entries []Entry) error {
	for i, entry := range entries {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if err := entry.write(out); err != nil {
			return err
		}
	}
	return nil
}

func (e Entry) write(out io.Writer) error {
	kind := e.Kind
	if e.Note != "" {
		kind += ", " + e.Note
	}
	if _, err := io.WriteString(out, e.title(kind)); err != nil {
		return err
	}
	remedy := e.Remedy
	if remedy == "" {
		remedy = "nothing"
	}
	for _, part := range [][2]string{{"condition", e.Conditions}, {"of", e.Of}, {"means", e.Meaning}, {"do", remedy}} {
		if part[1] == "" {
			continue
		}
		if _, err := io.WriteString(out, wrap("  "+part[0]+":", part[1])); err != nil {
			return err
		}
	}
	return nil
}

// title returns the words with their kind. Messages are sentences: each has a line of its own.
func (e Entry) title(kind string) string {
	if !strings.HasPrefix(e.Kind, "message") {
		return fmt.Sprintf("%s (%s)\n", strings.Join(e.Words, ", "), kind)
	}
	return strings.Join(e.Words, "\n") + "\n" + wrap("  is:", kind)
}

// indent is the width of the column with the names of the parts.
const indent = 13

// wrap returns a text as lines of a column, with a name before the first.
func wrap(name, text string) string {
	var all strings.Builder
	line := fmt.Sprintf("%-*s", indent, name)
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > width {
			all.WriteString(line + "\n")
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return all.String() + line + "\n"
}
