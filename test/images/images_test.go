// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// newBuilder returns a builder whose CoreDNS is a file with the given text.
func newBuilder(t *testing.T, program string) *Builder {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Root: root, Out: t.TempDir(), CoreDNS: filepath.Join(t.TempDir(), "coredns")}
	if err := os.WriteFile(b.CoreDNS, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func buildImage(t *testing.T, b *Builder, ref string) Archive {
	t.Helper()
	archive, err := b.Build(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// list returns the files of an archive's image: link targets, or sizes.
func list(t *testing.T, a Archive) map[string]string {
	t.Helper()
	tag, err := name.NewTag(a.Ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(a.Path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	fs := mutate.Extract(image)
	defer fs.Close()
	files := map[string]string{}
	reader := tar.NewReader(fs)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(header.Name, "/")] = header.Linkname + string(content)
	}
}

func TestBuild_CoreDNS_ProgramUnderFullName(t *testing.T) {
	archive := buildImage(t, newBuilder(t, "a program"), CoreDNS)
	if diff := cmp.Diff(map[string]string{"coredns": "a program"}, list(t, archive)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	tag, err := name.NewTag(CoreDNS)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive.Path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "amd64" || !cmp.Equal(config.Config.Entrypoint, []string{"/coredns"}) {
		t.Errorf("configuration %+v", config)
	}
}

func TestBuild_SameContents_NotWrittenAgain(t *testing.T) {
	b := newBuilder(t, "one")
	written := 0
	b.Progress = func(string) { written++ }
	first := buildImage(t, b, CoreDNS)
	if again := buildImage(t, b, CoreDNS); again != first || written != 1 {
		t.Errorf("written %d times, %v then %v", written, first, again)
	}
	if err := os.WriteFile(b.CoreDNS, []byte("two"), 0o755); err != nil {
		t.Fatal(err)
	}
	if changed := buildImage(t, b, CoreDNS); changed.Digest == first.Digest || written != 2 {
		t.Errorf("written %d times; digest %s then %s", written, first.Digest, changed.Digest)
	}
	if err := os.Remove(first.Path); err != nil {
		t.Fatal(err)
	}
	if buildImage(t, b, CoreDNS); written != 3 {
		t.Errorf("a lost archive was not written again")
	}
}

func TestContents_LinksAndFolders_InOrder(t *testing.T) {
	source := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(source, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := newContents("").link("usr/bin/sh", "busybox").file(source, "usr/bin/busybox").dir("tmp", 0o1777)
	var paths []string
	for _, e := range c.complete() {
		paths = append(paths, e.path)
	}
	if diff := cmp.Diff([]string{"tmp", "usr", "usr/bin", "usr/bin/busybox", "usr/bin/sh"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	archive := Archive{Ref: TestTool, Path: filepath.Join(t.TempDir(), "x.tar"), Digest: "d"}
	if err := c.write(archive); err != nil {
		t.Fatal(err)
	}
	files := list(t, archive)
	if files["usr/bin/sh"] != "busybox" || files["usr/bin/busybox"] != "x" {
		t.Errorf("files %v", files)
	}
}

func TestPauseImage_Program_Static(t *testing.T) {
	archive := buildImage(t, newBuilder(t, ""), Pause)
	program := list(t, archive)["pause"]
	if !strings.HasPrefix(program, "\x7fELF") {
		t.Fatal("the program is no ELF file")
	}
	if strings.Contains(program, "/lib64/ld-linux") {
		t.Error("the program needs a dynamic linker, which the image lacks")
	}
}

func TestBusyBoxImage_Commands_Linked(t *testing.T) {
	files := list(t, buildImage(t, newBuilder(t, ""), BusyBox))
	for _, command := range []string{"sh", "httpd", "wget", "ping", "ip", "nslookup", "sleep"} {
		if files["bin/"+command] != "busybox" {
			t.Errorf("bin/%s leads to %q, want busybox", command, files["bin/"+command])
		}
	}
}

func TestBuild_SourceMissing_Named(t *testing.T) {
	b := newBuilder(t, "")
	b.Root = t.TempDir()
	for ref, want := range map[string]string{
		Alioth: "cmd/alioth-operator", TestTool: "test/testtool", "docker.io/alioth/other:dev": "nothing is known",
	} {
		_, err := b.Build(t.Context(), ref)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v lacks %q", ref, err, want)
		}
		if ref != "docker.io/alioth/other:dev" && b.Available(ref) {
			t.Errorf("%s is available in an empty tree", ref)
		}
	}
	if !b.Available(Pause) {
		t.Error("the pause image depends on the tree")
	}
}
