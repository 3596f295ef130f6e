// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// serviceOf returns a Service of a namespace in front of the pods with a label.
func serviceOf(namespace, name, app string) *corev1.Service {
	return scene.Service(namespace, name, app)
}

// vipTargets returns all targets that a service answers.
func vipTargets(service *corev1.Service) []string {
	var targets []string
	for _, ip := range service.Spec.ClusterIPs {
		targets = append(targets, scene.Targets(scene.Protocols(), netip.MustParseAddr(ip))...)
	}
	return targets
}

// shop is a tenant with a server and two who ask it, one of them beside it.
type shop struct {
	*scene.Tenant
	server, near, far *corev1.Pod
	web, empty        *corev1.Service
}

func (e *env) shop(t *testing.T, name string) *shop {
	t.Helper()
	first, second := e.Nodes()
	s := &shop{Tenant: e.Tenant(t, stage.Overlapping(name))}
	s.web, s.empty = serviceOf(s.Namespace.Name, "web", "web"), serviceOf(s.Namespace.Name, "empty", "nobody")
	e.Make(t, s.web, s.empty)
	s.server = s.Pod("server", scene.OnNode(first), scene.WithLabel("app", "web"), scene.WithNIC(`{"ip": "10.10.1.20"}`))
	s.near = s.Pod("near", scene.OnNode(first), scene.WithNIC(`{"ip": "10.10.1.21"}`))
	s.far = s.Pod("far", scene.OnNode(second), scene.WithNIC(`{"ip": "10.10.1.22"}`))
	e.Run(t, s.server, s.near, s.far)
	for _, from := range []*corev1.Pod{s.near, s.far} {
		e.awaitReach(t, from, true, scene.Target("tcp", netip.MustParseAddr(s.web.Spec.ClusterIP)))
	}
	return s
}

func TestVPCService_ClientPods_OwnPodsAnswer(t *testing.T) {
	t.Parallel()
	e := start(t)
	one, other := e.shop(t, "shop-a"), e.shop(t, "shop-b")
	for _, s := range []*shop{one, other} {
		want := map[string]string{}
		for _, target := range vipTargets(s.web) {
			want[target] = scene.ServerName(s.Namespace.Name, s.server.Name)
		}
		for _, from := range []*corev1.Pod{s.near, s.far} {
			t.Run(s.Name+" from "+from.Name, func(t *testing.T) { e.expectAnswers(t, from, want) })
		}
		t.Run(s.Name+" from the server itself", func(t *testing.T) {
			results, err := e.Ask(within(t, patience), s.server, answerTime, vipTargets(s.web)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if !result.OK {
					t.Errorf("no answer from %s: %s", result.Target, result.Error)
				}
			}
		})
		t.Run(s.Name+" is refused where there is nobody", func(t *testing.T) {
			for _, ip := range s.empty.Spec.ClusterIPs {
				e.expectRefusals(t, s.far, netip.MustParseAddr(ip))
			}
		})
	}
	for _, from := range []*corev1.Pod{one.near, one.far} {
		t.Run("ports that a service lacks are refused to "+from.Name, func(t *testing.T) { e.expectLacking(t, from, one.web) })
		t.Run("one socket of "+from.Name+" asks one server by several names", func(t *testing.T) { e.expectEachName(t, from, one) })
	}
	t.Run("nobody reaches the other tenant's", func(t *testing.T) {
		e.expectSilence(t, one.far, append(vipTargets(other.web), vipTargets(other.empty)...)...)
		e.expectSilence(t, other.near, vipTargets(one.web)...)
	})
}

// expectRefusals requires that a virtual address refuses TCP and UDP at once.
func (e *env) expectRefusals(t *testing.T, from *corev1.Pod, vip netip.Addr) {
	t.Helper()
	results, err := e.AskTimes(within(t, patience), from, 1, answerTime, "", scene.Targets([]string{"tcp", "udp"}, vip)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.OK || !strings.Contains(result.Error, "refused") {
			t.Errorf("%s: answered: %v, error %q, want a refusal", result.Target, result.OK, result.Error)
		}
	}
}

// expectLacking asks ports of TCP and UDP that a service does not have, and ports that a service
// shared by every VPC does not have.
func (e *env) expectLacking(t *testing.T, from *corev1.Pod, service *corev1.Service) {
	t.Helper()
	var targets []string
	for _, ip := range append(slices.Clone(service.Spec.ClusterIPs), "10.96.0.1") {
		for _, scheme := range []string{"connect", "udp"} {
			targets = append(targets, scene.TargetPort(scheme, netip.MustParseAddr(ip), 444))
		}
	}
	results, err := e.AskTimes(within(t, patience), from, 1, answerTime, "", targets...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.OK || !strings.Contains(result.Error, "refused") {
			t.Errorf("%s: answered: %v, error %q, want a refusal", result.Target, result.OK, result.Error)
		}
	}
}

// expectEachName asks the server of a shop from one socket, by two services, by two ports of one
// and by its own address: the replies come from these addresses.
func (e *env) expectEachName(t *testing.T, from *corev1.Pod, s *shop) {
	t.Helper()
	mirror := serviceOf(s.Namespace.Name, "mirror-"+from.Name, "web")
	mirror.Spec.Ports = append(mirror.Spec.Ports, corev1.ServicePort{
		Name: "again", Protocol: corev1.ProtocolUDP, Port: 7077, TargetPort: intstr.FromInt32(report.PortEcho),
	})
	e.Make(t, mirror)
	for i, ip := range mirror.Spec.ClusterIPs {
		e.awaitReach(t, from, true, scene.TargetPort("udp", netip.MustParseAddr(ip), 7077))
		at := func(ip string, port uint16) string {
			return netip.AddrPortFrom(netip.MustParseAddr(ip), port).String()
		}
		server := scene.IP(s.server, i == 1).String()
		asked := []string{at(s.web.Spec.ClusterIPs[i], report.PortEcho), at(ip, report.PortEcho), at(ip, 7077), at(server, report.PortEcho)}
		out := e.InPod(t, from, append([]string{scene.Tool, "socket", "shared"}, asked...)...)
		replies, err := scene.ParseLines[report.Socket](out)
		if err != nil {
			t.Fatal(err)
		}
		var came []string
		for _, reply := range replies {
			came = append(came, reply.From)
		}
		slices.Sort(asked)
		slices.Sort(came)
		if !slices.Equal(asked, came) {
			t.Errorf("of %v asked, replies come from %v", asked, came)
		}
	}
}

func TestDefaultVPC_Service_Answered(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	namespace := e.plainNamespace(t)
	service := serviceOf(namespace, "web", "web")
	e.Make(t, service)
	server := scene.Pod(namespace, "server", scene.OnNode(first), scene.WithLabel("app", "web"))
	asker := scene.Pod(namespace, "asker", scene.OnNode(second))
	e.Run(t, server, asker)
	e.awaitReach(t, asker, true, scene.Target("tcp", netip.MustParseAddr(service.Spec.ClusterIP)))
	want := map[string]string{}
	for _, target := range vipTargets(service) {
		want[target] = scene.ServerName(namespace, server.Name)
	}
	e.expectAnswers(t, asker, want)
}
