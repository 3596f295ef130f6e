// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestARestoredEtcdGetsBackWhatRunningPodsHold restores a snapshot of etcd that
// is older than a pod's Address, in the two ways that docs/operations.md tells.
func TestARestoredEtcdGetsBackWhatRunningPodsHold(t *testing.T) {
	for _, tc := range []struct {
		name string
		vni  int32
		bump bool
		then func(*testing.T, *apiNode)
	}{
		{"with revisions that go on", 58, true, func(*testing.T, *apiNode) {}},
		{"with revisions that come again, and daemons started anew", 59, false, func(t *testing.T, n *apiNode) {
			n.stop(unix.SIGTERM)
			n.start(t)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := map[bool]string{true: "bumped", false: "again"}[tc.bump]
			n := newAPINode(t, "api-restored-"+name)
			n.vpc(t, name, tc.vni)
			n.start(t)
			p := n.pod(t, name+"-a", name, "10.10.1.10", nil)
			n.get(t, p)
			if err := server.Server(t).Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.decide(t, p)
			if err := n.lab.cni(t, "ADD", p); err != nil {
				t.Fatal(err)
			}
			if err := server.Server(t).Restore(t.Context(), tc.bump); err != nil {
				t.Fatal(err)
			}
			tc.then(t, n)
			eventually(t, "the Address is back", func() error {
				address, err := n.address(p)
				if err == nil && address == nil {
					return errors.New("there is none")
				}
				return err
			})
			n.deletePod(t, p)
			if err := n.lab.cni(t, "DEL", p); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
		})
	}
}
