// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// powerOff pulls the plug of a node.
func (e *env) powerOff(t *testing.T, node string) {
	t.Helper()
	if err := e.Lab.PowerOff(stage.Within(t, patience), node); err != nil {
		t.Fatal(err)
	}
}

// powerOn boots a node and waits until it serves pods.
func (e *env) powerOn(t *testing.T, node string) {
	t.Helper()
	if err := e.Lab.PowerOn(stage.Within(t, patience), node); err != nil {
		t.Fatal(err)
	}
	e.waits(t, "the daemon on "+node+" to have programmed it", func(ctx context.Context) (bool, string, error) {
		dump, err := e.Dump(ctx, node)
		return dump.Programmed, dump.Problem, err
	})
	if err := e.Lab.WaitNodesReady(stage.Within(t, patience)); err != nil {
		t.Fatal(err)
	}
}

func TestNodeReboot_Pods_KeepAddresses(t *testing.T) {
	e := start(t)
	first, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("reboot"))
	near := tenant.Pod("near", scene.OnNode(first))
	var pods []*corev1.Pod
	for i := range 8 {
		pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(second), probed()))
	}
	pods = append(pods, tenant.Pod("static", scene.OnNode(second), scene.WithNIC(`{"ip": "10.10.1.77,fd10:10:0:1::77"}`)))
	e.Run(t, append([]*corev1.Pod{near}, pods...)...)
	before := addressesOf(pods)

	e.powerOff(t, second)
	e.powerOn(t, second)
	e.waitRestarted(t, pods...)
	expectAddresses(t, pods, before)
	e.expectReach(t, near, pods...)
	e.expectReach(t, pods[0], near, pods[1])
}

// fencing is a way to confirm that nothing runs on a node any more.
type fencing struct {
	name string
	// fence confirms it, and unfence takes it back once the node is there again.
	fence, unfence func(ctx context.Context, e *env, node string) error
}

func fencings() []fencing {
	return []fencing{
		{
			"by the taint out-of-service",
			func(ctx context.Context, e *env, node string) error { return e.setTaint(ctx, node, true) },
			func(ctx context.Context, e *env, node string) error { return e.setTaint(ctx, node, false) },
		},
		{
			"by deletion of the Node",
			func(ctx context.Context, e *env, node string) error {
				return e.Lab.Client().CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
			},
			func(context.Context, *env, string) error { return nil },
		},
	}
}

// setTaint gives a node the taint out-of-service, or takes it away.
func (e *env) setTaint(ctx context.Context, name string, tainted bool) error {
	nodes := e.Lab.Client().CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	if tainted {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
		})
	}
	_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
	return err
}

func TestLostNode_PodAddresses_ReleasedOnceFenced(t *testing.T) {
	defer func() { start(t).expectVerdict(t, exitAgrees, "no differences") }()
	for _, fencing := range fencings() {
		t.Run(fencing.name, func(t *testing.T) {
			e := start(t)
			e.quiet(t)
			first, second := e.Nodes()
			tenant := e.Tenant(t, stage.Overlapping("lost"))
			const ips = `{"ip": "10.10.1.88,fd10:10:0:1::88"}`
			network, inNetwork := e.layer2Network(t, tenant)
			held := tenant.Pod("db-0", scene.OnNode(second), scene.WithNIC(ips), inNetwork)
			asker := tenant.Pod("asker", scene.OnNode(first))
			e.Run(t, held, asker)

			e.powerOff(t, second)
			defer func() {
				e.does(t, "the node to be back", func(ctx context.Context) error { return fencing.unfence(ctx, e, second) })
			}()
			defer e.powerOn(t, second)
			e.forceDelete(t, held)
			successor := tenant.Pod("db-0", scene.OnNode(first), scene.WithNIC(ips))
			if err := e.Create(stage.Within(t, patience), successor); err != nil {
				t.Fatal(err)
			}
			e.expectToldToFence(t, successor, second)
			e.expectHeld(t, held, 2)
			e.deleteInUse(t, network, second)
			e.expectVerdict(t, exitDifferent, string(verify.AddressWaits), held.Namespace+"/"+held.Name, corev1.TaintNodeOutOfService)

			e.does(t, "the node to be fenced", func(ctx context.Context) error { return fencing.fence(ctx, e, second) })
			e.waitReady(t, successor)
			e.expectHeld(t, held, 0)
			e.expectHeld(t, successor, 2)
			if err := e.WaitGone(stage.Within(t, patience), network); err != nil {
				t.Error(err)
			}
			e.expectReach(t, asker, successor)
		})
	}
}

// The exit codes of `aliothctl verify`.
const (
	exitAgrees    = 0
	exitDifferent = 1
)

// expectVerdict runs `aliothctl verify`, as people do, until it exits as wanted and its
// output contains all of the texts.
func (e *env) expectVerdict(t *testing.T, want int, says ...string) {
	t.Helper()
	e.waits(t, fmt.Sprintf("aliothctl verify to exit with %d", want), func(ctx context.Context) (bool, string, error) {
		cmd := exec.CommandContext(ctx, e.Lab.Aliothctl(), "verify", "--settle", "0", "--answer-within", "5s")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			return false, "", err
		}
		asWanted := cmd.ProcessState.ExitCode() == want
		for _, word := range says {
			asWanted = asWanted && strings.Contains(string(out), word)
		}
		return asWanted, fmt.Sprintf("exit code %d: %s", cmd.ProcessState.ExitCode(), out), nil
	})
}

// forceDelete removes a pod's object although the pod has not ended.
func (e *env) forceDelete(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	e.does(t, "the pod's object to be gone", func(ctx context.Context) error {
		err := e.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return fmt.Errorf("still there: %w", err)
	})
}

// expectHeld requires the number of addresses that a pod's UID holds.
func (e *env) expectHeld(t *testing.T, pod *corev1.Pod, want int) {
	t.Helper()
	held, err := e.Held(stage.Within(t, patience), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != want {
		t.Errorf("pod %s (UID %s) holds %v, want %d addresses", pod.Name, pod.UID, held, want)
	}
}

// expectToldToFence waits until the pod's condition names the lost node and the remedy.
func (e *env) expectToldToFence(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	e.waits(t, "the pod to be told what it waits for", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		condition := scene.NetworkCondition(pod)
		if err != nil || condition == nil {
			return false, "no condition", err
		}
		reported := condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, node) &&
			strings.Contains(condition.Message, corev1.TaintNodeOutOfService)
		return reported, condition.Reason + ": " + condition.Message, nil
	})
}
