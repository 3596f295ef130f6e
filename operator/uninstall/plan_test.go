// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func heldBy(kind v1alpha1.HolderKind, name, uid string) v1alpha1.Address {
	return v1alpha1.Address{Spec: v1alpha1.AddressSpec{Holder: v1alpha1.AddressHolder{Kind: kind, Namespace: "ns", Name: name, UID: uid}}}
}

// claimedBy returns the claim of an interface outside of VPCs, with or without addresses.
func claimedBy(name, uid string) v1alpha1.AttachmentClaim {
	return v1alpha1.AttachmentClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: v1alpha1.AttachmentClaimSpec{Pod: v1alpha1.AttachmentPod{Name: name, UID: uid}},
	}
}

func podIn(uid string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase}}
}

func TestUsers_LivingPodsWithAddresses_Counted(t *testing.T) {
	got := users([]v1alpha1.Address{
		heldBy(v1alpha1.HolderPod, "web", "u1"),
		heldBy(v1alpha1.HolderPod, "web", "u1"), // its other family
		heldBy(v1alpha1.HolderPod, "starting", "u2"),
		heldBy(v1alpha1.HolderPod, "done", "u3"),
		heldBy(v1alpha1.HolderPod, "failed", "u4"),
		heldBy(v1alpha1.HolderPod, "gone", "u5"),
		heldBy(v1alpha1.HolderPod, "web-before", "u0"),
		heldBy(v1alpha1.HolderNode, "node-a", "u1"),
	}, []v1alpha1.AttachmentClaim{claimedBy("web", "u1"), claimedBy("layer2", "u9"), claimedBy("gone", "u8")}, []corev1.Pod{
		podIn("u1", corev1.PodRunning), podIn("u2", corev1.PodPending), podIn("u3", corev1.PodSucceeded),
		podIn("u4", corev1.PodFailed), podIn("u9", corev1.PodRunning),
	})
	if diff := cmp.Diff([]string{"ns/layer2", "ns/starting", "ns/web"}, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}

// TestUsers_PodsOfOtherNetwork_NotCounted: the operator also claims addresses for pods that ran before
// the installation. These pods have addresses of another CNI plugin until they end.
func TestUsers_PodsOfOtherNetwork_NotCounted(t *testing.T) {
	address := func(uid, attachment, ip string) v1alpha1.Address {
		a := heldBy(v1alpha1.HolderPod, uid, uid)
		a.Spec.Attachment, a.Spec.IP = attachment, ip
		return a
	}
	pod := func(uid string, ips ...string) corev1.Pod {
		p := podIn(uid, corev1.PodRunning)
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		return p
	}
	got := users([]v1alpha1.Address{
		address("bridged", "eth0", "10.100.0.2"), address("bridged", "eth0", "fd10:100::2"),
		address("starting", "eth0", "10.100.0.3"),
		address("ours", "eth0", "10.100.0.4"), address("ours", "eth0", "fd10:100::4"),
		address("one-family", "eth0", "10.100.0.5"), address("one-family", "eth0", "fd10:100::5"),
		address("second", "net1", "10.100.0.6"),
		address("claimed", "eth0", "10.100.0.7"),
	}, []v1alpha1.AttachmentClaim{claimedBy("claimed", "claimed")}, []corev1.Pod{
		pod("bridged", "10.244.1.2", "fd44::2"), pod("starting"), pod("ours", "10.100.0.4", "fd10:100:0:0::4"), pod("one-family", "10.100.0.5"),
		pod("second", "10.244.1.6"), pod("claimed", "10.244.1.7"),
	})
	if diff := cmp.Diff([]string{"ns/claimed", "ns/one-family", "ns/ours", "ns/second", "ns/starting"}, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}

func TestOwnConditions_Node_OnlyOfAlioth(t *testing.T) {
	const ready = corev1.NodeReady
	for name, c := range map[string]struct {
		reason string
		want   []corev1.NodeConditionType
	}{
		"of Alioth":          {v1alpha1.NetworkUpReason, []corev1.NodeConditionType{v1alpha1.NetworkHealthyCondition, corev1.NodeNetworkUnavailable}},
		"of another network": {"FlannelIsUp", []corev1.NodeConditionType{v1alpha1.NetworkHealthyCondition}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: ready}, {Type: v1alpha1.NetworkHealthyCondition}, {Type: corev1.NodeNetworkUnavailable, Reason: c.reason},
			}}}
			if diff := cmp.Diff(c.want, ownConditions(node)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummarize_ManyNames_Shortened(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	if got := summarize(names); !strings.HasSuffix(got, "p7 and 12 more") {
		t.Errorf("got %q", got)
	}
	if got := summarize(names[:2]); got != "p0, p1" {
		t.Errorf("got %q", got)
	}
}

// daemonSet is a name that the values of the chart give.
const daemonSet = "net-cnid"

func daemonSetFor(selector map[string]string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: daemonSet}}
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{componentLabel: componentDaemon, "app": "x"}},
		Spec: corev1.PodSpec{
			NodeSelector: selector, HostNetwork: true,
			InitContainers: []corev1.Container{{Name: "install-cni"}},
			Containers: []corev1.Container{{
				Name: "daemon", Image: "i", Command: []string{"alioth-cnid"}, Args: []string{"--bpf-dir=/b"},
				LivenessProbe: new(corev1.Probe), ReadinessProbe: new(corev1.Probe), StartupProbe: new(corev1.Probe),
				VolumeMounts: []corev1.VolumeMount{{Name: "bpf"}},
			}},
			Volumes: []corev1.Volume{{Name: "bpf"}},
		},
	}
	return set
}

