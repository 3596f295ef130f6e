// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "one-interface-fails", Source: "kubeovn/kube-ovn#4210", Kind: interfaces,
	Input: "A pod wants an address of a small pool and a fixed address that another pod has. It is tried again and again.",
	Want:  "The pod holds no address of the pool while it waits, so others get all of them. It starts when the fixed address is free.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("both"))
		network := l.network(t, tenant, "10.122.1.0/24", func(o *danmv1.NetworkOptions) {
			o.AllocationPool = &danmv1.AllocationPool{Start: "10.122.1.10", End: "10.122.1.12"}
		})
		const fixed = `"ip":"10.122.1.50"`
		holder := tenant.Pod("holder", scene.OnNode(first), with(tenant, network, fixed))
		waits := tenant.Pod("waits", scene.OnNode(second), with(tenant, network, dynamic, fixed))
		others := tenant.Pod("others", scene.OnNode(second), with(tenant, network, dynamic, dynamic, dynamic))
		l.RunFor(t, holder)
		l.Make(t, waits)
		l.ExpectRefused(t, waits, v1alpha1.IPInUseReason, "10.122.1.50")
		l.RunFor(t, others)
		l.expectOwn(t, 5, others)
		for _, one := range []client.Object{holder, others} {
			if err := l.Delete(patience(t), one); err != nil {
				t.Fatal(err)
			}
		}
		l.ready(t, waits)
		l.expectOwn(t, 4, waits)
		until(t, "the network to count two addresses", func(ctx context.Context) (bool, string, error) {
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
			return err == nil && network.Status.Used == 2 && network.Status.Pods == 1, fmt.Sprintf("%+v", network.Status), err
		})
	},
})
