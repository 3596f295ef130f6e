// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// patience is how long the cluster may take to get over a fault.
const patience = 3 * time.Minute

// root of the work tree, seen from this package's folder.
const root = "../../.."

// suite is all tests of this package, on one lab.
var suite = stage.NewSuite("faults", root)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is the environment of every test.
type env struct{ *stage.Env }

func start(t *testing.T) *env {
	t.Helper()
	return &env{suite.Start(t)}
}

// waits until something is true, or fails the test.
func (e *env) waits(t *testing.T, what string, look func(context.Context) (bool, string, error)) {
	t.Helper()
	if err := scene.Until(stage.Within(t, patience), what, look); err != nil {
		t.Fatal(err)
	}
}

// does repeats an action until it succeeds: while the API server is away
// nothing does.
func (e *env) does(t *testing.T, what string, action func(context.Context) error) {
	t.Helper()
	var last error
	err := scene.Until(stage.Within(t, patience), what, func(ctx context.Context) (bool, string, error) {
		last = action(ctx)
		return last == nil, fmt.Sprint(last), nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

// probed returns a readiness probe of the test image's server, for pods whose
// network the kubelet shall try.
func probed() scene.PodOption {
	return scene.WithReadiness(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(report.PortHTTP)}})
}

// expectReach requires that a pod reaches every address of others, by every
// protocol.
func (e *env) expectReach(t *testing.T, from *corev1.Pod, others ...*corev1.Pod) {
	t.Helper()
	var targets []string
	for _, pod := range others {
		targets = append(targets, scene.Targets(scene.Protocols(), scene.IPs(pod)...)...)
	}
	results, err := e.Ask(stage.Within(t, patience), from, 2*stage.AnswerTime, targets...)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("%s from %s on %s: no answer: %s", result.Target, from.Name, from.Spec.NodeName, result.Error)
		}
	}
}

// addressesOf returns a pod's addresses by its name, to be compared with later.
func addressesOf(pods []*corev1.Pod) map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for _, pod := range pods {
		all[pod.Name] = scene.IPs(pod)
	}
	return all
}

// expectAddresses requires that pods have kept the addresses that they had.
func expectAddresses(t *testing.T, pods []*corev1.Pod, before map[string][]netip.Addr) {
	t.Helper()
	for _, pod := range pods {
		if now := scene.IPs(pod); !slices.Equal(now, before[pod.Name]) {
			t.Errorf("%s had %v and has %v", pod.Name, before[pod.Name], now)
		}
	}
}

// expectUnharmed requires that no container of the pods ended.
func (e *env) expectUnharmed(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		now := &corev1.Pod{}
		if err := e.Client.Get(stage.Within(t, patience), client.ObjectKeyFromObject(pod), now); err != nil {
			t.Error(err)
			continue
		}
		if now.UID != pod.UID || now.Status.Phase != corev1.PodRunning || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s was harmed:\n%s", pod.Name, e.Describe(stage.Within(t, patience), pod))
		}
	}
}

// waitReady waits until pods are Ready, whatever dies meanwhile.
func (e *env) waitReady(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	if err := e.WaitReady(stage.Within(t, 2*patience), pods...); err != nil {
		t.Fatal(err)
	}
}

// waitRestarted waits until every pod is Ready with another container than when the pods were read.
func (e *env) waitRestarted(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		before := pod.Status.ContainerStatuses[0].ContainerID
		e.waits(t, "pod "+pod.Name+" to run again", func(ctx context.Context) (bool, string, error) {
			err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			statuses := pod.Status.ContainerStatuses
			again := err == nil && len(statuses) > 0 && statuses[0].ContainerID != before && scene.IsReady(pod)
			return again, string(pod.Status.Phase), err
		})
	}
}

// nodeReady returns since when a node has been Ready; the zero time when it is
// not.
func (e *env) nodeReady(ctx context.Context, name string) (time.Time, error) {
	node, err := e.Lab.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time, nil
		}
	}
	return time.Time{}, nil
}
