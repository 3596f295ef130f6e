// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fast reads the output of `go test -json` for `make test-fast`. It prints failed tests
// with their output, and ends with the number of tests that passed, and of tests that were left
// out, by their needs.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := summarize(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fast:", err)
		os.Exit(1)
	}
}

// summarize prints the summary of a run for people, and returns an error if the run failed or ran
// nothing.
func summarize(in io.Reader, out io.Writer) error {
	r := newRun(out)
	if _, err := io.Copy(&r.lines, in); err != nil {
		return fmt.Errorf("read the events of the tests: %w", err)
	}
	r.close()
	r.write(out)
	switch {
	case len(r.reader.Failures) > 0:
		return fmt.Errorf("%d tests or packages failed", len(r.reader.Failures))
	case r.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
