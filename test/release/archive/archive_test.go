// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var released = time.Unix(1795989082, 0).UTC()

func TestPack_SameFiles_SameBytes(t *testing.T) {
	pack := func(mode os.FileMode, at time.Time, names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(name), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := Folder(&out, dir, released); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	one := pack(0o644, time.Unix(1, 0), "b", "a/c", "a/b")
	if two := pack(0o600, time.Unix(2, 0), "a/b", "a/c", "b"); two != one {
		t.Error("the order of writing, the times or the rights of others change the archive")
	}
	if two := pack(0o755, time.Unix(1, 0), "b", "a/c", "a/b"); two == one {
		t.Error("that files are programs does not change the archive")
	}
	if two := pack(0o644, time.Unix(1, 0), "b", "a/c"); two == one {
		t.Error("a missing file does not change the archive")
	}
}

func TestRepack_OtherTimeOrOwner_SameBytes(t *testing.T) {
	repack := func(at time.Time, owner string, names ...string) string {
		var from, to bytes.Buffer
		packed := gzip.NewWriter(&from)
		packed.ModTime = at
		w := tar.NewWriter(packed)
		for _, name := range names {
			if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(name)), Mode: 0o644, ModTime: at, Uname: owner}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		if w.Close() != nil || packed.Close() != nil {
			t.Fatal("the archive can't be written")
		}
		if err := Repack(&to, &from, released); err != nil {
			t.Fatal(err)
		}
		return to.String()
	}
	one := repack(time.Unix(100, 0), "jo", "chart/b", "chart/a")
	if two := repack(time.Unix(200, 0), "al", "chart/a", "chart/b"); two != one {
		t.Error("time, owner or order of the files change the repacked archive")
	}
	if err := Repack(&bytes.Buffer{}, strings.NewReader("no archive"), released); err == nil {
		t.Error("a text is repacked as an archive")
	}
}
