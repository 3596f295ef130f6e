// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/cluster"
)

// TestDowngrade_NewerState_RefusedUntouched notes a format of the state that no release has, as a
// newer release would.
func TestDowngrade_NewerState_RefusedUntouched(t *testing.T) {
	e := start(t)
	note := func(value string) {
		t.Helper()
		out, err := e.Lab.Kubectl(
			within(t),
			"--namespace",
			cluster.SystemNamespace,
			"annotate",
			"lease",
			"alioth-operator",
			"--overwrite",
			"alioth.dev/state-format"+value,
		)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	before, err := e.daemons(within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { note("-") })
	note("=1000")
	if err := e.Lab.Install(within(t), e.present); err == nil {
		t.Fatal("Helm installed a release over the state of a newer one")
	}
	out, err := e.Lab.Kubectl(within(t), "--namespace", cluster.SystemNamespace, "logs", "job/alioth-check-upgrade")
	if err != nil || !strings.Contains(out, "nothing was changed") {
		t.Errorf("the hook says %q, %v", out, err)
	}
	after, err := e.daemons(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if after.Generation != before.Generation {
		t.Errorf("Helm has changed the daemons: generation %d, then %d", before.Generation, after.Generation)
	}
}
