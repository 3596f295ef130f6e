// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// TestDemo_RunTwice_HintsWork runs on a lab, also where the environment has a proxy that leads
// nowhere: nothing of the lab is behind one.
func TestDemo_RunTwice_HintsWork(t *testing.T) {
	soak.Also(t)
	if os.Getenv("ALIOTH_E2E") == "" {
		t.Skip("needs a lab: set ALIOTH_E2E=1")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	t.Cleanup(func() { remove(t, root) })
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), root, newPrinter(&out)); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	for _, try := range tries() {
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", try.command)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil || !try.shows.Match(out) {
			t.Errorf("%s: %v, want %s in\n%s", try.command, err, try.shows, out)
		}
	}
}

// remove deletes the objects that the demo made, and takes the lab down unless others go on with
// it.
func remove(t *testing.T, root string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(2*time.Minute))
	defer cancel()
	lab, err := cluster.Open(root)
	if errors.Is(err, cluster.ErrNotUp) {
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	for _, manifest := range [][]byte{podsIn(lab.Topology().Lab), tenantsManifest} {
		if err := lab.Delete(ctx, manifest); err != nil {
			t.Error(err)
		}
	}
	if os.Getenv("ALIOTH_E2E_KEEP") == "" {
		if err := lab.Down(ctx); err != nil {
			t.Error(err)
		}
	}
}
