// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// CLI returns the page of a program: each command with its arguments.
func CLI(program *cobra.Command) (string, error) {
	program.CompletionOptions.HiddenDefaultCmd = true
	program.InitDefaultVersionFlag()
	var page strings.Builder
	fmt.Fprintf(
		&page,
		"# %s\n\n`make docs-reference` writes this page from the program; a test compares it.\n\n",
		program.Name(),
	)
	err := appendCommand(&page, program)
	return outsideOfBlocks(strings.TrimRight(page.String(), "\n")+"\n", escaped), err
}

func appendCommand(page *strings.Builder, command *cobra.Command) error {
	if !command.IsAvailableCommand() && command.HasParent() || command.Name() == "help" {
		return nil
	}
	command.DisableAutoGenTag = true
	inPage := func(file string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
	}
	if err := doc.GenMarkdownCustom(command, page, inPage); err != nil {
		return err
	}
	page.WriteString("\n")
	for _, sub := range command.Commands() {
		if err := appendCommand(page, sub); err != nil {
			return err
		}
	}
	return nil
}

// outsideOfBlocks changes the lines of a page that are not in blocks of code.
func outsideOfBlocks(page string, change func(string) string) string {
	var all strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		}
		if !inside {
			line = change(line)
		}
		all.WriteString(line)
	}
	return all.String()
}
