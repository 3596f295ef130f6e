// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

func TestArchive_Folders_BeforeContents(t *testing.T) {
	from := t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "deep", "data"), []byte("deep data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "program"), []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := NewWriter(&archive)
	err := errors.Join(
		w.File("/init", filepath.Join(from, "program")),
		w.Bytes("/etc/plan.json", []byte("{}")),
		w.Tree("/tests/a/testdata", from),
		w.Tree("/tests/b/testdata", filepath.Join(from, "missing")),
		w.Close())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"init 0100755 #!", "etc 040755 ", "etc/plan.json 0100644 {}",
		"tests 040755 ", "tests/a 040755 ", "tests/a/testdata 040755 ", "tests/a/testdata/deep 040755 ",
		"tests/a/testdata/deep/data 0100600 deep data", "tests/a/testdata/program 0100755 #!",
	}
	if diff := cmp.Diff(want, list(t, &archive)); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

// list returns name, mode and content of everything in an archive.
func list(t *testing.T, archive io.Reader) []string {
	t.Helper()
	var out []string
	r := cpio.NewReader(archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, header.Name+" "+header.Mode.String()+" "+string(content))
	}
}

func TestLibraries_LddOutput_Found(t *testing.T) {
	const ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x00007f)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n"
	want := []string{"/lib/x86_64-linux-gnu/libnftables.so.1", "/lib64/ld-linux-x86-64.so.2"}
	if diff := cmp.Diff(want, libraries(ldd)); diff != "" {
		t.Errorf("libraries (-want +got):\n%s", diff)
	}
}
