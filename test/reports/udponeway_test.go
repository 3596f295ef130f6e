// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "udp-one-way", Source: "kubernetes/kubernetes#139628", Kind: udpFlows,
	Input: "A pod sends datagrams to a Service from one port, and waits for no reply. All endpoints go, then another one comes.",
	Want:  "No further datagram reaches the old endpoint. The new one gets the datagrams that are sent from then on.",
	Run: func(t *testing.T, l *lab) {
		service := l.service(t)
		socket := question{from: l.in(l.asker), targets: at(service, "udp")}
		meanwhile, after := stage.Unique("meanwhile"), stage.Unique("after")
		l.lead(t, service, l.one)
		socket.await(t, name(l.one))
		l.sendUntilSeen(t, service, stage.Unique("before"), l.one)
		l.lead(t, service)
		socket.await(t, refused)
		l.sendOneWay(t, service, meanwhile)
		l.lead(t, service, l.two)
		socket.await(t, name(l.two))
		l.sendUntilSeen(t, service, after, l.two)
		l.expectUnseen(t, l.one, meanwhile, after)
	},
})

// oneWayPort is where datagrams come from that no socket has sent.
const oneWayPort = "21002"

// sendOneWay has the asker send a datagram to each address of a Service, past its sockets.
func (l *lab) sendOneWay(t *testing.T, service *corev1.Service, text string) {
	t.Helper()
	for _, ip := range service.Spec.ClusterIPs {
		own := scene.IP(l.asker, netip.MustParseAddr(ip).Is6()).String()
		l.InPod(t, l.asker, scene.Tool, "raw", "frame", "--source", own, "--source-mac", stage.MAC(t, l.asker),
			"--source-port", oneWayPort, "--target", ip, "--text", text)
	}
}

// sendUntilSeen sends such datagrams until a pod's server has had one from each address of
// the asker.
func (l *lab) sendUntilSeen(t *testing.T, service *corev1.Service, text string, server *corev1.Pod) {
	t.Helper()
	until(t, fmt.Sprintf("%q at %s", text, server.Name), func(ctx context.Context) (bool, string, error) {
		l.sendOneWay(t, service, text)
		seen, err := l.Seen(ctx, server)
		from := map[string]bool{}
		for _, message := range seen {
			if message.Text == text {
				from[message.Peer] = true
			}
		}
		return len(from) == len(service.Spec.ClusterIPs), fmt.Sprint(from), err
	})
}
