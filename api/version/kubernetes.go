// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// OldestKubernetes is the oldest version of Kubernetes that Alioth was tested with. No other
// file decides it: `make generate` writes it into the chart.
const OldestKubernetes = "1.34"

// CheckKubernetes returns an error if an API server is too old. Its version is the gitVersion of
// its path /version, for example v1.36.3. A text that is not a version passes.
func CheckKubernetes(gitVersion string) error {
	server, err := utilversion.ParseGeneric(gitVersion)
	if err == nil && server.LessThan(utilversion.MustParseGeneric(OldestKubernetes)) {
		return fmt.Errorf(
			"the API server has version %s, and Alioth v%s needs Kubernetes %s or newer: upgrade the control plane first; docs/install/requirements.md lists the tested versions",
			server,
			Number,
			OldestKubernetes,
		)
	}
	return nil
}
