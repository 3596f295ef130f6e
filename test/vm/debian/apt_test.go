// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"errors"
	"strings"
	"testing"
)

func TestDebianRepository_AptTargets_MainArchivePicked(t *testing.T) {
	const targets = "Debian|Debian-Security|http://mirror.example/debian-security/\n" +
		"nodistro|somebody|https://packages.example/\n" +
		"Debian|Debian|http://mirror.example/debian/\n" +
		"Debian|Debian|http://second.example/debian/\n"
	if got, err := debianRepository(targets); err != nil || got != "http://mirror.example/debian/" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, none := range []string{"", "Ubuntu|Ubuntu|http://mirror.example/ubuntu/\n", "||http://never-updated.example/debian/\n"} {
		if _, err := debianRepository(none); !errors.Is(err, ErrNoArchive) {
			t.Errorf("%q gives %v, want an error that says what to do", none, err)
		}
	}
}

func TestKernelPackage_Metapackage_KernelNamed(t *testing.T) {
	const depends = "linux-image-amd64\n  Depends: linux-image-6.12.107+deb13-amd64\n"
	if got, err := kernelPackage(depends); err != nil || got != "linux-image-6.12.107+deb13-amd64" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := kernelPackage("linux-image-amd64\n"); err == nil {
		t.Error("a metapackage without a kernel is no error")
	}
}

func TestSource_Keyring_PackagesVerified(t *testing.T) {
	if text := source("http://mirror.example/debian/", "trixie"); !strings.Contains(text, "Signed-By: "+keyring+"\n") ||
		!strings.Contains(text, "Suites: trixie\n") {
		t.Errorf("the source is %q", text)
	}
}
