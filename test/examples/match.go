// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"fmt"
	"regexp"
	"strings"
)

// anyLines stands for any number of lines, also none.
const anyLines = "..."

// placeholder stands for one word, or for a part of one.
var placeholder = regexp.MustCompile(`<[a-z][a-z0-9 ]*>`)

// endedWatch is a line that kubectl wait prints at times if the condition is met while its watch
// begins. The wait has succeeded then.
var endedWatch = regexp.MustCompile(`(?m)^E\d{4} \S+ +\d+ reflector\.go:\d+\] "Failed to watch" err=.*context canceled.*\n`)

// Match returns an error if an output is not the shown one. In the shown output <name> stands
// for any text without spaces, and a line "..." for any lines. The width of columns does not
// count.
func Match(shown, output string) error {
	output = endedWatch.ReplaceAllString(output, "")
	if matchLines(lines(shown), lines(output)) {
		return nil
	}
	return fmt.Errorf("the README shows\n%s\nand the commands print\n%s", shown, output)
}

// lines returns the lines of a text without empty ones at its ends.
func lines(text string) []string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func matchLines(shown, output []string) bool {
	switch {
	case len(shown) == 0:
		return len(output) == 0
	case strings.TrimSpace(shown[0]) == anyLines:
		return matchLines(shown[1:], output) || len(output) > 0 && matchLines(shown, output[1:])
	}
	return len(output) > 0 && matchLine(shown[0], output[0]) && matchLines(shown[1:], output[1:])
}

func matchLine(shown, output string) bool {
	var expression strings.Builder
	expression.WriteString("^")
	shown = strings.Join(strings.Fields(shown), " ")
	end := 0
	for _, at := range placeholder.FindAllStringIndex(shown, -1) {
		expression.WriteString(regexp.QuoteMeta(shown[end:at[0]]) + `\S+`)
		end = at[1]
	}
	expression.WriteString(regexp.QuoteMeta(shown[end:]) + "$")
	return regexp.MustCompile(expression.String()).MatchString(strings.Join(strings.Fields(output), " "))
}
