// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typed sorts the commands of pages: commands that a test types on a lab, and commands that
// it can't type there, each with the reason. The examples are apart: test/e2e follows them.
package typed

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alioth-net/alioth/test/docs/pages"
	"github.com/alioth-net/alioth/test/examples"
)

// Entry says how a block of commands is tested.
type Entry struct {
	// Begins is the begin of the first command of the block.
	Begins string
	// NotHere is the reason why no test types the block on the lab. It names a test that does the
	// same elsewhere.
	NotHere string
	// OnNode: the block is for root on a node.
	OnNode bool
	// Before and After are commands around the block: Before makes the objects that the page
	// presupposes, and After removes the objects that it leaves.
	Before, After string
}

// Page are the blocks of a page in their order, with commands around all of them.
type Page struct {
	Before, After string
	Entries       []Entry
}

// Block is a block of commands with its entry.
type Block struct {
	Entry
	Line int
	// Commands are the commands of the block, after the variables that the page has set before.
	Commands string
}

// Counts reports whether the blocks of a page are sorted here: people follow the page today, and no
// other test follows it.
func Counts(page string) bool {
	if page == "README.md" || page == "CONTRIBUTING.md" {
		return true
	}
	for _, apart := range []string{"docs/design/", "docs/examples/", "docs/reference/"} {
		if strings.HasPrefix(page, apart) {
			return false
		}
	}
	return strings.HasPrefix(page, "docs/")
}

// Sort returns the blocks of commands of a page with their entries. The error names a block
// without an entry, and an entry without a block.
func Sort(page *pages.Page, entries []Entry) ([]Block, error) {
	var blocks []Block
	variables := ""
	for _, block := range page.Blocks {
		commands := commandsOf(block)
		switch {
		case commands == "":
			if block.Language == "" && startsAProgram(block.Text.Text) {
				return nil, fmt.Errorf("%s: commands are in a block ```sh", page.At(block.Line))
			}
			continue
		case onlySets(commands):
			variables += commands
			continue
		case len(blocks) == len(entries):
			return nil, fmt.Errorf(
				"%s: the table has no entry for the block that begins with %q: add one to test/docs/typed/table.go",
				page.At(block.Line),
				first(commands),
			)
		}
		entry := entries[len(blocks)]
		if entry.Begins == "" || !strings.HasPrefix(first(commands), entry.Begins) {
			return nil, fmt.Errorf(
				"%s: the block begins with %q, and the next entry of the table with %q: correct test/docs/typed/table.go",
				page.At(block.Line),
				first(commands),
				entry.Begins,
			)
		}
		blocks = append(blocks, Block{Entry: entry, Line: block.Line, Commands: variables + commands})
	}
	if len(blocks) < len(entries) {
		return nil, fmt.Errorf(
			"%s: no block begins with %q: delete the entry in test/docs/typed/table.go",
			page.Path,
			entries[len(blocks)].Begins,
		)
	}
	return blocks, nil
}

// Find returns the block of a page that begins with a text, for a test that follows the page
// in an order of its own.
func Find(root, name, begins string) (Block, error) {
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return Block{}, err
	}
	blocks, err := Sort(pages.Parse(name, content), Table[name].Entries)
	if err != nil {
		return Block{}, err
	}
	for _, block := range blocks {
		if strings.HasPrefix(block.Commands, begins) {
			return block, nil
		}
	}
	return Block{}, fmt.Errorf("%s has no block that begins with %q", name, begins)
}

// commandsOf returns the commands of a block: its text, or the lines behind the prompts of a
// session.
func commandsOf(block pages.Block) string {
	if block.Language == "sh" {
		return block.Text.Text
	}
	var typed strings.Builder
	for line := range strings.Lines(block.Text.Text) {
		if command, prompt := strings.CutPrefix(line, "$ "); prompt {
			typed.WriteString(command)
		}
	}
	return typed.String()
}

// first returns the first command.
func first(commands string) string {
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// setting is a line that sets variables and does nothing else.
var setting = regexp.MustCompile(`^([A-Z]+=(\$\([^)]*\)|\S*)\s*)+(#.*)?$`)

func onlySets(commands string) bool {
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !setting.MatchString(line) {
			return false
		}
	}
	return true
}

func startsAProgram(text string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch word {
	case "aliothctl", "kubectl", "helm", "make", "go", "curl", "etcdutl", "git", "sudo":
		return true
	}
	return false
}

// Step returns the step that a reader types for a block.
func (b Block) Step() examples.Step {
	commands := b.Before + "\n" + b.Commands
	if b.OnNode {
		commands = "node-exec node1 bash -euo pipefail <<'END OF THE BLOCK'\n" + strings.TrimSpace(
			commands,
		) + "\nEND OF THE BLOCK\n"
	}
	return examples.Step{Line: b.Line, Commands: commands}
}
