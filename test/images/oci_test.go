// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// release writes an archive of an image with one program for two architectures.
func release(t *testing.T, amd64, arm64 string) (path, digest string) {
	t.Helper()
	dir := t.TempDir()
	r := Release{
		Ref: "docker.io/alioth/alioth:1.2.3", Created: time.Unix(1795989082, 0).UTC(),
		Labels: map[string]string{"org.opencontainers.image.version": "1.2.3"}, Programs: map[string]map[string]string{},
	}
	for arch, program := range map[string]string{"amd64": amd64, "arm64": arm64} {
		file := filepath.Join(dir, arch)
		if err := os.WriteFile(file, []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
		r.Programs[arch] = map[string]string{"alioth": file}
	}
	path = filepath.Join(dir, "image.tar")
	digest, err := r.Write(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, digest
}

// unpacked returns the folder with the files of an archive.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(target, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(target, text, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleasedImage_EachArchitecture_HasPrograms(t *testing.T) {
	path, digest := release(t, "for amd64", "for arm64")
	index, err := layout.ImageIndexFromPath(unpacked(t, path))
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("the layout has %+v, %v, want one index", top, err)
	}
	if got := top.Manifests[0].Digest.String(); got != digest {
		t.Errorf("the digest is %s, and the layout has %s", digest, got)
	}
	for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
		if got := top.Manifests[0].Annotations[key]; got != "docker.io/alioth/alioth:1.2.3" {
			t.Errorf("the annotation %s is %q", key, got)
		}
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, image := range manifest.Manifests {
		found = append(found, image.Platform.Architecture)
		if image.ArtifactType != "" {
			t.Errorf("the image for %s has the artifact type %q, which skopeo 1.9 drops: it then refuses to copy the index", image.Platform, image.ArtifactType)
		}
		one, err := inner.Image(image.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := one.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != image.Platform.Architecture || config.OS != "linux" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" ||
			config.Created.IsZero() {
			t.Errorf("the image for %s has the configuration %+v", image.Platform, config)
		}
		files := mutate.Extract(one)
		text, err := io.ReadAll(files)
		files.Close()
		if want := "for " + image.Platform.Architecture; err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("the image for %s lacks the program %q: %v", image.Platform, want, err)
		}
	}
	if len(found) != 2 || found[0] != "amd64" || found[1] != "arm64" {
		t.Errorf("the image is for %q", found)
	}
}

func TestReleasedImage_SamePrograms_SameBytes(t *testing.T) {
	read := func(path, _ string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	one := read(release(t, "one", "two"))
	if !bytes.Equal(one, read(release(t, "one", "two"))) {
		t.Error("the same programs give two archives")
	}
	if bytes.Equal(one, read(release(t, "one", "three"))) {
		t.Error("other programs give the same archive")
	}
}
