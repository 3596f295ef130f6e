// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stateformat notes on the node which format its files and pinned maps have, so that an
// older daemon leaves them alone.
package stateformat

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// ErrNewer is wrapped where a newer release has written the state of the node.
var ErrNewer = errors.New("the state of this node is that of a newer release")

// File is the name of the file in the daemon's folder of state.
const File = "state-format"

// Check returns an error if the daemon of this release must not touch the state of the node in a
// folder. v0.1.0 wrote no file.
func Check(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the format of the node's state: %w", err)
	}
	number := strings.TrimSpace(string(text))
	format, err := strconv.Atoi(number)
	if err == nil && format <= version.State {
		return nil
	}
	return fmt.Errorf(
		"%w: %s has the format %s, and v%s knows formats up to %d; nothing was changed, and pods keep their connections; "+
			"install the newer release again (docs/operate/upgrade.md)",
		ErrNewer,
		filepath.Join(dir, File),
		quote.Text(number),
		version.Number,
		version.State,
	)
}

// Note writes the format of this release, if the file has another one. The caller holds the lock
// of the folder, and Check has returned nil since it took the lock.
func Note(dir string) error {
	path, want := filepath.Join(dir, File), strconv.Itoa(version.State)+"\n"
	if text, err := os.ReadFile(path); err == nil && string(text) == want {
		return nil
	}
	file, err := durable.Create(path, []byte(want))
	if err != nil {
		return fmt.Errorf("note the format of the node's state: %w", err)
	}
	return file.Close()
}
