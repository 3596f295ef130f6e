// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Addresses that pods of two tenants have at once: a backend, and a client.
const backendIP, machineIP = "10.10.1.20", "10.10.2.22"

// TestServices_SocketsAndPackets_BehaveAlike has one tenant with all kinds of Services, and another
// tenant with the same addresses, which must have no effect on the first.
func TestServices_SocketsAndPackets_BehaveAlike(t *testing.T) {
	t.Parallel()
	e := start(t)
	f, r := e.fleet(t, "fleet", backendIP, machineIP), e.rival(t)
	for name, behaves := range map[string]func(*testing.T){
		"from one backend to five":               f.growsToFive,
		"between subnets, beside another tenant": func(t *testing.T) { f.spansSubnets(t, r) },
		"session affinity":                       f.keepsClients,
		"ports":                                  f.leadsToPorts,
		"readiness":                              f.followsReadiness,
		"internalTrafficPolicy Local":            f.staysOnNodes,
		"a pod that asks itself":                 f.reachesItself,
		"nobody there":                           f.refuses,
		"near ones first":                        f.prefersNearOnes,
		"a backend without the label":            f.leavesByLabel,
		"a backend that is deleted":              f.leavesByDeletion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behaves(t)
		})
	}
}

func (f *fleet) growsToFive(t *testing.T) {
	service := f.service(t, "grow")
	var long []*conversations
	for n := 1; n <= len(f.backends); n++ {
		now := f.backends[:n]
		f.put(t, service, now...)
		f.awaitHeard(t, f.asking(), at(service, "tcp"), now...)
		f.expectHeard(t, f.asking(), vipTargets(service), now...)
		if n == 2 {
			long = f.converse(t, at(service, "tcp"))
		}
	}
	each(t, f.asking(), func(ctx context.Context, pod *corev1.Pod) error {
		heard, err := f.hear(ctx, pod, 50, at(service, "tcp")...)
		for target, names := range heard {
			if len(names) < 2 || slices.ContainsFunc(names, failed) {
				err = errors.Join(err, fmt.Errorf("%s: 50 connections are answered by %v, want several backends", target, names))
			}
		}
		return err
	})
	for _, c := range long {
		for _, result := range c.end(t) {
			if len(result.Turns) != 1 || result.Broken != 0 || result.Answered != result.Sent || result.Answered < 3 {
				t.Errorf("%s: %+v, want one backend and all answers", c.Pod.Name, result)
			}
		}
	}
}

// rival is a second tenant. Its backend, load balancer and machine have addresses that the fleet
// has as well.
type rival struct {
	*scene.Tenant
	server, machine *corev1.Pod
	service         *corev1.Service
}

func (e *env) rival(t *testing.T) *rival {
	t.Helper()
	first, second := e.Nodes()
	r := &rival{Tenant: e.Tenant(t, stage.Overlapping("rival"))}
	r.server = r.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web"), scene.WithNIC(`{"ip": "`+backendIP+`"}`))
	r.machine = r.Pod("machine", scene.OnNode(second), scene.WithNIC(`{"ip": "`+machineIP+`"}`), scene.AsMachine())
	r.service = serviceOf(r.Namespace.Name, "web", "web")
	balance(r.service)
	e.Make(t, balancerSubnet(r.Tenant), r.service)
	e.Run(t, r.server, r.machine)
	return r
}

// spansSubnets has backends in two subnets behind two Services, and asks from both subnets. One
// Service has a load balancer in a third subnet.
func (f *fleet) spansSubnets(t *testing.T, r *rival) {
	f.e.Make(t, balancerSubnet(f.Tenant))
	one, other := f.service(t, "one-vip"), f.service(t, "other-vip", balance)
	shared := []*corev1.Pod{f.backends[0], f.backends[2], f.backends[3]}
	f.put(t, one, shared...)
	f.put(t, other, shared...)
	f.e.awaitIngress(t, other, len(balancedIPs))
	balanced := scene.Targets(scene.Protocols(), balancedIPs...)
	f.awaitHeard(t, f.asking(), slices.Concat(at(one, "tcp"), at(other, "tcp"), scene.Targets([]string{"tcp"}, balancedIPs...)), shared...)
	f.expectHeard(t, f.asking(), slices.Concat(vipTargets(one), vipTargets(other), balanced), shared...)

	// The other tenant's machine asks at the same moment, from the same ports of the
	// same address.
	f.e.awaitReach(t, r.machine, true, balanced[1])
	for range 3 {
		var both sync.WaitGroup
		both.Go(func() { f.e.expectFrom(t, f.farMachine, f.Tenant, balanced, shared...) })
		both.Go(func() { f.e.expectFrom(t, r.machine, r.Tenant, balanced, r.server) })
		both.Wait()
	}
	f.e.expectNeverSaw(t, r.server, f.Name)
	for _, pod := range shared {
		f.e.expectNeverSaw(t, pod, r.Name)
	}
}

