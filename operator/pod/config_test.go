// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// configs lists the Addresses with their configurations and lists of interfaces.
func (g *rig) configs() (all []string) {
	g.Helper()
	var list v1alpha1.AddressList
	if err := g.List(g.Context(), &list); err != nil {
		g.Fatal(err)
	}
	for _, item := range list.Items {
		config := "none"
		if c := item.Spec.Config; c != nil {
			config = fmt.Sprintf("%+v", *c)
		}
		all = append(all, fmt.Sprintf("%s %s %s", item.Name, config, strings.Join(item.Spec.Interfaces, ",")))
	}
	slices.Sort(all)
	return all
}

// configured returns a source of the interface net1 in VPC w, by a definition.
func configured(tx store.ReadTx, pod *store.Pod) ([]Desired, *tenancy.Refusal) {
	desired, refusal := secondary()(tx, pod)
	desired[0].Definition, desired[0].NoDefaultRoute = "a/w", true
	return desired, refusal
}

var asConfigured = []string{
	"v.10.0.1.2 {AltName: Definition: NoDefaultRoute:false} eth0,net1",
	"v.fd00-0-0-1--2 {AltName: Definition: NoDefaultRoute:false} eth0,net1",
	"w.10.1.0.2 {AltName: Definition:a/w NoDefaultRoute:true} ",
}

// newConfigured returns the rig of a pod with two interfaces, whose Addresses are claimed.
func newConfigured(t *testing.T) (*rig, client.WithWatch) {
	t.Helper()
	pod := newPod()
	api := newAPI(t, pod)
	g := newRig(t, api, pod, Primary("default"), configured)
	if err := g.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := g.configs(); !slices.Equal(got, asConfigured) {
		t.Fatalf("configurations %q, want %q", got, asConfigured)
	}
	return g, api
}

// decidedAgain lets a new operator decide about the pod.
func decidedAgain(t *testing.T, api client.WithWatch) (*rig, []netif.Interface) {
	t.Helper()
	pod := newPod()
	g := newRig(t, api, pod, Primary("default"), configured)
	if err := g.reconcile(); err != nil {
		t.Fatal(err)
	}
	_, list := g.recorded(pod)
	return g, list
}

func TestReconcile_TwoInterfaces_AddressesDescribeThem(t *testing.T) {
	_, api := newConfigured(t)
	if g, _ := decidedAgain(t, api); !slices.Equal(g.configs(), asConfigured) {
		t.Errorf("configurations %q once more", g.configs())
	}
}

// TestReconcile_AddressesOfRelease01_GetConfigurations: the Addresses themselves stay.
func TestReconcile_AddressesOfRelease01_GetConfigurations(t *testing.T) {
	_, api := newConfigured(t)
	var list v1alpha1.AddressList
	if err := api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Spec.Config, list.Items[i].Spec.Interfaces = nil, nil
		if err := api.Update(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
	if g, _ := decidedAgain(t, api); !slices.Equal(g.configs(), asConfigured) {
		t.Errorf("configurations %q", g.configs())
	}
}

// TestReconcile_AnnotationAltered_ObjectsDecide: the annotation is written again.
func TestReconcile_AnnotationAltered_ObjectsDecide(t *testing.T) {
	for name, alter := range map[string]func([]netif.Interface) []netif.Interface{
		"another second name":   func(list []netif.Interface) []netif.Interface { list[0].AltName = "forged"; return list },
		"another default route": func(list []netif.Interface) []netif.Interface { list[1].NoDefaultRoute = false; return list },
		"another order":         func(list []netif.Interface) []netif.Interface { slices.Reverse(list); return list },
		"an interface more": func(list []netif.Interface) []netif.Interface {
			list[0].AltName = "forged"
			return append(list, netif.Interface{Name: "net9", VPC: "w"})
		},
		"an interface less": func(list []netif.Interface) []netif.Interface { return list[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			g, api := newConfigured(t)
			pod := newPod()
			_, written := g.recorded(pod)
			want := pod.Annotations[v1alpha1.AttachmentsAnnotation]
			text, err := annotations.FormatAttachments(alter(written))
			if err != nil {
				t.Fatal(err)
			}
			pod.Annotations[v1alpha1.AttachmentsAnnotation] = text
			if err := api.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			second, list := decidedAgain(t, api)
			if got := second.configs(); !slices.Equal(got, asConfigured) {
				t.Errorf("configurations %q", got)
			}
			if got, _ := annotations.FormatAttachments(list); got != want {
				t.Errorf("written %s, want %s", got, want)
			}
		})
	}
}

// TestReconcile_SettingsGone_ConfigurationFollows: a merge patch keeps keys that it does not name.
func TestReconcile_SettingsGone_ConfigurationFollows(t *testing.T) {
	_, api := newConfigured(t)
	pod := newPod()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Annotations, pod.Status.Conditions = nil, nil
	if err := api.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := api.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	g := newRig(t, api, newPod(), Primary("default"), secondary())
	if err := g.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(asConfigured)
	want[2] = "w.10.1.0.2 {AltName: Definition: NoDefaultRoute:false} "
	if got := g.configs(); !slices.Equal(got, want) {
		t.Errorf("configurations %q, want %q", got, want)
	}
}
