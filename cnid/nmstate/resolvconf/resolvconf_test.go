// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvconf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

func TestContent_WrittenThenRead_Equal(t *testing.T) {
	file := New(t.TempDir(), "resolv.conf")
	for name, want := range map[string]document.Resolver{
		"all":     {Server: []string{"192.0.2.1", "2001:db8::1"}, Search: []string{"example.com", "example.net"}, Options: []string{"ndots:2", "rotate"}},
		"servers": {Server: []string{"192.0.2.1"}, Search: []string{}, Options: []string{}},
		"nothing": {Server: []string{}, Search: []string{}, Options: []string{}},
	} {
		if err := file.Write(want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := file.Read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestResolvConf_ManualFile_Parsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# a comment\ndomain old.example\nsearch example.com\n\nnameserver 192.0.2.1 # not part\nnameserver\noptions ndots:2\noptions edns0\nsortlist 192.0.2.0\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := New("/", path).Read()
	want := document.Resolver{Server: []string{"192.0.2.1"}, Search: []string{"example.com"}, Options: []string{"ndots:2", "edns0"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestResolvConf_FileMissing_EmptyThenCreated(t *testing.T) {
	file := New(t.TempDir(), "resolv.conf")
	if got, err := file.Read(); err != nil || !Equal(got, document.Resolver{}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := file.Writable(); err != nil {
		t.Error(err)
	}
	if err := New(t.TempDir(), "none/resolv.conf").Writable(); err == nil {
		t.Error("a missing folder is accepted")
	}
}

func TestResolvConf_Symlink_ForeignFileKept(t *testing.T) {
	dir := t.TempDir()
	path, stub := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "stub-resolv.conf")
	if err := os.WriteFile(stub, []byte("nameserver 127.0.0.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(stub, path); err != nil {
		t.Fatal(err)
	}
	err := New("/", path).Write(document.Resolver{Server: []string{"192.0.2.1"}})
	if !errors.Is(err, ErrManaged) || !strings.Contains(err.Error(), stub) {
		t.Errorf("got %v", err)
	}
	if err := New("/", path).Write(document.Resolver{Server: []string{"127.0.0.53"}}); err != nil {
		t.Errorf("what is there already: %v", err)
	}
	if text, err := os.ReadFile(stub); err != nil || string(text) != "nameserver 127.0.0.53\n" {
		t.Errorf("the other program's file is %q, %v", text, err)
	}
}

// TestResolvConf_FromContainer_Read: a link of the host with an absolute path does not lead to
// the container's file.
func TestResolvConf_FromContainer_Read(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc", "run/resolve"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "run/resolve/stub.conf"), []byte("nameserver 192.0.2.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run/resolve/stub.conf", filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	file := New(root, DefaultPath)
	got, err := file.Read()
	if err != nil || len(got.Server) != 1 || got.Server[0] != "192.0.2.53" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := file.Write(document.Resolver{Server: []string{"192.0.2.54"}}); !errors.Is(err, ErrManaged) {
		t.Errorf("a link is replaced: %v", err)
	}
}

// TestResolvConf_Undo_ForeignFileRestored after Alioth has replaced it, to the byte.
func TestResolvConf_Undo_ForeignFileRestored(t *testing.T) {
	ours := document.Resolver{Server: []string{"192.0.2.1"}}
	other := document.Resolver{Server: []string{"192.0.2.2"}}
	theirs := "# a comment\nnameserver 198.51.100.1\nsortlist 192.0.2.0\n"
	for name, make := range map[string]func(path string) error{
		"no file": func(string) error { return nil },
		"a file":  func(path string) error { return os.WriteFile(path, []byte(theirs), 0o640) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := New(dir, "resolv.conf").KeepingAt(filepath.Join(dir, "kept.json"))
			if err := make(filepath.Join(dir, "resolv.conf")); err != nil {
				t.Fatal(err)
			}
			was, err := file.Copy()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time begins with a restored file
				for _, r := range []document.Resolver{ours, other, parse(was.Text)} {
					if err := file.Write(r); err != nil {
						t.Fatal(err)
					}
					if now, err := file.Read(); err != nil || !Equal(now, r) {
						t.Errorf("the file has %+v, %v, want %+v", now, err, r)
					}
				}
				if now, err := file.Copy(); err != nil || !now.equal(was) {
					t.Errorf("the file is %+v, %v, and was %+v", now, err, was)
				}
			}
		})
	}
}

// TestResolvConf_NewForeignFile_ReplacesKeptCopy: the host has the new file now.
func TestResolvConf_NewForeignFile_ReplacesKeptCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "resolv.conf")
	file := New(dir, "resolv.conf").KeepingAt(filepath.Join(dir, "kept.json"))
	first, second := "nameserver 198.51.100.1 # first\n", "nameserver 198.51.100.2 # second\n"
	for _, text := range []string{first, second} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := file.Write(document.Resolver{Server: []string{"192.0.2.1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Write(document.Resolver{Server: []string{"198.51.100.1"}}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), heading) {
		t.Errorf("the first file came back: %s, %v", text, err)
	}
	if err := file.Write(document.Resolver{Server: []string{"198.51.100.2"}}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != second {
		t.Errorf("the second file is %s, %v", text, err)
	}
}
