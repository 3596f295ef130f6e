// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// members returns the nodes that play a role: the dividers of a VPC for "", the bouncers of
// a Subnet for its name.
func (e *env) members(t *testing.T, vpc, subnet string) (nodes []string) {
	t.Helper()
	e.waits(t, fmt.Sprintf("a member of %q in VPC %s", subnet, vpc), func(ctx context.Context) (bool, string, error) {
		var list v1alpha1.RoleMemberList
		err := e.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": vpc})
		nodes = nil
		for _, m := range list.Items {
			if m.Spec.Subnet == subnet && m.Spec.Stage == v1alpha1.StageServing {
				nodes = append(nodes, m.Spec.Node)
			}
		}
		return len(nodes) > 0, "none serves", err
	})
	return nodes
}

// TestBouncer_FirstAndLaterPackets_ExactHops has exact ways of first and of later packets between
// pods of one subnet, with its bouncer on a third node and on a pod's own.
func TestBouncer_FirstAndLaterPackets_ExactHops(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("hops", 1, 0))
	bouncer, a, b := e.members(t, tenant.VPC.Name, tenant.Subnets[0].Name)[0], e.plain[0], e.plain[1]
	client, near, server := tenant.Pod("client", scene.OnNode(a)), tenant.Pod("near", scene.OnNode(a)), tenant.Pod("server", scene.OnNode(b))
	there, beside := tenant.Pod("there", scene.OnNode(bouncer)), tenant.Pod("beside", scene.OnNode(bouncer))
	e.Run(t, client, near, server, there, beside)
	for _, node := range e.plain {
		e.relies(t, node, tenant)
	}
	// A traced packet is not sent, so the node looks nothing up.
	if path := e.trace(t, client, scene.IP(server, false)); strings.Count(path, "[forwarded_role]") != 2 || !strings.Contains(path, "\n3. node "+b) {
		t.Errorf("the trace of a first packet is not one extra hop:\n%s", path)
	}
	c := e.tap(t, tenant, direct)
	e.expectHops(t, c, client, near, nil, nil)
	e.expectHops(t, c, there, beside, nil, nil)
	e.expectHops(t, c, client, server,
		[]string{hop(a, bouncer, toBouncer), hop(bouncer, b, fromBouncer)},
		[]string{hop(b, bouncer, toBouncer), hop(bouncer, a, fromBouncer)})
	// A bouncer has the table, so it sends directly.
	e.expectHops(t, c, client, there, []string{hop(a, bouncer, toBouncer)}, []string{hop(bouncer, a, direct)})
	e.expectHops(t, c, beside, server, []string{hop(bouncer, b, direct)}, []string{hop(b, bouncer, toBouncer)})
	if path := e.trace(t, client, scene.IP(server, false)); strings.Contains(path, "[forwarded_role]") || !strings.Contains(path, "\n2. node "+b) {
		t.Errorf("the trace of a later packet is not direct:\n%s", path)
	}
	e.reach(t, client, near, server, there, beside)
}

// TestDivider_FirstAndLaterPackets_ExactHops is the longest way without a stale row: two more nodes
// between the nodes of the pods.
func TestDivider_FirstAndLaterPackets_ExactHops(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("divided", 0, 1))
	divider, subnet := e.members(t, tenant.VPC.Name, "")[0], e.subnetElsewhere(t, tenant)
	home, away := e.members(t, tenant.VPC.Name, tenant.Subnets[0].Name)[0], e.members(t, tenant.VPC.Name, subnet)[0]
	a, b := e.plain[0], e.plain[1]
	nic := func(subnet string) scene.PodOption { return scene.WithNIC(fmt.Sprintf(`{"subnet": %q}`, subnet)) }
	client := tenant.Pod("client", scene.OnNode(a), nic(tenant.Subnets[0].Name))
	near, server := tenant.Pod("near", scene.OnNode(b), nic(tenant.Subnets[0].Name)), tenant.Pod("server", scene.OnNode(b), nic(subnet))
	e.Run(t, client, server)
	c := e.tap(t, tenant, direct)
	for _, node := range e.plain {
		e.relies(t, node, tenant)
	}
	e.expectHops(t, c, client, server, over(a, divider, away, b), over(b, divider, home, a))
	// The server's node begins to know the client's subnet.
	e.Run(t, near)
	e.relies(t, b, tenant)
	another := tenant.Pod("another", scene.OnNode(a), nic(tenant.Subnets[0].Name))
	e.Run(t, another)
	e.expectHops(t, c, another, near, within(a, home, b), within(b, home, a))
	e.reach(t, client, near, server, another)
}

