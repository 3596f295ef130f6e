// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/alioth-net/alioth/test/docs/pages"
)

// TestPageCommandLines_Each_Valid: commands and flags in pages exist. A line of a block is
// complete; inline code may have the begin of one.
func TestPageCommandLines_Each_Valid(t *testing.T) {
	all, err := pages.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, page := range all {
		if page.Path == "CHANGELOG.md" || strings.HasPrefix(page.Path, "docs/design/") || page.Path == "docs/reference/aliothctl.md" {
			continue // they have commands as they were, or the forms of commands
		}
		lines += checkLines(t, page)
	}
	if lines < 50 {
		t.Errorf("the pages have %d command lines, want 50 or more", lines)
	}
}

// TestHelpExamples_Each_Valid: examples are pasted too.
func TestHelpExamples_Each_Valid(t *testing.T) {
	lines := 0
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		lines += checkLines(t, pages.Parse(command.CommandPath(), []byte("```sh\n"+command.Example+"\n```\n")))
		for _, sub := range command.Commands() {
			walk(sub)
		}
	}
	walk(newCommand("aliothctl"))
	if lines < 15 {
		t.Errorf("the help has %d examples, want 15 or more", lines)
	}
}

// checkLines parses the command lines of a page, and returns their number.
func checkLines(t *testing.T, page *pages.Page) (lines int) {
	t.Helper()
	for _, command := range page.Commands() {
		if command.Words[0] != "aliothctl" {
			continue
		}
		lines++
		if err := parses(command); err != nil {
			t.Errorf("%s: %s: %v", page.At(command.Line), strings.Join(command.Words, " "), err)
		}
	}
	return lines
}

func parses(command pages.Command) error {
	root := newCommand("aliothctl")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	found, rest, err := root.Find(command.Words[1:])
	if err != nil {
		return err
	}
	if err := found.ParseFlags(rest); err != nil {
		if !command.Whole && strings.Contains(err.Error(), "needs an argument") {
			return nil
		}
		return err
	}
	args := found.Flags().Args()
	switch {
	case found.HasSubCommands() && len(args) > 0:
		return fmt.Errorf("%s has no command %s", found.CommandPath(), args[0])
	case found.HasSubCommands() && command.Whole && len(rest) == 0:
		return fmt.Errorf("%s needs a command", found.CommandPath())
	case found.Args == nil || !command.Whole && len(args) == 0 || strings.Contains(strings.Join(args, ""), "<"):
		return nil
	}
	return found.Args(found, args)
}
