// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Ports of a node that lead to a pod's.
const (
	hostHTTP = 18080
	hostEcho = 17001
	hostTied = 18081 // at the node's IPv4 address alone
	// hostNodePort is a Service's node port too, of those that are not chosen by chance.
	hostNodePort = 30011
)

func TestAHostPortLeadsToAPodOfAnyVPC(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	node := e.Lab.Nodes()[1]
	tenant, other := e.Tenant(t, stage.Overlapping("serving")), e.withEgress(t, "other")
	pod := tenant.Pod("server", scene.OnNode(second),
		scene.WithHostPort(corev1.ProtocolTCP, "", hostHTTP, report.PortHTTP),
		scene.WithHostPort(corev1.ProtocolTCP, "", hostEcho, report.PortEcho),
		scene.WithHostPort(corev1.ProtocolUDP, "", hostEcho, report.PortEcho),
		scene.WithHostPort(corev1.ProtocolTCP, "", hostNodePort, report.PortEcho),
		scene.WithHostPort(corev1.ProtocolTCP, node.IPv4.String(), hostTied, report.PortHTTP))
	namespace := e.plainNamespace(t)
	plain, foreign := scene.Pod(namespace, "plain", scene.OnNode(first)), other.Pod("foreign", scene.OnNode(second))
	e.Run(t, pod, plain, foreign)
	host := e.outsideHost(t, "client", 206)

	targets := func(ip netip.Addr) []string {
		return []string{
			scene.TargetPort("http", ip, hostHTTP) + "/echo", scene.TargetPort("tcp", ip, hostEcho), scene.TargetPort("udp", ip, hostEcho),
		}
	}
	tied := scene.TargetPort("http", node.IPv4, hostTied) + "/echo"
	ways := map[string]func(...string) string{
		"from outside": func(targets ...string) string {
			return e.onHost(t, host, append([]string{"probe", "--timeout", answerTime.String()}, targets...)...)
		},
		"from the other node": func(targets ...string) string {
			return e.OnNode(t, first, append([]string{"testtool", "probe", "--timeout", answerTime.String()}, targets...)...)
		},
		"from the node itself": func(targets ...string) string {
			return e.OnNode(t, second, append([]string{"testtool", "probe", "--timeout", answerTime.String()}, targets...)...)
		},
		"from the default VPC": func(targets ...string) string {
			return e.InPod(t, plain, append([]string{scene.Tool, "probe", "--timeout", answerTime.String()}, targets...)...)
		},
	}
	asked := map[string][]string{
		"from outside":         append(targets(node.IPv4), tied),
		"from the other node":  append(append(targets(node.IPv4), targets(node.IPv6)...), tied),
		"from the node itself": append(append(targets(node.IPv4), targets(node.IPv6)...), targets(netip.MustParseAddr("127.0.0.1"))...),
		"from the default VPC": append(targets(node.IPv4), tied),
	}
	for _, way := range sortedKeys(ways) {
		t.Run(way, func(t *testing.T) {
			results, err := scene.ParseLines[report.Probe](ways[way](asked[way]...))
			if err != nil || len(results) != len(asked[way]) {
				t.Fatalf("%d results of %d, %v", len(results), len(asked[way]), err)
			}
			for _, result := range results {
				if want := pod.Namespace + "/" + pod.Name; !result.OK || result.Name != want {
					t.Errorf("%s: answered by %q, error %q; want %s", result.Target, result.Name, result.Error, want)
				}
			}
		})
	}
	t.Run("not from another tenant's pod", func(t *testing.T) { e.expectSilence(t, foreign, targets(node.IPv4)...) })
	t.Run("not at another address than its own", func(t *testing.T) {
		// The node itself refuses it, which pods of the default VPC are told.
		results, err := e.Ask(within(t, patience), plain, silenceTime, scene.TargetPort("http", node.IPv6, hostTied)+"/echo")
		if err != nil || len(results) != 1 || results[0].OK {
			t.Errorf("%+v, %v", results, err)
		}
	})
	t.Run("before a Service that has it for its node port", func(t *testing.T) {
		service := serviceOf(pod.Namespace, "same", "nobody")
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, hostNodePort
		e.Make(t, service)
		e.awaitEvent(t, service, v1alpha1.NodePortTakenReason, pod.Name)
		results := e.knock(t, host, scene.TargetPort("tcp", node.IPv4, hostNodePort))
		if !results[0].OK || results[0].Name != scene.ServerName(pod.Namespace, pod.Name) {
			t.Errorf("%+v", results)
		}
	})
	t.Run("not after the pod is gone", func(t *testing.T) {
		if err := e.Delete(within(t, patience), pod); err != nil {
			t.Fatal(err)
		}
		// The object may go before the containers do: the port is the pod's
		// until the runtime has taken its interface away.
		err := scene.Until(within(t, patience), "the ports to be nobody's", func(context.Context) (bool, string, error) {
			results, err := scene.ParseLines[report.Probe](e.onHost(t, host, append([]string{"probe", "--timeout", silenceTime.String()}, targets(node.IPv4)...)...))
			answered := slices.ContainsFunc(results, func(r report.Probe) bool { return r.OK })
			return len(results) == 3 && !answered, fmt.Sprintf("%+v", results), err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestAHostPortOnWhichTheNodeListensIsRefusedWithAnEvent(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("greedy"))
	for name, option := range map[string]scene.PodOption{
		"kubelet": scene.WithHostPort(corev1.ProtocolTCP, "", kubeletPort, report.PortHTTP),
		"tunnel":  scene.WithHostPort(corev1.ProtocolUDP, "", 4789, report.PortEcho),
	} {
		t.Run(name, func(t *testing.T) {
			pod := tenant.Pod(name, scene.OnNode(first), option)
			e.Make(t, pod)
			e.awaitEvent(t, pod, v1alpha1.HostPortConflictReason, "hostPort")
		})
	}
	t.Run("and the kubelet is reached as before", func(t *testing.T) {
		node := e.Lab.Nodes()[0]
		out := e.onHost(t, e.outsideHost(t, "knocker", 207), "probe", "--timeout", answerTime.String(), scene.TargetPort("connect", node.IPv4, kubeletPort))
		if results, err := scene.ParseLines[report.Probe](out); err != nil || len(results) != 1 || !results[0].OK {
			t.Errorf("%v, %v", results, err)
		}
	})
}

// awaitEvent waits for an event about an object, with a certain text in its message.
func (e *env) awaitEvent(t *testing.T, object client.Object, reason, text string) {
	t.Helper()
	err := scene.Until(within(t, patience), "event "+reason, func(ctx context.Context) (bool, string, error) {
		events, err := e.Events(ctx, object)
		found := slices.ContainsFunc(events, func(event corev1.Event) bool {
			return event.Reason == reason && strings.Contains(event.Message, text)
		})
		return found, fmt.Sprint(len(events), " events"), err
	})
	if err != nil {
		t.Fatal(err)
	}
}
