// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Bytes in front of a datagram's data.
const headers4, headers6 = 28, 48

var _ = kept(Report{
	Name: "big-datagrams", Source: "cilium/cilium#8185", Kind: bigPackets,
	Input: "A client sends datagrams to a UDP Service that are bigger than the MTU.",
	Want:  "The endpoint gets them whole, and its replies, which are as big, arrive.",
	Run: func(t *testing.T, l *lab) {
		l.askInSizes(t, func(int) []int { return []int{2000, 3000, 3900} })
	},
})

var _ = kept(Report{
	Name: "datagrams-around-the-mtu", Source: "cilium/cilium#32427", Kind: bigPackets,
	Input: "Datagrams to a UDP Service have sizes around the MTU, so that the last fragment has very few bytes.",
	Want:  "Each size is answered.",
	Run: func(t *testing.T, l *lab) {
		l.askInSizes(t, func(fits int) []int { return []int{fits - 1, fits, fits + 1, fits + 2, fits + 3, fits + 8, fits + 9} })
	},
})

// askInSizes has pods and the host outside ask the servers of both nodes, in datagrams of sizes
// that depend on the largest datagram that fits into a packet.
func (l *lab) askInSizes(t *testing.T, sizes func(fits int) []int) {
	t.Helper()
	service := l.service(t, withNodePorts)
	out, err := l.host.Exec(patience(t), showLink...)
	if err != nil {
		t.Fatal(err)
	}
	inside, underlay := mtu(t, l.InNetNS(t, l.asker, showLink...)), mtu(t, out)
	for _, server := range []*corev1.Pod{l.one, l.two} {
		l.lead(t, service, server)
		for _, from := range l.clients() {
			l.expectSizes(t, question{from: l.in(from), targets: at(service, "udp")}, server, inside, sizes)
		}
		l.expectSizes(t, question{from: l.on(l.host), targets: l.atNodes(service, "udp")}, server, underlay, sizes)
	}
}

// expectSizes asks each target in datagrams of all sizes.
func (l *lab) expectSizes(t *testing.T, q question, server *corev1.Pod, mtu int, sizes func(fits int) []int) {
	t.Helper()
	q.await(t, name(server))
	for _, target := range q.targets {
		fits := mtu - headers4
		if to, err := netip.ParseAddrPort(strings.TrimPrefix(target, "udp://")); err == nil && to.Addr().Is6() {
			fits = mtu - headers6
		}
		// A sender learns of a smaller MTU on the way by the loss of a datagram.
		whole := question{from: q.from, targets: []string{target}, text: strings.Repeat("x", fits-1)}
		whole.await(t, name(server))
		for _, size := range sizes(fits) {
			one := question{from: q.from, targets: []string{target}, text: strings.Repeat("x", size-1)} // and a line feed
			one.expect(t, 1, name(server))
		}
	}
}

// showLink has ip print the first interface.
var showLink = []string{"ip", "-j", "link", "show", "eth0"}

// mtu reads the link that ip has printed.
func mtu(t *testing.T, printed string) int {
	t.Helper()
	var links []struct{ MTU int }
	if err := json.Unmarshal([]byte(printed), &links); err != nil || len(links) != 1 || links[0].MTU == 0 {
		t.Fatalf("read the MTU of %q: %v", printed, err)
	}
	return links[0].MTU
}