func TestCleanup_Nodes_OnlyThoseOfDaemons(t *testing.T) {
	node := func(name, os string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": os}}}
	}
	nodes := []corev1.Node{node("a", "linux"), node("b", "windows"), node("c", "linux")}
	for _, tt := range []struct {
		name     string
		selector map[string]string
		want     []string
	}{
		{"by the selector", map[string]string{"kubernetes.io/os": "linux"}, []string{"a", "c"}},
		{"also when the daemons were retired before", map[string]string{"kubernetes.io/os": "linux", retiredSelector: "true"}, []string{"a", "c"}},
		{"all without a selector", nil, []string{"a", "b", "c"}},
	} {
		if diff := cmp.Diff(tt.want, servedNodes(nodes, daemonSetFor(tt.selector))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	bound := daemonSetFor(map[string]string{"kubernetes.io/os": "linux"})
	bound.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}}}},
		}},
	}}
	if diff := cmp.Diff([]string{"c"}, servedNodes(nodes, bound)); diff != "" {
		t.Errorf("by the affinity (-want +got):\n%s", diff)
	}
}

func TestCleanupPod_Daemon_SameWithOtherCommand(t *testing.T) {
	set := daemonSetFor(map[string]string{retiredSelector: "true"})
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	before := set.DeepCopy()
	pod := cleanupPod(set, "node-a")
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the DaemonSet changed:\n%s", diff)
	}
	want := corev1.PodSpec{
		NodeName: "node-a", HostNetwork: true, HostPID: true, RestartPolicy: corev1.RestartPolicyNever,
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "cleanup", Image: "i", Command: []string{"alioth-cnid"}, Args: []string{"uninstall", "--bpf-dir=/b"},
			VolumeMounts:             []corev1.VolumeMount{{Name: "bpf"}},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
		Volumes: []corev1.Volume{{Name: "bpf"}},
	}
	if diff := cmp.Diff(want, pod.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if pod.Labels[componentLabel] != componentCleanup || set.Spec.Template.Labels[componentLabel] != componentDaemon {
		t.Errorf("labels are %v: the DaemonSet would adopt the pod", pod.Labels)
	}
}

func TestOutcome_CleanupPod_WaitingOrFailed(t *testing.T) {
	on := func(node string, phase corev1.PodPhase, message string) corev1.Pod {
		pod := podIn("", phase)
		pod.Spec.NodeName = node
		if message != "" {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}}
		}
		return pod
	}
	pending, failures := outcome([]corev1.Pod{
		on("d", corev1.PodFailed, ""), on("c", corev1.PodFailed, "maps are busy\n"), on("b", corev1.PodPending, ""),
		on("a", corev1.PodSucceeded, ""), on("e", corev1.PodRunning, ""),
	})
	if len(pending) != 2 || !strings.HasPrefix(pending[0], "node b ") || !strings.HasPrefix(pending[1], "node e ") {
		t.Errorf("pending %q, want nodes b and e", pending)
	}
	if diff := cmp.Diff([]string{"node c: maps are busy", "node d: failed without a message"}, failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestUntil_InterruptedCheck_NamesWhatIsLeft has the deadline in the middle of a check.
func TestUntil_InterruptedCheck_NamesWhatIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	checks := 0
	err := until(ctx, func(ctx context.Context) ([]string, error) {
		if checks++; checks == 1 {
			return []string{"node a"}, nil
		}
		cancel()
		return nil, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "node a") {
		t.Errorf("got %v, want the node that is left", err)
	}
}