// over returns the way of a packet to a subnet that its node does not know.
func over(from, divider, bouncer, to string) []string {
	if divider == bouncer {
		return []string{hop(from, divider, toDivider), hop(divider, to, fromBouncer)}
	}
	return []string{hop(from, divider, toDivider), hop(divider, bouncer, toBouncer), hop(bouncer, to, fromBouncer)}
}

// within returns the way of a packet to a subnet that its node knows.
func within(from, bouncer, to string) []string {
	return []string{hop(from, bouncer, toBouncer), hop(bouncer, to, fromBouncer)}
}

// subnetElsewhere makes subnets until the bouncer of one is not the divider of its VPC, and
// returns its name.
func (e *env) subnetElsewhere(t *testing.T, tenant *scene.Tenant) string {
	t.Helper()
	divider := e.members(t, tenant.VPC.Name, "")
	for i := 3; i < 30; i++ {
		subnet := scene.Subnet(tenant.VPC.Name, fmt.Sprintf("net%d", i), fmt.Sprintf("10.10.%d.0/24", i), fmt.Sprintf("fd10:10:0:%d::/64", i))
		if err := e.Create(stage.Within(t, stage.Patience), subnet); err != nil {
			t.Fatal(err)
		}
		tenant.Subnets = append(tenant.Subnets, subnet) // it goes with the tenant, after its pods
		if !slices.Equal(e.members(t, tenant.VPC.Name, subnet.Name), divider) {
			return subnet.Name
		}
	}
	t.Fatal("the bouncers of all subnets are on the node of the divider")
	return ""
}

// TestBouncers_UnknownAddresses_AllShare asks for addresses without a holder, so that each packet
// goes over a bouncer.
func TestBouncers_UnknownAddresses_AllShare(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("shared", 2, 0))
	client := tenant.Pod("client", scene.OnNode(e.plain[0]))
	e.Run(t, client)
	e.served(t, tenant, e.eligible, nil)
	e.relies(t, e.plain[0], tenant)
	c := e.tap(t, tenant, direct)
	var nobody []netip.Addr
	for i := range byte(40) {
		nobody = append(nobody, netip.AddrFrom4([4]byte{10, 10, 1, 100 + i}))
	}
	e.silent(t, client, nobody...)
	sent := map[string]int{}
	for _, hop := range c.hops(t) {
		sent[hop]++
	}
	for _, node := range e.eligible {
		if sent[hop(e.plain[0], node, toBouncer)] == 0 {
			t.Errorf("no packet went over %s: %v", node, sent)
		}
		delete(sent, hop(e.plain[0], node, toBouncer))
	}
	if len(sent) > 0 {
		t.Errorf("packets to nobody went on: %v", sent)
	}
}

// silenceTime is how long addresses are asked that must not answer.
const silenceTime = 1500 * time.Millisecond

// silent requires that no address answers to a pod.
func (e *env) silent(t *testing.T, from *corev1.Pod, addrs ...netip.Addr) {
	t.Helper()
	results, err := e.Ask(stage.Within(t, stage.Patience), from, silenceTime, scene.Targets([]string{"icmp", "tcp"}, addrs...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.OK {
			t.Errorf("from %s: %s has answered", from.Name, result.Target)
		}
	}
}

// TestTenants_SameMembersAndRanges_Isolated has two VPCs with the same ranges on the same nodes,
// bouncers and dividers.
func TestTenants_SameMembersAndRanges_Isolated(t *testing.T) {
	t.Parallel()
	e := start(t)
	red, blue := e.Tenant(t, tenant("red", 2, 2)), e.Tenant(t, tenant("blue", 2, 2))
	const only = `{"ip": "10.10.2.99,fd10:10:0:2::99"}`
	secret := red.Pod("secret", scene.OnNode(e.plain[1]), scene.WithNIC(only))
	pods := map[*scene.Tenant][]*corev1.Pod{red: e.everywhere(t, red), blue: e.everywhere(t, blue)}
	e.Run(t, secret)
	for tenant, pods := range pods {
		e.served(t, tenant, e.eligible, e.eligible)
		for _, node := range e.plain {
			e.relies(t, node, tenant)
		}
		e.reach(t, pods...)
	}
	e.reach(t, pods[red][0], secret)
	for _, from := range pods[blue] {
		e.silent(t, from, scene.IPs(secret)...)
	}
}