// expectFrom asks from one and the same port, and requires that one of the pods answers.
// It may run beside others.
func (e *env) expectFrom(t *testing.T, from *corev1.Pod, tenant *scene.Tenant, targets []string, want ...*corev1.Pod) {
	command := scene.ToolIn(from, "probe", "--timeout", answerTime.String(), "--source-port", strconv.Itoa(socketPort), "--text", tenant.Name)
	out, err := e.Exec(within(t, patience), from, append(command, targets...)...)
	if err != nil {
		t.Error(err)
		return
	}
	results, err := scene.ParseLines[report.Probe](out)
	if err != nil || len(results) != len(targets) {
		t.Errorf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		own := slices.ContainsFunc(want, func(p *corev1.Pod) bool { return scene.ServerName(p.Namespace, p.Name) == r.Name })
		if !r.OK || !own && !strings.HasPrefix(r.Target, "icmp") {
			t.Errorf("%s of %s: %+v, want one of %v", from.Name, tenant.Name, r, namesOf(want))
		}
	}
}

// keepsClients has a Service whose affinity lasts longer than any test, and one whose
// affinity lasts as short as may be.
func (f *fleet) keepsClients(t *testing.T) {
	sticky := f.service(t, "sticky", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	brief := f.service(t, "brief", func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](1)}}
	})
	f.put(t, sticky, f.backends...)
	f.put(t, brief, f.backends...)
	f.awaitAnswers(t, f.asking(), slices.Concat(at(sticky, "tcp", "udp", "http"), at(brief, "tcp"))...)
	each(t, f.asking(), func(ctx context.Context, pod *corev1.Pod) error {
		heard, err := f.hear(ctx, pod, 20, at(sticky, "tcp", "udp", "http")...)
		for target, names := range heard {
			if len(names) != 1 || failed(names[0]) {
				err = errors.Join(err, fmt.Errorf("%s: answered by %v, want one backend", target, names))
			}
		}
		return err
	})
	t.Run("affinity of a packet without a socket", func(t *testing.T) { f.expectSameWithoutSocket(t, sticky) })
	each(t, f.asking(), func(ctx context.Context, pod *corev1.Pod) error { return f.awaitAnother(ctx, pod, at(brief, "tcp")[0]) })
}

// expectSameWithoutSocket sends a crafted packet, which no socket has translated, from a
// pod whose sockets have reached a backend before, and requires the same backend.
func (f *fleet) expectSameWithoutSocket(t *testing.T, service *corev1.Service) {
	target := at(service, "udp")[0]
	heard, err := f.hear(within(t, patience), f.near, 1, target)
	if err != nil {
		t.Fatal(err)
	}
	text := unique("crafted")
	f.e.InPod(t, f.near, scene.Tool, "raw", "frame", "--source", scene.IP(f.near, false).String(), "--source-mac", mac(t, f.near),
		"--target", service.Spec.ClusterIP, "--text", text)
	var saw []string
	err = scene.Until(within(t, patience), "the packet", func(context.Context) (bool, string, error) {
		for _, pod := range f.backends {
			if f.e.saw(t, pod, text) {
				saw = append(saw, pod.Name)
			}
		}
		return len(saw) > 0, "nobody has it", nil
	})
	if err != nil || !slices.Equal(saw, heard[target]) {
		t.Errorf("sockets ask %v, a packet without one came to %v, %v", heard[target], saw, err)
	}
}

