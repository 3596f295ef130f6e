// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	// heldSockets is large enough that each of two backends gets some, which the client is given at
	// random.
	heldSockets = 24
	// askedAgain is how often a service is asked by each kind of socket, for the same
	// reason.
	askedAgain = 24
)

// wire lays a cable between the nodes; see stage.Env.Cable.
func (e *env) wire(t *testing.T, name string) {
	t.Helper()
	e.Cable(t, name)
}

// moveToMacvlan gives pods macvlan interfaces on a cable, and with them the addresses of their own,
// which are shut: no program of packets sees the pods' packets from then on. They ask on the cable
// for every address that is not beside them.
func (e *env) moveToMacvlan(t *testing.T, cable string, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		space, err := e.Lab.PodNetNS(within(t, patience), pod.Namespace, pod.Name)
		if err != nil {
			t.Fatal(err)
		}
		e.OnNode(t, pod.Spec.NodeName, "ip", "link", "add", "link", cable, "name", "mv0", "netns", space, "type", "macvlan", "mode", "bridge")
		steps := []string{
			"ip link set eth0 down", "ip addr flush dev eth0",
			"echo 0 > /proc/sys/net/ipv6/conf/mv0/disable_ipv6",
			"ip addr add " + scene.IP(pod, false).String() + "/24 dev mv0", "ip addr add " + scene.IP(pod, true).String() + "/64 dev mv0 nodad",
			"ip link set mv0 up", "ip route add default dev mv0", "ip -6 route add default dev mv0",
		}
		e.OnNode(t, pod.Spec.NodeName, "nsenter", "--net="+space, "sh", "-ec", strings.Join(steps, "\n"))
	}
}

// onlyByMacvlan fails the test when a pod has its own interface again.
func (e *env) onlyByMacvlan(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		space, err := e.Lab.PodNetNS(within(t, patience), pod.Namespace, pod.Name)
		if err != nil {
			t.Fatal(err)
		}
		if out := e.OnNode(t, pod.Spec.NodeName, "nsenter", "--net="+space, "ip", "-o", "link", "show", "up", "dev", "eth0"); out != "" {
			t.Errorf("%s/%s does not go by macvlan alone: %s", pod.Namespace, pod.Name, out)
		}
	}
}

// counter is a tenant's service on macvlan interfaces: who asks, and a backend on
// either node.
type counter struct {
	*scene.Tenant
	web, empty        *corev1.Service
	client, near, far *corev1.Pod
}

