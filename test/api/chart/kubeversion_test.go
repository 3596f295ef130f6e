// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/api/chart"
)

func TestChart_APIServerTooOld_Refused(t *testing.T) {
	helm := chart.New(t, root, nil)
	// The text names the version of the API server, and the permitted ones.
	want := "chart requires kubeVersion: >= " + version.OldestKubernetes
	if _, err := helm.Template(t.Context(), "--kube-version", "1.33.13"); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "v1.33.13") {
		t.Errorf("got %v, want an error with %q", err, want)
	}
	for _, permitted := range []string{version.OldestKubernetes + ".0", version.OldestKubernetes + ".4-eks-1", "1.99.0"} {
		if _, err := helm.Template(t.Context(), "--kube-version", permitted); err != nil {
			t.Errorf("version %s: %v", permitted, err)
		}
	}
}
