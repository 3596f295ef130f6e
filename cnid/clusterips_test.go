// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// webAddress is the ClusterIP and port of the Service.
const webAddress = "10.96.0.44:8000"

// asks lets a process in the pod connect to webAddress, and returns its output.
func (p *labPod) asks(t *testing.T) (string, error) {
	t.Helper()
	cmd := p.node.process(t, "client", "TARGET="+webAddress)
	var output, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &errs
	p.node.runIn(t, p.NetNS, cmd)
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%w: %s", err, errs.String())
	}
	return output.String(), nil
}

// overRed returns a Service without a selector that leads to a pod in the network of onVXLAN.
func overRed(to *labPod, version string, ready bool) (store.Service, store.EndpointSlice) {
	network := store.NetworkRef{UID: "uid-red"}
	service := store.Service{
		Meta: meta("web"), Namespace: "ns", Name: "web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.44")}, Selectorless: true,
		Ports: []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 8000}},
	}
	slice := store.EndpointSlice{
		Meta: store.Meta{UID: "web-1", ResourceVersion: version}, Namespace: "ns", Name: "web-1", Service: "web", Domain: network.Domain(),
		Ports:     []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		Endpoints: []store.Endpoint{{Addresses: []netip.Addr{to.ip(ipfamily.IPv4)}, Ready: ready, PodUID: to.uid, Node: to.node.cfg.NodeName, Named: true}},
	}
	return service, slice
}

// newClusterIPs has pods near and far on the link, and a Service that leads to far there. Pod
// b1 of a VPC has an interface on the link, too.
func newClusterIPs(t *testing.T) (l *lab, near, far *labPod) {
	t.Helper()
	l = newLab(t)
	near, far = l.onVXLAN(t)
	l.nodes[0].attachMore(t, "b1", inRed("net1", 9))
	service, slice := overRed(far, "1", true)
	number := multinet.DomainClaim{Meta: meta("red"), Number: 1 << 24, Network: store.NetworkRef{Kind: "ClusterNetwork", Name: "DanmNet/ns/red", UID: "uid-red"}}
	pods := append(slices.Clone(l.nodes[0].script.Pods), l.nodes[1].script.Pods[len(l.nodes[1].script.Pods)-1])
	for _, m := range l.nodes {
		m.script.Pods = pods
		m.script.Numbers, m.script.Services, m.script.Slices = []multinet.DomainClaim{number}, []store.Service{service}, []store.EndpointSlice{slice}
	}
	return l, near, far
}

// agrees returns nil if the maps of the first node agree with the API.
func (l *lab) agrees(t *testing.T) error {
	t.Helper()
	var errs []error
	for _, d := range l.differences(t) {
		if d.Node == "node1" && (d.Kind == verify.MapRowMissing || d.Kind == verify.MapRowLeft) {
			errs = append(errs, errors.New(d.String()))
		}
	}
	return errors.Join(errs...)
}

// TestClusterIP_NodeLinkNetwork_LeadsAcrossLink leads a Service through a daemon's life: a pod that
// is attached has it, also while the daemon is down and afterwards, and is refused when the
// backend is not ready.
func TestClusterIP_NodeLinkNetwork_LeadsAcrossLink(t *testing.T) {
	t.Parallel()
	l, near, far := newClusterIPs(t)
	node := l.nodes[0]
	l.start(t)
	for _, pod := range []*labPod{far, near} {
		if err := l.cni(t, "ADD", pod); err != nil {
			t.Fatal(err)
		}
	}
	far.serve(t)
	// The link may learn the other node's address later than the pods are attached.
	eventually(t, "the pods reach each other", func() error { return l.reaches(t, near, far) })
	reaches := func(when string) {
		t.Helper()
		if got, err := near.asks(t); err != nil || got != webAddress+" is "+far.name {
			t.Errorf("%s: %q, %v", when, got, err)
		}
	}
	reaches("once it is attached")
	if got, err := l.pods["b2"].asks(t); err == nil {
		t.Errorf("a pod in a VPC alone is answered %q", got)
	}
	if got, err := l.pods["b1"].asks(t); err != nil || got != webAddress+" is "+far.name {
		t.Errorf("a pod in a VPC and the network: %q, %v", got, err)
	}
	if err := l.agrees(t); err != nil {
		t.Error(err)
	}

	node.stop(unix.SIGKILL)
	reaches("while the daemon is down")
	node.start(t)
	reaches("after a restart")

	_, unready := overRed(far, "2", false)
	node.say(t, script{Slices: []store.EndpointSlice{unready}})
	eventually(t, "connections are refused without a backend", func() error {
		if got, err := near.asks(t); err == nil || !strings.Contains(err.Error(), unix.ECONNREFUSED.Error()) {
			return fmt.Errorf("%q, %w", got, err)
		}
		return nil
	})
	node.script.Slices = []store.EndpointSlice{unready}

	if err := l.cni(t, "DEL", near); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tables have nothing of the pod", func() error { return l.agrees(t) })
}

// TestTrace_ClusterIPOutsideVPC_Explained: no translated socket sends the packet in question.
func TestTrace_ClusterIPOutsideVPC_Explained(t *testing.T) {
	t.Parallel()
	l, near, far := newClusterIPs(t)
	l.start(t)
	const reach = "sockets of the pod reach service ns/web in ClusterNetwork DanmNet/ns/red instead, at 10.99.0.2 port 80"
	tells := func(pod string, port uint16, text string) error {
		steps := l.walk(t, l.pods[pod], netip.AddrPortFrom(netip.MustParseAddr("10.96.0.44"), port))
		facts := strings.Join(steps[0].Facts, "\n")
		if text == "" && strings.Contains(facts, "sockets of the pod") || !strings.Contains(facts, text) {
			return fmt.Errorf("a trace from %s to port %d says %q, want %q", pod, port, facts, text)
		}
		return nil
	}
	if err := errors.Join(tells("b1", 8000, reach), tells("b1", 8001, ""), tells("b2", 8000, "")); err != nil {
		t.Error(err)
	}
	if err := l.cni(t, "ADD", near); err != nil {
		t.Fatal(err)
	}
	_, err := l.tryWalk(t, "node1", nodestatus.Question{Pod: "ns/" + near.name, To: netip.MustParseAddrPort(webAddress), Proto: unix.IPPROTO_TCP})
	if err == nil || !strings.Contains(err.Error(), "there is nothing to trace") || !strings.Contains(err.Error(), reach) {
		t.Errorf("a trace from a pod outside of every VPC: %v", err)
	}
	_, unready := overRed(far, "2", false)
	l.nodes[0].say(t, script{Slices: []store.EndpointSlice{unready}})
	eventually(t, "the trace tells that sockets are refused", func() error { return tells("b1", 8000, "sockets of the pod are refused") })
}
