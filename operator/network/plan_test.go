// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/annotations"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func attachedPod(t *testing.T, namespace, name, label, network string) *store.Pod {
	t.Helper()
	pod := operatortest.Pod("blue", namespace, name, label, "")
	text, err := annotations.FormatAttachments([]netif.Interface{{Name: "eth0", Network: network, VPC: "v"}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
	return pod
}

// withAddress returns a pod and its Address in VPC v.
func withAddress(pod *store.Pod) []any {
	return []any{pod, operatortest.Address("v", "s", "10.0.0.9", pod)}
}

func namespace(name string) *store.Namespace {
	return &store.Namespace{Meta: operatortest.Meta("uid-ns-"+name, 0), Name: name, Tenant: "blue"}
}

func TestDecide_VPCCondition_Taken(t *testing.T) {
	net := operatortest.Network("blue", "a", "n", "v", 0)
	operatortest.New(t, net).View(func(tx store.ReadTx) {
		if d := decide(tx, net); d.IsReady() || d.Reason != v1alpha1.VPCNotFoundReason || d.tenant != "blue" {
			t.Errorf("without a VPC: %+v", d)
		}
	})
	s := operatortest.New(t, net, operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("s", "v", "s", 0, "10.0.0.0/24"))
	s.View(func(tx store.ReadTx) {
		if d := decide(tx, net); !d.IsReady() || d.Reason != v1alpha1.ReadyReason || d.conflict != "" {
			t.Errorf("with a VPC: %+v", d)
		}
	})
}

// A Network with such a name can be of an earlier release, whose schema accepted it.
func TestDecide_NameTooLongForLabel_NotReady(t *testing.T) {
	for length, ready := range map[int]bool{63: true, 64: false} {
		net := operatortest.Network("blue", "a", strings.Repeat("n", length), "v", 0)
		s := operatortest.New(t, net, operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.Subnet("s", "v", "s", 0, "10.0.0.0/24"))
		s.View(func(tx store.ReadTx) {
			d := decide(tx, net)
			if d.IsReady() != ready || !ready && (d.Reason != v1alpha1.NameTooLongReason || !strings.Contains(d.Message, "64 characters")) {
				t.Errorf("with %d characters: ready %t, %s: %s", length, d.IsReady(), d.Reason, d.Message)
			}
			net.Deleting = true
			if d := decide(tx, net); !d.unused {
				t.Errorf("with %d characters it does not end: %s", length, d.Message)
			}
		})
	}
}

func TestDecide_Namesakes_YoungerHasConflict(t *testing.T) {
	old, young := operatortest.Network("blue", "a", "n", "v", 0), operatortest.Network("blue", "b", "n", "v", 1)
	other, foreign := operatortest.Network("red", "c", "n", "v", 0), operatortest.Network("blue", "d", "n", "v", 0)
	foreign.Type = "flat"
	operatortest.New(t, old, young, other, foreign).View(func(tx store.ReadTx) {
		for net, want := range map[*store.Network]string{old: "", young: "a/n", other: ""} {
			if d := decide(tx, net); d.conflict != want {
				t.Errorf("%s/%s conflicts with %q, want %q", net.Namespace, net.Name, d.conflict, want)
			}
		}
	})
}

func TestDecide_NetworkInUse_NotDeleted(t *testing.T) {
	net := operatortest.Network("blue", "a", "n", "v", 0)
	net.Deleting = true
	done := attachedPod(t, "a", "done", "n", "a/n")
	done.Terminal = true
	service := &store.Service{Meta: operatortest.Meta("svc", 0), Namespace: "b", Name: "web", Network: "n"}
	own := operatortest.Network("blue", "b", "n", "v", 1)
	for _, tc := range []struct {
		name string
		rows []any
		want string
	}{
		{name: "nothing", want: "nothing uses it"},
		{name: "a pod", rows: withAddress(attachedPod(t, "a", "p", "n", "a/n")), want: "used by 1 object(s): Pod a/p"},
		{name: "a pod of another namespace", rows: withAddress(attachedPod(t, "b", "p", "n", "a/n")), want: "used by 1 object(s): Pod b/p"},
		{name: "a pod that only says so", rows: []any{attachedPod(t, "a", "p", "n", "a/n")}, want: "nothing uses it"},
		{name: "a pod that uses a namesake", rows: withAddress(attachedPod(t, "b", "p", "n", "b/n")), want: "nothing uses it"},
		{name: "a pod without addresses", rows: []any{operatortest.Pod("blue", "a", "p", "n", "")}, want: "nothing uses it"},
		{name: "a pod that ended", rows: withAddress(done), want: "nothing uses it"},
		{name: "a Service of a namespace without a Network", rows: []any{namespace("b"), service}, want: "used by 1 object(s): Service b/web"},
		{name: "a Service of a namespace with a namesake", rows: []any{namespace("b"), service, own}, want: "nothing uses it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, net, namespace("a"))...).View(func(tx store.ReadTx) {
				d := decide(tx, net)
				if d.Message != tc.want || d.unused != (tc.want == "nothing uses it") || d.IsReady() || d.Reason != v1alpha1.DeletingReason {
					t.Errorf("unused %v, ready %v, %s: %q; want %q", d.unused, d.IsReady(), d.Reason, d.Message, tc.want)
				}
			})
		})
	}
}

