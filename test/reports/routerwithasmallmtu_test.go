// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/waits"
)

var _ = kept(Report{
	Name: "router-with-a-small-mtu", Source: "projectcalico/calico#8854", Kind: bigPackets,
	Input: "A client is behind a router with a small MTU, and asks a node port whose endpoint is on another node. The answer is big.",
	Want:  "The endpoint learns of the MTU by the router's ICMP error, and its answer arrives.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t, withNodePorts)
		l.lead(t, service, l.two)
		near := question{from: l.on(l.host), targets: l.atNodes(service, "tcp")}
		near.await(t, name(l.two))
		far := question{from: l.behindRouter(t), targets: near.targets, text: strings.Repeat("x", 4000)}
		far.expect(t, 3, name(l.two))
	},
})

// routedNumber ends the address of the client behind the router.
const routedNumber = 221

// behindRouter makes a network namespace for the time of a case, which the host outside connects
// with the nodes' network. Packets to it must be smaller than packets from it.
func (l *lab) behindRouter(t *testing.T) tool {
	t.Helper()
	space := stage.Unique("far")
	address, _ := l.OnUnderlay(routedNumber)
	inside := []string{"ip", "netns", "exec", space}
	for _, command := range [][]string{
		{"ip", "netns", "add", space},
		{"ip", "link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space},
		{"ip", "link", "set", space, "up"},
		{"ip", "route", "add", address.String() + "/32", "dev", space, "mtu", "1300"},
		{"sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.proxy_arp=1"},
		append(inside[:4:4], "ip", "address", "add", address.String()+"/32", "dev", "eth0"),
		append(inside[:4:4], "ip", "link", "set", "eth0", "up"),
		append(inside[:4:4], "ip", "route", "add", "default", "dev", "eth0"),
	} {
		if out, err := l.host.Exec(patience(t), command...); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		if command[2] == "add" && command[1] == "netns" {
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(stage.Patience))
				defer cancel()
				if out, err := l.host.Exec(ctx, "ip", "netns", "delete", space); err != nil {
					t.Errorf("clean up: %v\n%s", err, out)
				}
			})
		}
	}
	return func(ctx context.Context, arguments ...string) (string, error) {
		return l.host.Exec(ctx, append(append(inside[:4:4], l.Tool), arguments...)...)
	}
}
