// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func TestNetns_TwoNamespaces_Distinguished(t *testing.T) {
	a, b := netnstest.New(t), netnstest.New(t)
	identify := func(path string) netns.ID {
		t.Helper()
		id, err := netns.Identify(path)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	idA, idB := identify(a.Path), identify(b.Path)
	if idA != identify(a.Path) {
		t.Error("one namespace has two identities")
	}
	if idA.Inode == idB.Inode || idA.Cookie == idB.Cookie {
		t.Errorf("two namespaces have identities %v and %v", idA, idB)
	}
	a.Do(t, func() error {
		current, err := netns.Current()
		if current != idA {
			t.Errorf("inside it is %v, outside %v", current, idA)
		}
		return err
	})
}

func TestNetns_NoNamespaceAtPath_ReportedGone(t *testing.T) {
	dead := netnstest.New(t)
	dead.Close(t)
	file := filepath.Join(t.TempDir(), "left-behind")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no path": "", "no file": file + "-not", "a plain file": file, "an ended namespace": dead.Path,
	} {
		if _, err := netns.Identify(path); !errors.Is(err, netns.ErrGone) {
			t.Errorf("%s: got %v, want ErrGone", name, err)
		}
	}
}
