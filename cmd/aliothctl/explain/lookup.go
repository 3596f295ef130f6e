// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Find returns the entries of a word in any case, or of the number of a CNI code. For a text of
// several words, such as the message of an error, it returns the entries whose words are in the
// text. If it finds nothing, the text may be a part of a message.
func Find(entries []Entry, text string) []Entry {
	text = strings.TrimSpace(text)
	if found := matching(entries, func(word string) bool { return isWord(word, text) }); len(found) > 0 {
		return found
	}
	if !strings.ContainsFunc(text, unicode.IsSpace) {
		return nil
	}
	if found := matching(entries, func(word string) bool { return telling(word) && within(word, text) }); len(found) > 0 {
		return found
	}
	return matching(entries, func(word string) bool { return partly(word, text) })
}

// enough is the length of a part of a message that no other message shares by chance.
const enough = 20

// partly reports whether a text is a part of a message, or has a long part of it.
func partly(message, text string) bool {
	for part := range strings.SplitSeq(message, anything) {
		part = strings.TrimSpace(part)
		if len(part) >= enough && strings.Contains(text, part) || len(text) >= enough && strings.Contains(part, text) {
			return true
		}
	}
	return false
}

func matching(entries []Entry, match func(word string) bool) []Entry {
	var found []Entry
	for _, entry := range entries {
		if slices.ContainsFunc(entry.Words, match) || slices.ContainsFunc(entry.Messages, match) {
			found = append(found, entry)
		}
	}
	return found
}

func isWord(word, text string) bool {
	return strings.EqualFold(word, text) || strings.EqualFold(word, "cni-"+text)
}

// telling reports whether a word in the middle of a text is certainly a word of an entry. The name
// of a reason such as Invalid is an English word too.
func telling(word string) bool {
	return strings.ContainsAny(word, "-_ ") || strings.ContainsFunc(word[1:], unicode.IsUpper)
}

// anything means any text in a message.
const anything = "…"

// within reports whether a text contains a word, and not as a part of a longer word. Of a message
// of several parts the text contains each part, in their order.
func within(word, text string) bool {
	first, _, _ := strings.Cut(word, anything)
	if !strings.Contains(text, first) {
		return false
	}
	message := strings.ReplaceAll(regexp.QuoteMeta(word), anything, `(?s:.*)`)
	return regexp.MustCompile(`(?:^|[^\w-])` + message + `(?:[^\w-]|$)`).MatchString(text)
}

// Words returns all words of entries, sorted, each once.
func Words(entries []Entry) []string {
	var words []string
	for _, entry := range entries {
		words = append(words, entry.Words...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// nearest is how many suggestions Near makes at most.
const nearest = 5

// Near returns the words that a user may have meant, the nearest first: words with few letters
// changed, and words that contain the text.
func Near(entries []Entry, text string) []string {
	text = strings.ToLower(text)
	limit := max(2, len(text)/3)
	type candidate struct {
		word  string
		edits int
	}
	var candidates []candidate
	for _, word := range Words(entries) {
		lower := strings.ToLower(word)
		edits := distance(lower, text)
		if len(text) >= 3 && strings.Contains(lower, text) {
			edits = min(edits, limit)
		}
		if edits <= limit {
			candidates = append(candidates, candidate{word, edits})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	var words []string
	for _, c := range candidates[:min(nearest, len(candidates))] {
		words = append(words, c.word)
	}
	return words
}

// distance returns the number of letters to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
