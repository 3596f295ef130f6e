// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "one-family-is-full", Source: "projectcalico/cni-plugin#908", Kind: fullTables,
	Input: "A subnet has many IPv4 addresses and two of IPv6. A third pod that has both families waits, until one of the first two is deleted.",
	Want:  "The third pod holds no IPv4 address while it waits. It starts with an address of each family.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, scene.TenantSpec{
			Name: "family", CIDRs: []string{"10.10.0.0/16", "fd10:10::/48"},
			Subnets: []scene.Range{{Name: "net1", CIDRs: []string{"10.10.1.0/24", "fd10:10:0:1::/120"}, Reserved: []string{"fd10:10:0:1::4-fd10:10:0:1::ff"}}},
		})
		one, two, three := tenant.Pod("one", scene.OnNode(first)), tenant.Pod("two", scene.OnNode(second)), tenant.Pod("three", scene.OnNode(first))
		l.Run(t, one, two)
		l.create(t, three)
		l.ExpectRefused(t, three, v1alpha1.SubnetExhaustedReason, "net1")
		l.expectOwn(t, 0, three)
		if err := l.Delete(patience(t), one); err != nil {
			t.Fatal(err)
		}
		l.ready(t, three)
		l.expectOwn(t, 2, two, three)
		l.ExpectAnswers(t, two, stage.WantPod(three))
	},
})
