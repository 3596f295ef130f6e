// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

func TestDeployed_History_DeployedRevisionFound(t *testing.T) {
	history := `[{"revision":1,"status":"superseded"},{"revision":2,"status":"deployed","chart":"alioth-0.2.0"},{"revision":3,"status":"failed"}]`
	if got, err := deployed(history); got != 2 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for _, none := range []string{"", "[]", `[{"revision":1,"status":"failed"}]`} {
		if got, err := deployed(none); err == nil {
			t.Errorf("%q: got %d", none, got)
		}
	}
}
