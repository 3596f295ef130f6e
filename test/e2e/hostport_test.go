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
	"time"

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
	hostOwn  = 18082 // of a pod without a tenant
	// hostNodePort becomes a Service's node port. The API server does not choose it by chance.
	hostNodePort = 30011
)

func TestHostPort_AnyVPC_LeadsToPod(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	node := e.Lab.Nodes()[1]
	tenant, other := e.Tenant(t, stage.Overlapping("serving")), e.withEgress(t, "other")
	web := scene.WithHostPort(corev1.ProtocolTCP, "", hostHTTP, report.PortHTTP)
	e.Grant(t, scene.HostAccess(tenant.Name, []string{tenant.Name}, "18080-18081/TCP", fmt.Sprint(hostEcho), fmt.Sprint(hostNodePort)), tenant.Namespace.Name, web)
	pod := tenant.Pod("server", scene.OnNode(second), web,
		scene.WithHostPort(corev1.ProtocolTCP, "", hostEcho, report.PortEcho),
		scene.WithHostPort(corev1.ProtocolUDP, "", hostEcho, report.PortEcho),
		scene.WithHostPort(corev1.ProtocolTCP, "", hostNodePort, report.PortEcho),
		scene.WithHostPort(corev1.ProtocolTCP, node.IPv4.String(), hostTied, report.PortHTTP))
	namespace := e.plainNamespace(t)
	plain, foreign := scene.Pod(namespace, "plain", scene.OnNode(first)), other.Pod("foreign", scene.OnNode(second))
	nodes := scene.Pod(namespace, "nodes", scene.OnNode(second), scene.WithHostPort(corev1.ProtocolTCP, "", hostOwn, report.PortEcho))
	e.Run(t, pod, plain, foreign, nodes)
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
		"from the default VPC": func(targets ...string) string {
			return e.InPod(t, plain, append([]string{scene.Tool, "probe", "--timeout", answerTime.String()}, targets...)...)
		},
	}
	asked := map[string][]string{
		"from outside":         append(targets(node.IPv4), tied),
		"from the other node":  append(append(targets(node.IPv4), targets(node.IPv6)...), tied),
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
	loopback := netip.MustParseAddr("127.0.0.1")
	t.Run("not from the node itself", func(t *testing.T) {
		asked := slices.Concat(targets(node.IPv4), targets(node.IPv6), targets(loopback))
		for _, result := range e.fromNode(t, second, silenceTime, asked...) {
			if result.OK {
				t.Errorf("%s: answered by %q", result.Target, result.Name)
			}
		}
	})
	t.Run("from the node itself to a pod of the default VPC without a tenant", func(t *testing.T) {
		var asked []string
		for _, address := range []netip.Addr{node.IPv4, node.IPv6, loopback} {
			asked = append(asked, scene.TargetPort("tcp", address, hostOwn))
		}
		for _, result := range e.fromNode(t, second, answerTime, asked...) {
			if !result.OK || result.Name != scene.ServerName(nodes.Namespace, nodes.Name) {
				t.Errorf("%+v", result)
			}
		}
	})
	t.Run("not from another tenant's pod", func(t *testing.T) { e.expectSilence(t, foreign, targets(node.IPv4)...) })
	t.Run("not at another address than its own", func(t *testing.T) {
		// The node itself refuses it, and pods of the default VPC get the refusal.
		results, err := e.Ask(within(t, patience), plain, silenceTime, scene.TargetPort("http", node.IPv6, hostTied)+"/echo")
		if err != nil || len(results) != 1 || results[0].OK {
			t.Errorf("%+v, %v", results, err)
		}
	})
	t.Run("until it is the node port of a Service", func(t *testing.T) {
		asked := scene.TargetPort("tcp", node.IPv4, hostNodePort)
		if before := e.knock(t, host, asked); !before[0].OK || before[0].Name != scene.ServerName(pod.Namespace, pod.Name) {
			t.Errorf("%+v", before)
		}
		service := serviceOf(pod.Namespace, "same", "nobody")
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, hostNodePort
		e.Make(t, service)
		e.awaitEvent(t, pod, v1alpha1.HostPortConflictReason, "Service "+service.Namespace+"/"+service.Name)
		err := scene.Until(within(t, patience), "nobody to answer for a Service without a backend", func(context.Context) (bool, string, error) {
			results := e.knock(t, host, asked)
			return !results[0].OK, fmt.Sprintf("%+v", results), nil
		})
		if err != nil {
			t.Error(err)
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

func TestHostPort_NodeListens_RefusedWithEvent(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, _ := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("greedy"))
	e.Grant(t, scene.HostAccess(tenant.Name, []string{tenant.Name}, "1-65535"), tenant.Namespace.Name,
		scene.WithHostPort(corev1.ProtocolTCP, "", kubeletPort, report.PortHTTP))
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

// fromNode asks from the network of a node.
func (e *env) fromNode(t *testing.T, node string, timeout time.Duration, targets ...string) []report.Probe {
	t.Helper()
	out := e.OnNode(t, node, append([]string{"testtool", "probe", "--timeout", timeout.String()}, targets...)...)
	results, err := scene.ParseLines[report.Probe](out)
	if err != nil || len(results) != len(targets) {
		t.Fatalf("%d results of %d, %v", len(results), len(targets), err)
	}
	return results
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
