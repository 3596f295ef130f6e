// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"strings"
	"testing"
)

func TestCheckKubernetes_OldAPIServer_Refused(t *testing.T) {
	for gitVersion, refused := range map[string]bool{
		"v1.33.13": true, "v1.33.4-gke.1134000": true, "v1.9.0": true, "v1.33.99-eks-7f9249a": true,
		"v1.34.0": false, "v1.34.0-alpha.1": false, "v1.36.3": false, "v1.37.2+k3s1": false, "v2.0.0": false,
		"": false, "unknown": false,
	} {
		err := CheckKubernetes(gitVersion)
		if (err != nil) != refused {
			t.Errorf("API server %q: %v; want it refused: %v", gitVersion, err, refused)
		}
		if err != nil && (!strings.Contains(err.Error(), OldestKubernetes) || !strings.Contains(err.Error(), "upgrade")) {
			t.Errorf("API server %q: %v: the text lacks the version or the remedy", gitVersion, err)
		}
	}
}
