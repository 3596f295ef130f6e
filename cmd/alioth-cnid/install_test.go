// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/lifecycle/stateformat"
)

// TestInstall_NewerPlugin_Kept: the init container of an older release runs before its daemon,
// which refuses the state of a newer one.
func TestInstall_NewerPlugin_Kept(t *testing.T) {
	for _, c := range []struct {
		name, format, want string
		err                error
	}{
		{"a node without a format", "", "older", nil},
		{"the same format", strconv.Itoa(version.State) + "\n", "older", nil},
		{"a newer format", strconv.Itoa(version.State+1) + "\n", "newer", stateformat.ErrNewer},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, bin, own := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "alioth")
			write := func(path, text string) {
				t.Helper()
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(own, "older")
			write(filepath.Join(bin, "alioth"), "newer")
			if c.format != "" {
				write(filepath.Join(state, stateformat.File), c.format)
			}
			cmd := newCommand()
			cmd.SetArgs([]string{"install-cni", "--plugin=" + own, "--cni-bin-dir=" + bin, "--state-dir=" + state})
			cmd.SilenceErrors = true
			if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if got, err := os.ReadFile(filepath.Join(bin, "alioth")); err != nil || string(got) != c.want {
				t.Errorf("the plugin is %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