func (e *env) counterOnMacvlan(t *testing.T, name, cable string) *counter {
	t.Helper()
	first, second := e.Nodes()
	c := &counter{Tenant: e.Tenant(t, stage.Overlapping(name))}
	c.web, c.empty = serviceOf(c.Namespace.Name, "web", "web"), serviceOf(c.Namespace.Name, "empty", "nobody")
	e.Make(t, c.web, c.empty)
	web := scene.WithLabel("app", "web")
	c.client = c.Pod("client", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.40,fd10:10:0:1::40"}`))
	c.near = c.Pod("near", scene.OnNode(first), web, scene.WithNIC(`{"ip": "10.10.1.41,fd10:10:0:1::41"}`))
	c.far = c.Pod("far", scene.OnNode(second), web, scene.WithNIC(`{"ip": "10.10.1.42,fd10:10:0:1::42"}`))
	e.Run(t, c.client, c.near, c.far)
	e.wire(t, cable)
	e.moveToMacvlan(t, cable, c.client, c.near, c.far)
	for _, backend := range []*corev1.Pod{c.near, c.far} {
		e.expectAnswers(t, c.client, wantPod(backend))
	}
	return c
}

// socketTargets returns a service's ports as each kind of socket asks them.
func socketTargets(service *corev1.Service) []string {
	var targets []string
	for _, text := range service.Spec.ClusterIPs {
		ip := netip.MustParseAddr(text)
		addresses := []netip.Addr{ip}
		if ip.Is4() {
			addresses = append(addresses, netip.AddrFrom16(ip.As16())) // as a socket for IPv6 writes it
		}
		for _, address := range addresses {
			for _, kind := range []string{"tcp", "udp", "sendto"} {
				targets = append(targets, kind+"://"+netip.AddrPortFrom(address, report.PortEcho).String())
			}
		}
	}
	return targets
}

// askBySockets asks each target a number of times, once by each socket.
func (e *env) askBySockets(ctx context.Context, from *corev1.Pod, times int, targets ...string) ([]report.Socket, error) {
	out, err := e.Exec(ctx, from, append([]string{scene.Tool, "socket", "--count", strconv.Itoa(times)}, targets...)...)
	if err != nil {
		return nil, err
	}
	return scene.ParseLines[report.Socket](out)
}

// awaitSockets waits until all that a client asks by sockets is as wanted.
func (e *env) awaitSockets(t *testing.T, from *corev1.Pod, what string, service *corev1.Service, wrong func(report.Socket) string) {
	t.Helper()
	err := scene.Until(within(t, patience), what, func(ctx context.Context) (bool, string, error) {
		results, err := e.askBySockets(ctx, from, 1, socketTargets(service)...)
		return err == nil && len(results) == len(socketTargets(service)) && sum(results, wrong) == "", sum(results, wrong), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sum(results []report.Socket, wrong func(report.Socket) string) string {
	var lines []string
	for _, result := range results {
		if problem := wrong(result); problem != "" {
			lines = append(lines, problem)
		}
	}
	return inOrder(lines)
}

// answeredBy returns a check of an answer: the socket has to show the service as its
// peer, and one of the pods has to show the client as its own.
func (c *counter) answeredBy(pods ...*corev1.Pod) func(report.Socket) string {
	return func(r report.Socket) string {
		kind, service, _ := strings.Cut(r.Target, "://")
		peerName, from := map[string]string{"tcp": service, "udp": service}[kind], map[string]string{"udp": service, "sendto": service}[kind]
		peer, _ := netip.ParseAddrPort(r.Peer)
		ours := peer.Addr() == scene.IP(c.client, false) || peer.Addr() == scene.IP(c.client, true)
		if r.Error != "" || r.PeerName != peerName || r.From != from || !ours || !c.named(r.Name, pods) {
			return fmt.Sprintf("%+v", r)
		}
		return ""
	}
}

func (c *counter) named(name string, pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if name == scene.ServerName(c.Namespace.Name, pod.Name) {
			return true
		}
	}
	return false
}

// expectServed asks by each kind of socket, many times, and requires that the pods
// answer all, each of them some.
func (c *counter) expectServed(t *testing.T, e *env, pods ...*corev1.Pod) {
	t.Helper()
	results, err := e.askBySockets(within(t, patience), c.client, askedAgain, socketTargets(c.web)...)
	if err != nil || len(results) != askedAgain*len(socketTargets(c.web)) {
		t.Fatalf("%d answers, %v", len(results), err)
	}
	if wrong := sum(results, c.answeredBy(pods...)); wrong != "" {
		t.Errorf("%s: %s", c.Name, wrong)
	}
	served := map[string]int{}
	for _, result := range results {
		served[result.Name]++
	}
	if len(served) != len(pods) {
		t.Errorf("%s: answered by %v, want all of %d pods", c.Name, served, len(pods))
	}
}

func refused(r report.Socket) string {
	// A datagram's socket is refused when it is connected, or else when it sends.
	if strings.HasSuffix(r.Error, "connection refused") && !strings.HasPrefix(r.Error, "receive") {
		return ""
	}
	return fmt.Sprintf("%+v", r)
}

// retire takes the label off a pod that makes it a backend.
func (e *env) retire(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	before := pod.DeepCopy()
	delete(pod.Labels, "app")
	if err := e.Client.Patch(within(t, patience), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// held are connected UDP sockets of a client that it keeps.
type held struct {
	stop    string
	done    sync.WaitGroup
	sockets []report.Held
	err     error
}

// hold returns once all sockets have been answered. They are kept until unharmed.
func (c *counter) hold(t *testing.T, e *env) *held {
	t.Helper()
	ctx := within(t, 3*patience)
	h := &held{stop: "/tmp/" + unique("stop")}
	begun := h.stop + ".begun"
	command := []string{
		scene.Tool,
		"socket",
		"hold",
		"--count",
		strconv.Itoa(heldSockets),
		"--duration",
		patience.String(),
		"--stop-file",
		h.stop,
		"--begun-file",
		begun,
	}
	for _, target := range socketTargets(c.web) {
		if strings.HasPrefix(target, "udp") {
			command = append(command, target)
		}
	}
	h.done.Go(func() {
		out, err := e.Exec(ctx, c.client, command...)
		if h.err = err; err == nil {
			h.sockets, h.err = scene.ParseLines[report.Held](out)
		}
	})
	err := scene.Until(ctx, "the sockets to be answered", func(ctx context.Context) (bool, string, error) {
		_, err := e.Exec(ctx, c.client, "test", "-e", begun)
		return err == nil, "they are not", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// unharmed ends the sockets, and requires that nothing has ended one before, and that each goes on
// with whom it had. The pods of this scene were moved to macvlan by hand, so the datapath takes
// them for pods with a host end: another test covers sockets of pods without one.
func (c *counter) unharmed(t *testing.T, e *env, h *held) {
	t.Helper()
	e.InPod(t, c.client, "touch", h.stop)
	if h.done.Wait(); h.err != nil {
		t.Fatal(h.err)
	}
	for _, s := range h.sockets {
		switch {
		case c.answeredBy(c.near, c.far)(s.First) != "":
			t.Errorf("%s: %+v", c.Name, s.First)
		case s.Again == nil || s.Again.Name != s.First.Name || c.answeredBy(c.near, c.far)(*s.Again) != "":
			t.Errorf("a socket of a backend that stays: %+v, again %+v", s, s.Again)
		}
	}
	if want := heldSockets * 3; len(h.sockets) != want {
		t.Errorf("%s: %d sockets, want %d", c.Name, len(h.sockets), want)
	}
}

// Two tenants' pods with the same addresses have macvlan interfaces. Their services are translated
// at the socket only.
func TestMacvlanPod_ServiceOfVPC_Reached(t *testing.T) {
	t.Parallel()
	e := start(t)
	one, other := e.counterOnMacvlan(t, "macvlan-a", "cable-a"), e.counterOnMacvlan(t, "macvlan-b", "cable-b")
	for _, c := range []*counter{one, other} {
		e.awaitSockets(t, c.client, "the service to answer", c.web, c.answeredBy(c.near, c.far))
		e.awaitSockets(t, c.client, "nobody to be there", c.empty, refused)
	}
	for _, c := range []*counter{one, other} {
		c.expectServed(t, e, c.near, c.far)
	}
	e.expectSilence(t, one.client, append(vipTargets(other.web), vipTargets(other.empty)...)...)
	e.expectSilence(t, other.client, vipTargets(one.web)...)

	theirs := other.hold(t, e)
	e.retire(t, one.near)
	e.awaitSockets(t, one.client, "the backend to be gone", one.web, one.answeredBy(one.far))
	one.expectServed(t, e, one.far)
	other.expectServed(t, e, other.near, other.far)
	other.unharmed(t, e, theirs)

	e.retire(t, one.far)
	e.awaitSockets(t, one.client, "nobody to be there", one.web, refused)
	other.expectServed(t, e, other.near, other.far)
	for _, c := range []*counter{one, other} {
		e.onlyByMacvlan(t, c.client, c.near, c.far)
	}
}