// awaitAnother waits until another backend than at first answers.
func (f *fleet) awaitAnother(ctx context.Context, from *corev1.Pod, target string) error {
	err := awaitAnotherName(ctx, func() (string, error) {
		heard, err := f.hear(ctx, from, 1, target)
		if err != nil {
			return "", err
		}
		if name := heard[target][0]; !failed(name) {
			return name, nil
		}
		return "", errors.New(heard[target][0])
	})
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// awaitAnotherName asks until a second name answers, where affinity lasts for a second. It waits
// that long between attempts, because each attempt renews the affinity.
func awaitAnotherName(ctx context.Context, ask func() (string, error)) error {
	const longerThanAffinity = 1500 * time.Millisecond
	first, err := ask()
	for {
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has answered ever since", first)
		case <-time.After(longerThanAffinity):
		}
		name := ""
		if name, err = ask(); err == nil && name != first {
			return nil
		}
	}
}

// leadsToPorts has TCP and UDP on one number, and pods of one Service that listen at
// different ports.
func (f *fleet) leadsToPorts(t *testing.T) {
	service := f.service(t, "ports", func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{
			{Name: "lines", Port: 80, TargetPort: intstr.FromString(echoPort)},
			{Name: "datagrams", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromString(datagramPort)},
			{Name: "web", Port: 81, TargetPort: intstr.FromString(webPort)},
		}
	})
	both := []*corev1.Pod{f.backends[0], f.backends[3]}
	f.put(t, service, both...)
	var targets []string
	for _, text := range service.Spec.ClusterIPs {
		ip := netip.MustParseAddr(text)
		targets = append(targets, scene.TargetPort("tcp", ip, 80), scene.TargetPort("udp", ip, 80), scene.TargetPort("http", ip, 81)+"/echo")
	}
	f.awaitHeard(t, f.asking(), targets, both...)
	f.expectHeard(t, f.asking(), targets, both...)
}

// followsReadiness has a backend that is not ready behind two Services: one publishes addresses
// that are not ready, and the other does not.
func (f *fleet) followsReadiness(t *testing.T) {
	ready := f.service(t, "ready")
	anyway := f.service(t, "anyway", func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true })
	sick := f.near
	f.put(t, ready, sick)
	f.put(t, anyway, sick)
	f.awaitHeard(t, f.asking(), at(ready, "tcp", "udp"), sick)
	f.e.turnHealth(t, sick, false)
	defer f.e.turnHealth(t, sick, true)
	f.awaitRefused(t, f.asking(), at(ready, "tcp", "udp")...)
	f.expectHeard(t, f.asking(), vipTargets(anyway), sick)
}

func (f *fleet) staysOnNodes(t *testing.T) {
	service := f.service(t, "local", func(s *corev1.Service) {
		s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	})
	here, there := f.backends[0], f.backends[1]
	f.put(t, service, here, there)
	f.awaitHeard(t, []*corev1.Pod{f.near, f.nearMachine}, at(service, "tcp", "udp"), here)
	f.awaitHeard(t, []*corev1.Pod{f.far, f.farMachine}, at(service, "tcp", "udp"), there)
	f.put(t, service, there)
	f.awaitRefused(t, []*corev1.Pod{f.near, f.nearMachine}, at(service, "tcp", "udp")...)
	f.expectHeard(t, []*corev1.Pod{f.far, f.farMachine}, vipTargets(service), there)
}

// reachesItself requires that a pod that is its own backend sees its gateway as the client instead
// of an address of its own. This is so where packets are translated; other tests cover translation
// at the socket.
func (f *fleet) reachesItself(t *testing.T) {
	service := f.service(t, "self")
	pod := f.nearMachine
	f.put(t, service, pod)
	f.awaitHeard(t, []*corev1.Pod{pod}, at(service, "tcp", "udp"), pod)
	results, err := f.e.AskTimes(within(t, patience), pod, 1, answerTime, f.text(pod), vipTargets(service)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		ip, _ := netip.ParseAddr(r.Peer) // ICMP has none
		if !r.OK || slices.Contains(scene.IPs(pod), ip) {
			t.Errorf("the pod asks itself: %+v", r)
		}
	}
}

// refuses at once, and answers pings all the same.
func (f *fleet) refuses(t *testing.T) {
	service := f.service(t, "empty")
	f.awaitRefused(t, f.asking(), at(service, "tcp", "udp", "http")...)
	f.expectHeard(t, f.asking(), at(service, "icmp"))
	// So it is when the earlier backends have gone.
	f.put(t, service, f.backends[1])
	f.awaitHeard(t, f.asking(), at(service, "tcp"), f.backends[1])
	f.put(t, service)
	f.awaitRefused(t, f.asking(), at(service, "tcp", "udp", "http")...)
	f.expectHeard(t, f.asking(), at(service, "icmp"))
}
