// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain looks up the reasons and errors of Alioth in the pages of the reference.
// It is pure: its input are the texts of pages, which the caller hands in.
package explain

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Entry is a row of a table: one or several words, with their meaning and remedy.
type Entry struct {
	// Words are the words that programs show: reasons, names of policies, codes, messages. In a
	// message "…" means any text.
	Words []string `json:"words"`
	// Kind names the kind of the words, for example "reason of a pod".
	Kind string `json:"kind"`
	// Note restricts the kind, for example "event".
	Note string `json:"note,omitempty"`
	// Conditions are the conditions that have the words as their reasons, if the table
	// has a column of conditions.
	Conditions string `json:"conditions,omitempty"`
	// Of names the kinds of objects, if the table has a column of them.
	Of      string `json:"of,omitempty"`
	Meaning string `json:"meaning"`
	// Remedy is empty if nothing has to be done.
	Remedy string `json:"remedy,omitempty"`
	// Messages lists texts that find the words too.
	Messages []string `json:"messages,omitempty"`
}

// Headers of the columns that every table with entries has, beside the words.
const (
	meaningHeader = "what it means"
	remedyHeader  = "what to do"
)

// seeHeader is the header of the column that names the word of another row, in a table of messages.
const seeHeader = "see"

// wordHeaders start the header of the column with the words.
var wordHeaders = []string{"reason", "admission policy", "CNI code", "exit status", "message"}

// All returns the rows of pages in one folder, which refer to each other.
func All(folder string, pages ...string) []Entry {
	var entries []Entry
	for _, page := range pages {
		entries = append(entries, Entries(page, folder)...)
	}
	for _, page := range pages {
		Refer(entries, page)
	}
	return entries
}

// Entries returns the rows of all tables of a page that have words, a meaning and a remedy. folder
// is the folder of the page in the repository. The page's links are relative to it.
func Entries(page, folder string) []Entry {
	var entries []Entry
	var header []string
	for line := range strings.Lines(page) {
		cells := cellsOf(line)
		switch {
		case cells == nil:
			header = nil
		case header == nil:
			header = cells
		case !isRule(cells):
			if entry, ok := entryOf(header, cells, folder); ok {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}

// Refer adds the messages of a page to the entries that its tables name for them.
func Refer(entries []Entry, page string) {
	var header []string
	for line := range strings.Lines(page) {
		cells := cellsOf(line)
		if cells == nil || header == nil {
			header = cells
			continue
		}
		if len(cells) != 2 || header[1] != seeHeader {
			continue
		}
		for i := range entries {
			if slices.Contains(entries[i].Words, cells[1]) {
				entries[i].Messages = append(entries[i].Messages, messagesOf(cells[0])...)
			}
		}
	}
}

// cellsOf returns the cells of a line of a table; nil for another line.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || len(line) < 2 {
		return nil
	}
	cells := strings.Split(line[1:len(line)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// isRule reports whether cells belong to the line between the header and the rows of a table.
func isRule(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return strings.Trim(cell, "-:") != "" || cell == "" })
}

// entryOf reads a row; ok is false for tables of other things.
func entryOf(header, cells []string, folder string) (entry Entry, ok bool) {
	if len(cells) != len(header) || !slices.Contains(header, meaningHeader) || !slices.Contains(header, remedyHeader) {
		return Entry{}, false
	}
	for i, cell := range cells {
		switch name := header[i]; {
		case name == meaningHeader:
			entry.Meaning = plain(cell, folder)
		case name == remedyHeader:
			entry.Remedy = plain(cell, folder)
		case name == "of":
			entry.Of = plain(cell, folder)
		case name == "condition":
			entry.Conditions = strings.ReplaceAll(cell, "`", "")
		case isWordHeader(name):
			entry.Kind = name
			entry.Words, entry.Note = wordsOf(name, cell)
		}
	}
	return entry, len(entry.Words) > 0
}

func isWordHeader(header string) bool {
	return slices.ContainsFunc(wordHeaders, func(start string) bool { return strings.HasPrefix(header, start) })
}

var note = regexp.MustCompile(`\s*\(([^)]*)\)`)

// messagesOf returns the messages of a cell.
func messagesOf(cell string) []string {
	messages := strings.Split(cell, "<br>")
	for i := range messages {
		messages[i] = strings.Trim(strings.TrimSpace(messages[i]), "`")
	}
	return messages
}

// wordsOf returns the words of a cell, and the text that the cell adds to them in parentheses. A
// message is one word.
func wordsOf(header, cell string) (words []string, added string) {
	if strings.HasPrefix(header, "message") {
		return messagesOf(cell), ""
	}
	if found := note.FindStringSubmatch(cell); found != nil {
		added = found[1]
	}
	for word := range strings.SplitSeq(note.ReplaceAllString(cell, ""), ",") {
		if word = strings.Trim(strings.TrimSpace(word), "`"); word != "" {
			words = append(words, word)
		}
	}
	return words, added
}

var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

// plain returns a cell without marks for links: a link to a page becomes the path of the page
// in the repository.
func plain(cell, folder string) string {
	return link.ReplaceAllStringFunc(cell, func(text string) string {
		parts := link.FindStringSubmatch(text)
		if strings.Contains(parts[2], "://") {
			return parts[1] + " (" + parts[2] + ")"
		}
		target, _, _ := strings.Cut(parts[2], "#")
		target = path.Join(folder, target)
		if base := path.Base(target); parts[1] == base || strings.HasPrefix(base, parts[1]) {
			return target
		}
		return parts[1] + " (" + target + ")"
	})
}
