// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Program adds a program of this machine, which is looked up in PATH, with its libraries, each at
// the place that it has on this machine. It adds each file once.
func (w *Writer) Program(ctx context.Context, name string) error {
	file, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("find a program (make setup installs it): %w", err)
	}
	places, err := librariesOf(ctx, file)
	if err != nil {
		return err
	}
	for _, place := range append(places, file) {
		if w.programs[place] {
			continue
		}
		w.programs[place] = true
		if err := w.File(place, place); err != nil {
			return err
		}
	}
	return nil
}

// librariesOf returns the files that a program loads; a static one loads none.
func librariesOf(ctx context.Context, file string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ldd", file).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(string(out), "not a dynamic executable") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the libraries of %s: %w: %s", file, err, out)
	}
	return libraries(string(out)), nil
}

// libraries returns the files that ldd lists, each as "name => file (address)", but
// the loader as "file (address)".
func libraries(ldd string) []string {
	var files []string
	for line := range strings.Lines(ldd) {
		if _, target, ok := strings.Cut(line, " => "); ok {
			line = target
		}
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0], "/") {
			files = append(files, fields[0])
		}
	}
	return files
}
