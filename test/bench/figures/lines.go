// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// linePrefix starts a Line, so that it is found among other output.
const linePrefix = "figures: "

// longestLine is the length of the longest line of output, in bytes.
const longestLine = 1 << 20

// Line has the values that a test has measured of one quantity over one path. Tests that need the
// insides of a package, or another kernel, print Lines, and a bench reads them from their output.
type Line struct {
	// What names the quantity that was measured over Path.
	What, Path string
	// Values of one round, in the order of measurement.
	Values Series
}

// Print writes the line.
func (l Line) Print(out io.Writer) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("print figures: %w", err)
	}
	// A test's output may be in the middle of a line.
	if _, err := fmt.Fprintf(out, "\n%s%s\n", linePrefix, text); err != nil {
		return fmt.Errorf("print figures: %w", err)
	}
	return nil
}

// ReadLines returns the Lines of an output, in order. It skips all other text.
func ReadLines(output io.Reader) (lines []Line, err error) {
	scanner := bufio.NewScanner(output)
	scanner.Buffer(nil, longestLine)
	for scanner.Scan() {
		text, ok := strings.CutPrefix(scanner.Text(), linePrefix)
		if !ok {
			continue
		}
		var line Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return nil, fmt.Errorf("read figures %q: %w", text, err)
		}
		lines = append(lines, line)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	return lines, nil
}
