// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/test/needs"
)

func TestToken_DaemonRestart_KeptForRootOnly(t *testing.T) {
	needs.Root(t, "to give a file to another user")
	path := filepath.Join(t.TempDir(), "token")
	first, err := Token(path)
	bpftest.Must(t, err)
	if again, err := Token(path); err != nil || again != first {
		t.Errorf("the next daemon has %q, %v, want %q", again, err, first)
	}
	file, err := os.Stat(path)
	bpftest.Must(t, err)
	if file.Mode() != 0o600 || len(first) < 64 {
		t.Errorf("the file is %v, and the token %q", file.Mode(), first)
	}
	for name, damage := range map[string]func() error{
		"readable by others": func() error { return os.Chmod(path, 0o644) },
		"of another user":    func() error { return os.Chown(path, 65534, 65534) },
		"short":              func() error { return os.Truncate(path, 8) },
		"empty":              func() error { return os.Truncate(path, 0) },
		"no number":          func() error { return os.WriteFile(path, []byte(strings.Repeat("x", 64)), 0o600) },
		"a link": func() error {
			if err := os.Rename(path, path+".of-others"); err != nil {
				return err
			}
			return os.Symlink(path+".of-others", path)
		},
	} {
		before, err := Token(path)
		bpftest.Must(t, err)
		bpftest.Must(t, damage())
		if after, err := Token(path); err != nil || after == before || len(after) != 64 {
			t.Errorf("%s: the daemon has %q, %v, want a new token", name, after, err)
		}
		if file, err := os.Lstat(path); err != nil || file.Mode() != 0o600 {
			t.Errorf("%s: the file is %v, %v", name, file.Mode(), err)
		}
	}
}
