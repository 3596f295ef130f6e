// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Bounce gives the subnets of the wide VPC and of the first narrow VPCs bouncers. It returns once
// the bouncers serve, and all other nodes have given their tables up.
func (l *Lab) Bounce(ctx context.Context) error {
	l.idle = nil
	patch := fmt.Appendf(nil, `{"spec":{"bouncers":%d}}`, l.Bouncers)
	all := l.bouncedVPCs()
	if err := l.loader.each(ctx, len(all), func(ctx context.Context, c client.Client, i int) error {
		subnet := &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: all[i]}}
		if err := c.Patch(ctx, subnet, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("set the bouncers of Subnet %s: %w", subnet.Name, err)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, vpc := range all {
		if err := l.bounced(ctx, vpc); err != nil {
			return err
		}
	}
	if err := l.readMembers(ctx); err != nil {
		return err
	}
	return l.Planned(ctx)
}

// bouncedVPCs returns the VPCs whose subnets get bouncers.
func (l *Lab) bouncedVPCs() []string {
	all := []string{wide}
	for i := range min(l.Nodes, l.Bounced) {
		all = append(all, narrow(i))
	}
	return all
}

// vpcAt returns the VPCs of tenants by number: the narrow ones, and then the wide one.
func (l *Lab) vpcAt(i int) string {
	if i == l.Nodes {
		return wide
	}
	return narrow(i)
}

// bounced waits until the bouncers of a Subnet serve.
func (l *Lab) bounced(ctx context.Context, subnet string) error {
	return scene.Until(ctx, "the bouncers of Subnet "+subnet+" to serve", func(ctx context.Context) (bool, string, error) {
		var object v1alpha1.Subnet
		if err := l.Get(ctx, client.ObjectKey{Name: subnet}, &object); err != nil {
			return false, "", err
		}
		return meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.RolesReadyCondition), fmt.Sprint(object.Status.Bouncers, object.Status.Conditions), nil
	})
}

// readMembers reads which nodes are bouncers.
func (l *Lab) readMembers(ctx context.Context) error {
	var list v1alpha1.RoleMemberList
	if err := l.List(ctx, &list); err != nil {
		return fmt.Errorf("list role members: %w", err)
	}
	number := map[string]int{}
	for i := range l.Nodes {
		number[nodeName(i)] = i
	}
	l.members = map[string]map[int]bool{}
	for i := range list.Items {
		member := &list.Items[i].Spec
		if l.members[member.VPC] == nil {
			l.members[member.VPC] = map[int]bool{}
		}
		l.members[member.VPC][number[member.Node]] = true
	}
	return nil
}

// Planned returns once the plans of all hollow nodes have the addresses that they need, and
// no others.
func (l *Lab) Planned(ctx context.Context) error {
	return scene.Until(ctx, "hollow nodes to have the addresses that they need", func(context.Context) (bool, string, error) {
		for i, h := range l.hollow {
			if have, want := h.programmer.held(), l.rows(i); have != want {
				return false, fmt.Sprintf("node %d has %d addresses, want %d", i, have, want), nil
			}
		}
		return true, "", nil
	})
}

// rows returns the number of addresses that a node needs, gateways left out: the addresses of
// nodes, of its own pods, and of the tables that it holds.
func (l *Lab) rows(node int) int {
	count := addressesOfNode * l.Nodes
	for i := range l.Nodes + 1 {
		if vpc := l.vpcAt(i); l.holds(vpc, node) {
			count += l.addressesIn(vpc)
		} else {
			count += l.podsOn(i, node)
		}
	}
	return count
}

// podsOn returns the number of pods that a node has of a VPC by number.
func (l *Lab) podsOn(vpc, node int) (count int) {
	switch {
	case vpc == l.Nodes:
		count = l.pods / l.Nodes
		for pod := range l.pods % l.Nodes {
			if l.hostInWide(pod) == node {
				count++
			}
		}
		return count
	case vpc == node || l.hostOf(vpc, 1) == node:
		count = l.PodsPerNode / 2
	}
	if vpc == 0 && node == 0 {
		count += l.isolated
	}
	return count
}

// holds reports whether a node has all Addresses of a VPC.
func (l *Lab) holds(vpc string, node int) bool {
	if l.members[vpc] == nil {
		return l.vpcsOf(node, "")[vpc]
	}
	return l.members[vpc][node]
}

// HoldsIsolated and HoldsWide report whether a node, by number, has all Addresses of the VPC
// of Isolated, or of Push.
func (l *Lab) HoldsIsolated(node int) bool { return l.holds(narrow(0), node) }

// HoldsWide is described at HoldsIsolated.
func (l *Lab) HoldsWide(node int) bool { return l.holds(wide, node) }
