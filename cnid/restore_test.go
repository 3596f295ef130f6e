// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
)

// TestEtcdRestore_RunningPod_ObjectsWrittenAgain restores a snapshot of etcd
// that is older than a pod's Address and annotations, in the two ways of
// docs/operate/disaster.md.
func TestEtcdRestore_RunningPod_ObjectsWrittenAgain(t *testing.T) {
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
			a, p := n.pod(t, name+"-a", name, "10.10.1.9", nil), n.pod(t, name+"-b", name, "10.10.1.10", nil)
			n.decide(t, a)
			n.get(t, p)
			if err := server.Server(t).Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.decide(t, p)
			for _, one := range []*labPod{a, p} {
				if err := n.lab.cni(t, "ADD", one); err != nil {
					t.Fatal(err)
				}
			}
			p.serve(t)
			reach := func() error {
				conn, _, err := dialFrom(t, a.NetNS, p.ip(ipfamily.IPv4))
				if conn != nil {
					conn.Close()
				}
				return err
			}
			if err := reach(); err != nil {
				t.Fatal(err)
			}
			if err := server.Server(t).Restore(t.Context(), tc.bump); err != nil {
				t.Fatal(err)
			}
			tc.then(t, n)
			n.decide(t, p) // as the operator does anew
			n.call(t, name)
			// An API server that has just started has no roles for some seconds, and the
			// daemon asks less often the longer it is refused.
			eventually(t, "the node answers", n.answered(name, tc.vni, true))
			if err := reach(); err != nil {
				t.Errorf("the pod has not kept its address: %v", err)
			}
			n.deletePod(t, p)
			if err := n.lab.cni(t, "DEL", p); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
		})
	}
}
