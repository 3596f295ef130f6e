// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDaemonProgram_LinkedPackages_HeavyOnesAbsent is about a node's memory, which holds the pages
// of the program's file: with these packages the file is more than twice as long.
func TestDaemonProgram_LinkedPackages_HeavyOnesAbsent(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	for _, heavy := range []string{
		"sigs.k8s.io/controller-runtime/pkg/client", "k8s.io/client-go/kubernetes/scheme", "k8s.io/client-go/informers",
		"k8s.io/apiserver/pkg/audit", "github.com/google/cel-go/cel", "google.golang.org/grpc",
	} {
		if slices.Contains(linked, heavy) {
			t.Errorf("the daemon links %s; `go mod why` and `go list -deps` tell through what", heavy)
		}
	}
	if !slices.Contains(linked, "k8s.io/client-go/rest") {
		t.Errorf("%d packages are listed, without those that the daemon has", len(linked))
	}
}
