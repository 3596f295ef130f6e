// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/version"
)

// TestImage_Digest_InRelease writes the image of small programs.
func TestImage_Digest_InRelease(t *testing.T) {
	b := newBuilder(t)
	names, err := b.programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures() {
		for _, name := range names {
			if err := b.write(binary(name, arch), name+arch); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.image(t.Context()); err != nil {
		t.Fatal(err)
	}
	digest, err := os.ReadFile(b.path(ImageDigest))
	if err != nil || !regexp.MustCompile(`^sha256:[0-9a-f]{64}\n$`).Match(digest) {
		t.Fatalf("the digest is %q, %v", digest, err)
	}
	archive, err := os.ReadFile(b.path("alioth-" + version.Number + "-image.oci.tar"))
	if err != nil || !strings.Contains(string(archive), strings.TrimSpace(string(digest))) {
		t.Errorf("the archive has no index with the digest %s: %v", digest, err)
	}
}
