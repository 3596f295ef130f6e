// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/stateformat"
)

// TestDaemon_NewerStateFormat_LeftAlone: an older daemon touches nothing.
func TestDaemon_NewerStateFormat_LeftAlone(t *testing.T) {
	cfg := Config{StateDir: t.TempDir(), RunDir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(cfg.StateDir, stateformat.File), []byte("1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&node{cfg: cfg}).open(t.Context(), ifdriver.Registry{}); !errors.Is(err, stateformat.ErrNewer) {
		t.Errorf("the daemon opened its state: %v", err)
	}
	files, err := os.ReadDir(cfg.StateDir)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v", files, err)
	}
}

// TestJournal_Start_FormatRecorded: an older daemon refuses the journal of this daemon.
func TestJournal_Start_FormatRecorded(t *testing.T) {
	n := &node{cfg: Config{StateDir: t.TempDir()}, log: slog.New(slog.DiscardHandler)}
	j, err := journal.Open(t.Context(), n.journalConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if text, err := os.ReadFile(filepath.Join(n.cfg.StateDir, stateformat.File)); err != nil || string(text) != strconv.Itoa(version.State)+"\n" {
		t.Errorf("the format is %q, %v", text, err)
	}
}
