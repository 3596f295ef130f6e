// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"fmt"
	"strings"
)

// The fences of a README that have a meaning. A person sees the second fence as the first.
const (
	commandsFence = "sh"
	failingFence  = "sh fails"
	outputFence   = "text"
)

// Step is a block of commands, with the block of output that follows it.
type Step struct {
	// Line is the line of the README where the commands begin.
	Line int
	// Commands are for a shell.
	Commands string
	// Fails is true where the last command has an exit status that is not zero.
	Fails bool
	// Shown is the output that the README has, Shows whether it has any.
	Shown string
	Shows bool
}

// block is a fenced block of a README.
type block struct {
	line        int
	fence, text string
}

// Read returns the steps of a README. An error has the line of a block that a person could
// not follow, or that no test would type.
func Read(readme string) ([]Step, error) {
	blocks, err := fenced(readme)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, b := range blocks {
		switch b.fence {
		case commandsFence, failingFence:
			steps = append(steps, Step{Line: b.line, Commands: b.text, Fails: b.fence == failingFence})
		case outputFence:
			if len(steps) == 0 || steps[len(steps)-1].Shows {
				return nil, fmt.Errorf(
					"line %d: the output belongs to no commands: put it behind a block %q",
					b.line,
					commandsFence,
				)
			}
			last := &steps[len(steps)-1]
			last.Shown, last.Shows = b.text, true
		default:
			return nil, fmt.Errorf(
				"line %d: nothing is done with a block %q: use %q, %q or %q",
				b.line,
				b.fence,
				commandsFence,
				failingFence,
				outputFence,
			)
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("the README has no block %q: nothing of it would be tested", commandsFence)
	}
	return steps, nil
}

// fenced returns the fenced blocks of a text.
func fenced(text string) ([]block, error) {
	const fence = "```"
	var blocks []block
	var open *block
	for i, line := range strings.Split(text, "\n") {
		rest, isFence := strings.CutPrefix(line, fence)
		switch {
		case isFence && open == nil:
			open = &block{line: i + 1, fence: rest}
		case isFence && rest == "":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.Contains(line, fence):
			return nil, fmt.Errorf("line %d: a fence has to be at the beginning of its line", i+1)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block has no end", open.line)
	}
	return blocks, nil
}

// changing are the words of commands that may not be typed twice.
var changing = []string{
	"apply",
	"create",
	"delete",
	"patch",
	"label",
	"annotate",
	"edit",
	"add",
	"set",
	"cp",
	"install",
	"uninstall",
	"upgrade",
	"rollback",
	"restart",
	"undo",
	"commit",
}

// Repeatable reports whether the commands only look, so that they can be typed again until the
// cluster shows the expected state.
func (s Step) Repeatable() bool {
	for _, word := range strings.Fields(s.Commands) {
		for _, change := range changing {
			if word == change {
				return false
			}
		}
	}
	return true
}