func TestDefaultNetwork_PodsWithoutLabel_UseIt(t *testing.T) {
	net := operatortest.Network("blue", "a", "default", "v", 0)
	net.Deleting = true
	operatortest.New(t, append(withAddress(attachedPod(t, "a", "p", "", "a/default")), net)...).View(func(tx store.ReadTx) {
		if d := decide(tx, net); d.unused {
			t.Error("a pod without a label that was attached through it does not hold it")
		}
	})
}

func TestDecide_NamespaceWithoutPodSecurity_ConditionTells(t *testing.T) {
	restricted := func(name string) *store.Namespace {
		ns := namespace(name)
		ns.Restricted = true
		return ns
	}
	net := operatortest.Network("blue", "a", "n", "v", 0)
	plain := operatortest.Network("ns:plain", "plain", "n", "v", 0)
	trusted := &store.Namespace{Meta: operatortest.Meta("uid-ns-plain", 0), Name: "plain", Tenant: "ns:plain"}
	for _, tc := range []struct {
		name string
		net  *store.Network
		rows []any
		want string
	}{
		{"its own", net, []any{namespace("a")}, "namespaces without Pod Security: a;"},
		{"another of the tenant", net, []any{restricted("a"), namespace("b")}, "namespaces without Pod Security: b;"},
		{"none", net, []any{restricted("a"), restricted("b")}, ""},
		{"one that is no tenant's", plain, []any{trusted}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, tc.net)...).View(func(tx store.ReadTx) {
				object := &arktosv1.Network{}
				setStatus(object, decide(tx, tc.net))
				got := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.IsolatedCondition)
				if tc.want == "" {
					if got != nil {
						t.Errorf("condition %+v, want none", got)
					}
					return
				}
				if got == nil || got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.PodSecurityMissingReason || !strings.Contains(got.Message, tc.want) {
					t.Errorf("condition %+v, want False with %q", got, tc.want)
				}
				setStatus(object, decision{})
				if left := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.IsolatedCondition); left != nil {
					t.Errorf("condition %+v is left when the cause is gone", left)
				}
			})
		})
	}
}

func TestNetworkRequests_PodSecurityChanges_Requested(t *testing.T) {
	before, after := namespace("b"), namespace("b")
	after.Restricted = true
	operatortest.New(t, operatortest.Network("blue", "a", "n", "v", 0), namespace("a"), after).View(func(tx store.ReadTx) {
		if got := ofNamespace(tx, before, after); len(got) == 0 {
			t.Errorf("asked for %v, want the Network of the tenant", got)
		}
		if got := ofNamespace(tx, after, after); len(got) != 0 {
			t.Errorf("asked for %v although nothing changed", got)
		}
	})
}
