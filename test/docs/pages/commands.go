// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"path"
	"slices"
	"strings"
)

// Command is a command line of a page: its words, without redirections of its output.
type Command struct {
	Words []string
	Line  int
	// Whole is a line of a block, which people paste. Inline code may have the begin alone.
	Whole bool
}

// programs are those whose command lines are found.
var programs = []string{"aliothctl", "kubectl", "helm", "make"}

// Commands returns the command lines of a page that begin with a program, which is the first
// word without its folder. `kubectl alioth` is aliothctl.
func (p *Page) Commands() (list []Command) {
	for _, block := range p.Blocks {
		for _, line := range lines(block) {
			list = appendCommands(list, line.Text, line.Line, true)
		}
	}
	for _, span := range p.Spans {
		list = appendCommands(list, span.Text, span.Line, false)
	}
	return list
}

// lines returns the lines of a block that people type. Lines that end with a backslash are
// joined. In a block with output they begin with a prompt.
func lines(block Block) (list []Text) {
	if !slices.Contains([]string{"", "sh", "bash", "console"}, block.Language) {
		return nil
	}
	prompts := strings.HasPrefix(block.Text.Text, "$ ") || strings.Contains(block.Text.Text, "\n$ ")
	joined := ""
	for i, line := range strings.Split(block.Text.Text, "\n") {
		line = strings.TrimSpace(line)
		typed, prompt := strings.CutPrefix(line, "$ ")
		if prompts && !prompt && joined == "" {
			continue
		}
		joined += strings.TrimSuffix(typed, "\\")
		if strings.HasSuffix(typed, "\\") {
			continue
		}
		list = append(list, Text{Text: joined, Line: block.Line + i})
		joined = ""
	}
	return list
}

func appendCommands(list []Command, line string, at int, whole bool) []Command {
	for _, words := range split(line) {
		for len(words) > 0 && strings.Contains(words[0], "=") {
			words = words[1:] // a variable of the environment
		}
		if len(words) == 0 {
			continue
		}
		words[0] = path.Base(words[0])
		if words[0] == "kubectl" && len(words) > 1 && words[1] == "alioth" {
			words = append([]string{"aliothctl"}, words[2:]...)
		}
		if slices.Contains(programs, words[0]) {
			list = append(list, Command{Words: words, Line: at, Whole: whole})
		}
	}
	return list
}

// split returns the words of each command of a line as a shell splits them: at spaces outside
// of quotes. A comment and the files of redirections are left out. <a name> that a reader
// replaces is one word.
func split(line string) [][]string {
	s := splitter{}
	for i, r := range line {
		if s.next(r, line[i:]) {
			break
		}
	}
	s.end()
	return append(s.commands, s.words)
}

type splitter struct {
	commands [][]string
	words    []string
	word     strings.Builder
	// quote ends the quoted text or the name that has begun, 0 outside.
	quote rune
	// started: a word has begun. skipped: the next word is a file of a redirection.
	started, skipped bool
}

// next takes a character at the beginning of the rest of the line. It returns true at a comment.
func (s *splitter) next(r rune, rest string) (comment bool) {
	switch {
	case s.quote != 0:
		if r != s.quote || r == '>' {
			s.word.WriteRune(r)
		}
		if r == s.quote {
			s.quote = 0
		}
	case r == '\'' || r == '"':
		s.quote, s.started = r, true
	case r == '<' && isName(rest):
		s.quote, s.started = '>', true
		s.word.WriteRune(r)
	case r == '#' && !s.started:
		return true
	case r == ' ':
		s.end()
	case strings.ContainsRune("|;&", r):
		s.end()
		s.commands, s.words = append(s.commands, s.words), nil
	case r == '>' || r == '<':
		s.end()
		s.skipped = true
	default:
		s.word.WriteRune(r)
		s.started = true
	}
	return false
}

func (s *splitter) end() {
	if !s.started {
		return
	}
	if !s.skipped {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.started, s.skipped = false, false
}

// isName reports whether a text begins with a name in angle brackets.
func isName(text string) bool {
	end := strings.IndexByte(text, '>')
	return end > 1 && text[1] != ' '
}
