// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nodeipam/queue"
)

func only(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	return entries[0].Name()
}

func TestReleaseQueue_Put_ReadBackEqual(t *testing.T) {
	for _, want := range []queue.Release{
		{ContainerID: "a", IfName: "eth0", PodInterfaceID: "a-eth0"},
		{ContainerID: strings.Repeat("f", 128), IfName: "a.release.new", PodInterfaceID: strings.Repeat("p", 256)},
		{ContainerID: "a.release", IfName: "x.release"},
		{ContainerID: "a.new"},
	} {
		dir := filepath.Join(t.TempDir(), "made", "by", "put")
		for range 2 {
			if err := queue.Put(dir, want); err != nil {
				t.Fatal(err)
			}
		}
		got, info, err := queue.Read(dir, only(t, dir))
		if err != nil || got != want || info.Size() != int64(len(want.PodInterfaceID)) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

func TestReleaseQueue_TwoInterfacesOfContainer_TwoFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"eth0", "net1"} {
		if err := queue.Put(dir, queue.Release{ContainerID: "a", IfName: name}); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestReleaseQueue_InvalidRelease_NotPut(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []queue.Release{
		{}, {ContainerID: "../a"}, {ContainerID: "a:b"}, {ContainerID: "a", IfName: "../x"}, {ContainerID: "a", PodInterfaceID: "x\ny"},
	} {
		if err := queue.Put(dir, r); err == nil {
			t.Errorf("%+v is queued", r)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := queue.Put(filepath.Join(dir, "\x00"), queue.Release{ContainerID: "a"}); err == nil {
		t.Error("a directory that can't exist")
	}
}

func TestReleaseQueue_ForeignFiles_Ignored(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"abc":              "abc-eth0\n",
		"empty":            "",
		"a:eth0.release":   "x",
		"huge":             strings.Repeat("x", 2000),
		"binary":           "\x00\x01",
		"long":             strings.Repeat("x", 300),
		"a:eth0":           "x",
		"a:b:c.release":    "x",
		":eth0.release":    "x",
		".hidden":          "x",
		"a b":              "x",
		"line\nfeed":       "x",
		"b:x.release.new":  "half",
		"c:\xff.release":   "x",
		"-rf":              "x",
		"secret-elsewhere": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Symlink("secret-elsewhere", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"abc": nil, "empty": nil, "a:eth0.release": nil,
		"huge": queue.ErrStrange, "binary": queue.ErrStrange, "long": queue.ErrStrange, "a:eth0": queue.ErrStrange,
		"a:b:c.release": queue.ErrStrange, ":eth0.release": queue.ErrStrange, ".hidden": queue.ErrStrange, "a b": queue.ErrStrange,
		"line\nfeed": queue.ErrStrange, "c:\xff.release": queue.ErrStrange, "-rf": queue.ErrStrange,
		"link": queue.ErrStrange, "folder": queue.ErrStrange, "pipe": queue.ErrStrange, "socket": queue.ErrStrange,
		"b:x.release.new": queue.ErrUnfinished, "none": fs.ErrNotExist, "..": queue.ErrStrange, "../x": queue.ErrStrange,
	} {
		got, _, err := queue.Read(dir, name)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%q: %+v, %v; want %v", name, got, err, want)
		}
		if name == "abc" && got != (queue.Release{ContainerID: "abc", PodInterfaceID: "abc-eth0"}) {
			t.Errorf("%+v", got)
		}
	}
}
